//! Options and named limits of a runtime.

use std::time::Duration;

use perdure_engine::{Budget, DEFAULT_QUEUE, Limits};
use perdure_provider::PageLimit;

/// Options of a runtime.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Threads that run user code besides the one that made the runtime.
    pub threads: usize,
    /// Activities that run at once.
    pub activity_concurrency: usize,
    /// Instances whose generator is kept alive while they wait.
    pub cached_instances_max: usize,
    /// How long this worker may be silent before others take its instances over.
    pub lease: Duration,
    /// How long a turn may hold the lane's thread before what waits behind it is others'.
    pub turn_deadline: Duration,
    /// A turn that takes longer ends where the code waits next, and another one follows when the lane has done other things.
    pub turn_slice: Duration,
    /// An instance whose timer is due sooner than this stays where it is; one that sleeps longer is released.
    pub hold_timer: Duration,
    /// The user's name for the worker.
    pub worker_name: String,
    /// Version of what runs its code, as it tells others.
    pub node_version: String,
    /// Queues whose activities it runs.
    pub queues: Vec<String>,
    /// How many messages may wait for an instance when one of this worker's sends to it.
    pub mailbox_messages: u64,
    /// Budget of a turn.
    pub budget: Budget,
    /// How large an execution may grow.
    pub limits: Limits,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            threads: 0,
            activity_concurrency: 100,
            cached_instances_max: 10_000,
            lease: Duration::from_secs(15),
            turn_deadline: TURN_DEADLINE,
            turn_slice: TURN_SLICE,
            hold_timer: HOLD_TIMER,
            worker_name: String::new(),
            node_version: String::new(),
            queues: vec![DEFAULT_QUEUE.to_owned()],
            mailbox_messages: 1_000_000,
            budget: Budget::default(),
            limits: Limits::default(),
        }
    }
}

impl RuntimeOptions {
    /// At least 1: within one millisecond no time passes.
    pub(crate) fn turn_slice_ms(&self) -> i64 {
        i64::try_from(self.turn_slice.as_millis()).unwrap_or(i64::MAX).max(1)
    }
}

const MIB: usize = 1024 * 1024;

