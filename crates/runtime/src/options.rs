//! Options and named limits of a runtime.

use std::ops::RangeInclusive;
use std::time::Duration;

use perdure_engine::{Budget, DEFAULT_QUEUE, Limits};
use perdure_provider::{Level, PageLimit, Queues, SessionLimits};

/// Options of a runtime.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Number of threads that run user code besides the thread that made the runtime.
    pub threads: usize,
    /// Highest number of activities that run at once.
    pub activity_concurrency: usize,
    /// Highest number of instances that this worker works on at once, at least 1. The others wait in the store. An
    /// instance that waits for messages, children, later timers or remote activities does not count.
    pub orchestration_concurrency: usize,
    /// Highest number of waiting instances whose generators are kept alive.
    pub cached_instances_max: usize,
    /// Time that this worker may be silent before other workers take its instances over.
    pub lease: Duration,
    /// Time that a turn may hold the lane's thread. After that, other workers may take the work that waits behind the
    /// turn.
    pub turn_deadline: Duration,
    /// A turn that takes longer than this ends at the next wait of the code. The instance gets another turn when the
    /// lane has done other things.
    pub turn_slice: Duration,
    /// An instance whose timer is due sooner than this stays loaded. An instance that sleeps longer is released.
    pub hold_timer: Duration,
    /// The user's name for the worker.
    pub worker_name: String,
    /// Version of the program that runs the worker's code, as the worker reports it to others.
    pub node_version: String,
    /// Queues whose activities this worker runs.
    pub queues: Queues,
    /// Highest number of activity sessions that this worker holds at once.
    pub sessions_max: usize,
    /// Time without an activity of a session, waiting or running, after which the session leaves this worker.
    pub session_idle: Duration,
    /// Highest number of messages that may wait for an instance when an instance of this worker sends to it.
    pub mailbox_messages: u64,
    /// Budget of a turn.
    pub budget: Budget,
    /// Highest size of an execution.
    pub limits: Limits,
    /// The lines of orchestrations that are kept in the store; `None`: none.
    pub keep_logs: Option<KeepLogs>,
}

/// The lines of orchestrations that are kept in the store.
#[derive(Clone, Debug)]
pub struct KeepLogs {
    /// The least severe level that is kept.
    pub level: Level,
    /// Most lines of one instance, at least 1. The last lines are kept.
    pub lines_max: usize,
    /// Time for which lines are kept.
    pub age: Duration,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            threads: 0,
            activity_concurrency: 100,
            orchestration_concurrency: ORCHESTRATION_CONCURRENCY,
            cached_instances_max: 10_000,
            lease: Duration::from_secs(15),
            turn_deadline: TURN_DEADLINE,
            turn_slice: TURN_SLICE,
            hold_timer: HOLD_TIMER,
            worker_name: String::new(),
            node_version: String::new(),
            queues: Queues::Named(vec![DEFAULT_QUEUE.to_owned()]),
            sessions_max: SESSIONS_MAX,
            session_idle: SESSION_IDLE,
            mailbox_messages: 1_000_000,
            budget: Budget::default(),
            limits: Limits::default(),
            keep_logs: None,
        }
    }
}

impl RuntimeOptions {
    /// Returns the turn slice in ms. The result is at least 1, because no time passes within one millisecond.
    pub(crate) fn turn_slice_ms(&self) -> i64 {
        i64::try_from(self.turn_slice.as_millis()).unwrap_or(i64::MAX).max(1)
    }

    /// Returns the limits of the activity sessions that the worker holds. The idle time is at most a century, so that
    /// the store can add it to a time.
    pub(crate) fn session_limits(&self) -> SessionLimits {
        let idle_ms = i64::try_from(self.session_idle.as_millis()).unwrap_or(i64::MAX);
        SessionLimits {
            max: self.sessions_max,
            idle_ms: idle_ms.min(SESSION_IDLE_MAX_MS),
        }
    }
}

/// Default of [`RuntimeOptions::sessions_max`].
const SESSIONS_MAX: usize = 100;
/// Default of [`RuntimeOptions::session_idle`].
const SESSION_IDLE: Duration = Duration::from_secs(300);
/// Longest idle time of a session, ms.
const SESSION_IDLE_MAX_MS: i64 = 100 * 366 * 24 * 3_600_000;

const MIB: usize = 1024 * 1024;

