//! Instances as a store knows them.

use std::fmt;

use perdure_engine::{EventId, EventRecord, ExecutionId, Message, MessageSeq, Payload};

use crate::{Epoch, InstanceKey, PageLimit, Suspicion, WorkerId};

/// Status of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The instance was started, and no turn was committed yet.
    Pending,
    /// At least one turn was committed.
    Running,
    /// The orchestration function returned.
    Completed,
    /// The orchestration function threw.
    Failed,
    /// A cancellation ended the instance.
    Cancelled,
    /// The instance was ended from outside, at once.
    Terminated,
    /// The instance is held until it is resumed.
    Suspended,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 7] = [
        Status::Pending,
        Status::Running,
        Status::Completed,
        Status::Failed,
        Status::Cancelled,
        Status::Terminated,
        Status::Suspended,
    ];

    /// Returns the text that stores keep and users see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "Pending",
            Status::Running => "Running",
            Status::Completed => "Completed",
            Status::Failed => "Failed",
            Status::Cancelled => "Cancelled",
            Status::Terminated => "Terminated",
            Status::Suspended => "Suspended",
        }
    }

    /// Returns the status of a text, or `None` if the text names no status.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }

    /// Returns true if the instance has ended for good.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Status::Completed | Status::Failed | Status::Cancelled | Status::Terminated
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of an instance as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceStatus {
    /// The store's name of the instance.
    pub key: InstanceKey,
    /// The user's name of the instance.
    pub id: String,
    /// Name of its orchestration.
    pub name: String,
    /// Version of its orchestration.
    pub version: String,
    /// Current execution.
    pub execution: ExecutionId,
    /// Status.
    pub status: Status,
    /// Payload of the terminal event: output when Completed, error when Failed or Cancelled, reason when Terminated.
    /// The report when Suspended.
    pub result: Payload,
    /// Custom status as the driver encoded it.
    pub custom_status: Payload,
    /// Number of changes of the custom status that were stored.
    pub custom_status_version: u64,
    /// Number of turns that changed the state of the instance.
    pub state_version: u64,
    /// Time of the start, ms since 1970.
    pub created_at_ms: i64,
    /// Time of the last change, ms since 1970.
    pub updated_at_ms: i64,
    /// Time of the end, ms since 1970.
    pub completed_at_ms: Option<i64>,
    /// Id of the parent instance.
    pub parent_id: Option<String>,
    /// An instance of a higher priority is acquired first.
    pub priority: i32,
    /// Tags as a JSON object of strings made by the driver, if it has any.
    pub tags: Option<String>,
}

impl InstanceStatus {
    /// Returns the bytes of the values in the status, which bound a page besides the number of its instances.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        let len = |payload: &Payload| payload.as_ref().map_or(0, String::len);
        len(&self.result) + len(&self.custom_status)
    }
}

/// A request for work.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The worker that asks.
    pub worker: WorkerId,
    /// Names and versions of orchestrations that the worker can run. An entry with
    /// [`OPEN_VERSION`](crate::OPEN_VERSION) stands for instances whose version the worker may settle (P17).
    pub registered: Vec<(String, String)>,
    /// Most instances to acquire. No more are acquired once the data to [load](crate::Provider::load) for them has so
    /// many bytes.
    pub limit: PageLimit,
    /// Size of the history pages that are to be loaded.
    pub history_page: PageLimit,
    /// Time for which an instance that is due is left to the worker whose turn released it (P29), ms; 0: it is not.
    pub left_ms: u64,
    /// True if the worker knows that there is work, from a [look](crate::Provider::due). Otherwise a store may look
    /// first, because most often there is none.
    pub looked: bool,
}

