//! A host that runs scripts, and a runtime with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use perdure_engine::{Completion, Mailbox, Message, MessageBody, MessageSeq, Payload, StartConflict};
use perdure_provider::InstanceKey;
use perdure_runtime::internals::{Inspection, waits};
use perdure_runtime::{
    AbortReason, ActivityJob, ActivityToken, Awaiting, Failure, Host, Job, LaneId, MapSizes, Metrics, Runtime,
    RuntimeError, RuntimeOptions, StartRequest, Store, Token,
};
use tokio::runtime::Handle;

use super::answer::Answer;
use super::script::{Generator, Op, Script};
use super::{MAIN, Memory, PausedClock};

/// A step of [`Fixture::advance`]: less than a third of any lease here.
const STEP_MS: u64 = 1_000;

struct Waker(Arc<AtomicUsize>, Arc<Mutex<Vec<String>>>);

impl Host for Waker {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn held_up(&self, message: &str) {
        self.1.lock().push(message.to_owned());
    }
}

/// A runtime on a store in memory, with its host.
pub(crate) struct Fixture {
    pub(crate) memory: Arc<Memory>,
    pub(crate) store: Arc<Store>,
    pub(crate) runtime: Runtime,
    options: RuntimeOptions,
    scripts: HashMap<String, Script>,
    generators: HashMap<(LaneId, Token), Generator>,
    /// The attempts that run.
    pub(crate) running: Vec<ActivityJob>,
    /// All attempts that were ever started.
    pub(crate) attempts: Vec<String>,
    pub(crate) aborted: Vec<AbortReason>,
    pub(crate) dropped: usize,
    pub(crate) logged: Vec<String>,
    /// The instances that ended, as the host was told.
    pub(crate) ended: Vec<(String, perdure_provider::Status)>,
    /// The instances whose turns ran, in order.
    pub(crate) turns: Vec<String>,
    /// The lane whose thread the test plays now.
    pub(crate) lane: LaneId,
    /// The only lane whose thread comes by; each does if `None`.
    pub(crate) only: Option<LaneId>,
    /// True if orchestrations and activities that are registered from now on are not there on other threads.
    pub(crate) is_on_main_alone: bool,
    /// By lane.
    wakes: Vec<Arc<AtomicUsize>>,
    /// The lanes that attempts were given to.
    pub(crate) given_to: HashMap<ActivityToken, LaneId>,
    /// The messages to the host about threads that were held up.
    pub(crate) held_up: Arc<Mutex<Vec<String>>>,
    waits: u64,
}

impl Fixture {
    pub(crate) fn new(options: RuntimeOptions) -> Self {
        Self::with_commits(options, 1)
    }

    pub(crate) fn with_commits(options: RuntimeOptions, concurrent: usize) -> Self {
        let clock = PausedClock::new();
        let memory = Memory::new(clock.clone(), concurrent);
        let store = Store::new(memory.clone(), clock, Handle::current());
        Self::on(memory, store, options)
    }

    /// Starts a runtime with one script named `main`, on a machine whose clock is off by `ms`.
    pub(crate) async fn with_clock_off_by(ms: i64, script: Script) -> Self {
        let memory = Memory::new(PausedClock::new(), 1);
        let store = Store::new(memory.clone(), PausedClock::off_by(ms), Handle::current());
        let mut fixture = Self::on(memory, store, RuntimeOptions::default());
        fixture.script("main", script);
        fixture.begin().await;
        fixture
    }

    /// Returns another runtime on the same store.
    pub(crate) fn beside(&self, options: RuntimeOptions) -> Self {
        Self::on(Arc::clone(&self.memory), Arc::clone(&self.store), options)
    }

    fn on(memory: Arc<Memory>, store: Arc<Store>, options: RuntimeOptions) -> Self {
        let threads = options.threads;
        Self {
            runtime: Runtime::new(Arc::clone(&store), options.clone()),
            options,
            memory,
            store,
            scripts: HashMap::new(),
            generators: HashMap::new(),
            running: Vec::new(),
            attempts: Vec::new(),
            aborted: Vec::new(),
            dropped: 0,
            logged: Vec::new(),
            ended: Vec::new(),
            turns: Vec::new(),
            lane: MAIN,
            only: None,
            is_on_main_alone: false,
            wakes: (0..=threads).map(|_| Arc::default()).collect(),
            given_to: HashMap::new(),
            held_up: Arc::default(),
            waits: 0,
        }
    }

