//! The outcomes of writes.

use perdure_engine::MessageSeq;

use crate::{AskState, Epoch, InstanceKey, InstanceStatus, Status, WorkerId};

/// The outcome of a [`Write`](crate::Write).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The instance was started.
    Started {
        /// The store's name of the instance.
        key: InstanceKey,
        /// Epoch of the instance, if it was claimed.
        claimed: Option<Epoch>,
        /// Outcome of the first turn; `None` if there was none, or the instance was not claimed.
        turn: Option<Box<Outcome>>,
        /// [`Terminated`](Self::Terminated) of the instance that the start has ended and replaced, if there was one. Of
        /// a [keyed start](crate::KeyedStart): the outcome of the request to cancel the instance that the key had.
        terminated: Option<Box<Outcome>>,
    },
    /// A [keyed start](crate::KeyedStart) has started nothing. The instance that its key has stands for it.
    Joined {
        /// The user's name of that instance.
        id: String,
    },
    /// A [keyed start](crate::KeyedStart) has to be sent again with the id of the instance that its key has. Nothing
    /// changed.
    Readdress {
        /// The user's name of that instance.
        id: String,
    },
    /// The id of a start is in use.
    Exists,
    /// There is no queue of the name that a start gives. Nothing changed.
    NoQueue,
    /// The message waits for the instance.
    Delivered {
        /// The store's name of the instance.
        key: InstanceKey,
        /// Number of the message. Where the store's answer was lost on its way (a lost acknowledgement), it may be the
        /// number of a later message.
        seq: MessageSeq,
        /// Owner of the instance; `None`: the instance is due now, for the first worker that acquires it.
        owner: Option<WorkerId>,
    },
    /// The instance has an ask of that id. Nothing changed.
    Asked {
        /// State of that ask.
        state: AskState,
    },
    /// The mailbox holds as many messages as the sender allows. Nothing changed.
    MailboxFull {
        /// The number of messages that the sender allows.
        max: u64,
    },
    /// The instance was ended from outside: terminated, or cancelled while it was suspended.
    Terminated {
        /// The store's name of the instance.
        key: InstanceKey,
        /// Owner of the instance until now.
        owner: Option<WorkerId>,
        /// Owners of the instances that got a message by that: the parent and the children.
        receivers: Receivers,
        /// Workers that run attempts which are no longer awaited.
        stopped: Vec<WorkerId>,
    },
    /// The instance is suspended. An instance that was suspended before stays as it was, with the report that it had.
    Suspended {
        /// The store's name of the instance.
        key: InstanceKey,
        /// Epoch of the last acquisition.
        epoch: Epoch,
        /// Owner of the instance until now.
        owner: Option<WorkerId>,
    },
    /// A suspended instance is due now, at its start time if that comes later, or in line.
    Resumed,
    /// The instance to resume was not suspended. Nothing changed.
    NotSuspended {
        /// Status of the instance.
        status: Status,
    },
    /// The instance is gone; a [`sweep`](crate::Provider::sweep) is to follow.
    Deleted,
    /// The instance to delete has not ended. Nothing changed.
    NotEnded {
        /// Status of the instance.
        status: Status,
    },
    /// There is no instance of that id.
    NotFound,
    /// The instance has ended. Nothing changed.
    Ended {
        /// Status in which it ended.
        status: Status,
    },
    /// The turn is durable.
    Committed {
        /// Status of the instance after the turn, if the turn asked for it.
        status: Option<Box<InstanceStatus>>,
        /// The time at which a released instance is due, ms since 1970. `None` if the instance was not released, or
        /// sleeps until a message comes.
        wake_at_ms: Option<i64>,
        /// Effects of the turn on other instances, if it had any.
        others: Option<Box<CrossInstanceOutcome>>,
    },
    /// The end of an attempt was told to its instance, if that still waits for it.
    TaskDone {
        /// Owner of the instance, if the instance was told.
        receivers: Receivers,
        /// True if the attempt had a slot of its queue, which is free now (P27).
        freed: bool,
    },
    /// The details of a heartbeat are kept, or forgotten if it had none; or a probation is noted.
    Noted,
    /// The entries of an activity are in the stream.
    Appended {
        /// Index of the entry that will follow.
        next: u64,
    },
    /// The stream takes no entry any more. Nothing changed.
    StreamClosed,
    /// The fence of a turn, probation, heartbeat, append or end of an attempt (owner, epoch, execution, next event id)
    /// does not match the store. Nothing of the write was stored.
    Fenced,
}

/// The owners of instances that got messages, in order, without two equal ones in a row. `None`: an instance that is
/// due now, for the first worker that acquires it.
pub type Receivers = Vec<Option<WorkerId>>;

impl Outcome {
    /// Returns the outcome of a message that goes with a start (P21): that of the start, if it was refused and so there
    /// is no receiver.
    #[must_use]
    pub fn with_start(self, started: Self) -> Self {
        match (started, self) {
            (Self::NoQueue, Self::NotFound) => Self::NoQueue,
            (_, sent) => sent,
        }
    }

    /// Returns the outcome of the termination of the instance that a start has ended and replaced, or of the request to
    /// cancel the one that a keyed start supersedes.
    #[must_use]
    pub fn terminated(&self) -> Option<&Self> {
        match self {
            Self::Started { terminated, .. } => terminated.as_deref(),
            _ => None,
        }
    }
}

/// The effects of a committed turn on other instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrossInstanceOutcome {
    /// Outcomes of the starts, in order: `Started`, `Exists` or `NoQueue`.
    pub started: Vec<Outcome>,
    /// Owners of the instances that got a message: the addressees, the children and the parent.
    pub receivers: Receivers,
    /// True if a start or message was refused. A message to the instance itself says so.
    pub refused: bool,
    /// Workers that run attempts which are no longer awaited.
    pub stopped: Vec<WorkerId>,
    /// True if suspended children were cancelled, and have ended by that.
    pub ended: bool,
}

impl CrossInstanceOutcome {
    /// Returns the outcomes of the terminations of instances that starts have replaced.
    pub fn terminated(&self) -> impl Iterator<Item = &Outcome> {
        self.started.iter().filter_map(Outcome::terminated)
    }
}
