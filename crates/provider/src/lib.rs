//! The interface between Perdure and a store: `trait Provider` and its types. This crate knows no SQL.
//!
//! Every provider keeps these invariants. `perdure-provider-contract` checks them, and comments cite them as P1 to P29.
//!
//! - **P1** A batch of [`Write`]s is one transaction, or several. Each write in it is atomic by itself, and the
//!   outcomes come in the order of the writes.
//! - **P2** A [`TurnCommit`] is fenced by owner, epoch and next event id. A commit whose fence does not match changes
//!   nothing and is answered with [`Outcome::Fenced`]; the other writes of its batch commit. A [`Heartbeat`] is fenced
//!   by owner, epoch and execution.
//! - **P3** An instance's epoch rises at every acquisition (a claimed start counts as one) and never falls.
//! - **P4** At most one worker owns an instance, and only instances that are active, unowned and due are acquired. An
//!   acquisition is durable before anything of the instances is read: a worker that dies of what it reads has owned it
//!   (P14).
//! - **P5** The sequence numbers of an instance's messages rise in the order in which the messages become visible to
//!   readers. A message is gone once the turn that consumed it is committed.
//! - **P6** An ended instance never changes again. The messages that wait for it are dropped with the commit that ends
//!   it. A termination also drops its heartbeats.
//! - **P7** A release, a takeover, a termination and a suspension clear the owner, so that the former owner's commits
//!   are fenced off.
//! - **P8** The event ids of an execution are 1..n without gap. A history only ever grows, until it is pruned whole.
//!   The meaning of an event never changes, though the text of its value may be [replaced](Provider::replace_texts) by
//!   another text of the same value.
//! - **P9** Leases and due times are compared with the store's clock alone.
//! - **P10** An execution that continues as new ends, and the next one begins, in one commit. The messages that wait
//!   for the instance and its custom status stay. The history of the former execution can be read as before, until it
//!   is pruned.
//! - **P11** The starts, messages and cancellations of a turn are written with the turn, or neither is written. The end
//!   of a child, by any cause, is told to the execution that started the child, in the same commit. The end of an
//!   instance from outside cancels its children. A request to cancel ends a suspended instance in the commit that
//!   brings the request, because none of the instance's code can run.
//! - **P12** A task exists from the turn that offers it until the turn that withdraws it, the end of its attempt, or
//!   the termination of its instance. At most one worker runs it. When that worker is released or taken over, the task
//!   goes back to its queue. The end of an attempt is told to the execution once. Of those of one priority, the task
//!   that has waited the longest is taken first.
//! - **P13** Only ended instances are deleted. A deleted instance is gone for every reader with the commit that deletes
//!   it. Its children stay, and name a parent that no longer exists. The events of its executions are swept away
//!   afterwards, in steps of a limited size; a crash in between loses no record of the events that are left to sweep.
//! - **P14** The suspicion against an instance is kept with the instance ([`Suspicion`]). A worker that dies leaves a
//!   suspicion on each instance that it owned, more of it on each instance that was on [`Probation`], and evidence
//!   against an instance that was tried alone. A turn that holds up its worker's thread is evidence, too. An instance
//!   with too much suspicion is suspended in the commit that adds it, and nothing of the instance is read for that. An
//!   instance that is released in good order keeps its suspicion unchanged. A turn that appends events clears it, and
//!   so does a resume.
//! - **P15** A worker that loses an instance to a termination or a suspension is told so with its [`Inbox`]. It is told
//!   each time until it releases the instance or is gone, even if the instance has changed again meanwhile.
//! - **P16** A renewal tells which instances the worker owns in the store at that moment, so that the worker can
//!   compare this with its own record. Only an error that [blames a row](ProviderErrorKind::blames_row) is a verdict on
//!   a write; any other error says that the store cannot write now.
//! - **P17** An instance whose version is [open](OPEN_VERSION) is acquired by no worker before the version is settled,
//!   within an acquisition. The version becomes the newest one of its orchestration that any worker with a valid lease
//!   has. If the acquiring worker does not have that version, the instance stays due.
//! - **P18** A session of a queue is bound to at most one registered worker, and only this worker gets its tasks. The
//!   session is bound by a request for tasks of a worker that holds fewer sessions than its limit. It is unbound when
//!   its worker is released or taken over, in the same commit, which also opens the routes of the tasks that wait. It
//!   may be bound anew when it had no task, waiting or running, for its idle time. A task that waits for a slot of its
//!   queue (P27) does not count.
//! - **P19** The state of an instance has the values that its turns left, over all executions. A turn that changes
//!   values raises the version of the state by one, and each value that it sets has that version. The state stays until
//!   the instance is deleted or replaced.
//! - **P20** A turn that [wakes](TurnCommit::wakes) its instance acquires it in the same commit, due or not: the epoch
//!   rises by one, and what the turn does not release is its worker's. It is fenced off, and changes nothing, unless
//!   the instance is `Running`, has no owner and no message that the worker has not [seen](TurnCommit::seen), was
//!   acquired last in the epoch before, and the worker is registered.
//! - **P21** A [`StartWithMessage`] is a start, and then a message, in one commit. A start whose id is in use changes
//!   nothing. The outcome is that of the message, or [`NoQueue`](Outcome::NoQueue) if that leaves no receiver. The
//!   message may be an ask, and one that the receiver has already starts nothing, unless it [may be sent
//!   again](AskState::may_be_sent_again).
//! - **P22** An [`Ask`] is a message, and a row that lives until its receiver is deleted or replaced, or until
//!   [`ANSWERS_KEPT`] later asks of the receiver were answered. A second ask of its id changes nothing. The answer is
//!   written with the turn that gives it, once. An ask without an answer has ended when its receiver has. An ask may
//!   come with the turn that it [wakes](TurnCommit::asked) its receiver for, and is no message of the store then.
//! - **P23** The entries of a stream are numbered from 0 without gap, in the order of their commits, over all
//!   executions of the instance. An append is one chunk. That of a turn is written with the turn, and that of an
//!   activity is fenced as a heartbeat is, so that no former run of an attempt appends after a later one. A closed
//!   stream takes no entry. Chunks are deleted whole: by an append, those before the entries that it
//!   [keeps](perdure_engine::StreamKeep), and by [`prune_streams`](Provider::prune_streams), those whose time is over.
//!   The other entries keep their numbers. A chunk of a later run of an activity names the entries that the run
//!   [replaces](StreamReset), also if these were deleted. A stream lives until its instance is deleted or replaced. Its
//!   chunks are swept as events are (P13).
//! - **P24** An instance of a [queue](QueueEntry) is acquired first in the transaction that gives it a slot: under the
//!   lock of the queue, within its [limits](QueueSettings), and in the order of the line. The instance has its slot
//!   until it ends or is gone, over all its owners. Before, no message makes it due. A start without a key whose worker
//!   [claims](NewInstance::claim) it gets its slot in its own commit if nothing in the queue waits and the limits leave
//!   one. Otherwise it is in line, and its claim is left aside.
//! - **P25** An instance that no worker has acquired yet keeps its due time when a message comes, and over a
//!   suspension. If it is not due, a request to cancel ends it in the commit that brings the request.
//! - **P26** A [`KeyedStart`] reads the instance that its key has, decides by its [rule](StartRule::step), and gives
//!   the key its own instance if it starts one, in one commit. No two of them of one key run at once. The input of a
//!   [batch](StartRule::Batch) comes into the mailbox of one instance that no worker has acquired, before the instance
//!   is due, and it is one of at most as many as the rule allows. A start that is refused changes nothing. A key has
//!   its instance until that is deleted, or until another instance has the key.
//! - **P27** An attempt that is offered with a [key](TaskOffer::key) in a queue that is set is first taken in the
//!   transaction that gives it a slot: under the lock of the queue, within its limits, and in the order of the line. It
//!   has the slot until it has ended or is withdrawn, over all workers that run it. Instances and attempts share the
//!   limits of a queue. If the queue is not set when the attempt is offered, no limits concern it.
//! - **P28** An attempt that is offered is late [a time](TaskOffer::start_within_ms) after it is due, and at its
//!   deadline. Any request for tasks takes late attempts that no worker has, whatever their queue, name, session and
//!   place in line. A late attempt leaves its session, and its place unless that is a slot. An attempt that goes back
//!   to its queue waits anew, unless it was taken late.
//! - **P29** A request for work may [leave](Acquire::left_ms) an instance that is due to another worker for a time.
//!   That is the worker whose turn released the instance last, if it is registered: it may have kept the generator. The
//!   answer says when that time is over.
//! - **P30** A queue that is paused gives no slot from the commit of the pause to that of its end. Entries keep their
//!   slots, and entries come into the line, leave it, and are late as in any queue. The limits that are set meanwhile
//!   change nothing about the pause.