/// Default of [`RuntimeOptions::orchestration_concurrency`].
const ORCHESTRATION_CONCURRENCY: usize = 20_000;
/// Default of [`RuntimeOptions::hold_timer`].
const HOLD_TIMER: Duration = Duration::from_secs(1);
/// Default of [`RuntimeOptions::turn_deadline`].
const TURN_DEADLINE: Duration = Duration::from_secs(5);
/// Default of [`RuntimeOptions::turn_slice`].
const TURN_SLICE: Duration = Duration::from_millis(10);
/// Number of looks at a lane's thread that a turn deadline is divided into.
pub(crate) const LOOKS: u32 = 5;
/// Highest number of suspects that are on probation together.
pub(crate) const PROBATIONS_MAX: usize = 16;
/// Time that a suspect's activities run before they count as harmless to their worker, ms.
pub(crate) const PROBATION_MS: i64 = 500;
/// Number of instances taken with one request for work.
pub(crate) const ACQUIRE_BATCH: usize = 64;
/// Number of suspended instances that are resumed with one write when other code is registered.
pub const RESUME_BATCH: usize = 500;
/// Number of a worker's owned instances that one read lists, when they are compared with those that the worker knows.
pub(crate) const OWNED_PAGE: usize = 5_000;
/// Number of instances and tasks that one line of the log names when a worker releases those that it does not know.
pub(crate) const ORPHANS_NAMED: usize = 10;
/// Longest wait for a timer alone through which the generator of a sleeping instance is kept, ms. Before a later one is
/// due, other generators have mostly taken its place.
pub(crate) const TIMER_KEPT_MS: i64 = 60_000;
/// Time for which an instance that is due is left to the worker whose turn released it (P29), ms. That worker may be
/// full, held up, or dead and not taken over yet.
pub(crate) const LEFT_MS: u64 = 100;
/// Highest number of instances that are due and are woken together, before others are acquired.
pub(crate) const DUE_BATCH: usize = 32;
/// Limit of the messages of each of these. An instance with more is acquired first.
pub(crate) const DUE_MESSAGES: PageLimit = PageLimit {
    rows: 32,
    bytes: 64 * 1024,
};
/// Longest wait for the turns of these. An instance whose turn takes longer is acquired meanwhile: so no other worker
/// runs the same turn after [`LEFT_MS`], and a turn that never ends is evidence against its instance.
pub(crate) const WAKES_PATIENCE: Duration = Duration::from_millis(20);
/// Number of times that a suspension is written although the store refuses it for good. Then the instance is released.
pub(crate) const SUSPENSION_TRIES: u32 = 3;
/// Limit of one read of a history, for an instance or for a client.
pub const HISTORY_PAGE: PageLimit = PageLimit {
    rows: 2_000,
    bytes: 4 * MIB,
};
/// Number of ends that are counted apart, by name, result and class of error. All others are counted together.
pub(crate) const METRIC_SERIES_MAX: usize = 1_000;
/// Longest class of an error in a count, in characters.
pub(crate) const METRIC_LABEL_MAX: usize = 100;
/// Limit of one read of the executions of an instance. Its rows are executions.
pub(crate) const EXECUTIONS_PAGE: PageLimit = PageLimit {
    rows: 500,
    bytes: 4 * MIB,
};
/// Bytes of histories that were read and not replayed yet, of all instances of a worker. An acquisition takes as many
/// instances as fit.
pub const LOAD_BYTES_MAX: usize = 32 * MIB;
/// Number of instances that one read of a list looks at. This takes some 20 ms of a thread that others read with, too.
pub(crate) const LIST_WALK: usize = 10_000;
/// Highest number of rows whose texts are encoded anew with one read and one write. Their instances are locked
/// meanwhile.
pub(crate) const TEXTS_WALK: usize = 500;
/// Highest number of bytes of these texts. One text always passes.
pub(crate) const TEXTS_BYTES: usize = 1 << 20;
/// Number of instances that one write of a prune deletes.
pub const PRUNE_BATCH: usize = 200;
/// Number of ended instances that one such write looks at.
pub(crate) const PRUNE_WALK: usize = 2_000;
/// Number of events of deleted instances that one write removes.
pub(crate) const SWEEP_EVENTS: usize = 2_000;
/// Highest number of messages of its mailboxes that an instance holds. The others wait in the store.
pub const MESSAGES_HELD_MAX: usize = 1_024;
/// Highest number of bytes of the values in messages that an instance holds. The others wait in the store.
pub const MESSAGE_BYTES_HELD_MAX: usize = 4 * MIB;
/// Limit of one read of the messages of an instance's mailboxes.
pub const MESSAGE_PAGE: PageLimit = PageLimit { rows: 256, bytes: MIB };
/// Highest number of mailboxes that one search of the store covers. An instance that waits for more first looks at the
/// messages that have waited for it longest.
pub const SEARCHED_MAX: usize = 64;
/// Limit of one read of the messages of all instances of a worker.
pub(crate) const INBOX_PAGE: PageLimit = PageLimit {
    rows: 1_000,
    bytes: 4 * MIB,
};
/// Highest number of bytes of inputs and kept heartbeats of attempts that are taken at once for other workers'
/// instances.
pub(crate) const TASK_BYTES_MAX: usize = 8 * MIB;
/// A batch that has failed this many times is tried write by write, because one of its writes may be the cause.
pub(crate) const BATCH_TRIES_MAX: u32 = 3;
/// Highest number of instances that are remembered because messages came for them before they did. Beyond this, the
/// messages of every instance that comes are read again.
pub(crate) const EARLY_MAX: usize = 10_000;
/// Time that an unused generator is kept alive, ms, if more than [`CACHE_KEPT`] are.
pub(crate) const CACHE_IDLE_MS: i64 = 10_000;
/// Number of generators that stay however long they are unused, while the cache has room: those used last. So an
/// instance of a program with few instances goes on as quickly after a day as after a second.
pub const CACHE_KEPT: usize = 256;
/// Number of events of an execution up to which [`CACHE_IDLE_MS`] holds. A longer execution takes long to replay, and
/// stays while the cache has room.
pub const CACHE_IDLE_EVENTS: u64 = 200;
/// Number of unused generators that are evicted at once.
pub(crate) const EVICTED_MAX: usize = 500;
/// Number of generators that one turn may evict when the cache holds too many.
pub(crate) const TRIM_MAX: usize = 16;
/// Time that a shutdown waits for the store to release what is left, after it has waited for running work.
pub(crate) const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of statuses that one read gets for clients that wait.
pub(crate) const STATUS_PAGE: usize = 500;
/// The least and the highest number of starts of one queue that are on their way with a claim at once.
pub(crate) const CLAIMS: RangeInclusive<u32> = 8..=4_096;
/// Highest number of queues of which the claims are counted. Those of which none is on its way are forgotten then.
pub(crate) const CLAIMED_QUEUES_MAX: usize = 1_000;
/// An activity that would have a slot here within this time is not offered to other workers, because an offer takes
/// longer: two commits, and a notification each way.
pub const SLOT_SOON: Duration = Duration::from_millis(20);
/// Time from one write of an activity's heartbeats to the next, ms. The latest details are kept in memory in between.
pub const HEARTBEAT_INTERVAL_MS: i64 = 1_000;
/// Longest message of a line that is kept in the store, bytes. A longer message is cut.
pub(crate) const LOG_MESSAGE_BYTES: usize = 8 * 1024;
/// Longest fields of a line that is kept in the store, bytes of JSON. Longer fields are left out.
pub(crate) const LOG_FIELDS_BYTES: usize = 8 * 1024;
/// Highest number of lines of one turn that are kept in the store. One more line tells the number of the others.
pub(crate) const LOG_TURN_LINES: usize = 100;
/// Highest number of lines that a client reads at once.
pub(crate) const LOG_PAGE: usize = 1_000;
/// Most chunks of a stream that a client reads at once, and most bytes of their entries.
pub(crate) const STREAM_PAGE: PageLimit = PageLimit {
    rows: 1_000,
    bytes: 1024 * 1024,
};
/// Interval at which a worker deletes entries of streams whose time is over.
pub(crate) const STREAM_PRUNE_INTERVAL: Duration = Duration::from_secs(60);
/// Number of chunks of entries that one write deletes.
pub(crate) const STREAM_PRUNE_BATCH: usize = 1_000;
/// Interval at which a worker that keeps lines deletes old ones.
pub(crate) const LOG_PRUNE_INTERVAL: Duration = Duration::from_secs(600);
/// Number of old lines that one write deletes.
pub(crate) const LOG_PRUNE_BATCH: usize = 1_000;
/// Lines about failed attempts and instances that are logged at once; more are [spread](FAILURE_LINES_INTERVAL).
pub(crate) const FAILURE_LINES_BURST: f64 = 100.0;
/// Interval at which further lines about failures are logged. Failures in between are only counted.
pub(crate) const FAILURE_LINES_INTERVAL: Duration = Duration::from_millis(200);
/// Interval at which a worker looks for due work and dead workers without being told to.
pub(crate) const SAFETY_POLL: Duration = Duration::from_secs(1);
/// Time until the workers of the store are looked at again: at least the first value, at most the second.
pub(crate) const WORKERS_LOOK: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Highest number of lanes that a worker reports with its heartbeats. The first lanes are reported. Together with
/// [`HOST_NAME_MAX`], this limits the report to some KB.
pub(crate) const DESCRIBED_LANES_MAX: usize = 64;
/// Limit of the names that a worker reports as registered, bytes of JSON.
pub(crate) const DESCRIBED_NAMES_BYTES: usize = 32 * 1024;
/// Bytes of JSON that a reported name takes besides its text.
pub(crate) const DESCRIBED_NAME_EXTRA: usize = 32;
/// Longest name of a machine that a worker reports, in characters.
pub(crate) const HOST_NAME_MAX: usize = 255;
/// A batch takes no more writes once their payloads have this many bytes.
pub const BATCH_BYTES_MAX: usize = 8 * MIB;
/// Delay before a failed write or read is tried again. The delay doubles from the first value to the second.
pub(crate) const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));
/// Time that an instance is read again and again when this process does not have the memory for it. Then the instance
/// is suspended.
pub const NO_MEMORY_PATIENCE: Duration = Duration::from_secs(5);
/// Time that instances which were acquired together are read together while the reads fail. Then each instance is read
/// by itself, so that the one at fault is alone.
pub const TOGETHER_PATIENCE: Duration = Duration::from_secs(5);
/// Time that a client's request waits for a store that is busy or gone, before the caller is told.
pub const CLIENT_PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which waiting requests are checked against [`CLIENT_PATIENCE`].
pub(crate) const CLIENT_LOOK: Duration = Duration::from_millis(250);
