//! The state that a runtime shares with its sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use parking_lot::Mutex;
use perdure_provider::Newest;
use perdure_provider::{PoisonPill, Status, Suspicion};
use perdure_scheduler::{Class, LaneId, Lanes, Place};
use serde_json::{Map, Value};

use crate::client::store::Store;
use crate::lane::job::{EndedInstance, Host, Queued};
use crate::lane::pulse::Pulse;
use crate::log::{Level, LineLimit, LogRecord};
use crate::metrics::Counters;
use crate::options::RuntimeOptions;
use crate::platform::store_clock::StoreClock;
use crate::registry::Registry;
use crate::state::attempt::{ActivityToken, Attempt, Origin};
use crate::state::{Instance, Token};

/// The lane of the thread that made the runtime.
pub(crate) const MAIN: LaneId = LaneId(0);

/// The thread of a lane.
#[derive(Default)]
struct Thread {
    pulse: Pulse,
    /// Share of its time that the thread has worked recently, in percent.
    busy: AtomicU8,
    host: Mutex<Option<Arc<dyn Host>>>,
}

/// The instance that a line of the log is about.
pub(crate) struct LogSubject<'a> {
    instance_id: &'a str,
    execution: u64,
    orchestration: &'a str,
}

impl LogSubject<'_> {
    /// Returns the fields that every line about the instance carries.
    pub(crate) fn fields(&self) -> Map<String, Value> {
        Map::from_iter([
            ("instanceId".into(), self.instance_id.into()),
            ("executionId".into(), self.execution.into()),
            ("orchestrationName".into(), self.orchestration.into()),
        ])
    }
}

impl<'a> From<&'a Instance> for LogSubject<'a> {
    fn from(instance: &'a Instance) -> Self {
        Self {
            instance_id: &instance.id,
            execution: instance.execution.0,
            orchestration: &instance.name,
        }
    }
}

impl<'a> From<&'a Origin> for LogSubject<'a> {
    fn from(origin: &'a Origin) -> Self {
        Self {
            instance_id: origin.instance_id(),
            execution: origin.execution().0,
            orchestration: origin.orchestration(),
        }
    }
}

impl<'a> From<&'a PoisonPill> for LogSubject<'a> {
    fn from(poison_pill: &'a PoisonPill) -> Self {
        Self {
            instance_id: &poison_pill.id,
            execution: poison_pill.execution,
            orchestration: &poison_pill.name,
        }
    }
}

pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    pub(crate) options: RuntimeOptions,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) lanes: Arc<Lanes<Queued>>,
    /// The threads, by lane.
    threads: Box<[Thread]>,
    pub(crate) registry: Mutex<Registry>,
    /// The newest versions, as the store knows them.
    pub(crate) announced_versions: Mutex<Newest>,
    pub(crate) metrics: Counters,
    pub(crate) failure_lines: Mutex<LineLimit>,
    /// True if the host wants to be told of instances that end.
    pub(crate) reports_ends: AtomicBool,
    /// Counters of the tokens. A process that lives for years does not use them up, and JavaScript holds them exactly
    /// up to 2^53.
    tokens: AtomicU64,
    activities: AtomicU64,
}

impl Shared {
    pub(crate) fn new(store: Arc<Store>, options: RuntimeOptions) -> Arc<Self> {
        let lanes = Arc::new(Lanes::new(1 + options.threads));
        Arc::new(Self {
            clock: Arc::clone(&store.clock),
            store,
            threads: (0..lanes.count()).map(|_| Thread::default()).collect(),
            lanes,
            options,
            registry: Mutex::default(),
            announced_versions: Mutex::default(),
            metrics: Counters::default(),
            failure_lines: Mutex::new(LineLimit::new()),
            reports_ends: AtomicBool::new(false),
            tokens: AtomicU64::new(1),
            activities: AtomicU64::new(1),
        })
    }

    pub(crate) fn pulse(&self, lane: LaneId) -> &Pulse {
        &self.threads[lane.0].pulse
    }

    /// Returns all lanes, the first one first.
    pub(crate) fn all_lanes(&self) -> impl Iterator<Item = LaneId> + use<> {
        (0..self.lanes.count()).map(LaneId)
    }

    /// Notes the share of its time that each lane's thread has worked recently, 0 to 1. Lanes without a share get 0.
    pub(crate) fn note_busy(&self, shares: &[f64]) {
        let shares = shares.iter().copied().chain(std::iter::repeat(0.0));
        for (thread, share) in self.threads.iter().zip(shares) {
            thread.busy.store((share * 100.0).round() as u8, Ordering::Relaxed);
        }
    }

