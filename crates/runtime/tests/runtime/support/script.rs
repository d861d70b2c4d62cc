//! Scripts: each orchestration is a list of operations that are done one after the other.

use perdure_engine::{
    ActivityOptions, Awaited, Command, Delivery, EventId, InstanceStart, Mailbox, Outcome as End, RetryPolicy,
    StartConflict,
};
use perdure_runtime::{Level, LineFields, Runtime, RuntimeError, Token};

/// One operation of a script.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    /// Schedules an activity and waits for it.
    Activity(&'static str),
    /// Schedules an activity that is tried again and again, and waits for it.
    Retried(&'static str),
    /// Schedules an inline activity that is tried again and again, and waits for it.
    Inline(&'static str),
    /// Schedules an activity that is tried again and again for this long, ms, and waits for it.
    Within(&'static str, u64),
    /// Schedules an activity for a queue, tried again and again, and waits for it. It is registered where a test says
    /// so.
    Queued(&'static str, &'static str),
    /// The same, for an attempt that waits at most for a time, ms.
    StartedWithin(&'static str, &'static str, u64),
    /// Schedules an activity with a priority and goes on.
    Ranked(i32, &'static str),
    /// Schedules an activity and goes on.
    Spawn(&'static str),
    /// Gives up the operation that was scheduled last.
    Cancel,
    /// Waits for a message.
    Event(&'static str),
    /// Waits for a message of any of these names.
    AnyEvent(&'static [String]),
    /// Waits for a time, ms.
    Sleep(i64),
    /// Sets the custom status.
    Status(&'static str),
    /// Logs a line.
    Trace(&'static str),
    /// Starts a child, by the name of its orchestration and its id, and waits for it.
    Child(&'static str, &'static str),
    /// Starts a child and goes on.
    SpawnChild(&'static str, &'static str),
    /// Starts an instance and waits until the start is durable.
    Detached(&'static str, &'static str),
    /// Sends an event to an instance and waits until it is durable.
    Send(&'static str, &'static str),
    /// Continues as new, with a version, until the execution has this number.
    ContinueTo(u64, Option<&'static str>),
}

pub(crate) type Script = &'static [Op];

/// A generator.
pub(super) struct Generator {
    script: Script,
    at: usize,
    last: Option<EventId>,
    is_issued: bool,
}

/// The meaning of a delivery for the operation that a script is at.
enum Reaction {
    /// The operation is over.
    Next,
    /// The delivery is another operation's.
    Stay,
    /// The execution ends.
    End(End),
}

impl Generator {
    pub(super) const fn new(script: Script) -> Self {
        Self {
            script,
            at: 0,
            last: None,
            is_issued: false,
        }
    }

    /// Runs a turn. Returns `true` if the execution has ended, and the generator with it.
    pub(super) fn drive(&mut self, runtime: &Runtime, token: Token) -> Result<bool, RuntimeError> {
        let execution = runtime.describe(token)?.execution;
        let finish = |end| runtime.finish(token, end).map(|()| true);
        if self.at == 0 && execution > 1 && runtime.interrupt(token)?.is_some() {
            return finish(End::Cancelled(None));
        }
        loop {
            let Some(op) = self.script.get(self.at) else {
                return finish(End::Completed(None));
            };
            self.issue(runtime, token, op)?;
            match op {
                Op::Status(status) => runtime.set_custom_status(token, Some((*status).into()))?,
                Op::Trace(line) => runtime.log(token, Level::Info, (*line).into(), LineFields::default())?,
                Op::ContinueTo(last, version) if execution < *last => {
                    let version = version.map(str::to_owned);
                    return finish(End::ContinuedAsNew { input: None, version });
                }
                _ => {}
            }
            let Some(awaited) = self.awaited(op) else {
                self.go_on();
                continue;
            };
            let Some(delivered) = runtime.next(token, awaited)? else {
                runtime.rest(token, None)?;
                return Ok(false);
            };
            match self.react(&delivered.delivery, op) {
                Reaction::Next => self.go_on(),
                Reaction::Stay => {}
                Reaction::End(end) => return finish(end),
            }
        }
    }

    /// Issues the command of an operation, once.
    fn issue(&mut self, runtime: &Runtime, token: Token, op: &Op) -> Result<(), RuntimeError> {
        if let Op::Cancel = op {
            let scheduled = self.last.expect("something was scheduled");
            runtime.issue(token, Command::CancelOperation { scheduled })?;
        } else if let Some(command) = command_of(op).filter(|_| !self.is_issued) {
            self.last = Some(runtime.issue(token, command)?.id);
            self.is_issued = true;
        }
        Ok(())
    }

    /// Returns what an operation waits for; `None`: the script goes on at once.
    fn awaited(&self, op: &Op) -> Option<Awaited> {
        let mut awaited = Awaited::default();
        match op {
            Op::Spawn(_)
            | Op::Ranked(..)
            | Op::SpawnChild(..)
            | Op::Cancel
            | Op::Status(_)
            | Op::Trace(_)
            | Op::ContinueTo(..) => return None,
            Op::Sleep(_) | Op::Detached(..) | Op::Send(..) => awaited.timers.extend(self.last),
            Op::Event(name) => awaited.mailboxes.push(Mailbox::Event((*name).into())),
            Op::AnyEvent(names) => awaited.mailboxes.extend(names.iter().cloned().map(Mailbox::Event)),
            Op::Activity(_)
            | Op::Queued(..)
            | Op::StartedWithin(..)
            | Op::Retried(_)
            | Op::Inline(_)
            | Op::Within(..)
            | Op::Child(..) => {}
        }
        Some(awaited)
    }

    fn go_on(&mut self) {
        self.at += 1;
        self.is_issued = false;
    }

    fn react(&self, delivery: &Delivery, op: &Op) -> Reaction {
        let awaits_event = matches!(op, Op::Event(_) | Op::AnyEvent(_));
        match delivery {
            Delivery::Message { .. } if awaits_event => Reaction::Next,
            Delivery::Succeeded { operation, .. } | Delivery::Failed { operation, .. } => {
                if Some(*operation) == self.last && !awaits_event {
                    Reaction::Next
                } else {
                    Reaction::Stay
                }
            }
            Delivery::ChildFailed { operation, .. } | Delivery::Refused { operation, .. } => {
                if Some(*operation) == self.last {
                    Reaction::End(End::Failed(Some(format!("{delivery:?}"))))
                } else {
                    Reaction::Stay
                }
            }
            Delivery::Cancel { .. } => Reaction::End(End::Cancelled(None)),
            _ => panic!("{delivery:?} was not awaited by {op:?}"),
        }
    }
}

/// Returns the command of an operation, if it has one of its own.
fn command_of(op: &Op) -> Option<Command> {
    let plain = ActivityOptions::default;
    Some(match op {
        Op::Activity(name) | Op::Spawn(name) => schedule(name, 1, plain()),
        Op::Ranked(priority, name) => {
            let priority = *priority;
            schedule(name, 1, ActivityOptions { priority, ..plain() })
        }
        Op::Queued(queue, name) => {
            let queue = Some((*queue).into());
            schedule(name, 100, ActivityOptions { queue, ..plain() })
        }
        Op::StartedWithin(queue, name, within_ms) => {
            let options = ActivityOptions {
                queue: Some((*queue).into()),
                schedule_to_start_timeout_ms: Some(*within_ms),
                ..plain()
            };
            schedule(name, 100, options)
        }
        Op::Retried(name) => schedule(name, 100, plain()),
        Op::Inline(name) => {
            let inline = true;
            schedule(name, 100, ActivityOptions { inline, ..plain() })
        }
        Op::Within(name, total_ms) => {
            let total_timeout_ms = Some(*total_ms);
            schedule(
                name,
                100,
                ActivityOptions {
                    total_timeout_ms,
                    ..plain()
                },
            )
        }
        Op::Sleep(delay_ms) => Command::CreateTimer { delay_ms: *delay_ms },
        Op::Child(name, id) | Op::SpawnChild(name, id) => Command::StartChild(instance(name, id)),
        Op::Detached(name, id) => Command::StartInstance(instance(name, id)),
        Op::Send(id, event) => Command::SendMessage {
            instance: (*id).into(),
            mailbox: Mailbox::Event((*event).into()),
            payload: None,
        },
        Op::Cancel | Op::Status(_) | Op::Trace(_) | Op::ContinueTo(..) | Op::Event(_) | Op::AnyEvent(_) => return None,
    })
}

fn schedule(name: &str, max_attempts: u32, options: ActivityOptions) -> Command {
    let retry = RetryPolicy {
        max_attempts,
        ..RetryPolicy::default()
    };
    Command::ScheduleActivity {
        name: name.into(),
        input: None,
        options: ActivityOptions { retry, ..options },
    }
}

fn instance(name: &str, id: &str) -> InstanceStart {
    InstanceStart {
        on_conflict: StartConflict::default(),
        admission: None,
        id: id.into(),
        name: name.into(),
        version: "1.0.0".into(),
        input: None,
        tags: None,
        priority: 0,
        trace: None,
    }
}
