//! A runtime: its registered code, its lanes, and its session while it is started.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use perdure_provider::InstanceKey;
use perdure_scheduler::LaneId;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::client::store::Store;
use crate::error::RuntimeError;
use crate::lane::job::Host;
use crate::log::Level;
use crate::metrics::Metrics;
use crate::options::{RELEASE_TIMEOUT, RETRY_DELAYS, RuntimeOptions};
use crate::poison::thread_loss;
use crate::registry::Registered;
use crate::session::{self, Session};
use crate::shared::{MAIN, Shared};
use crate::state::attempt::AbortReason;
use crate::turn::in_progress::Turns;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Stopped,
    Starting,
    /// Number of this start, by which the remains of an earlier start can tell that they are over.
    Started(u64),
    Stopping,
}

/// Sizes of the maps that are keyed by instance or attempt. All sizes are 0 when nothing is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapSizes {
    /// Loaded instances.
    pub instances: usize,
    /// Turns in progress.
    pub turns: usize,
    /// Attempts of activities.
    pub activities: usize,
}

/// A runtime. Methods about a turn in progress are for the thread of the lane that was given the turn. Methods that
/// name a lane are for the thread of that lane, except (Self::detach), which says that this thread is gone.
pub struct Runtime {
    pub(crate) shared: Arc<Shared>,
    state: Arc<State>,
    pub(super) turns: Turns,
}

/// The phase of the runtime, and the session while it is started.
struct State {
    phase: Mutex<Phase>,
    starts: AtomicU64,
    session: RwLock<Option<Arc<Session>>>,
    /// The task that starts a new session when the last one has ended.
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl State {
    /// Makes this session the one that the lane's calls find. This happens before the session is set going: a job that
    /// came earlier would be taken for an old one.
    fn publish(&self, session: &Arc<Session>) {
        *self.session.write() = Some(Arc::clone(session));
    }
}

impl Runtime {
    /// Creates a runtime on a store. The runtime is not started.
    #[must_use]
    pub fn new(store: Arc<Store>, options: RuntimeOptions) -> Self {
        let state = State {
            phase: Mutex::new(Phase::Stopped),
            starts: AtomicU64::new(0),
            session: RwLock::default(),
            keeper: Mutex::default(),
        };
        Self {
            shared: Shared::new(store, options),
            state: Arc::new(state),
            turns: Turns::default(),
        }
    }

    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        self.state.session.read().clone()
    }

    /// Registers an orchestration that the host can run, before or after the start. `code` is a fingerprint of the
    /// code. An instance whose history did not fit its code is suspended, and goes on when code with another
    /// fingerprint is registered or started with.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Argument`] when this name and version is already registered.
    pub fn register(&self, name: String, version: String, code: String) -> Result<(), RuntimeError> {
        let new = Registered { name, version, code };
        let duplicate = format!("{new} is already registered");
        if !self.shared.registry.lock().add(new) {
            return Err(RuntimeError::Argument(duplicate));
        }
        if let Some(session) = self.session() {
            session.worker.due_at(0);
            session.worker.resume_wanted.notify_one();
            // The renewal reports the name.
            session.worker.renewal_wanted.notify_one();
        }
        Ok(())
    }

    /// Registers an activity that this host can run.
    pub fn register_activity(&self, name: String) {
        self.shared.registry.lock().add_activity(name);
        if let Some(session) = self.session() {
            session.activities.tasks_wanted.notify_one();
            session.worker.renewal_wanted.notify_one();
        }
    }

    /// Notes that every thread, not the first one alone, can run a registered orchestration.
    pub fn share(&self, name: String, version: String) {
        self.shared.registry.lock().share(name, version);
    }

    /// Notes that every thread can run a registered activity.
    pub fn share_activity(&self, name: String) {
        self.shared.registry.lock().share_activity(name);
    }

    /// Attaches the thread of a lane besides the first. The thread takes jobs from now on.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Argument`] when there is no such lane.
    pub fn attach(&self, lane: LaneId, host: Arc<dyn Host>) -> Result<(), RuntimeError> {
        if lane == MAIN || lane.0 >= self.shared.lanes.count() {
            return Err(RuntimeError::Argument(format!(
                "there is no lane {} to attach to",
                lane.0
            )));
        }
        self.shared.attach(lane, host);
        Ok(())
    }