    /// Starts a runtime with one script named `main`.
    pub(crate) async fn started(options: RuntimeOptions, script: Script) -> Self {
        let mut fixture = Self::new(options);
        fixture.script("main", script);
        fixture.begin().await;
        fixture
    }

    pub(crate) fn host(&self) -> Arc<dyn Host> {
        self.host_of(MAIN)
    }

    fn host_of(&self, lane: LaneId) -> Arc<dyn Host> {
        Arc::new(Waker(Arc::clone(&self.wakes[lane.0]), Arc::clone(&self.held_up)))
    }

    /// Attaches the thread of a lane.
    pub(crate) async fn attach(&mut self, lane: LaneId) {
        self.runtime
            .attach(lane, self.host_of(lane))
            .expect("there is such a lane");
        self.settle().await;
    }

    /// Loses the thread of a lane, with all that it had.
    pub(crate) async fn lose(&mut self, lane: LaneId) {
        self.wakes[lane.0].store(0, Ordering::SeqCst);
        self.generators.retain(|(of, _), _| *of != lane);
        let given_to = &self.given_to;
        self.running.retain(|job| given_to[&job.token] != lane);
        self.runtime.detach(lane);
        self.settle().await;
    }

    /// Returns the lane of each generator.
    pub(crate) fn pinned_lanes(&self) -> Vec<LaneId> {
        let mut pinned_lanes: Vec<LaneId> = self.generators.keys().map(|(lane, _)| *lane).collect();
        pinned_lanes.sort_unstable();
        pinned_lanes
    }

    pub(crate) async fn begin(&mut self) {
        self.runtime.start(self.host()).await.expect("it starts");
        for lane in 1..self.wakes.len() {
            self.attach(LaneId(lane)).await;
        }
        self.settle().await;
    }

    /// Returns the session of the runtime, seen from inside.
    pub(crate) fn session(&self) -> Option<Inspection> {
        Inspection::of(&self.runtime)
    }

    /// Returns the id of the worker that the runtime is now.
    pub(crate) fn runtime_worker(&self) -> String {
        self.session().expect("it is started").worker_id()
    }

    /// Sets the script of an orchestration, from its next generator on.
    pub(crate) fn script(&mut self, name: &str, script: Script) {
        if self.scripts.insert(name.into(), script).is_none() {
            self.register(name, script);
        }
    }

    fn register(&self, name: &str, script: Script) {
        self.runtime
            .register(name.into(), "1.0.0".into(), format!("{script:?}"))
            .expect("it is not registered yet");
        for op in script {
            if let Op::Activity(name)
            | Op::Retried(name)
            | Op::Within(name, _)
            | Op::Ranked(_, name)
            | Op::Spawn(name) = op
            {
                self.runtime.register_activity((*name).into());
                if !self.is_on_main_alone {
                    self.runtime.share_activity((*name).into());
                }
            }
        }
        if !self.is_on_main_alone {
            self.runtime.share(name.into(), "1.0.0".into());
        }
    }

    /// Shuts the runtime down and starts another one. `main` is the script in it; with `None` nothing is registered.
    pub(crate) async fn deploy(&mut self, main: Option<Script>) {
        self.shut_down(Duration::ZERO).await;
        self.runtime = Runtime::new(Arc::clone(&self.store), self.options.clone());
        self.scripts.clear();
        if let Some(main) = main {
            self.script("main", main);
        }
        self.begin().await;
    }

    // ---- what a client does ----

    pub(crate) fn ask_start(&self, id: &str, name: &str) -> Answer<()> {
        let answer = Answer::default();
        let request = StartRequest {
            id: id.into(),
            name: name.into(),
            version: None,
            input: None,
            tags: None,
            priority: 0,
            trace: None,
            conflict: StartConflict::Error,
            admission: None,
        };
        self.store.start(request, answer.reply());
        answer
    }

    pub(crate) async fn start(&mut self, id: &str) {
        let answer = self.ask_start(id, "main");
        self.settle().await;
        answer.take().expect("it was answered").expect("it starts");
    }

    pub(crate) fn ask_event(&self, id: &str, event: &str) -> Answer<()> {
        let answer = Answer::default();
        let body = MessageBody::Mail {
            mailbox: Mailbox::Event(event.into()),
            payload: None,
        };
        self.store.send(id.into(), body, None, answer.reply());
        answer
    }

    pub(crate) async fn event(&mut self, id: &str, event: &str) {
        let answer = self.ask_event(id, event);
        self.settle().await;
        answer.take().expect("it was answered").expect("it is taken");
    }

