//! A runtime: its registered code, its lanes, and its session while it is started.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use perdure_engine::{AttemptResult, Command, EventId, Outcome, Payload, TraceContext, Waits};
use perdure_provider::InstanceKey;
use perdure_scheduler::LaneId;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::client::store::Store;
use crate::error::RuntimeError;
use crate::lane::job::{Host, Job, Queued};
use crate::lane::pulse::CurrentWork;
use crate::log::Level;
use crate::metrics::Metrics;
use crate::options::{RELEASE_TIMEOUT, RETRY_DELAYS, RuntimeOptions};
use crate::poison::thread_loss;
use crate::registry::Registered;
use crate::session::{self, session::Session};
use crate::shared::{MAIN, Shared};
use crate::state::Token;
use crate::state::attempt::{AbortReason, ActivityToken};
use crate::turn::in_progress::{Turn, Turns};
use crate::turn::{self, Issued, Next};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Stopped,
    Starting,
    /// Number of this start, by which the remains of an earlier start can tell that they are over.
    Started(u64),
    Stopping,
}

/// The facts that the host needs about an instance to make its generator.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Id of the instance.
    pub instance_id: String,
    /// Number of its execution.
    pub execution: u64,
    /// Name of the orchestration.
    pub name: String,
    /// Version of the orchestration.
    pub version: String,
    /// Input of the execution.
    pub input: Payload,
    /// Id of the parent instance.
    pub parent_id: Option<String>,
    /// Custom status that the execution begins with.
    pub custom_status: Payload,
    /// Deterministic time at the start, ms since 1970.
    pub time_ms: i64,
    /// Trace context of the start.
    pub trace: TraceContext,
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
    turns: Turns,
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
    /// [`RuntimeError::Argument`] when this name and version is registered already.
    pub fn register(&self, name: String, version: String, code: String) -> Result<(), RuntimeError> {
        let new = Registered { name, version, code };
        let duplicate = format!("{new} is registered already");
        if !self.shared.registry.lock().add(new) {
            return Err(RuntimeError::Argument(duplicate));
        }
        if let Some(session) = self.session() {
            session.worker.due_at(0);
            session.worker.resume_wanted.notify_one();
        }
        Ok(())
    }

    /// Registers an activity that this host can run.
    pub fn register_activity(&self, name: String) {
        self.shared.registry.lock().add_activity(name);
        if let Some(session) = self.session() {
            session.activities.tasks_wanted.notify_one();
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
            thread_loss::lose(&session.instances, lane);
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
            "the runtime is started already",
        )?;
        self.shared.attach(MAIN, host);
        self.shared.registry.lock().renew();
        match session::register(&self.shared).await {
            Ok((worker, asked)) => {
                let session = Session::new(Arc::clone(&self.shared), worker, asked);
                session::other_workers(&session).await;
                let id = session.worker.id.to_string();
                let this_start = Phase::Started(self.state.starts.fetch_add(1, Ordering::Relaxed));
                self.state.publish(&session);
                *self.state.phase.lock() = this_start;
                session::start_tasks(&session);
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
        let due = [session.instances.services.alarms.next_ms(), sleeping]
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

    /// Sets whether the host is told of instances that end ([`Job::Ended`]). At first the host is not told.
    pub fn report_ends(&self, wanted: bool) {
        self.shared.reports_ends.store(wanted, Ordering::Relaxed);
    }

    // ---- the lane ----

    /// Returns the next job of a lane. `None` parks the lane until its host is woken, unless the lane `looks_again`
    /// soon by itself.
    pub fn next_job(&self, lane: LaneId, looks_again: bool) -> Option<Job> {
        let pulse = self.shared.pulse(lane);
        pulse.beat();
        loop {
            let queued = if looks_again {
                self.shared.lanes.look(lane)
            } else {
                self.shared.lanes.pop(lane)
            };
            match queued? {
                Queued::Turn(instance) => {
                    let token = instance.token;
                    if let Some(turn) = self
                        .session()
                        .and_then(|session| turn::begin(Arc::clone(&session.instances), instance, lane))
                    {
                        pulse.enter(CurrentWork::Turn(Arc::clone(&turn.instance)));
                        self.turns.begin(turn);
                        return Some(Job::Turn(token));
                    }
                }
                Queued::Activity(token, _) => {
                    let session = self.session();
                    if let Some(job) = session.and_then(|session| session.activities.begin(token, lane)) {
                        self.shared.metrics.attempts.add(1);
                        pulse.enter(CurrentWork::Activity(token));
                        return Some(Job::Activity(Box::new(job)));
                    }
                }
                Queued::Abort(activity, reason, _) => return Some(Job::Abort { activity, reason }),
                Queued::Drop(token, _) => {
                    self.turns.drop_at(token, lane);
                    return Some(Job::Drop(token));
                }
                Queued::Log(record) => return Some(Job::Log(record)),
                Queued::Ended(instance) => return Some(Job::Ended(instance)),
            }
        }
    }

    /// Notes that the host of a lane lets its event loop in before it takes the next job.
    pub fn pause(&self, lane: LaneId) {
        self.shared.pulse(lane).beat();
    }

    /// Ends a turn whose code is no longer at work.
    fn turn_over(&self, turn: &Turn) {
        self.turns.end(turn.instance.token);
        self.shared.pulse(turn.lane).leave();
    }

    pub(crate) fn turn(&self, token: Token) -> Result<Turn, RuntimeError> {
        turn::in_progress(self.turns.get(token))
    }

    /// Returns the facts that the host needs to make an instance's generator.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] when the instance has no turn in progress.
    pub fn describe(&self, token: Token) -> Result<Facts, RuntimeError> {
        let Turn { instance, .. } = self.turn(token)?;
        let core = instance.lock();
        let engine = core
            .engine
            .as_ref()
            .ok_or(RuntimeError::State("the instance is being loaded"))?;
        Ok(Facts {
            instance_id: instance.id.clone(),
            execution: instance.execution.0,
            name: instance.name.clone(),
            version: instance.version.clone(),
            input: engine.input().clone(),
            parent_id: instance.parent_id.clone(),
            custom_status: engine.custom_status().clone(),
            time_ms: engine.time_ms(),
            trace: engine.trace().map(str::to_owned),
        })
    }

    /// Returns the version that an instance of an orchestration gets if its start names none.
    #[must_use]
    pub fn version_to_start(&self, name: &str) -> String {
        self.shared.store.version_to_start(name)
    }

    /// Issues a command of the code. Returns the id of the operation.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Nondeterminism`] when history holds something else; [`RuntimeError::Limit`] when it would grow
    /// too much; [`RuntimeError::State`] outside a turn.
    pub fn issue(&self, token: Token, command: Command) -> Result<Issued, RuntimeError> {
        turn::issue(&self.turn(token)?, command)
    }

    /// Names the fiber of the last event that was issued or delivered, for readers of the history.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn of_fiber(&self, token: Token, fiber: u32) -> Result<(), RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.set_fiber(fiber))
    }

    /// Returns what the code is handed next, once all its fibers wait, or says that the turn is over.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Nondeterminism`] when history went on differently; [`RuntimeError::Limit`] when it would grow
    /// too much; [`RuntimeError::State`] outside a turn.
    pub fn step(&self, token: Token, waits: impl Into<Waits>) -> Result<Next, RuntimeError> {
        let turn = self.turn(token)?;
        if let Some(delivered) = turn::step(&turn, waits.into())? {
            return Ok(Next::Delivered(delivered));
        }
        self.turn_over(&turn);
        let sleeps = turn::end(turn);
        Ok(Next::Over { sleeps })
    }

    /// Returns a request to cancel, if one has come. The host calls this before the first step of an execution, and
    /// after many commands without a wait, so that code that never waits hears of the request.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn interrupt(&self, token: Token) -> Result<Option<turn::Delivered>, RuntimeError> {
        turn::interrupt(&self.turn(token)?)
    }

    /// Finishes the execution, whose code has ended. The turn is over and on its way to the store.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Nondeterminism`] when history goes on; [`RuntimeError::State`] outside a turn.
    pub fn finish(&self, token: Token, outcome: Outcome) -> Result<(), RuntimeError> {
        let turn = self.turn(token)?;
        turn::finish(&turn, outcome)?;
        self.turn_over(&turn);
        turn::end(turn);
        Ok(())
    }

    /// Suspends an instance whose code does not fit its history, or cannot be run. The turn ends, and nothing of it is
    /// stored. `source` is the place in the code where that showed. `report` is the reason, as JSON of an error, unless
    /// the reason is a mismatch.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn suspend(&self, token: Token, source: &str, report: Option<&str>) -> Result<(), RuntimeError> {
        let turn = self.turn(token)?;
        self.turn_over(&turn);
        turn::suspend(turn, source, report);
        Ok(())
    }

    /// Returns the number of events recorded up to this point of the code.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn history_length(&self, token: Token) -> Result<u64, RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.history_length())
    }

    /// Returns a deterministic number in 0..1.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn random(&self, token: Token) -> Result<f64, RuntimeError> {
        self.turn(token)?.with_engine(perdure_engine::Engine::random)
    }

    /// Returns a deterministic version 4 UUID.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn random_uuid(&self, token: Token) -> Result<String, RuntimeError> {
        self.turn(token)?.with_engine(perdure_engine::Engine::random_uuid)
    }

    /// Reports the progress of a running attempt.
    pub fn heartbeat(&self, token: ActivityToken, details: String) {
        if let Some(session) = self.session() {
            session.activities.heartbeat(token, details);
        }
    }

    /// Returns the value that history holds for the next command of the code, if any.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn recorded_payload(&self, token: Token) -> Result<Payload, RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.recorded_payload())
    }

    /// Returns the id of the event that the next command of the code, or its end, has or will have in history.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn next_command_id(&self, token: Token) -> Result<EventId, RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.next_command_id())
    }

    /// Returns true if the instance was asked to cancel, which lets it exceed its limits.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn is_cancelling(&self, token: Token) -> Result<bool, RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.is_cancelling())
    }

    /// Returns true if the execution has a patch of its code. The patch is recorded when the execution gets it.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::State`] outside a turn.
    pub fn patched(&self, token: Token, patch: &str) -> Result<bool, RuntimeError> {
        self.turn(token)?.with_engine(|engine| engine.patched(patch))
    }

    /// Starts a timer that limits how long the execution may go on once it is cancelled. Returns the timer's id, or
    /// `None` if there is no limit. See [`Engine::grace_timer`](perdure_engine::Engine::grace_timer).
    ///
    /// # Errors
    ///
    /// Those of [`issue`](Self::issue).
    pub fn grace_timer(&self, token: Token, delay_ms: Option<i64>) -> Result<Option<EventId>, RuntimeError> {
        self.turn(token)?
            .with_engine(|engine| engine.grace_timer(delay_ms))?
            .map_err(RuntimeError::from)
    }

    /// Reports that an attempt succeeded. Returns `true` if the lane was parked and has work now: the caller must drain
    /// it.
    pub fn complete_activity(&self, lane: LaneId, token: ActivityToken, output: Payload) -> bool {
        self.settle(lane, token, AttemptResult::Completed(output))
    }

    /// Reports that an attempt failed. Returns `true` if the lane was parked and has work now: the caller must drain
    /// it.
    pub fn fail_activity(&self, lane: LaneId, token: ActivityToken, failure: Failure) -> bool {
        let Failure {
            error,
            error_name,
            non_retryable,
            retry_after_ms,
        } = failure;
        self.settle(
            lane,
            token,
            AttemptResult::Failed {
                error,
                error_name,
                non_retryable,
                retry_after_ms,
            },
        )
    }

    fn settle(&self, lane: LaneId, token: ActivityToken, result: AttemptResult) -> bool {
        // The beat comes before the attempt is over: a check that does not find the attempt finds that the thread has
        // come by.
        self.shared.pulse(lane).beat();
        let drain = self
            .session()
            .is_some_and(|session| session.instances.settle(lane, token, result));
        if drain {
            self.shared.pulse(lane).stir();
        }
        drain
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
                        format!("a new worker could not be registered, trying again: {error}"),
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
        session::start_tasks(&session);
    }
}

/// The failure of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The error as the driver encoded it.
    pub error: Payload,
    /// Name of the error.
    pub error_name: String,
    /// True if the error says that another attempt is useless.
    pub non_retryable: bool,
    /// Delay before the next attempt, ms from now, if the error names one.
    pub retry_after_ms: Option<i64>,
}
