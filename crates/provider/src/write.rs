//! The writes to a store on the hot path, and their outcomes.

use perdure_engine::{
    AnsweredAsk, EventId, EventRecord, ExecutionId, MessageBody, MessageSeq, Payload, StateChange, StreamAppend,
};

use crate::{
    ActivityAppend, Ask, AskName, AskState, CrossInstanceEffects, CrossInstanceOutcome, Epoch, InstanceKey,
    InstanceStatus, KeyedStart, Probation, QueueEntry, ReleaseTask, StartTime, Status, TaskDone, TurnLogs, WorkerId,
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

fn len(payload: &Payload) -> usize {
    payload.as_ref().map_or(0, String::len)
}

/// An instance to start.
#[derive(Clone, Debug)]
pub struct NewInstance {
    /// The user's name of the instance.
    pub id: String,
    /// Name of its orchestration.
    pub name: String,
    /// Version of its orchestration.
    pub version: String,
    /// First event of the instance (`ExecutionStarted`, id 1). Its time is the instance's creation.
    pub first_event: EventRecord,
    /// Id of the parent instance.
    pub parent_id: Option<String>,
    /// Tags as a JSON object of strings made by the driver.
    pub tags: Option<String>,
    /// An instance of a higher priority is acquired first.
    pub priority: i32,
    /// The worker that takes the instance at once; `None` leaves it to the first worker that acquires it.
    pub claim: Option<WorkerId>,
    /// The effects of the first turn, if the claiming worker has run that already. They are written with the start, or
    /// not at all. The store fills in the key and the epoch of the turn from the start.
    pub first_turn: Option<Box<TurnCommit>>,
    /// The reaction to an id that is in use.
    pub on_conflict: OnConflict,
    /// The queue that gives the instance a slot (P24); `None`: the instance needs none. One with a key there has no
    /// claim.
    pub queue: Option<QueueEntry>,
    /// When the instance is due. It has no claim unless that is now.
    pub due: StartTime,
}

impl NewInstance {
    fn payload_bytes(&self) -> usize {
        let first_turn = self.first_turn.as_deref().map_or(0, TurnCommit::payload_bytes);
        self.first_event.bytes() + len(&self.tags) + first_turn
    }

    /// Returns true if the instance may run as soon as it is there.
    #[must_use]
    pub fn runs_at_once(&self) -> bool {
        self.queue.is_none() && self.due == StartTime::Now
    }

    /// Returns true if a worker may claim the instance: it is due now and, if it is one of a queue, has no key there.
    /// The claim of an instance of a queue holds only if it gets a slot at once (P24).
    #[must_use]
    pub fn may_be_claimed(&self) -> bool {
        let has_key = self.queue.as_ref().is_some_and(|entry| !entry.key.is_empty());
        !has_key && self.due == StartTime::Now
    }

    /// Returns the termination of the instance that the start replaces.
    #[must_use]
    pub fn termination(&self) -> Terminate {
        Terminate {
            id: self.id.clone(),
            reason: None,
            time_ms: self.first_event.time_ms,
        }
    }
}

/// The reaction of a start to an id that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Answers [`Outcome::Exists`] and changes nothing.
    Keep,
    /// Replaces an instance that has ended, whose history is deleted. Answers [`Outcome::Exists`] for an instance that
    /// has not ended.
    RestartIfTerminal,
    /// Replaces an instance that has ended in any other way than `Completed`. Answers [`Outcome::Exists`] for all
    /// others.
    RestartIfFailed,
    /// Replaces any instance. An instance that has not ended is terminated by the same write: its parent is told, and
    /// its children are cancelled. A start that goes with a turn never replaces the instance of that turn.
    TerminateAndRestart,
}

impl OnConflict {
    /// Returns true if a start replaces an instance in this status without terminating it.
    #[must_use]
    pub const fn replaces(self, status: Status) -> bool {
        match self {
            Self::Keep => false,
            Self::RestartIfTerminal | Self::TerminateAndRestart => status.is_terminal(),
            Self::RestartIfFailed => status.is_terminal() && !matches!(status, Status::Completed),
        }
    }
}