    /// Gives up the thread of a lane. The thread is gone, perhaps in the middle of a job. Others do the work that the
    /// thread did not finish: its instances are replayed, and its activities get another attempt.
    pub fn detach(&self, lane: LaneId) {
        // The jobs in this lane belong to generators and attempts of this thread alone.
        drop(self.shared.lanes.detach(lane));
        self.turns.drop_all_at(lane);
        if let Some(session) = self.session() {
            thread_loss::give_up_lane(&session.instances, lane);
        }
        self.shared.pulse(lane).beat();
    }

    /// Registers a worker and begins to take work. Returns the worker's id.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] unless the runtime is stopped; the error of the store if the worker cannot be
    /// registered.
    pub async fn start(&self, host: Arc<dyn Host>) -> Result<String, RuntimeError> {
        self.change_phase(
            |phase| phase == Phase::Stopped,
            Phase::Starting,
            "the runtime is already started",
        )?;
        self.shared.attach(MAIN, host);
        self.shared.registry.lock().recheck_all();
        match session::register(&self.shared).await {
            Ok((worker, asked)) => {
                let session = Session::new(Arc::clone(&self.shared), worker, asked);
                session::other_workers(&session).await;
                let id = session.worker.id.to_string();
                let this_start = Phase::Started(self.state.starts.fetch_add(1, Ordering::Relaxed));
                self.state.publish(&session);
                *self.state.phase.lock() = this_start;
                session.start_tasks();
                let (shared, state) = (Arc::clone(&self.shared), Arc::clone(&self.state));
                let keeper = self
                    .shared
                    .store
                    .tokio
                    .spawn(start_over(shared, state, this_start, session));
                *self.state.keeper.lock() = Some(keeper);
                Ok(id)
            }
            Err(error) => {
                *self.state.phase.lock() = Phase::Stopped;
                Err(error)
            }
        }
    }

    /// Stops taking new work and starting activities. [`finish_shutdown`](Self::finish_shutdown) does the rest.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] unless the runtime is started.
    pub fn begin_shutdown(&self) -> Result<(), RuntimeError> {
        self.change_phase(
            |phase| matches!(phase, Phase::Started(_)),
            Phase::Stopping,
            "the runtime is not started",
        )?;
        if let Some(session) = self.session() {
            session.drain();
        }
        Ok(())
    }

    /// Finishes a shutdown after [`begin_shutdown`](Self::begin_shutdown). Lets running turns and activities finish
    /// until `timeout`, aborts the rest, and hands over what is left. Returns as soon as that is done. When the store
    /// does not answer, the worker's lease ends by itself.
    pub async fn finish_shutdown(&self, timeout: Duration) {
        if let Some(session) = self.session() {
            tokio::select! {
                biased;
                () = session.worker.draining.over(|| session.instances.is_drained()) => {}
                () = crate::platform::time::sleep(timeout) => {}
            }
            session.end(AbortReason::Shutdown);
            let released = session::release(&self.shared, &session.worker.id);
            tokio::select! {
                biased;
                () = released => {}
                () = crate::platform::time::sleep(RELEASE_TIMEOUT) => {}
            }
        }
        // The keeper may be registering another worker. It then releases that worker.
        let keeper = self.state.keeper.lock().take();
        if let Some(keeper) = keeper {
            tokio::select! {
                biased;
                _ = keeper => {}
                () = crate::platform::time::sleep(RELEASE_TIMEOUT) => {}
            }
        }
        *self.state.session.write() = None;
        // The host may keep the runtime alive, and the runtime would keep the host: each would keep the other for ever.
        self.shared.drop_host(MAIN);
        *self.state.phase.lock() = Phase::Stopped;
    }

    fn change_phase(
        &self,
        from: impl FnOnce(Phase) -> bool,
        to: Phase,
        otherwise: &'static str,
    ) -> Result<(), RuntimeError> {
        let mut phase = self.state.phase.lock();
        if !from(*phase) {
            return Err(RuntimeError::State(otherwise));
        }
        *phase = to;
        Ok(())
    }