mod admission;
mod ask;
mod change;
mod check;
mod clock;
mod control;
mod cross_instance;
mod end;
mod error;
mod execution;
mod footprint;
mod heartbeat;
mod housekeeping;
mod inspection;
mod instance;
mod integrity;
mod listing;
mod logs;
mod message;
mod names;
mod open_work;
mod outcome;
mod overdue;
mod page;
mod provider;
mod queue;
mod rate;
mod sql;
mod start_key;
mod start_options;
mod state;
mod stream;
mod suspicion;
mod takeover;
mod task;
mod texts;
mod turn;
mod version;
mod worker;
mod wrapper;
mod write;

pub use admission::{
    ADMISSION_KEYS_MAX, ADMISSION_ROUND, ADMISSION_ROUNDS_MAX, KeyState, KeyWait, Pass, QueueState, SlotCount, Step,
};
pub use ask::{ANSWERS_KEPT, Ask, AskName, AskState};
pub use change::{Change, Receiving};
pub use check::BadWrite;
pub use clock::{Clock, ManualClock, SystemClock};
pub use control::{ReleaseInstance, Suspend, Terminate};
pub use cross_instance::{CrossInstanceEffects, CrossInstanceMessage, CrossInstanceStart};
pub use end::{Affected, settlement};
pub use error::{CommitOutcome, ProviderError, ProviderErrorKind};
pub use execution::{ExecutionSummary, ExecutionsRequest};
pub use footprint::{FOOTPRINT_MAILBOXES_MAX, Footprint};
pub use heartbeat::{Heartbeat, Reporter};
pub use housekeeping::{
    PruneExecutions, PruneRequest, Pruned, PrunedExecutions, QueueDepth, STATS_QUEUES_MAX, StoreStats,
};
pub use inspection::Inspection;
pub use instance::{
    Acquire, Acquired, AcquiredInstance, Due, DueInstance, DueRequest, Inbox, InboxPosition, InstanceStatus, Load,
    LoadOne, Loaded, MessagePage, Mismatched, ResumeMismatched, Revoked, Status,
};
pub use integrity::{
    AttemptFacts, CHECK_EVENTS_MAX, CHECK_FINDINGS_MAX, CHECK_INSTANCES_MAX, CheckRequest, Checked, EventFacts,
    Examination, Finding, InstanceFacts, Rule,
};
pub use listing::{
    Candidate, Filter, IndexedSet, LIST_BYTES_MAX, ListPage, ListRequest, PREFIX_IDS_MAX, Place, UNSUCCESSFUL,
    after_prefix,
};
pub use logs::{Level, LogLine, LogPage, LogPlace, LogRequest, TurnLogs};
pub use message::{NewMessage, StoredMessage, mailbox_of, stored_mailbox};
pub use names::{Epoch, InstanceKey, TaskName, WorkerId};
pub use open_work::{LastHeartbeat, OPEN_WORK_ROWS_MAX, OpenTask, OpenWork, QueuedPlace};
pub use outcome::{CrossInstanceOutcome, Outcome, Receivers};
pub use overdue::{
    OVERDUE_COUNT_MAX, OVERDUE_MS, OVERDUE_SORTS_MAX, OVERDUE_WALK_MAX, OverdueAttempts, OverdueInstances,
    OverdueRequest, OverdueWork,
};
pub use page::PageLimit;
pub use provider::{AnswerListener, ChangeListener, CommitDone, Provider, ProviderInfo};
pub use queue::{
    ATTEMPT_ENTRIES_FROM, ATTEMPT_VERSION, EntryKey, QUEUES_MAX, QueueDeletion, QueueEntry, QueueInfo, QueuePlace,
    QueueSettings, Waiting,
};
pub use rate::{Admissions, Rate};
pub use sql::SqlBuilder;
pub use start_key::{KeyHolder, KeyedStart, KeyedStep, StartRule};
pub use start_options::{OnConflict, StartTime};
pub use state::{StateRequest, StateValue, StoredState};
pub use stream::{
    ActivityAppend, ChunkWriter, StreamChunk, StreamInfo, StreamName, StreamPage, StreamRequest, StreamReset,
    StreamState,
};
pub use suspicion::{PoisonPill, Probation, ProbationStep, REST_MS, ReleaseMost, ReleasedMost, Suspicion, TakenOver};
pub use takeover::{TAKEOVERS_KEPT, Takeover};
pub use task::{
    AcquiredTasks, LATE_TASKS_MAX, Queues, ROUTE_ANY, ROUTE_LINE, ROUTE_OPEN, ROUTED_SESSIONS_MAX, ROUTED_TASKS_MAX,
    SessionLimits, Task, TaskDone, TaskOffer, TaskRequest, start_by_ms,
};
pub use texts::{StoredText, TextChange, TextField, TextPage, TextRequest, TextRow, TextTable};
pub use turn::{AfterTurn, NewInstance, NextExecution, StatusChange, TurnCommit};
pub use version::{Newest, OPEN_VERSION, Settled, compare_versions};
pub use worker::{NewWorker, OwnedDigest, ReleaseTask, Renewal, Worker, WorkerLoad};
pub use wrapper::{InnerCall, ProviderWrapper};
pub use write::{StartWithMessage, Write};