/// A message to send.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The user's name of the receiving instance.
    pub instance: String,
    /// Content of the message.
    pub body: MessageBody,
    /// Most messages that may wait for the instance, this one among them; `None`: any number.
    pub unread_max: Option<u64>,
    /// Now, ms since 1970.
    pub time_ms: i64,
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

/// A request of a worker to release an instance that it does not run.
#[derive(Clone, Debug)]
pub struct ReleaseInstance {
    /// The instance.
    pub key: InstanceKey,
    /// Fence: its owner.
    pub worker: WorkerId,
    /// Fence: its epoch.
    pub epoch: Epoch,
}

/// A termination.
#[derive(Clone, Debug)]
pub struct Terminate {
    /// The user's name of the instance.
    pub id: String,
    /// The reason, as the driver encoded it.
    pub reason: Payload,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

/// A suspension from outside. The messages that wait for the instance, its tasks, its heartbeats and its children stay
/// as they are.
#[derive(Clone, Debug)]
pub struct Suspend {
    /// The user's name of the instance.
    pub id: String,
    /// The reason, as the driver shows it.
    pub report: String,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

/// The effects of a turn of an instance.
#[derive(Clone, Debug)]
pub struct TurnCommit {
    /// The instance.
    pub key: InstanceKey,
    /// Fence: its owner.
    pub worker: WorkerId,
    /// Fence: its epoch.
    pub epoch: Epoch,
    /// Execution that the turn belongs to.
    pub execution: ExecutionId,
    /// Fence: the id of the first event appended, or of the next event if the turn appends none.
    pub next_event_id: EventId,
    /// Events appended. Their ids rise by one from `next_event_id`.
    pub events: Vec<EventRecord>,
    /// Messages consumed. Each number is at most `seen`.
    pub consumed: Vec<MessageSeq>,
    /// The worker knows every message for this instance up to this number. A release with a later message in the store
    /// makes the instance due at once, so that a message that came in between is not slept through. `MessageSeq(0)`:
    /// the worker knows no message.
    pub seen: MessageSeq,
    /// Schedules whose kept [heartbeats](Heartbeat) are deleted with this turn: those of activities that are over by
    /// it, and all of them if the turn ends the execution.
    pub heartbeats_over: Vec<EventId>,
    /// New custom status, if it changed.
    pub custom_status: Option<StatusChange>,
    /// Values of the state that changed, each name once.
    pub state: Vec<StateChange>,
    /// Asks that the turn answers, each once (P22).
    pub answers: Vec<AnsweredAsk>,
    /// Entries that the turn appends to streams, each stream once (P23).
    pub appends: Vec<StreamAppend>,
    /// The work that the instance waits for after the turn, as JSON for people; no store reads it. `None`: there is
    /// none. A turn that suspends the instance leaves the text of the turn before it.
    pub open_work: Option<String>,
    /// Lines that the code logged in the turn; `None`: none is to be stored. A line whose place has one stays away.
    pub logs: Option<Box<TurnLogs>>,
    /// Effects on other instances, written with the turn.
    pub cross_instance: Option<Box<CrossInstanceEffects>>,
    /// State of the instance after the turn.
    pub after: AfterTurn,
    /// True if a client waits for the result of the turn: the answer then holds the status after it.
    pub tell_status: bool,
    /// True if the turn acquires its instance, which sleeps in the store (P20). `epoch` is the one after that of its
    /// last acquisition.
    pub wakes: bool,
    /// Id of the ask that wakes the instance, if one does (P22). It is sent by the turn, which is fenced off if the
    /// instance has an ask of that id.
    pub asked: Option<String>,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

impl TurnCommit {
    /// Returns true if clients that wait for a status may see a difference after the turn.
    #[must_use]
    pub const fn changes_status(&self) -> bool {
        self.custom_status.is_some()
            || !self.state.is_empty()
            || !self.answers.is_empty()
            || matches!(self.after, AfterTurn::End { .. } | AfterTurn::Suspend { .. })
    }