    /// Returns counts of the work that the runtime has done and of the things that it holds.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let mut metrics = self.shared.metrics.read();
        let commits = self.shared.store.committer.stats();
        metrics.commit_batches = commits.batches;
        metrics.commit_writes = commits.writes;
        metrics.commit_retries = commits.retries;
        metrics.commit_latency = self.shared.store.committer.latency();
        metrics.queued_jobs = self.shared.lanes.len() as u64;
        metrics.lanes = self.shared.lanes.stats();
        metrics.turns_in_progress = self.turns.len() as u64;
        if let Some(session) = self.session() {
            let table = session.instances.table.lock();
            metrics.owned_instances = table.len() as u64;
            metrics.cached_instances = table.hot_len() as u64;
            drop(table);
            let activities = session.activities.attempts.lock();
            metrics.running_activities = activities.running() as u64;
            metrics.open_activities = activities.len() as u64;
        }
        metrics
    }

    /// Notes the share of its time that the thread of each lane has worked recently, 0 to 1. The worker reports the
    /// shares with its next heartbeat.
    pub fn note_busy(&self, shares: &[f64]) {
        self.shared.note_busy(shares);
    }

    /// Returns the sizes of the maps that are keyed by instance or attempt.
    #[must_use]
    pub fn map_sizes(&self) -> MapSizes {
        let session = self.session();
        MapSizes {
            instances: session.as_ref().map_or(0, |s| s.instances.table.lock().loaded()),
            turns: self.turns.len(),
            activities: session.as_ref().map_or(0, |s| s.activities.attempts.lock().len()),
        }
    }

    /// Returns true if the runtime's worker knows an instance as its own: the worker owns it, or is releasing it.
    #[must_use]
    pub fn knows(&self, key: InstanceKey) -> bool {
        let Some(session) = self.session() else { return false };
        let is_owned = session.instances.table.lock().get(key).is_some();
        is_owned || session.worker.is_releasing(key)
    }

    /// Returns the handle of the tokio runtime that the tasks run on.
    #[must_use]
    pub fn tokio(&self) -> &Handle {
        &self.shared.store.tokio
    }

    /// Returns true if the lanes have nothing to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.shared.lanes.is_empty() && self.turns.len() == 0
    }

    /// Returns the time at which a timer or a wait between attempts is due next, ms since 1970. Times that have passed
    /// do not count.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<i64> {
        let session = self.session()?;
        let sleeping = *session.worker.next_acquire_ms.lock();
        let now_ms = session.worker.now_ms();
        let tasks = *session.activities.next_tasks_ms.lock();
        let due = [session.instances.services.alarms.next_ms(), sleeping, tasks]
            .into_iter()
            .flatten();
        due.filter(|at_ms| *at_ms > now_ms).min()
    }

    /// Loses everything, as a killed process does: stored data stays, and running work comes to nothing. As after a
    /// lost lease, another worker follows and goes on from the stored data.
    pub fn crash(&self) {
        if let Some(session) = self.session() {
            session.end(AbortReason::LeaseLost);
        }
    }

    /// Sets whether the host is told of instances that end ([`Job::Ended`](crate::Job::Ended)). At first the host is
    /// not told.
    pub fn report_ends(&self, wanted: bool) {
        self.shared.reports_ends.store(wanted, Ordering::Relaxed);
    }

    /// Returns the version that an instance of an orchestration gets if its start names none.
    #[must_use]
    pub fn version_to_start(&self, name: &str) -> String {
        self.shared.store.version_to_start(name)
    }
}

/// Begins another session as a new worker each time a session has ended because it lost its lease, while the runtime is
/// started. A failed registration is tried again until the store answers.
async fn start_over(shared: Arc<Shared>, state: Arc<State>, this_start: Phase, first: Arc<Session>) {
    let mut session = first;
    let (mut delay, most) = RETRY_DELAYS;
    loop {
        session.worker.over().await;
        let (worker, asked) = loop {
            if *state.phase.lock() != this_start {
                return;
            }
            match session::register_again(&shared, &session.worker.id).await {
                Ok(registered) => break registered,
                Err(error) => {
                    shared.log(
                        Level::Warn,
                        format!("a new worker could not be registered; the registration is retried: {error}"),
                    );
                    crate::platform::time::sleep(delay).await;
                    delay = (delay * 2).min(most);
                }
            }
        };
        delay = RETRY_DELAYS.0;
        session = Session::new(Arc::clone(&shared), worker, asked);
        session::other_workers(&session).await;
        let is_wanted = {
            let phase = state.phase.lock();
            let is_wanted = *phase == this_start;
            if is_wanted {
                state.publish(&session);
            }
            is_wanted
        };
        if !is_wanted {
            // The runtime was shut down meanwhile.
            return session::release(&shared, &session.worker.id).await;
        }
        session.start_tasks();
    }
}
