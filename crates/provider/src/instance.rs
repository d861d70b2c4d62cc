//! Instances as a store knows them.

use std::fmt;

use perdure_engine::{EventId, EventRecord, ExecutionId, Message, MessageSeq, Payload};

use crate::{PageLimit, Suspicion, WorkerId};

/// The store's own short name of an instance; never shown to users and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceKey(pub i64);

/// How often an instance was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Status of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Started; no turn was committed yet.
    Pending,
    /// At least one turn was committed.
    Running,
    /// The function returned.
    Completed,
    /// The function threw.
    Failed,
    /// A cancellation ended it.
    Cancelled,
    /// Ended from outside, at once.
    Terminated,
    /// Held until it is resumed.
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

    /// The text that stores keep and users see.
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

    /// The status of a text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }

    /// Whether the instance has ended for good.
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

/// What a client sees of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceStatus {
    /// The store's name of it.
    pub key: InstanceKey,
    /// The user's name of it.
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
    /// How many changes of the custom status were stored.
    pub custom_status_version: u64,
    /// When it was started, ms since 1970.
    pub created_at_ms: i64,
    /// When it last changed, ms since 1970.
    pub updated_at_ms: i64,
    /// When it ended, ms since 1970.
    pub completed_at_ms: Option<i64>,
    /// Id of the parent instance.
    pub parent_id: Option<String>,
    /// Higher is acquired first.
    pub priority: i32,
    /// Tags as a JSON object of strings made by the driver, if it has any.
    pub tags: Option<String>,
}

impl InstanceStatus {
    /// Bytes of the values in it: what bounds a page besides the number of its instances.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        let len = |payload: &Payload| payload.as_ref().map_or(0, String::len);
        len(&self.result) + len(&self.custom_status)
    }
}

/// A request for work.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// Who asks.
    pub worker: WorkerId,
    /// Names and versions of orchestrations that it can run; with [`OPEN_VERSION`](crate::OPEN_VERSION), instances whose version it may settle (P17).
    pub registered: Vec<(String, String)>,
    /// At most so many instances, and no more once what is to be [loaded](crate::Provider::load) of them has so many bytes.
    pub limit: PageLimit,
    /// The pages that are to be loaded.
    pub history_page: PageLimit,
}

/// The answer to a request for work.
#[derive(Clone, Debug, Default)]
pub struct Acquired {
    /// Now owned by the worker, longest due first.
    pub instances: Vec<AcquiredInstance>,
    /// When the next unowned instance that the worker can run is due, ms since 1970; in the past when the limit left some behind.
    pub next_wake_at_ms: Option<i64>,
    /// What the store's clock showed, ms since 1970.
    pub now_ms: i64,
}

/// A request to let instances of an orchestration go on that are suspended because other code than its code now did not fit their history.
#[derive(Clone, Debug)]
pub struct ResumeUnfit {
    /// Name of the orchestration.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Fingerprint of its code now: what this very code did not fit stays suspended.
    pub code: String,
    /// Only those that come after this one, which need not be there.
    pub after: Option<Unfit>,
    /// At most so many.
    pub limit: usize,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

/// An instance that is suspended because code did not fit its history. In order of code and key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unfit {
    /// Fingerprint of that code.
    pub code: String,
    /// The store's name of the instance.
    pub key: InstanceKey,
}

/// Messages that wait for an instance, or the oldest of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessagePage {
    /// In order. Messages that are no mail are among them wherever they stand among the others, as many of them as fit by themselves: requests to
    /// cancel before the rest.
    pub messages: Vec<Message>,
    /// When others wait besides these: the highest number of all that do.
    pub more_up_to: Option<MessageSeq>,
    /// Some of the others are no mail: the page is to be read again when these were consumed.
    pub more_settled: bool,
}

/// How far a worker has read what comes for its instances: the store's own form of it. By default nothing was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxPosition(pub String);

/// Messages that came for instances of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inbox {
    /// Those of one instance in order. A message that is not handed over has its number here: its row cannot be read, or an earlier message
    /// comes behind it. Its reader reads all that waits for the instance.
    pub messages: Vec<(InstanceKey, Result<Message, MessageSeq>)>,
    /// Where the next read goes on.
    pub position: InboxPosition,
    /// The limit left some behind.
    pub more: bool,
    /// Instances that were taken from the worker, in order of their keys (P15).
    pub revoked: Vec<Revoked>,
}

/// An instance that a termination or a suspension has taken from its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// The instance.
    pub key: InstanceKey,
    /// The epoch in which the worker had it: one in which it has acquired it since is another.
    pub epoch: Epoch,
}

/// An instance that now belongs to a worker.
#[derive(Clone, Debug)]
pub struct AcquiredInstance {
    /// The store's name of it.
    pub key: InstanceKey,
    /// The user's name of it.
    pub id: String,
    /// Name of its orchestration.
    pub name: String,
    /// Version of its orchestration.
    pub version: String,
    /// Id of the parent instance.
    pub parent_id: Option<String>,
    /// Current execution.
    pub execution: ExecutionId,
    /// Epoch of this acquisition.
    pub epoch: Epoch,
    /// Id that the next event of the execution gets.
    pub next_event_id: EventId,
    /// Whether no turn of the current execution was committed yet.
    pub fresh: bool,
    /// Bytes of the first page of its history, as long as the request said, and of the messages and heartbeats that are read with it.
    pub page_bytes: usize,
    /// First page of its history; empty: it is not [loaded](crate::Provider::load).
    pub history: Vec<EventRecord>,
    /// What waits for it, as much of it as was loaded.
    pub messages: MessagePage,
    /// The highest number that a message for it can have had until this moment: what comes and is not newer waits already, or was consumed.
    pub seen: MessageSeq,
    /// Kept details of heartbeats of the current execution's activities, by schedule, once it is loaded.
    pub heartbeats: Vec<(EventId, String)>,
    /// Schedules of the current execution's activities whose attempts are offered as tasks, once it is loaded.
    pub tasks: Vec<EventId>,
    /// What speaks against it (P14).
    pub suspicion: Suspicion,
}

/// A request for what is stored of instances.
#[derive(Clone, Debug)]
pub struct Load {
    /// Which. What is read of all of them is read together: whoever asks knows how much that is.
    pub instances: Vec<LoadOne>,
    /// How much history of each; the rest is read in pages.
    pub history_page: PageLimit,
    /// How many messages of each; the rest is read in pages. Of those that are no mail the rows are not limited.
    pub message_page: PageLimit,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOne {
    /// The instance.
    pub key: InstanceKey,
    /// Its execution.
    pub execution: ExecutionId,
    /// Id that the next event of the execution gets.
    pub next_event_id: EventId,
}

/// What is stored of an instance, all of it as of some moment after the request.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// First page of its history.
    pub history: Vec<EventRecord>,
    /// What waits for it, or the oldest of that.
    pub messages: MessagePage,
    /// Kept details of heartbeats of the execution's activities, by schedule.
    pub heartbeats: Vec<(EventId, String)>,
    /// Schedules of the execution's activities whose attempts are offered as tasks.
    pub tasks: Vec<EventId>,
}

impl AcquiredInstance {
    /// What is to be loaded of it.
    #[must_use]
    pub const fn to_load(&self) -> LoadOne {
        LoadOne {
            key: self.key,
            execution: self.execution,
            next_event_id: self.next_event_id,
        }
    }

    /// The instance with what was loaded of it.
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
