//! Code that does not fit its history, told to the person who has to mend it.

use std::fmt;

use crate::event::Role;
use crate::operations::Operations;
use crate::{Awaited, Event, EventId, Mailbox, Payload};

/// Longest value shown in a report, in characters.
const SHOWN_MAX: usize = 200;

/// How many mailboxes and timers a report names.
const WAITS_MAX: usize = 5;

/// The code and its history disagree. Nothing was changed; the instance can go on with code that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Event at which they part.
    pub event_id: EventId,
    /// What history holds there.
    pub recorded: String,
    /// What the code did instead.
    pub attempted: String,
    /// The field that differs, when the kinds agree: name, recorded value, attempted value.
    pub field: Option<Box<FieldDifference>>,
    /// What most often causes this.
    pub hint: &'static str,
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
        write!(f, "  {}", self.hint)
    }
}

impl std::error::Error for Mismatch {}

/// What the code did where it was compared with history.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attempt<'a> {
    /// It issued a command, which this event would record.
    Command(&'a Event),
    /// It waited for these, besides open activities.
    Wait(&'a Awaited),
    /// It ended, which this event would record.
    End(&'a Event),
}

const HINT_CHANGED: &str = "Was the orchestration changed while instances were running? Run the old code again, or register the change under a new version.";
const HINT_MORE: &str = "The code does more here than it did when it first ran. Run the old code again, or register the change under a new version.";
const HINT_FEWER: &str = "The code does less here than it did when it first ran. Run the old code again, or register the change under a new version.";

impl Mismatch {
    pub(crate) fn new(event_id: EventId, recorded: Option<&Event>, attempt: Attempt<'_>, operations: &Operations) -> Self {
        let attempted = match attempt {
            Attempt::Command(event) | Attempt::End(event) => Some(event),
            Attempt::Wait(_) => None,
        };
        let hint = match (recorded.map(Event::role), attempt) {
            // It waited or ended then, and goes on now.
            (None | Some(Role::Delivery | Role::End | Role::Termination), Attempt::Command(_))
            | (Some(Role::End), Attempt::Wait(_)) => HINT_MORE,
            // It went on then, and waits or ends now.
            (Some(Role::Command), Attempt::Wait(_)) | (None | Some(Role::Command | Role::Delivery), Attempt::End(_)) => HINT_FEWER,
            _ => HINT_CHANGED,
        };
        Self {
            event_id,
            recorded: recorded.map_or_else(|| "the code waited here".into(), |event| describe(event, operations)),
            attempted: match attempt {
                Attempt::Command(event) | Attempt::End(event) => describe(event, operations),
                Attempt::Wait(awaited) => describe_wait(awaited, operations),
            },
            field: recorded.zip(attempted).and_then(|(recorded, attempted)| difference(recorded, attempted)).map(Box::new),
            hint,
        }
    }
}

/// A payload as a report shows it.
fn shown(payload: &Payload) -> String {
    let Some(text) = payload else { return "undefined".into() };
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.clone(),
    }
}

fn describe(event: &Event, operations: &Operations) -> String {
    let activity = |scheduled: &EventId| match operations.activity(*scheduled) {
        Some(activity) => format!("activity '{}' of event {scheduled}", activity.task.name),
        None => format!("the activity of event {scheduled}"),
    };
    match event {
        Event::ExecutionStarted { name, version, .. } => format!("start of {name} {version}"),
        Event::ActivityScheduled { name, .. } => format!("activity '{name}' is scheduled"),
        Event::ActivityCompleted { scheduled, .. } => format!("{} completes", activity(scheduled)),
        Event::ActivityAttemptFailed { scheduled, .. } => format!("an attempt of {} fails", activity(scheduled)),
        Event::ActivityFailed { scheduled, .. } => format!("{} fails", activity(scheduled)),
        Event::TimerCreated { fire_at_ms } => format!("a timer for {fire_at_ms} ms since 1970 is created"),
        Event::TimerFired { timer } => format!("the timer of event {timer} fires"),
        Event::OperationCancelled { scheduled } => format!("the operation of event {scheduled} is cancelled"),
        Event::MessageReceived { mailbox, .. } => format!("{} is received", describe_mailbox(mailbox)),
        Event::CancelRequested { .. } => "a cancellation is delivered".into(),
        Event::ExecutionCompleted { .. } => "the orchestration returns".into(),
        Event::ExecutionFailed { .. } => "the orchestration throws".into(),
        Event::ExecutionCancelled { .. } => "the orchestration ends as cancelled".into(),
        Event::ExecutionTerminated { .. } => "the instance is terminated".into(),
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
    let timers = awaited.timers.iter().map(|id| format!("the timer of event {id}"));
    let activities = match operations.activities() {
        0 => None,
        1 => Some("an activity".into()),
        many => Some(format!("one of {many} activities")),
    };
    let mut shown: Vec<String> = mailboxes.chain(timers).take(WAITS_MAX + 1).chain(activities).collect();
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

/// Whether what the code did is what history holds: the same kind, name and input. What it threw and the options of an
/// activity are not compared: a stack changes with every edit, and options are taken from history.
pub(crate) fn agree(recorded: &Event, attempted: &Event) -> bool {
    match (recorded, attempted) {
        (Event::ActivityScheduled { name, input, .. }, Event::ActivityScheduled { name: name2, input: input2, .. }) => {
            name == name2 && input == input2
        }
        (Event::ExecutionFailed { .. }, Event::ExecutionFailed { .. })
        | (Event::ExecutionCancelled { .. }, Event::ExecutionCancelled { .. }) => true,
        _ => recorded == attempted,
    }
}

/// The first field that differs between two events of one kind; `None` when the kinds differ or nothing does.
fn difference(recorded: &Event, attempted: &Event) -> Option<FieldDifference> {
    let field = |name, recorded: String, attempted: String| {
        (recorded != attempted).then_some(FieldDifference {
            name,
            recorded,
            attempted,
        })
    };
    let value = |name, recorded: &Payload, attempted: &Payload| {
        (recorded != attempted).then(|| FieldDifference {
            name,
            recorded: shown(recorded),
            attempted: shown(attempted),
        })
    };
    match (recorded, attempted) {
        (
            Event::ActivityScheduled { name, input, .. },
            Event::ActivityScheduled {
                name: name2,
                input: input2,
                ..
            },
        ) => field("name", name.clone(), name2.clone()).or_else(|| value("input", input, input2)),
        (Event::TimerCreated { fire_at_ms }, Event::TimerCreated { fire_at_ms: other }) => {
            field("fireAtMs", fire_at_ms.to_string(), other.to_string())
        }
        (Event::OperationCancelled { scheduled }, Event::OperationCancelled { scheduled: other }) => {
            field("operation", scheduled.to_string(), other.to_string())
        }
        (Event::ExecutionCompleted { output }, Event::ExecutionCompleted { output: other }) => {
            value("output", output, other)
        }
        _ => None,
    }
}