/// The answer to a request for work.
#[derive(Clone, Debug, Default)]
pub struct Acquired {
    /// The instances that the worker owns now, longest due first.
    pub instances: Vec<AcquiredInstance>,
    /// The time at which the next unowned instance that the worker can run is due, ms since 1970. It is in the past if
    /// the limit left some behind.
    pub next_wake_at_ms: Option<i64>,
    /// The time of the store's clock, ms since 1970.
    pub now_ms: i64,
    /// True if instances that the worker can run wait for slots that others have. The end of an instance may free one,
    /// and nothing else tells of it.
    pub slots_wanted: bool,
}

impl Acquired {
    /// Notes that there may be something to acquire at a time, ms since 1970.
    pub fn look_again_at(&mut self, at_ms: i64) {
        self.next_wake_at_ms = Some(self.next_wake_at_ms.map_or(at_ms, |next| next.min(at_ms)));
    }
}

/// A question for the instances that are due. Nothing is acquired.
#[derive(Clone, Debug)]
pub struct DueRequest {
    /// The worker that asks.
    pub worker: WorkerId,
    /// Names and versions of orchestrations that the worker can run.
    pub registered: Vec<(String, String)>,
    /// Most instances to tell of.
    pub rows: usize,
    /// Most messages of each instance.
    pub messages: PageLimit,
    /// Time for which an instance that is due is left to the worker whose turn released it (P29), ms; 0: it is not.
    pub left_ms: u64,
}

/// The answer to a question for the instances that are due.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// The first instances that a request for work would acquire, in its order.
    pub instances: Vec<DueInstance>,
    /// True if a request for work may acquire others, too: more are due, or instances are in line for a slot.
    pub has_others: bool,
    /// The next time that has not come at which an instance is due, or comes into a line, ms since 1970.
    pub next_wake_at_ms: Option<i64>,
    /// The time of the store's clock, ms since 1970.
    pub now_ms: i64,
}

/// An instance that is due and has no owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueInstance {
    /// The store's name of the instance.
    pub key: InstanceKey,
    /// The epoch of its last acquisition.
    pub epoch: Epoch,
    /// The id of the next event of its history.
    pub next_event_id: EventId,
    /// All messages that wait for it, in order; `None`: they exceed the limit, or cannot be read.
    pub messages: Option<Vec<Message>>,
}

/// A request to resume instances of an orchestration that are suspended because code other than the current code did
/// not fit their history.
#[derive(Clone, Debug)]
pub struct ResumeMismatched {
    /// Name of the orchestration.
    pub name: String,
    /// Version of the orchestration.
    pub version: String,
    /// Fingerprint of the current code. Instances whose history this very code did not fit stay suspended.
    pub code: String,
    /// Only instances after this one, which need not exist.
    pub after: Option<Mismatched>,
    /// Most instances to resume.
    pub limit: usize,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

/// An instance that is suspended because code did not fit its history. In order of code and key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mismatched {
    /// Fingerprint of the code that did not fit.
    pub code: String,
    /// The store's name of the instance.
    pub key: InstanceKey,
}

/// Messages that wait for an instance, or the oldest of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessagePage {
    /// The messages, in order. Messages that are not mail stand at their place among the others. As many of them are
    /// read as fit by themselves: requests to cancel before the rest.
    pub messages: Vec<Message>,
    /// The highest number of all messages that wait besides these; `None` if no others wait.
    pub more_up_to: Option<MessageSeq>,
    /// True if some of the others are not mail. The page is to be read again when these messages were consumed.
    pub more_settled: bool,
}

impl MessagePage {
    /// Returns true if no other messages wait.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.more_up_to.is_none() && !self.more_settled
    }
}

/// The position up to which a worker has read the messages for its instances, in the store's own form. The default
/// position is the one before any message was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxPosition(pub String);

/// Messages that came for instances of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inbox {
    /// The messages, those of one instance in order. A message that is not handed over is represented by its number:
    /// its row cannot be read, or an earlier message comes behind it. The reader then reads all messages that wait for
    /// the instance.
    pub messages: Vec<(InstanceKey, Result<Message, MessageSeq>)>,
    /// The position at which the next read goes on.
    pub position: InboxPosition,
    /// True if the limit left some messages behind.
    pub more: bool,
    /// Instances that were taken from the worker, in order of their keys (P15).
    pub revoked: Vec<Revoked>,
}

