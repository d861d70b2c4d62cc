//! What is written to a store on the hot path, and what comes of it.

use perdure_engine::{EventId, EventRecord, ExecutionId, MessageBody, MessageSeq, Payload};

use crate::{Epoch, InstanceKey, InstanceStatus, LetGoTask, Status, TaskDone, TaskOffer, Trial, WorkerId};

/// One write; atomic by itself.
#[derive(Clone, Debug)]
pub enum Write {
    /// Start an instance.
    Start(Box<NewInstance>),
    /// Put a message into an instance's mailbox.
    Message(NewMessage),
    /// End an instance at once, whoever owns it.
    Terminate(Terminate),
    /// Hold an instance until it is resumed, whoever owns it.
    Suspend(Suspend),
    /// Let a suspended instance go on.
    Resume {
        /// The user's name of it.
        id: String,
        /// Now, ms since 1970.
        time_ms: i64,
    },
    /// Delete an instance that has ended (P13).
    Delete {
        /// The user's name of it.
        id: String,
    },
    /// What a turn did.
    Turn(Box<TurnCommit>),
    /// What a running activity told of its progress.
    Heartbeat(Box<Heartbeat>),
    /// An attempt is over that this worker ran for another instance's.
    TaskDone(Box<TaskDone>),
    /// A suspect is tried, or is no longer (P14).
    Trial(Trial),
    /// An instance is not its worker's any more, and is due if the store says otherwise: nobody else would ever take it.
    LetGo(LetGo),
    /// A task is not run by the worker that the store names, and is due for others.
    LetGoTask(LetGoTask),
}

impl Write {
    /// Bytes of the values in it: what bounds a batch besides the number of its writes.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Write::Start(instance) => {
                instance.first_event.bytes()
                    + len(&instance.tags)
                    + instance.first_turn.as_deref().map_or(0, TurnCommit::payload_bytes)
            }
            Write::Message(message) => message.body.bytes(),
            Write::Suspend(suspend) => suspend.report.len(),
            Write::Terminate(terminate) => len(&terminate.reason),
            Write::Resume { .. } | Write::Delete { .. } => 0,
            Write::Trial(_) | Write::LetGo(_) | Write::LetGoTask(_) => 0,
            Write::Turn(turn) => turn.payload_bytes(),
            Write::Heartbeat(heartbeat) => len(&heartbeat.details),
            Write::TaskDone(done) => len(done.result.payload()),
        }
    }
}

fn len(payload: &Payload) -> usize {
    payload.as_ref().map_or(0, String::len)
}

/// An instance to start.
#[derive(Clone, Debug)]
pub struct NewInstance {
    /// The user's name of it.
    pub id: String,
    /// Name of its orchestration.
    pub name: String,
    /// Version of its orchestration.
    pub version: String,
    /// Its first event (`ExecutionStarted`, id 1); its time is the instance's creation.
    pub first_event: EventRecord,
    /// Id of the parent instance.
    pub parent_id: Option<String>,
    /// Tags as a JSON object of strings made by the driver.
    pub tags: Option<String>,
    /// Higher is acquired first.
    pub priority: i32,
    /// The worker that takes it at once; `None` leaves it to whoever acquires it.
    pub claim: Option<WorkerId>,
    /// What its first turn did, when the worker that takes it has run that already: written with the start, or not at all.
    /// Its key and epoch are those that the start gives.
    pub first_turn: Option<Box<TurnCommit>>,
    /// What to do when the id is in use.
    pub on_conflict: OnConflict,
}

/// What a start does when the id is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Answer [`Outcome::Exists`] and change nothing.
    Keep,
    /// Replace an instance that has ended (its history goes); answer [`Outcome::Exists`] for one that has not.
    RestartIfTerminal,
}

/// A message to send.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The user's name of the receiving instance.
    pub instance: String,
    /// What it says.
    pub body: MessageBody,
    /// How many messages may wait for the instance, this one among them; `None`: any number.
    pub unread_max: Option<u64>,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

