//! The writes to a store on the hot path.

use perdure_engine::MessageBody;

use crate::turn::len;
use crate::{
    ActivityAppend, Ask, AskName, Heartbeat, KeyedStart, NewInstance, NewMessage, Probation, ReleaseInstance,
    ReleaseTask, Suspend, TaskDone, Terminate, TurnCommit,
};

/// One write. It is atomic by itself.
#[derive(Clone, Debug)]
pub enum Write {
    /// Starts an instance.
    Start(Box<NewInstance>),
    /// Starts an instance, depending on the one that its key has (P26).
    KeyedStart(Box<KeyedStart>),
    /// Puts a message into an instance's mailbox.
    Message(NewMessage),
    /// Puts a message into the mailbox of an instance, and starts the instance before if it is absent (P21).
    StartWithMessage(Box<StartWithMessage>),
    /// Puts an ask into the mailbox of an instance, unless the instance has an ask of that id (P22).
    Ask(Box<Ask>),
    /// Ends an instance at once, with any owner or none.
    Terminate(Terminate),
    /// Holds an instance until it is resumed, with any owner or none.
    Suspend(Suspend),
    /// Lets a suspended instance go on.
    Resume {
        /// The user's name of the instance.
        id: String,
        /// Now, ms since 1970.
        time_ms: i64,
    },
    /// Deletes an instance that has ended (P13).
    Delete {
        /// The user's name of the instance.
        id: String,
    },
    /// Commits the effects of a turn.
    Turn(Box<TurnCommit>),
    /// Keeps the progress details of a running activity.
    Heartbeat(Box<Heartbeat>),
    /// Appends entries of a running activity to a stream (P23).
    Append(Box<ActivityAppend>),
    /// Reports the end of an attempt that this worker ran for another worker's instance.
    TaskDone(Box<TaskDone>),
    /// Begins or ends the probation of a suspect (P14).
    Probation(Probation),
    /// Makes an instance due that its worker does not run, although the store names the worker as the owner. Without
    /// this write no worker would ever take the instance.
    ReleaseInstance(ReleaseInstance),
    /// Makes a task due for others that the worker does not run, although the store names the worker as its runner.
    ReleaseTask(ReleaseTask),
}

impl Write {
    /// Returns the bytes of the values in the write, which bound a batch besides the number of its writes.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Write::Start(instance) => instance.payload_bytes(),
            Write::KeyedStart(keyed) => {
                let input = keyed.input.as_ref().map_or(0, MessageBody::bytes);
                keyed.start.payload_bytes() + keyed.scope.len() + keyed.key.len() + input
            }
            Write::Message(message) => message.body.bytes(),
            Write::StartWithMessage(both) => both.start.payload_bytes() + both.message.body.bytes(),
            Write::Ask(ask) => ask.message.body.bytes(),
            Write::Suspend(suspend) => suspend.report.len(),
            Write::Terminate(terminate) => len(&terminate.reason),
            Write::Resume { .. } | Write::Delete { .. } => 0,
            Write::Probation(_) | Write::ReleaseInstance(_) | Write::ReleaseTask(_) => 0,
            Write::Turn(turn) => turn.payload_bytes(),
            Write::Heartbeat(heartbeat) => len(&heartbeat.details),
            Write::Append(append) => append.append.bytes(),
            Write::TaskDone(done) => len(done.result.payload()),
        }
    }

    /// Returns the name of the ask that the write sends.
    #[must_use]
    pub fn ask_name(&self) -> Option<AskName> {
        let (ask, message) = match self {
            Write::Ask(ask) => (&ask.id, &ask.message),
            Write::StartWithMessage(both) => (both.ask.as_ref()?, &both.message),
            _ => return None,
        };
        Some(AskName {
            instance: message.instance.clone(),
            ask: ask.clone(),
        })
    }
}

/// A message, with the start of its receiver. The outcome is that of the message.
#[derive(Clone, Debug)]
pub struct StartWithMessage {
    /// The start. It has no claim and no first turn, and never terminates an instance.
    pub start: NewInstance,
    /// Mail for the instance of the same id.
    pub message: NewMessage,
    /// Id of the ask, if the message is one (P22). An ask that the receiver has already starts nothing.
    pub ask: Option<String>,
}