    /// Returns the share of each lane that was [noted](Self::note_busy) last, to a hundredth.
    pub(crate) fn busy_shares(&self) -> impl Iterator<Item = f64> + '_ {
        let shares = self.threads.iter().map(|thread| thread.busy.load(Ordering::Relaxed));
        shares.map(|percent| f64::from(percent) / 100.0)
    }

    /// Makes a host the host of a lane's thread from now on.
    pub(crate) fn attach(self: &Arc<Self>, lane: LaneId, host: Arc<dyn Host>) {
        *self.threads[lane.0].host.lock() = Some(Arc::clone(&host));
        let weak = Arc::downgrade(self);
        let wake = move || {
            host.wake();
            if let Some(shared) = weak.upgrade() {
                shared.pulse(lane).note_unparked();
            }
        };
        self.lanes.attach(lane, Box::new(wake));
    }

    /// Stops waking the host of a lane, and drops it.
    pub(crate) fn drop_host(&self, lane: LaneId) {
        self.lanes.silence(lane);
        *self.threads[lane.0].host.lock() = None;
    }

    /// Hands a job to a lane that may run it. May be called from any thread.
    pub(crate) fn push(&self, class: Class, job: Queued) {
        self.lanes.push(self.place(&job), class, job);
    }

    /// Hands over a job from the thread of a lane. Returns `true` if that lane was parked and has work now: the caller
    /// must see to it that the lane is drained.
    pub(crate) fn push_from(&self, lane: LaneId, class: Class, job: Queued) -> bool {
        self.lanes.push_from(lane, self.place(&job), class, job)
    }

    fn place(&self, job: &Queued) -> Place {
        match job {
            Queued::Turn(instance) => self.place_of_turn(instance),
            Queued::Activity(_, place) => *place,
            Queued::Abort(_, _, lane) | Queued::Drop(_, lane) => Place::At(*lane),
            // The logger and the listeners belong to the first lane.
            Queued::Log(_) | Queued::Ended(_) => Place::At(MAIN),
        }
    }

    /// Returns the place of an instance's turn. A generator stays with its thread. A generator that is still to be made
    /// may be on any thread that has its code.
    pub(crate) fn place_of_turn(&self, instance: &Instance) -> Place {
        match instance.lane() {
            Some(lane) => Place::At(lane),
            None if self.lanes.count() == 1 => Place::Any,
            None if self.registry.lock().all_have(&instance.name, &instance.version) => Place::Any,
            None => Place::At(MAIN),
        }
    }

    pub(crate) fn place_of_attempt(&self, attempt: &Attempt) -> Place {
        match &attempt.origin {
            // The function of an inline activity is a closure of the generator.
            Origin::Instance(instance) if attempt.task.options.inline => {
                instance.lane().map_or(Place::At(MAIN), Place::At)
            }
            _ if self.lanes.count() == 1 || self.registry.lock().all_have_activity(&attempt.task.name) => Place::Any,
            _ => Place::At(MAIN),
        }
    }

    /// Reports a message to a lane's host while the thread of the lane cannot.
    pub(crate) fn notify_host(&self, lane: LaneId, message: &str) {
        let host = self.threads[lane.0].host.lock().clone();
        if let Some(host) = host {
            host.held_up(message);
        }
    }

    pub(crate) fn next_token(&self) -> Token {
        Token(self.tokens.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn next_activity(&self) -> ActivityToken {
        ActivityToken(self.activities.fetch_add(1, Ordering::Relaxed))
    }

    /// Sets the counters as if as many instances had been loaded, and attempts taken in, as 32 bits can number.
    pub(crate) fn has_worked_for_years(&self) {
        for count in [&self.tokens, &self.activities] {
            count.store(u64::from(u32::MAX), Ordering::Relaxed);
        }
    }

    /// Reports that an instance has ended or was suspended, which is durable. `error` is that of a failed one.
    pub(crate) fn ended(&self, instance: &Instance, status: Status, error: Option<&str>) {
        self.metrics.ended(&instance.name, status, error);
        if self.reports_ends.load(Ordering::Relaxed) {
            let ended = EndedInstance {
                instance_id: instance.id.clone(),
                execution: instance.execution.0,
                name: instance.name.clone(),
                version: instance.version.clone(),
                status,
            };
            self.push(Class::First, Queued::Ended(ended));
        }
    }

    /// Reports that an instance was suspended because of the evidence against it, which is durable.
    pub(crate) fn poison_pill_suspended(&self, poison_pill: PoisonPill) {
        let message = format!(
            "instance '{}' is suspended: {} workers died or were blocked while it was running",
            poison_pill.id,
            Suspicion::EVIDENCE_MAX
        );
        self.log_for(&poison_pill, Level::Error, message);
        self.metrics.ended(&poison_pill.name, Status::Suspended, None);
        self.store.mark_changed(&poison_pill.id);
        if self.reports_ends.load(Ordering::Relaxed) {
            let ended = EndedInstance {
                instance_id: poison_pill.id,
                execution: poison_pill.execution,
                name: poison_pill.name,
                version: poison_pill.version,
                status: Status::Suspended,
            };
            self.push(Class::First, Queued::Ended(ended));
        }
    }

    pub(crate) fn log(&self, level: Level, message: String) {
        self.log_with(level, message, None);
    }

    /// Logs a line about an instance, with the fields that the lines of its own code carry.
    pub(crate) fn log_for<'a>(&self, subject: impl Into<LogSubject<'a>>, level: Level, message: String) {
        let fields = Value::Object(subject.into().fields());
        self.log_with(level, message, Some(fields.to_string()));
    }

    fn log_with(&self, level: Level, message: String, fields: Option<String>) {
        self.push(
            Class::First,
            Queued::Log(LogRecord {
                level,
                message,
                fields,
                internal: true,
                error: None,
            }),
        );
    }
}
