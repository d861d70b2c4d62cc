//! Calls of the driver converted to the types of the engine.

use perdure_engine::{ActivityOptions, Awaited, Command, EventId, InstanceStart, Mailbox, Outcome, Waits};
use perdure_runtime::RuntimeError;

use crate::errors::{argument, thrown};

/// Returns the command for an activity. `options` is JSON of the effective options, `None` for the defaults.
pub(crate) fn schedule_activity(name: String, input: Option<String>, options: Option<&str>) -> napi::Result<Command> {
    let options = match options {
        None => ActivityOptions::default(),
        Some(text) => serde_json::from_str(text).map_err(|e| argument(format!("options of activity '{name}': {e}")))?,
    };
    Ok(Command::ScheduleActivity { name, input, options })
}

pub(crate) fn create_timer(delay: f64) -> Command {
    Command::CreateTimer {
        delay_ms: delay_ms(delay),
    }
}

pub(crate) fn delay_ms(delay: f64) -> i64 {
    delay.ceil() as i64
}

pub(crate) fn create_timer_at(at_ms: f64) -> Command {
    Command::CreateTimerAt {
        fire_at_ms: at_ms.ceil() as i64,
    }
}

pub(crate) const fn start_instance(is_child: bool, start: InstanceStart) -> Command {
    if is_child {
        Command::StartChild(start)
    } else {
        Command::StartInstance(start)
    }
}

pub(crate) fn send_message(instance: String, mailbox_name: String, payload: Option<String>) -> napi::Result<Command> {
    Ok(Command::SendMessage {
        instance,
        mailbox: mailbox(mailbox_name)?,
        payload,
    })
}

pub(crate) const fn cancel_operation(operation: f64) -> Command {
    Command::CancelOperation {
        scheduled: EventId(operation as u64),
    }
}

/// Returns the changes of the waits: new waits, and waits that have ended.
pub(crate) fn waits(
    mailboxes: Option<Vec<String>>,
    timers: Option<Vec<f64>>,
    mailboxes_gone: Option<Vec<String>>,
    timers_gone: Option<Vec<f64>>,
) -> napi::Result<Waits> {
    Ok(Waits::Changed {
        more: awaited(mailboxes, timers)?,
        no_longer: awaited(mailboxes_gone, timers_gone)?,
    })
}

fn awaited(mailboxes: Option<Vec<String>>, timers: Option<Vec<f64>>) -> napi::Result<Awaited> {
    let mailboxes = mailboxes.unwrap_or_default().into_iter().map(mailbox);
    let timers = timers.unwrap_or_default().into_iter();
    Ok(Awaited {
        mailboxes: mailboxes.collect::<napi::Result<_>>()?,
        timers: timers.map(|id| EventId(id as u64)).collect(),
    })
}

/// Returns the outcome of the code: completed (0), failed (1) or cancelled (2).
pub(crate) fn outcome(kind: u32, payload: Option<String>) -> napi::Result<Outcome> {
    match kind {
        0 => Ok(Outcome::Completed(payload)),
        1 => Ok(Outcome::Failed(payload)),
        2 => Ok(Outcome::Cancelled(payload)),
        other => Err(argument(format!("there is no outcome {other}"))),
    }
}

/// Reads a mailbox from `e` or `q` and its name.
fn mailbox(text: String) -> napi::Result<Mailbox> {
    match text.as_bytes().first() {
        Some(b'e') => Ok(Mailbox::Event(text[1..].to_owned())),
        Some(b'q') => Ok(Mailbox::Queue(text[1..].to_owned())),
        _ => Err(thrown(&RuntimeError::Argument(format!("'{text}' names no mailbox")))),
    }
}