/// An instance that a termination or a suspension has taken from its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// The instance.
    pub key: InstanceKey,
    /// The epoch in which the worker owned the instance. If the worker has acquired the instance again since, that is
    /// another epoch.
    pub epoch: Epoch,
}

/// An instance that now belongs to a worker.
#[derive(Clone, Debug)]
pub struct AcquiredInstance {
    /// The store's name of the instance.
    pub key: InstanceKey,
    /// The user's name of the instance.
    pub id: String,
    /// Name of its orchestration.
    pub name: String,
    /// Version of its orchestration.
    pub version: String,
    /// Id of the parent instance.
    pub parent_id: Option<String>,
    /// JSON of the tags that the instance was started with.
    pub tags: Option<String>,
    /// Current execution.
    pub execution: ExecutionId,
    /// Epoch of this acquisition.
    pub epoch: Epoch,
    /// Id that the next event of the execution gets.
    pub next_event_id: EventId,
    /// True if no turn of the current execution was committed yet.
    pub fresh: bool,
    /// Bytes of the first page of the history, up to the limit that the request set, and of the messages and heartbeats
    /// that are read with it.
    pub page_bytes: usize,
    /// First page of the history; empty if the instance is not [loaded](crate::Provider::load).
    pub history: Vec<EventRecord>,
    /// The messages that wait for the instance, as many as were loaded.
    pub messages: MessagePage,
    /// The highest number that a message for the instance can have had until this moment. A message that arrives and is
    /// not newer is waiting already, or was consumed.
    pub seen: MessageSeq,
    /// Kept details of heartbeats of the current execution's activities, by schedule, once the instance is loaded.
    pub heartbeats: Vec<(EventId, String)>,
    /// Schedules of the current execution's activities whose attempts are offered as tasks, once the instance is
    /// loaded.
    pub tasks: Vec<EventId>,
    /// The suspicion against the instance (P14).
    pub suspicion: Suspicion,
}

/// A request for the stored data of instances.
#[derive(Clone, Debug)]
pub struct Load {
    /// The instances to load. The data of all of them is read together; the caller knows how much that is.
    pub instances: Vec<LoadOne>,
    /// Size of the first page of each history. The rest is read in pages.
    pub history_page: PageLimit,
    /// Number of messages to read for each instance. The rest is read in pages. The rows of messages that are not mail
    /// are not limited.
    pub message_page: PageLimit,
}

/// One instance of a [`Load`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOne {
    /// The instance.
    pub key: InstanceKey,
    /// Its execution.
    pub execution: ExecutionId,
    /// Id that the next event of the execution gets.
    pub next_event_id: EventId,
    /// True if the first page of the history is wanted. A worker that has kept the code of the instance needs none.
    pub history: bool,
}

/// The stored data of an instance, all of it as of some moment after the request.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// First page of the history, if it is wanted.
    pub history: Vec<EventRecord>,
    /// The messages that wait for the instance, or the oldest of them.
    pub messages: MessagePage,
    /// Kept details of heartbeats of the execution's activities, by schedule.
    pub heartbeats: Vec<(EventId, String)>,
    /// Schedules of the execution's activities whose attempts are offered as tasks.
    pub tasks: Vec<EventId>,
}

impl AcquiredInstance {
    /// Returns the part of a [`Load`] that loads this instance.
    #[must_use]
    pub const fn to_load(&self) -> LoadOne {
        LoadOne {
            key: self.key,
            execution: self.execution,
            next_event_id: self.next_event_id,
            history: true,
        }
    }

    /// Returns the instance with the data that was loaded for it.
    #[must_use]
    pub fn with(self, loaded: Loaded) -> Self {
        let Loaded {
            history,
            messages,
            heartbeats,
            tasks,
        } = loaded;
        Self {
            history,
            messages,
            heartbeats,
            tasks,
            ..self
        }
    }
}