    fn payload_bytes(&self) -> usize {
        let after = match &self.after {
            AfterTurn::ContinueAsNew(next) => next.first_event.bytes(),
            AfterTurn::Suspend { report, .. } => report.len(),
            _ => 0,
        };
        let status = self.custom_status.as_ref().map_or(0, |status| len(&status.value));
        // Effects on other instances are also in the events, and are written a second time.
        let events: usize = self.events.iter().map(EventRecord::bytes).sum();
        let state: usize = self.state.iter().map(StateChange::bytes).sum();
        let answers: usize = self.answers.iter().map(AnsweredAsk::bytes).sum();
        let appends: usize = self.appends.iter().map(StreamAppend::bytes).sum();
        let open_work = self.open_work.as_ref().map_or(0, String::len);
        let logs = self.logs.as_ref().map_or(0, |logs| logs.bytes());
        let asked = self.asked.as_ref().map_or(0, String::len);
        asked
            + after
            + status
            + state
            + answers
            + appends
            + open_work
            + logs
            + events * if self.cross_instance.is_some() { 2 } else { 1 }
    }
}

/// The latest heartbeat details of an open activity, kept for its next attempt. The heartbeat of a task is fenced by
/// the task's worker and attempt.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// The instance.
    pub key: InstanceKey,
    /// Fence: the worker that reports.
    pub worker: WorkerId,
    /// Fence: the role in which the worker reports.
    pub by: Reporter,
    /// Fence: the execution of the instance.
    pub execution: ExecutionId,
    /// The activity's schedule.
    pub scheduled: EventId,
    /// Details that replace those kept before; `None`: nothing is kept from now on.
    pub details: Payload,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

/// The role in which a worker reports the progress of an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reporter {
    /// The owner of the instance, in this epoch.
    Owner(Epoch),
    /// The runner of this attempt, which is a task.
    Runner {
        /// Number of the attempt.
        attempt: u32,
    },
}

/// A change of the custom status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusChange {
    /// The new value; `None` when it was reset.
    pub value: Payload,
}

/// The state of an instance after a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterTurn {
    /// The worker keeps the instance.
    Hold,
    /// The instance is released and sleeps.
    Release {
        /// Time at which the instance is due again without a message, ms since 1970; `None`: never.
        wake_at_ms: Option<i64>,
    },
    /// The instance has ended. The last event appended says how.
    End {
        /// Completed, Failed or Cancelled.
        status: Status,
    },
    /// The execution has ended, which the last event appended says, and the next one begins. The messages that wait for
    /// the instance stay.
    ContinueAsNew(Box<NextExecution>),
    /// The instance is held until it is resumed.
    Suspend {
        /// The reason, as the driver shows it.
        report: String,
        /// Fingerprint of the code, if the reason is that this code does not fit the history: for
        /// [`ResumeMismatched`](crate::ResumeMismatched).
        mismatched_code: Option<String>,
    },
}

/// The execution that follows one which continued as new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextExecution {
    /// Version of the orchestration that the execution runs.
    pub version: String,
    /// First event of the execution (`ExecutionStarted`, id 1).
    pub first_event: EventRecord,
    /// True if the worker keeps the instance, in the same epoch. Otherwise the instance is released and due at once.
    pub hold: bool,
}

/// The outcome of a [`Write`].
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
        /// a [keyed start](KeyedStart): the outcome of the request to cancel the instance that the key had.
        terminated: Option<Box<Outcome>>,
    },
    /// A [keyed start](KeyedStart) has started nothing. The instance that its key has stands for it.
    Joined {
        /// The user's name of that instance.
        id: String,
    },
    /// A [keyed start](KeyedStart) has to be sent again with the id of the instance that its key has. Nothing changed.
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
