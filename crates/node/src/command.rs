//! Commands, waits and ends of the driver, decoded for the engine. `js/binding/commands.ts` encodes them.

use perdure_engine::{
    ActivityOptions, Answer, Awaited, Command, EventId, InstanceStart, Mailbox, Outcome, StartConflict, StreamKeep,
    Waits,
};

use crate::errors::argument;
use crate::frame::Frame;

/// Kinds of commands, as `js/driver/command.ts` numbers them.
const SCHEDULE_ACTIVITY: u32 = 0;
const CREATE_TIMER: u32 = 1;
const CREATE_TIMER_AT: u32 = 2;
const START_CHILD: u32 = 3;
const START_INSTANCE: u32 = 4;
const SEND_MESSAGE: u32 = 5;
const CANCEL_OPERATION: u32 = 6;

/// Ways in which the code ends, as `js/driver/command.ts` numbers them.
const COMPLETED: u32 = 0;
const FAILED: u32 = 1;
const CANCELLED: u32 = 2;
const CONTINUED_AS_NEW: u32 = 3;

/// Kinds of mailboxes, as `js/driver/mailbox.ts` numbers them.
const EVENT: u32 = 0;
const QUEUE: u32 = 1;

/// Decodes the command in a frame, whose texts are joined in `text`. `version_to_start` gives the version of a start
/// that names none.
pub(crate) fn command(
    frame: &Frame,
    text: String,
    version_to_start: impl FnOnce(&str) -> String,
) -> napi::Result<Command> {
    match frame.kind() {
        SCHEDULE_ACTIVITY => {
            let [name, input, options] = frame.texts(text)?;
            schedule_activity(required(name)?, input, options.as_deref())
        }
        CREATE_TIMER => {
            let [delay] = frame.facts();
            Ok(Command::CreateTimer {
                delay_ms: whole_ms(delay),
            })
        }
        CREATE_TIMER_AT => {
            let [at] = frame.facts();
            Ok(Command::CreateTimerAt {
                fire_at_ms: whole_ms(at),
            })
        }
        START_CHILD => Ok(Command::StartChild(instance_start(frame, text, version_to_start)?)),
        START_INSTANCE => Ok(Command::StartInstance(instance_start(frame, text, version_to_start)?)),
        SEND_MESSAGE => {
            let ([kind], [receiver, mailbox_name, payload]) = (frame.facts(), frame.texts(text)?);
            Ok(Command::SendMessage {
                instance: required(receiver)?,
                mailbox: mailbox(kind, required(mailbox_name)?)?,
                payload,
            })
        }
        CANCEL_OPERATION => {
            let [operation] = frame.facts();
            Ok(Command::CancelOperation {
                scheduled: EventId(operation as u64),
            })
        }
        other => Err(argument(format!("there is no command {other}"))),
    }
}

/// `options` is JSON of the effective options, `None` for the defaults.
fn schedule_activity(name: String, input: Option<String>, options: Option<&str>) -> napi::Result<Command> {
    let options = match options {
        None => ActivityOptions::default(),
        Some(text) => serde_json::from_str(text).map_err(|e| argument(format!("options of activity '{name}': {e}")))?,
    };
    Ok(Command::ScheduleActivity { name, input, options })
}

fn instance_start(
    frame: &Frame,
    text: String,
    version_to_start: impl FnOnce(&str) -> String,
) -> napi::Result<InstanceStart> {
    let [priority, conflict] = frame.facts();
    let [name, id, version, tags, trace, admission, input] = frame.texts(text)?;
    let name = required(name)?;
    let admission = admission.map(|text| serde_json::from_str(&text)).transpose();
    let on_conflict = StartConflict::ALL.get(conflict as usize).copied();
    Ok(InstanceStart {
        version: version.unwrap_or_else(|| version_to_start(&name)),
        id: required(id)?,
        name,
        input,
        tags,
        priority: priority as i32,
        on_conflict: on_conflict.ok_or_else(|| argument(format!("there is no reaction {conflict} to a used id")))?,
        admission: admission.map_err(|e| argument(format!("admission of instance: {e}")))?,
        trace,
    })
}

/// Returns the entries of a stream that stay; `None` stands for no limit.
pub(crate) fn keep(entries_max: Option<f64>, retain_ms: Option<f64>) -> StreamKeep {
    let whole = |number: f64| number as u64;
    StreamKeep {
        entries_max: entries_max.map(whole),
        retain_ms: retain_ms.map(whole),
    }
}

/// Returns a time or a duration in whole milliseconds, which is never earlier or shorter.
pub(crate) fn whole_ms(ms: f64) -> i64 {
    ms.ceil() as i64
}

/// Decodes the end of the code that is in a frame.
pub(crate) fn outcome(frame: &Frame, text: String) -> napi::Result<Outcome> {
    let kind = frame.kind();
    let [payload, version] = frame.texts(text)?;
    Ok(match kind {
        COMPLETED => Outcome::Completed(payload),
        FAILED => Outcome::Failed(payload),
        CANCELLED => Outcome::Cancelled(payload),
        CONTINUED_AS_NEW => Outcome::ContinuedAsNew {
            input: payload,
            version,
        },
        other => return Err(argument(format!("there is no outcome {other}"))),
    })
}

/// Returns the answer to an ask: a value, or JSON of an error.
pub(crate) const fn answer(is_error: bool, text: Option<String>) -> Answer {
    if is_error {
        Answer::Error(text)
    } else {
        Answer::Value(text)
    }
}

/// Awaited mailboxes and operations as they cross: names of events, names of queues, ids of operations.
pub(crate) struct AwaitedArguments {
    pub(crate) events: Option<Vec<String>>,
    pub(crate) queues: Option<Vec<String>>,
    pub(crate) operations: Option<Vec<f64>>,
}

impl AwaitedArguments {
    fn decode(self) -> Awaited {
        let events = self.events.unwrap_or_default().into_iter().map(Mailbox::Event);
        let queues = self.queues.unwrap_or_default().into_iter().map(Mailbox::Queue);
        let operations = self.operations.unwrap_or_default().into_iter();
        Awaited {
            mailboxes: events.chain(queues).collect(),
            timers: operations.map(|id| EventId(id as u64)).collect(),
        }
    }
}

/// Returns the changes of the waits: new waits, and waits that have ended.
pub(crate) fn waits(more: AwaitedArguments, gone: AwaitedArguments) -> Waits {
    Waits::Changed {
        more: more.decode(),
        no_longer: gone.decode(),
    }
}

/// Returns the changes of waits that have not changed.
pub(crate) fn no_change() -> Waits {
    Waits::Changed {
        more: Awaited::default(),
        no_longer: Awaited::default(),
    }
}

/// Returns the number of a mailbox's kind, and its name.
pub(crate) fn mailbox_parts(mailbox: Mailbox) -> (u32, String) {
    match mailbox {
        Mailbox::Event(name) => (EVENT, name),
        Mailbox::Queue(name) => (QUEUE, name),
    }
}

pub(crate) fn mailbox(kind: f64, name: String) -> napi::Result<Mailbox> {
    match kind as u32 {
        EVENT => Ok(Mailbox::Event(name)),
        QUEUE => Ok(Mailbox::Queue(name)),
        other => Err(argument(format!("there is no kind {other} of mailboxes"))),
    }
}

fn required(text: Option<String>) -> napi::Result<String> {
    text.ok_or_else(|| argument("a command lacks a text"))
}