    /// Delivers a page of the inbox late: that of the first instance, with an event of this number.
    pub(crate) async fn event_comes_late(&mut self, seq: u64, event: &str) {
        let mailbox = Mailbox::Event(event.into());
        let body = MessageBody::Mail { mailbox, payload: None };
        let late = Message {
            seq: MessageSeq(seq),
            body,
        };
        let session = self.session().expect("it is started");
        session.receive(InstanceKey(1), Completion::Message(late));
        self.settle().await;
    }

    pub(crate) async fn terminate(&mut self, id: &str) {
        let answer = Answer::default();
        self.store.terminate(id.into(), None, answer.reply());
        self.settle().await;
        answer.take().expect("it was answered").expect("it is terminated");
    }

    pub(crate) fn wait(&mut self, id: &str, awaiting: Awaiting) -> Answer<perdure_provider::InstanceStatus> {
        let answer = Answer::default();
        self.waits += 1;
        self.store.wait((0, self.waits), id.into(), awaiting, answer.reply());
        answer
    }

    pub(crate) async fn shut_down(&mut self, timeout: Duration) {
        self.runtime.begin_shutdown().expect("it is started");
        self.runtime.finish_shutdown(timeout).await;
        self.drain();
    }

    // ---- what the lane does ----

    /// Lets all happen that happens by itself, without time going on.
    pub(crate) async fn settle(&mut self) {
        for _ in 0..100 {
            self.come_by();
            tokio::task::yield_now().await;
        }
    }

    /// Lets the threads that were woken take jobs, one at a time in turn, until there are no more.
    fn come_by(&mut self) {
        // Only threads that were woken come by, so that a lost wake shows.
        let woken = |wakes: &Arc<AtomicUsize>| wakes.swap(0, Ordering::SeqCst) > 0;
        loop {
            let mut awake: Vec<LaneId> = match self.only {
                Some(only) => vec![only],
                None => (0..self.wakes.len())
                    .map(LaneId)
                    .filter(|lane| woken(&self.wakes[lane.0]))
                    .collect(),
            };
            if awake.is_empty() {
                return;
            }
            while !awake.is_empty() {
                awake.retain(|lane| {
                    self.lane = *lane;
                    let job = self.runtime.next_job(*lane, false);
                    let goes_on = job.is_some();
                    job.into_iter().for_each(|job| self.run(job));
                    goes_on
                });
            }
            if self.only.is_some() {
                return;
            }
        }
    }

