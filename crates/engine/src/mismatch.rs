//! The error for code that does not fit its history, written for the person who has to correct the code.

use std::fmt;

use crate::operations::Operations;
use crate::{
    Awaited, CommandEvent, DeliveryEvent, EndEvent, Event, EventId, ExecutionStarted, Mailbox, NoteEvent, Payload,
    TerminationEvent,
};

/// Longest value shown in a report, in characters.
const SHOWN_MAX: usize = 200;

/// Characters of the common beginning of two long values that are shown before the first difference.
const SHOWN_BEFORE: usize = 40;

/// Maximum number of mailboxes and timers that a report names.
const WAITS_MAX: usize = 5;

/// The code and its history disagree. Nothing was changed; the instance can go on with code that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Event at which code and history part.
    pub event_id: EventId,
    /// The recorded event, in words.
    pub recorded: String,
    /// The command, wait or end of the code instead, in words.
    pub attempted: String,
    /// The field that differs, when the kinds agree: name, recorded value, attempted value.
    pub field: Option<Box<FieldDifference>>,
    /// The most frequent cause, as a sentence.
    pub cause: &'static str,
}

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDifference {
    /// Name of the field.
    pub name: &'static str,
    /// Its recorded value.
    pub recorded: String,
    /// Its attempted value.
    pub attempted: String,
    /// True if these are values of the user, as text.
    pub is_value: bool,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the code no longer fits its history, at event {}:", self.event_id)?;
        writeln!(f, "  recorded:  {}", self.recorded)?;
        writeln!(f, "  attempted: {}", self.attempted)?;
        if let Some(field) = &self.field {
            writeln!(f, "  {} recorded:  {}", field.name, field.recorded)?;
            writeln!(f, "  {} attempted: {}", field.name, field.attempted)?;
        }
        write!(f, "  {}\n  {ADVICE}", self.cause)
    }
}

impl std::error::Error for Mismatch {}