/// What a worker lets go.
#[derive(Clone, Debug)]
pub struct LetGo {
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
    /// Why, as the driver encoded it.
    pub reason: Payload,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

/// A suspension from outside. What waits for the instance, its tasks and its heartbeats stay as they are, and so do its children.
#[derive(Clone, Debug)]
pub struct Suspend {
    /// The user's name of the instance.
    pub id: String,
    /// Why, as the driver shows it.
    pub report: String,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

/// What a turn of an instance did (architecture, section 2).
#[derive(Clone, Debug)]
pub struct TurnCommit {
    /// The instance.
    pub key: InstanceKey,
    /// Fence: its owner.
    pub worker: WorkerId,
    /// Fence: its epoch.
    pub epoch: Epoch,
    /// Its execution.
    pub execution: ExecutionId,
    /// Fence: the id of the first event appended, or of the next one when there is none.
    pub next_event_id: EventId,
    /// Events appended, ids rising by one from `next_event_id`.
    pub events: Vec<EventRecord>,
    /// Messages consumed; each is one of those up to `seen`.
    pub consumed: Vec<MessageSeq>,
    /// Every message for this instance up to this number is known to the worker. At a release, one after it makes the
    /// instance due at once, so that a message that came in between is not slept through. `MessageSeq(0)`: none is known.
    pub seen: MessageSeq,
    /// Schedules whose kept [heartbeats](Heartbeat) go with this turn: of activities that are over by it, and all that there are
    /// when it ends the execution.
    pub heartbeats_over: Vec<EventId>,
    /// New custom status, if it changed.
    pub custom_status: Option<StatusChange>,
    /// What goes to other instances with it.
    pub to_others: Option<Box<ToOthers>>,
    /// What becomes of the instance.
    pub after: AfterTurn,
    /// Somebody waits for what the turn changes: the answer tells the status after it.
    pub tell_status: bool,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

impl TurnCommit {
    fn payload_bytes(&self) -> usize {
        let after = match &self.after {
            AfterTurn::ContinueAsNew(next) => next.first_event.bytes(),
            AfterTurn::Suspend { report, .. } => report.len(),
            _ => 0,
        };
        let status = self.custom_status.as_ref().map_or(0, |status| len(&status.value));
        // What goes to others is in the events, too, and written a second time.
        let events: usize = self.events.iter().map(EventRecord::bytes).sum();
        after + status + events * if self.to_others.is_some() { 2 } else { 1 }
    }
}

/// What a turn does to other instances: starts, then messages, then cancellations. What is refused is told to the instance by a message
/// of kind `Settled`.
#[derive(Clone, Debug, Default)]
pub struct ToOthers {
    /// Instances to start.
    pub starts: Vec<OtherStart>,
    /// Messages to send.
    pub messages: Vec<OtherMessage>,
    /// Children of this execution to cancel, by the event that started them. One that has ended, or never was, is none.
    pub cancelled: Vec<EventId>,
    /// Attempts for other workers. There is none of the same schedule.
    pub offers: Vec<TaskOffer>,
    /// Schedules whose offered attempts nobody waits for any more. One that is not there is none.
    pub withdrawn: Vec<EventId>,
}

/// A start that goes with a turn.
#[derive(Clone, Debug)]
pub struct OtherStart {
    /// The event that asked for it.
    pub scheduled: EventId,
    /// Whether it is a child: its end is told to this execution, and the end of this instance cancels it.
    pub is_child: bool,
    /// What to start. It has no first turn.
    pub instance: NewInstance,
}

/// A message that goes with a turn.
#[derive(Clone, Debug)]
pub struct OtherMessage {
    /// The event that asked for it.
    pub scheduled: EventId,
    /// What to send.
    pub message: NewMessage,
}

/// The latest details of an open activity's heartbeats, kept for its next attempt. Of a task the fence is its own: its worker and
/// attempt.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// The instance.
    pub key: InstanceKey,
    /// Fence: who tells.
    pub worker: WorkerId,
    /// Fence: as what.
    pub by: Teller,
    /// Fence: its execution.
    pub execution: ExecutionId,
    /// The activity's schedule.
    pub scheduled: EventId,
    /// They replace what was kept; `None`: nothing is kept from now on.
    pub details: Payload,
}

/// As what a worker tells of an activity's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller {
    /// As the owner of the instance, in this epoch.
    Owner(Epoch),
    /// As who runs this attempt, a task.
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

/// What becomes of an instance after a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterTurn {
    /// The worker keeps it.
    Hold,
    /// It is given back and sleeps.
    Release {
        /// When it is due again without a message, ms since 1970; `None`: never.
        wake_at_ms: Option<i64>,
    },
    /// It has ended; the last event appended says how.
    End {
        /// Completed, Failed or Cancelled.
        status: Status,
    },
    /// Its execution has ended, which the last event appended says, and the next one begins. What waits for the instance stays.
    ContinueAsNew(Box<NextExecution>),
    /// It is held until it is resumed.
    Suspend {
        /// Why, as the driver shows it.
        report: String,
        /// When it is because its code does not fit its history: the fingerprint of that code, for [`ResumeUnfit`](crate::ResumeUnfit).
        unfit_code: Option<String>,
    },
}

/// The execution that follows one which continued as new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextExecution {
    /// Version of the orchestration that it runs.
    pub version: String,
    /// Its first event (`ExecutionStarted`, id 1).
    pub first_event: EventRecord,
    /// Whether the worker keeps the instance, in the same epoch; otherwise it is given back and due at once.
    pub hold: bool,
}

