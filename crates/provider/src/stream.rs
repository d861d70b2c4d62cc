//! Streams: numbered entries of an instance, which are appended and never changed (P23).

use perdure_engine::{EventId, ExecutionId, StreamAppend};

use crate::{InstanceKey, PageLimit, Reporter, Status, WorkerId};

/// The name of a stream among all streams.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName {
    /// The user's name of the instance.
    pub instance: String,
    /// Name of the stream.
    pub stream: String,
}

/// Entries that an attempt of an activity appends.
#[derive(Clone, Debug)]
pub struct ActivityAppend {
    /// The instance.
    pub key: InstanceKey,
    /// Fence: the worker that runs the attempt.
    pub worker: WorkerId,
    /// Fence: the role in which the worker runs the attempt.
    pub by: Reporter,
    /// Fence: the execution of the instance.
    pub execution: ExecutionId,
    /// The activity's schedule.
    pub scheduled: EventId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// True if this is the first append to the stream by this run of the attempt. Entries of the activity that are
    /// there already are those of former runs.
    pub begins: bool,
    /// The entries. The stream is not closed.
    pub append: StreamAppend,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

impl ActivityAppend {
    /// Returns the attempt that appends.
    #[must_use]
    pub const fn writer(&self) -> ChunkWriter {
        ChunkWriter {
            execution: self.execution,
            scheduled: self.scheduled,
            attempt: self.attempt,
        }
    }
}

/// The state of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamState {
    /// The instance.
    pub key: InstanceKey,
    /// Status of the instance.
    pub status: Status,
    /// Index of the next entry; 0 if there was none yet.
    pub next: u64,
    /// True if the stream takes no entry any more.
    pub is_closed: bool,
}

/// A request for entries of a stream.
#[derive(Clone, Debug)]
pub struct StreamRequest {
    /// The stream.
    pub name: StreamName,
    /// Index of the first entry.
    pub from: u64,
    /// Most chunks, and most bytes of their entries.
    pub limit: PageLimit,
}

/// Entries of a stream, all at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPage {
    /// State of the stream.
    pub state: StreamState,
    /// The chunks that have the entry `from` or later ones, in order. Entries before `from` in the first chunk are not
    /// left out. A page that is not [full](PageLimit::is_reached) is the last one.
    pub chunks: Vec<StreamChunk>,
}

/// Entries that one commit appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamChunk {
    /// Index of the first entry.
    pub first: u64,
    /// Number of the entries, at least 1.
    pub count: u64,
    /// The attempt that wrote them. `None`: the code of the orchestration did.
    pub writer: Option<ChunkWriter>,
    /// Set if former runs of the writer's activity have written to the stream.
    pub reset: Option<StreamReset>,
    /// Time of the append, ms since 1970.
    pub time_ms: i64,
    /// The entries, as [`StreamAppend::entries`] has them.
    pub entries: String,
}

/// The entries that a later run of an activity replaces. Each chunk of that run has it, because the chunks before may
/// have been deleted when a reader comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamReset {
    /// Index of the first entry of the former runs, also if it has been deleted. Readers are to drop the entries of the
    /// activity from there on.
    pub from: u64,
    /// Index of the first entry of the later run.
    pub at: u64,
}

/// The attempt that wrote a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkWriter {
    /// The execution of the instance.
    pub execution: ExecutionId,
    /// The activity's schedule.
    pub scheduled: EventId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

/// A stream, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    /// Name of the stream.
    pub name: String,
    /// Index of the first entry that is left, or of the next one if there is none.
    pub first: u64,
    /// Index of the next entry.
    pub next: u64,
    /// True if the stream takes no entry any more.
    pub is_closed: bool,
}