/// The action of the code that was compared with history.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attempt<'a> {
    /// The code issued a command, which this event would record.
    Command(&'a CommandEvent),
    /// The code waited for these, besides open activities and children.
    Wait(&'a Awaited),
    /// The code ended, which this event would record.
    End(&'a EndEvent),
}

const CHANGED: &str = "Was the orchestration changed while instances were running?";
const MORE: &str = "The code does more here than it did when it first ran.";
const FEWER: &str = "The code does less here than it did when it first ran.";
const ADVICE: &str = "Run the old code again, or register the change under a new version.";

/// Text shown in place of a hidden value.
const HIDDEN: &str = "(a value that the codec of the store encodes)";

impl Mismatch {
    /// Returns the most frequent cause and the next step, as one text.
    #[must_use]
    pub fn hint(&self) -> String {
        format!("{} {ADVICE}", self.cause)
    }

    /// Returns the mismatch without values of the user, for a store that must not hold them in the clear.
    #[must_use]
    pub fn without_values(&self) -> Self {
        let mut same = self.clone();
        if let Some(field) = &mut same.field
            && field.is_value
        {
            field.recorded = HIDDEN.to_owned();
            field.attempted = HIDDEN.to_owned();
        }
        same
    }

    pub(crate) fn new(
        event_id: EventId,
        recorded: Option<&Event>,
        attempt: Attempt<'_>,
        operations: &Operations,
    ) -> Self {
        let cause = match (recorded, attempt) {
            // The code waited or ended then, and goes on now.
            (None | Some(Event::Delivery(_) | Event::End(_) | Event::Termination(_)), Attempt::Command(_))
            | (Some(Event::End(_)), Attempt::Wait(_)) => MORE,
            // The code went on then, and waits or ends now.
            (Some(Event::Command(_) | Event::Interruption(_)), Attempt::Wait(_))
            | (None | Some(Event::Command(_) | Event::Delivery(_)), Attempt::End(_)) => FEWER,
            _ => CHANGED,
        };
        let field = match (recorded, attempt) {
            (Some(Event::Command(recorded)), Attempt::Command(attempted)) => command_difference(recorded, attempted),
            (Some(Event::End(recorded)), Attempt::End(attempted)) => end_difference(recorded, attempted),
            _ => None,
        };
        Self {
            event_id,
            recorded: recorded.map_or_else(|| "the code waited here".into(), |event| describe(event, operations)),
            attempted: match attempt {
                Attempt::Command(command) => describe_command(command),
                Attempt::Wait(awaited) => describe_wait(awaited, operations),
                Attempt::End(end) => describe_end(end).into(),
            },
            field: field.map(Box::new),
            cause,
        }
    }
}

/// Returns two values as a report shows them: each whole, or from shortly before the first difference.
fn shown(recorded: &Payload, attempted: &Payload) -> [String; 2] {
    let values = [recorded, attempted];
    let mut same = 0;
    if let (Some(recorded), Some(attempted)) = (recorded, attempted)
        && values
            .iter()
            .any(|value| value.as_ref().is_some_and(|text| text.len() > SHOWN_MAX))
    {
        same = recorded
            .chars()
            .zip(attempted.chars())
            .take_while(|(a, b)| a == b)
            .count();
    }
    let begin = if same > SHOWN_MAX / 2 { same - SHOWN_BEFORE } else { 0 };
    values.map(|value| {
        value
            .as_ref()
            .map_or_else(|| "undefined".into(), |text| excerpt(text, begin))
    })
}

fn excerpt(text: &str, begin: usize) -> String {
    let shown: String = text.chars().skip(begin).take(SHOWN_MAX).collect();
    let before = if begin > 0 { "…" } else { "" };
    let after = if text.chars().nth(begin + SHOWN_MAX).is_some() {
        "…"
    } else {
        ""
    };
    let size = if shown.len() < text.len() {
        format!(" ({} bytes)", text.len())
    } else {
        String::new()
    };
    format!("{before}{shown}{after}{size}")
}

/// A time as an ISO 8601 date: `2023-11-14T22:13:20.000Z`.
fn time(ms: i64) -> String {
    let (days, of_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    // Civil from days, by Howard Hinnant: years begin in March, so that the leap day is the last day of a year.
    let since_0000 = days + 719_468;
    let (era, of_era) = (since_0000.div_euclid(146_097), since_0000.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second, ms) = (
        of_day / 3_600_000,
        of_day / 60_000 % 60,
        of_day / 1_000 % 60,
        of_day % 1_000,
    );
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

fn describe(event: &Event, operations: &Operations) -> String {
    match event {
        Event::Started(ExecutionStarted { name, version, .. }) => format!("start of {name} {version}"),
        Event::Command(command) => describe_command(command),
        Event::Delivery(delivery) => describe_delivery(delivery, operations),
        Event::Note(note) => describe_note(note, operations),
        Event::Interruption(_) => "a cancellation is delivered".into(),
        Event::End(end) => describe_end(end).into(),
        Event::Termination(TerminationEvent::ExecutionCancelled { .. }) => "the orchestration ends as cancelled".into(),
        Event::Termination(TerminationEvent::ExecutionTerminated { .. }) => "the instance is terminated".into(),
    }
}

fn describe_command(command: &CommandEvent) -> String {
    match command {
        CommandEvent::ActivityScheduled { name, options, .. } => {
            let inline = if options.inline { "inline " } else { "" };
            format!("{inline}activity '{name}' is scheduled")
        }
        CommandEvent::TimerCreated { fire_at_ms } => format!("a timer for {} is created", time(*fire_at_ms)),
        CommandEvent::ChildScheduled(start) => format!("child '{}' ({}) is scheduled", start.id, start.name),
        CommandEvent::InstanceStarted(start) => format!("instance '{}' ({}) is started", start.id, start.name),
        CommandEvent::MessageSent { instance, mailbox, .. } => {
            format!("{} is sent to instance '{instance}'", describe_mailbox(mailbox))
        }
        CommandEvent::OperationCancelled { scheduled } => format!("the operation of event {scheduled} is cancelled"),
    }
}

fn describe_delivery(delivery: &DeliveryEvent, operations: &Operations) -> String {
    match delivery {
        DeliveryEvent::ActivityCompleted { scheduled, .. } => {
            format!("{} completes", describe_activity(*scheduled, operations))
        }
        DeliveryEvent::ActivityFailed { scheduled, .. } => {
            format!("{} fails", describe_activity(*scheduled, operations))
        }
        DeliveryEvent::TimerFired { timer } => format!("the timer of event {timer} fires"),
        DeliveryEvent::ChildCompleted { scheduled, .. } => format!("the child of event {scheduled} completes"),
        DeliveryEvent::ChildFailed { scheduled, .. } => format!("the child of event {scheduled} fails"),
        DeliveryEvent::OperationConfirmed { scheduled } => format!("the message of event {scheduled} is confirmed"),
        DeliveryEvent::OperationRefused { scheduled, .. } => format!("the message of event {scheduled} is refused"),
        DeliveryEvent::MessageReceived { mailbox, .. } => format!("{} is received", describe_mailbox(mailbox)),
        DeliveryEvent::MailboxEmpty { mailbox } => format!("{} is absent", describe_mailbox(mailbox)),
        DeliveryEvent::CancelRequested { .. } => "a cancellation is delivered".into(),
    }
}

fn describe_note(note: &NoteEvent, operations: &Operations) -> String {
    match note {
        NoteEvent::ExecutionBegan { .. } => "the first turn begins".into(),
        NoteEvent::ActivityAttemptFailed { scheduled, .. } => {
            format!("an attempt of {} fails", describe_activity(*scheduled, operations))
        }
        NoteEvent::PatchApplied { patch } => format!("the patch '{patch}' is applied"),
        NoteEvent::CancelRequested { .. } => "a cancellation is delivered".into(),
    }
}

const fn describe_end(end: &EndEvent) -> &'static str {
    match end {
        EndEvent::ExecutionCompleted { .. } => "the orchestration returns",
        EndEvent::ExecutionFailed { .. } => "the orchestration throws",
        EndEvent::ExecutionCancelled { .. } => "the orchestration ends as cancelled",
        EndEvent::ExecutionContinuedAsNew { .. } => "the orchestration continues as new",
    }
}

fn describe_activity(scheduled: EventId, operations: &Operations) -> String {
    match operations.activity(scheduled) {
        Some(activity) => format!("activity '{}' of event {scheduled}", activity.task.name),
        None => format!("the activity of event {scheduled}"),
    }
}

fn describe_mailbox(mailbox: &Mailbox) -> String {
    match mailbox {
        Mailbox::Event(name) => format!("event '{name}'"),
        Mailbox::Queue(name) => format!("a message of queue '{name}'"),
    }
}

fn describe_wait(awaited: &Awaited, operations: &Operations) -> String {
    let mailboxes = awaited.mailboxes.iter().map(describe_mailbox);
    let timers = awaited.timers.iter().map(|id| {
        if operations.is_sent(*id) {
            format!("the message of event {id}")
        } else {
            format!("the timer of event {id}")
        }
    });
    let one_of = |count, one: &str, many| match count {
        0 => None,
        1 => Some(one.to_owned()),
        count => Some(format!("one of {count} {many}")),
    };
    let activities = one_of(operations.activities(), "an activity", "activities");
    let children = one_of(operations.children(), "a child", "children");
    let named = mailboxes.chain(timers).take(WAITS_MAX + 1);
    let mut shown: Vec<String> = named.chain(activities).chain(children).collect();
    let all = awaited.mailboxes.len() + awaited.timers.len();
    if all > WAITS_MAX {
        shown[WAITS_MAX] = format!("{} more", all - WAITS_MAX);
    }
    match shown.split_last() {
        None => "the code waits for nothing".into(),
        Some((only, [])) => format!("the code waits for {only}"),
        Some((last, others)) => format!("the code waits for {} or {last}", others.join(", ")),
    }
}

/// Returns true if the command of the code equals the recorded one: the same kind, name and input. The options of an
/// activity (except `inline`) or instance are not compared, because they are taken from history.
pub(crate) fn agree(recorded: &CommandEvent, attempted: &CommandEvent) -> bool {
    match (recorded, attempted) {
        (
            CommandEvent::ActivityScheduled { name, input, options },
            CommandEvent::ActivityScheduled {
                name: name2,
                input: input2,
                options: options2,
            },
        ) => name == name2 && input == input2 && options.inline == options2.inline,
        (CommandEvent::ChildScheduled(one), CommandEvent::ChildScheduled(two))
        | (CommandEvent::InstanceStarted(one), CommandEvent::InstanceStarted(two)) => {
            one.name == two.name && one.id == two.id && one.input == two.input
        }
        _ => recorded == attempted,
    }
}

/// Returns true if the end of the code equals the recorded event. The error of the code is not compared, because a
/// stack changes with every edit. The end of a suspended instance by a cancellation equals that of cancelled code.
pub(crate) fn ends_agree(recorded: &Event, attempted: &EndEvent) -> bool {
    match (recorded, attempted) {
        (Event::End(EndEvent::ExecutionFailed { .. }), EndEvent::ExecutionFailed { .. })
        | (
            Event::End(EndEvent::ExecutionCancelled { .. })
            | Event::Termination(TerminationEvent::ExecutionCancelled { .. }),
            EndEvent::ExecutionCancelled { .. },
        ) => true,
        (Event::End(recorded), _) => recorded == attempted,
        _ => false,
    }
}

fn field_difference(name: &'static str, recorded: String, attempted: String) -> Option<FieldDifference> {
    (recorded != attempted).then_some(FieldDifference {
        name,
        recorded,
        attempted,
        is_value: false,
    })
}

fn value_difference(name: &'static str, recorded: &Payload, attempted: &Payload) -> Option<FieldDifference> {
    let [shown, other] = shown(recorded, attempted);
    (recorded != attempted).then_some(FieldDifference {
        name,
        recorded: shown,
        attempted: other,
        is_value: true,
    })
}

/// Returns the first field that differs between two commands of one kind; `None` if the kinds or no fields differ.
fn command_difference(recorded: &CommandEvent, attempted: &CommandEvent) -> Option<FieldDifference> {
    let (field, value) = (field_difference, value_difference);
    match (recorded, attempted) {
        (
            CommandEvent::ActivityScheduled { name, input, options },
            CommandEvent::ActivityScheduled {
                name: name2,
                input: input2,
                options: options2,
            },
        ) => field("name", name.clone(), name2.clone())
            .or_else(|| value("input", input, input2))
            .or_else(|| field("inline", options.inline.to_string(), options2.inline.to_string())),
        (CommandEvent::ChildScheduled(one), CommandEvent::ChildScheduled(two))
        | (CommandEvent::InstanceStarted(one), CommandEvent::InstanceStarted(two)) => {
            let name = field("name", one.name.clone(), two.name.clone());
            name.or_else(|| field("id", one.id.clone(), two.id.clone()))
                .or_else(|| value("input", &one.input, &two.input))
        }
        (
            CommandEvent::MessageSent {
                instance,
                mailbox,
                payload,
            },
            CommandEvent::MessageSent {
                instance: instance2,
                mailbox: mailbox2,
                payload: payload2,
            },
        ) => field("instance", instance.clone(), instance2.clone())
            .or_else(|| field("mailbox", describe_mailbox(mailbox), describe_mailbox(mailbox2)))
            .or_else(|| value("data", payload, payload2)),
        (CommandEvent::TimerCreated { fire_at_ms }, CommandEvent::TimerCreated { fire_at_ms: other }) => {
            field("fireAtMs", fire_at_ms.to_string(), other.to_string())
        }
        (CommandEvent::OperationCancelled { scheduled }, CommandEvent::OperationCancelled { scheduled: other }) => {
            field("operation", scheduled.to_string(), other.to_string())
        }
        _ => None,
    }
}

/// Returns the first field that differs between two ends of one kind; `None` if the kinds or no fields differ.
fn end_difference(recorded: &EndEvent, attempted: &EndEvent) -> Option<FieldDifference> {
    match (recorded, attempted) {
        (EndEvent::ExecutionCompleted { output }, EndEvent::ExecutionCompleted { output: other }) => {
            value_difference("output", output, other)
        }
        (
            EndEvent::ExecutionContinuedAsNew { input, version },
            EndEvent::ExecutionContinuedAsNew {
                input: input2,
                version: version2,
            },
        ) => field_difference("version", version.clone(), version2.clone())
            .or_else(|| value_difference("input", input, input2)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(time(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(time(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
        assert_eq!(time(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
        assert_eq!(time(8_640_000_000_000_000), "275760-09-13T00:00:00.000Z");
        for ms in [i64::MIN, i64::MAX] {
            assert!(time(ms).ends_with('Z'));
        }
    }

    #[test]
    fn values_are_left_out_where_they_are_to_be_hidden() {
        let completed = |output: &str| EndEvent::ExecutionCompleted {
            output: Some(output.to_owned()),
        };
        let field = end_difference(&completed("secret"), &completed("other")).map(Box::new);
        let timer = |fire_at_ms| CommandEvent::TimerCreated { fire_at_ms };
        let mismatch = |field| Mismatch {
            event_id: EventId(2),
            recorded: "the end".into(),
            attempted: "the end".into(),
            field,
            cause: CHANGED,
        };
        let shown = mismatch(field).without_values().to_string();
        assert!(!shown.contains("secret") && !shown.contains("other"), "{shown}");
        let times = mismatch(command_difference(&timer(1), &timer(2)).map(Box::new));
        assert_eq!(times.without_values(), times);
    }

    #[test]
    fn long_values_are_shown_where_they_differ() {
        let text = |value: &str| Some(value.to_owned());
        let long = "ä".repeat(300);
        assert_eq!(shown(&text("a"), &None), ["a", "undefined"]);
        assert_eq!(
            shown(&text(&long), &None)[0],
            format!("{}… (600 bytes)", "ä".repeat(200))
        );
        let [one, two] = shown(&text(&format!("{long}1{long}")), &text(&format!("{long}2")));
        assert_eq!(one, format!("…{}1{}… (1201 bytes)", "ä".repeat(40), "ä".repeat(159)));
        assert_eq!(two, format!("…{}2 (601 bytes)", "ä".repeat(40)));
        let [one, two] = shown(&text(&long), &text(&long[..598]));
        assert_eq!(one, format!("…{} (600 bytes)", "ä".repeat(41)));
        assert_eq!(two, format!("…{} (598 bytes)", "ä".repeat(40)));
    }
}