/// How soon the timer of an instance is due that stays where it is, unless the options say otherwise.
const HOLD_TIMER: Duration = Duration::from_secs(1);
/// How long a turn may hold the lane's thread, unless the options say otherwise.
const TURN_DEADLINE: Duration = Duration::from_secs(5);
/// How long a turn goes on where there is more to hand over, unless the options say otherwise.
const TURN_SLICE: Duration = Duration::from_millis(10);
/// Looks at a lane's thread that a turn deadline is divided into.
pub(crate) const LOOKS: u32 = 5;
/// Suspects that are tried together.
pub(crate) const TRIED_MAX: usize = 16;
/// How long a suspect's activities run before it is taken that they do not take their worker down, ms.
pub(crate) const PROBATION_MS: i64 = 500;
/// Instances that a worker owns at once; the rest waits in the store.
pub(crate) const OWNED_INSTANCES_MAX: usize = 20_000;
/// Instances taken with one request for work.
pub(crate) const ACQUIRE_BATCH: usize = 64;
/// Suspended instances that are resumed with one write when other code is registered.
pub(crate) const RESUME_BATCH: usize = 500;
/// Owned instances of a worker that are listed with one read, when they are compared with those that it knows.
pub(crate) const OWNED_PAGE: usize = 5_000;
/// Instances and tasks that a line of the log names when a worker releases what it does not know.
pub(crate) const ORPHANS_NAMED: usize = 10;
/// How often a suspension is written that the store refuses for good; then the instance is released.
pub(crate) const SUSPENSION_TRIES: u32 = 3;
/// History read at once for an instance, or for a client.
pub(crate) const HISTORY_PAGE: PageLimit = PageLimit {
    rows: 2_000,
    bytes: 4 * MIB,
};
/// Bytes of histories that were read and not replayed yet, of all instances of a worker: as many are acquired at once as fit.
pub(crate) const LOAD_BYTES_MAX: usize = 32 * MIB;
/// Instances that one read of a list looks at: some 20 ms of a thread that others read with, too.
pub(crate) const LIST_WALK: usize = 10_000;
/// Rows whose texts are encoded anew with one read and one write, at most; their instances are locked meanwhile.
pub(crate) const TEXTS_WALK: usize = 500;
/// Bytes of these texts; one always passes.
pub(crate) const TEXTS_BYTES: usize = 1 << 20;
/// Instances that are deleted with one write when many are.
pub(crate) const PRUNE_BATCH: usize = 200;
/// Ended instances that one such write looks at.
pub(crate) const PRUNE_WALK: usize = 2_000;
/// Events of deleted instances that are taken away with one write.
pub(crate) const SWEEP_EVENTS: usize = 2_000;
/// Messages of its mailboxes that an instance holds; the others wait in the store.
pub(crate) const MESSAGES_HELD_MAX: usize = 1_024;
/// Bytes of the values in messages that an instance holds; the others wait in the store.
pub(crate) const MESSAGE_BYTES_HELD_MAX: usize = 4 * MIB;
/// Messages of its mailboxes that are read at once for an instance.
pub(crate) const MESSAGE_PAGE: PageLimit = PageLimit { rows: 256, bytes: MIB };
/// Mailboxes that the store is searched for at once: an instance that waits for more looks first at what has waited for it longest.
pub(crate) const SEARCHED_MAX: usize = 64;
/// Messages read at once for all instances of a worker.
pub(crate) const INBOX_PAGE: PageLimit = PageLimit {
    rows: 1_000,
    bytes: 4 * MIB,
};
/// Bytes of what attempts are given that are taken at once for other workers' instances.
pub(crate) const TASK_BYTES_MAX: usize = 8 * MIB;
/// A batch that has failed so often is tried write by write, because one of them may be why.
pub(crate) const BATCH_TRIES_MAX: u32 = 3;
/// Instances remembered because messages came for them before they did; with more, every instance that comes is looked after.
pub(crate) const EARLY_MAX: usize = 10_000;
/// How long a generator is kept alive that is not used, ms.
pub(crate) const CACHE_IDLE_MS: i64 = 10_000;
/// Events of an execution up to which that holds: a longer one takes long to replay, and stays while the cache has room.
pub(crate) const CACHE_IDLE_EVENTS: u64 = 200;
/// Generators that are set aside at once because they were not used.
pub(crate) const SET_ASIDE_MAX: usize = 500;
/// Generators that a turn may set aside when there are more than the cache may hold.
pub(crate) const TRIM_MAX: usize = 16;
/// How long a shutdown waits for the store to release what is left, after it has waited for what runs.
pub(crate) const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);
/// Statuses read at once for those who wait for them.
pub(crate) const STATUS_PAGE: usize = 500;
/// An activity that would have a slot here within this is not offered to other workers, because that way takes longer: two commits, and a notification
/// each way.
pub(crate) const SLOT_SOON: Duration = Duration::from_millis(20);
/// From one write of an activity's heartbeats to its next, ms: in between the latest details are kept in memory.
pub(crate) const HEARTBEAT_INTERVAL_MS: i64 = 1_000;
/// How often a worker looks for due work and dead workers although nothing told it to.
pub(crate) const SAFETY_POLL: Duration = Duration::from_secs(1);
/// How soon the workers of the store are looked at again: no sooner than the first, no later than the second.
pub(crate) const WORKERS_LOOK: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Lanes that a worker tells of with its heartbeats: the first ones of them. With [`HOST_NAME_MAX`], what limits that text to some KB.
pub(crate) const ABOUT_LANES_MAX: usize = 64;
/// Longest name of a machine that a worker tells, characters.
pub(crate) const HOST_NAME_MAX: usize = 255;
/// A batch takes no more writes once their payloads have so many bytes.
pub(crate) const BATCH_BYTES_MAX: usize = 8 * MIB;
/// Delay before a failed write or read is tried again: doubles from the first to the second.
pub(crate) const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));
/// How long an instance is read again and again that this process has not the memory for; then it is suspended.
pub(crate) const NO_MEMORY_PATIENCE: Duration = Duration::from_secs(5);
/// How long instances that were acquired together are read together while that fails; then each is read by itself, and the one to blame is alone.
pub(crate) const TOGETHER_PATIENCE: Duration = Duration::from_secs(5);
/// How long a client's request waits for a store that is busy or gone, before the caller is told.
pub(crate) const CLIENT_PATIENCE: Duration = Duration::from_secs(5);
/// How often those that wait are looked at for it.
pub(crate) const CLIENT_LOOK: Duration = Duration::from_millis(250);
