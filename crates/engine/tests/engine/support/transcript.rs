//! A fresh run as text.

use std::fmt::Write;

use perdure_engine::{
    ActivityOptions, CommandEvent, DeliveryEvent, Effect, Event, EventRecord, NoteEvent, TurnOutput, Waiting,
};

use super::code::{mailbox_name, shown};
use super::{Fresh, since_start};

pub(crate) fn render(fresh: &Fresh<'_>) -> String {
    let mut text = String::new();
    for turn in &fresh.turns {
        writeln!(text, "turn {}", since_start(turn.now_ms)).expect("a string takes all");
        for line in &turn.lines {
            writeln!(text, "  {}", line.text).expect("a string takes all");
        }
        for line in stored(&turn.output) {
            writeln!(text, "    {line}").expect("a string takes all");
        }
    }
    let unread: Vec<String> = fresh
        .worlds
        .last()
        .into_iter()
        .flat_map(|world| &world.messages)
        .map(|m| m.seq.to_string())
        .collect();
    if !unread.is_empty() {
        writeln!(text, "unread messages: {}", unread.join(", ")).expect("a string takes all");
    }
    text
}

fn stored(output: &TurnOutput) -> Vec<String> {
    let mut lines: Vec<String> = output.events.iter().map(event).collect();
    if !output.consumed.is_empty() {
        let seqs: Vec<String> = output.consumed.iter().map(ToString::to_string).collect();
        lines.push(format!("consumes {}", seqs.join(", ")));
    }
    if let Some(status) = &output.custom_status {
        lines.push(format!("sets status {}", shown(status)));
    }
    if let Some(others) = &output.cross_instance {
        for start in &others.starts {
            let what = if start.is_child { "child" } else { "instance" };
            lines.push(format!("starts {what} {} for #{}", start.start.id, start.scheduled));
        }
        for message in &others.messages {
            let mailbox = mailbox_name(&message.mailbox);
            lines.push(format!(
                "sends {mailbox} to {} for #{}",
                message.instance, message.scheduled
            ));
        }
        for child in &others.cancelled {
            lines.push(format!("cancels the child of #{child}"));
        }
    }
    for effect in &output.effects {
        lines.push(match effect {
            Effect::StartActivity {
                task,
                attempt,
                not_before_ms: 0,
                ..
            } => format!("starts #{} attempt {attempt}", task.scheduled),
            Effect::StartActivity {
                task,
                attempt,
                not_before_ms,
                ..
            } => {
                format!(
                    "starts #{} attempt {attempt} not before {}",
                    task.scheduled,
                    since_start(*not_before_ms)
                )
            }
            Effect::AbortActivity { scheduled } => format!("aborts #{scheduled}"),
        });
    }
    lines.push(match &output.waiting {
        Waiting::Outside {
            open_activities,
            timer_at_ms,
        } => {
            let timer = timer_at_ms.map(|at| format!(", timer {}", since_start(at)));
            format!("waits ({open_activities} open{})", timer.unwrap_or_default())
        }
        Waiting::More => "has more to do".into(),
        Waiting::History { from } => format!("needs history from {from}"),
        Waiting::Ended(terminal) => format!("ends {terminal:?}"),
    });
    lines
}

/// `2 ActivityScheduled charge 12 @+0`
pub(crate) fn event(record: &EventRecord) -> String {
    let mut text = format!("{} {}", record.event_id, record.kind);
    let reference = record.ref_id.map(|id| format!("#{id}"));
    let details = match record.clone().into_event() {
        Ok(Event::Command(CommandEvent::ActivityScheduled { options, .. }))
            if options != ActivityOptions::default() =>
        {
            Some("with options".into())
        }
        Ok(Event::Command(CommandEvent::TimerCreated { fire_at_ms })) => {
            Some(format!("for {}", since_start(fire_at_ms)))
        }
        Ok(Event::Note(NoteEvent::ActivityAttemptFailed {
            attempt, retry_at_ms, ..
        })) => Some(format!("attempt {attempt}, again {}", since_start(retry_at_ms))),
        Ok(Event::Delivery(DeliveryEvent::ActivityFailed { attempt, .. })) => Some(format!("attempt {attempt}")),
        _ => None,
    };
    for part in [reference, record.name.clone(), record.payload.clone(), details]
        .into_iter()
        .flatten()
    {
        text.push(' ');
        text.push_str(&part);
    }
    text.push(' ');
    text.push_str(&since_start(record.time_ms));
    text
}