/// What came of a [`Write`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The instance was started.
    Started {
        /// The store's name of it.
        key: InstanceKey,
        /// Its epoch, when it was claimed.
        claimed: Option<Epoch>,
        /// What came of its first turn; `None` when there was none, or the instance was not claimed.
        turn: Option<Box<Outcome>>,
    },
    /// The id of a start is in use.
    Exists,
    /// The message waits for the instance.
    Delivered {
        /// The store's name of the instance.
        key: InstanceKey,
        /// The message's number. Where the store's answer was lost on its way, it may be that of a later message.
        seq: MessageSeq,
        /// The instance's owner; `None`: it is due now, for whoever acquires it.
        owner: Option<WorkerId>,
    },
    /// As many messages wait for the instance as the sender allows; nothing changed.
    MailboxFull {
        /// How many that are.
        max: u64,
    },
    /// The instance was ended from outside: terminated, or cancelled while it was suspended.
    Terminated {
        /// The store's name of the instance.
        key: InstanceKey,
        /// Its owner until now.
        owner: Option<WorkerId>,
        /// Whoever got a message by that: its parent, its children.
        receivers: Receivers,
        /// Those who run attempts that nobody waits for any more.
        stopped: Vec<WorkerId>,
    },
    /// The instance is suspended. One that was so before stays as it was, with the report that it had.
    Suspended {
        /// The store's name of the instance.
        key: InstanceKey,
        /// Epoch of its last acquisition.
        epoch: Epoch,
        /// Its owner until now.
        owner: Option<WorkerId>,
    },
    /// A suspended instance is due now.
    Resumed,
    /// A resumed instance was not suspended; nothing changed.
    NotSuspended {
        /// What it is.
        status: Status,
    },
    /// The instance is gone; a [`sweep`](crate::Provider::sweep) is to follow.
    Deleted,
    /// An instance to delete has not ended; nothing changed.
    NotEnded {
        /// What it is.
        status: Status,
    },
    /// There is no instance of that id.
    NotFound,
    /// The instance has ended; nothing changed.
    Ended {
        /// How it ended.
        status: Status,
    },
    /// The turn is durable.
    Committed {
        /// The instance's status after it, when the turn asked for that.
        status: Option<Box<InstanceStatus>>,
        /// When it was released: when it is due, ms since 1970. `None` when it was not released or sleeps until a message comes.
        wake_at_ms: Option<i64>,
        /// What it did to other instances, if anything.
        others: Option<Box<Others>>,
    },
    /// The end of an attempt was told to its instance, if that still waits.
    Told {
        /// The owner of the instance, if it was told.
        receivers: Receivers,
    },
    /// The details of a heartbeat are kept, or forgotten if it had none; a trial is noted.
    Noted,
    /// The fence of a turn, trial, heartbeat or end of an attempt (owner, epoch, execution, next event id) is not the store's; nothing of it was written.
    Fenced,
}

/// The owners of instances that got messages, in order, each once in a row; `None`: an instance that is due now, for whoever acquires it.
pub type Receivers = Vec<Option<WorkerId>>;

/// What a committed turn did to other instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// What came of its starts, in order: `Started` or `Exists`.
    pub started: Vec<Outcome>,
    /// Whoever got a message: those that it sent to, its children, its parent.
    pub receivers: Receivers,
    /// A start or message was refused, and a message to the instance itself says so.
    pub refused: bool,
    /// Those who run attempts that nobody waits for any more.
    pub stopped: Vec<WorkerId>,
    /// Children were cancelled that were suspended, and have ended by that.
    pub ended: bool,
}