    /// Lets time go on by `seconds` while the thread does not come back.
    pub(crate) async fn hang(&mut self, seconds: u64) {
        for second in 0..=seconds {
            if second > 0 {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes the turn that begins when the activity of an instance returns, and leaves it without its end.
    pub(crate) async fn turn_after(&mut self, id: &str) -> Token {
        let place = self.running.iter().position(|job| job.instance_id == id);
        let job = self.running.remove(place.expect("its activity runs"));
        self.lane = self.given_to[&job.token];
        self.runtime.complete_activity(self.lane, job.token, Payload::None);
        for _ in 0..10 {
            match self.runtime.next_job(self.lane, false) {
                Some(Job::Turn(token)) => {
                    self.wakes[self.lane.0].fetch_add(1, Ordering::SeqCst);
                    return token;
                }
                Some(other) => self.run(other),
                // The turn may have to be announced first.
                None => self.hang(0).await,
            }
        }
        panic!("a turn follows");
    }

    /// Lets time pass, in steps: otherwise leases would end before any worker had a chance to renew them.
    pub(crate) async fn advance(&mut self, ms: u64) {
        for left in (0..=ms / STEP_MS).rev() {
            let step = if left == 0 { ms % STEP_MS } else { STEP_MS };
            tokio::time::advance(Duration::from_millis(step)).await;
            self.settle().await;
        }
    }

    pub(crate) fn drain(&mut self) {
        while let Some(job) = self.runtime.next_job(self.lane, false) {
            self.run(job);
        }
    }

    fn run(&mut self, job: Job) {
        match job {
            Job::Turn(token) => self.turn(token),
            Job::Activity(job) => {
                if let Some(token) = job.inline {
                    assert!(
                        self.generators.contains_key(&(self.lane, token)),
                        "its function is there"
                    );
                }
                self.given_to.insert(job.token, self.lane);
                self.attempts.push(job.name.clone());
                self.running.push(*job);
            }
            Job::Abort { activity, reason } => {
                self.running.retain(|job| job.token != activity);
                self.aborted.push(reason);
            }
            Job::Drop(token) => {
                self.dropped += usize::from(self.generators.remove(&(self.lane, token)).is_some());
            }
            Job::Log(record) => self.logged.push(record.message),
            Job::Ended(instance) => self.ended.push((instance.instance_id, instance.status)),
        }
    }

    /// Takes an attempt whose function does not return.
    pub(crate) fn next_attempt(&mut self) -> ActivityJob {
        loop {
            match self.runtime.next_job(self.lane, false).expect("an attempt waits") {
                Job::Activity(job) => {
                    self.given_to.insert(job.token, self.lane);
                    self.wakes[self.lane.0].fetch_add(1, Ordering::SeqCst);
                    return *job;
                }
                other => self.run(other),
            }
        }
    }

    /// Takes a turn and leaves it without its end, so that a test can act in the middle of it.
    pub(crate) fn next_turn(&mut self) -> Token {
        loop {
            match self.runtime.next_job(self.lane, false).expect("a turn waits") {
                Job::Turn(token) => {
                    // The rest of the queue is still to be drained.
                    self.wakes[self.lane.0].fetch_add(1, Ordering::SeqCst);
                    return token;
                }
                other => self.run(other),
            }
        }
    }

    pub(crate) fn turn(&mut self, token: Token) {
        let facts = self.runtime.describe(token).expect("it has a turn");
        self.turns.push(facts.instance_id);
        let script = self.scripts[&facts.name];
        let key = (self.lane, token);
        let generator = self.generators.entry(key).or_insert(Generator::new(script));
        match generator.drive(&self.runtime, token) {
            Ok(has_ended) => {
                if has_ended {
                    self.generators.remove(&key);
                }
            }
            Err(error) => {
                assert!(matches!(error, RuntimeError::Nondeterminism(_)), "{error}");
                self.generators.remove(&key);
                self.runtime.suspend(token, "somewhere", None).expect("it has a turn");
            }
        }
    }

    fn take_attempt(&mut self, name: &str) -> ActivityJob {
        let place = self.running.iter().position(|job| job.name == name);
        self.running.remove(place.expect("the activity runs"))
    }

    pub(crate) async fn heartbeat(&mut self, name: &str, details: &str) {
        let job = self.running.iter().find(|job| job.name == name);
        let token = job.expect("the activity runs").token;
        self.runtime.heartbeat(token, details.into());
        self.settle().await;
    }

    pub(crate) async fn complete(&mut self, name: &str) {
        let job = self.take_attempt(name);
        self.lane = self.given_to[&job.token];
        if self.runtime.complete_activity(self.lane, job.token, Payload::None) {
            self.drain();
        }
        self.settle().await;
    }

    pub(crate) async fn fail(&mut self, name: &str, retry_after_ms: i64) {
        let job = self.take_attempt(name);
        let failure = Failure {
            error: None,
            error_name: "Error".into(),
            error_codes: Vec::new(),
            non_retryable: false,
            retry_after_ms: Some(retry_after_ms),
        };
        if self.runtime.fail_activity(self.lane, job.token, failure) {
            self.drain();
        }
        self.settle().await;
    }

    // ---- what is left ----

    pub(crate) fn metrics(&self) -> Metrics {
        self.runtime.metrics()
    }

    /// Notes the share of its time that each lane's thread has worked.
    pub(crate) fn note_busy(&self, shares: &[f64]) {
        self.runtime.note_busy(shares);
    }

    pub(crate) fn generators(&self) -> usize {
        self.generators.len()
    }

    /// Returns the number of messages of an instance that are in memory; none if the instance is not here.
    pub(crate) fn held_messages(&self, id: &str) -> usize {
        self.session().map_or(0, |session| session.held_messages(id))
    }

    /// Returns the number of alarms that are set.
    pub(crate) fn alarms(&self) -> usize {
        self.session().map_or(0, |session| session.alarms())
    }

    /// Asserts that nothing is kept of instances that are not here.
    pub(crate) fn assert_empty(&self) {
        assert_eq!(self.runtime.map_sizes(), MapSizes::default());
        let metrics = self.metrics();
        assert_eq!((metrics.cached_instances, metrics.open_activities), (0, 0));
        assert_eq!(self.generators.len(), 0, "generators");
        assert_eq!(self.running.len(), 0, "attempts");
        assert_eq!(waits(&self.store), 0, "waits");
        assert_eq!(self.alarms(), 0, "alarms");
        assert!(
            self.session().is_none_or(|session| session.owns_what_it_knows()),
            "claims, or what is on its way out"
        );
    }
}
