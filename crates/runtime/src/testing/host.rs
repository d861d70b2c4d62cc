//! A host that runs scripts: each orchestration is a list of operations that are done one after the other.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use perdure_engine::{
    ActivityOptions, Awaited, Command, Completion, Delivery, EventId, InstanceStart, Mailbox, Message, MessageBody,
    MessageSeq, Outcome as End, Payload, RetryPolicy,
};
use perdure_provider::InstanceKey;
use perdure_scheduler::LaneId;
use tokio::runtime::Handle;

use super::{Memory, PausedClock};
use crate::shared::MAIN;
use crate::{
    AbortReason, ActivityJob, ActivityToken, Awaiting, Conflict, Failure, Host, Job, Metrics, Next, Runtime,
    RuntimeError, RuntimeOptions, StartRequest, Store, Token,
};

/// One operation of a script.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    /// Schedules an activity and waits for it.
    Activity(&'static str),
    /// Schedules an activity that is tried again and again, and waits for it.
    Retried(&'static str),
    /// Schedules an inline activity that is tried again and again, and waits for it.
    Inline(&'static str),
    /// Schedules an activity that is tried again and again for this long, ms, and waits for it.
    Within(&'static str, u64),
    /// Schedules an activity for a queue, tried again and again, and waits for it. It is registered where a test says
    /// so.
    Queued(&'static str, &'static str),
    /// Schedules an activity with a priority and goes on.
    Ranked(i32, &'static str),
    /// Schedules an activity and goes on.
    Spawn(&'static str),
    /// Gives up the operation that was scheduled last.
    Cancel,
    /// Waits for a message.
    Event(&'static str),
    /// Waits for a message of any of these names.
    AnyEvent(&'static [String]),
    /// Waits for a time, ms.
    Sleep(i64),
    /// Sets the custom status.
    Status(&'static str),
    /// Logs a line.
    Trace(&'static str),
    /// Starts a child, by the name of its orchestration and its id, and waits for it.
    Child(&'static str, &'static str),
    /// Starts a child and goes on.
    SpawnChild(&'static str, &'static str),
    /// Starts an instance and waits until the start is durable.
    Detached(&'static str, &'static str),
    /// Sends an event to an instance and waits until it is durable.
    Send(&'static str, &'static str),
    /// Continues as new, with a version, until the execution has this number.
    ContinueTo(u64, Option<&'static str>),
}

pub(crate) type Script = &'static [Op];

/// A step of [`Fixture::advance`]: less than a third of any lease here.
const STEP_MS: u64 = 1_000;

/// A generator.
struct Generator {
    script: Script,
    at: usize,
    last: Option<EventId>,
    is_issued: bool,
}

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
            runtime: Runtime::new(Arc::clone(&store), options),
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
    pub(crate) fn seats(&self) -> Vec<LaneId> {
        let mut seats: Vec<LaneId> = self.generators.keys().map(|(lane, _)| *lane).collect();
        seats.sort_unstable();
        seats
    }

    pub(crate) async fn begin(&mut self) {
        self.runtime.start(self.host()).await.expect("it starts");
        for lane in 1..self.wakes.len() {
            self.attach(LaneId(lane)).await;
        }
        self.settle().await;
    }

    /// Returns the id of the worker that the runtime is now.
    pub(crate) fn runtime_worker(&self) -> String {
        self.runtime.session().expect("it is started").worker.id.to_string()
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
        self.runtime = Runtime::new(Arc::clone(&self.store), self.runtime.shared.options.clone());
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
            conflict: Conflict::Fail,
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
        let session = self.runtime.session().expect("it is started");
        session.instances.receive(InstanceKey(1), Completion::Message(late));
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
        self.generators.entry((self.lane, token)).or_insert(Generator {
            script,
            at: 0,
            last: None,
            is_issued: false,
        });
        if let Err(error) = self.drive(token) {
            assert!(matches!(error, RuntimeError::Nondeterminism(_)), "{error}");
            self.generators.remove(&(self.lane, token));
            self.runtime.suspend(token, "somewhere", None).expect("it has a turn");
        }
    }

    fn drive(&mut self, token: Token) -> Result<(), RuntimeError> {
        let (runtime, generators, seat) = (&self.runtime, &mut self.generators, (self.lane, token));
        let this = generators.get_mut(&seat).expect("it was just made");
        let execution = runtime.describe(token)?.execution;
        if this.at == 0 && execution > 1 && runtime.interrupt(token)?.is_some() {
            generators.remove(&seat);
            return runtime.finish(token, End::Cancelled(None));
        }
        loop {
            let mut awaited = Awaited::default();
            let Some(op) = this.script.get(this.at) else {
                generators.remove(&seat);
                return runtime.finish(token, End::Completed(None));
            };
            let mut issue = |command| {
                if !this.is_issued {
                    this.last = Some(runtime.issue(token, command)?.id);
                    this.is_issued = true;
                }
                Ok::<(), RuntimeError>(())
            };
            match op {
                Op::Activity(name) | Op::Spawn(name) => issue(schedule(name, 1, ActivityOptions::default()))?,
                Op::Ranked(priority, name) => {
                    let options = ActivityOptions {
                        priority: *priority,
                        ..ActivityOptions::default()
                    };
                    issue(schedule(name, 1, options))?;
                }
                Op::Queued(queue, name) => {
                    let options = ActivityOptions {
                        queue: Some((*queue).into()),
                        ..ActivityOptions::default()
                    };
                    issue(schedule(name, 100, options))?;
                }
                Op::Retried(name) => issue(schedule(name, 100, ActivityOptions::default()))?,
                Op::Inline(name) => issue(schedule(
                    name,
                    100,
                    ActivityOptions {
                        inline: true,
                        ..ActivityOptions::default()
                    },
                ))?,
                Op::Within(name, total_ms) => issue(schedule(
                    name,
                    100,
                    ActivityOptions {
                        total_timeout_ms: Some(*total_ms),
                        ..ActivityOptions::default()
                    },
                ))?,
                Op::Sleep(delay_ms) => issue(Command::CreateTimer { delay_ms: *delay_ms })?,
                Op::Child(name, id) | Op::SpawnChild(name, id) => issue(Command::StartChild(instance(name, id)))?,
                Op::Detached(name, id) => issue(Command::StartInstance(instance(name, id)))?,
                Op::Send(id, event) => issue(Command::SendMessage {
                    instance: (*id).into(),
                    mailbox: Mailbox::Event((*event).into()),
                    payload: None,
                })?,
                Op::Cancel => {
                    let scheduled = this.last.expect("something was scheduled");
                    runtime.issue(token, Command::CancelOperation { scheduled })?;
                }
                Op::Status(status) => runtime.set_custom_status(token, Some((*status).into()))?,
                Op::Trace(line) => runtime.log(token, crate::Level::Info, (*line).into(), None)?,
                Op::ContinueTo(last, version) if execution < *last => {
                    generators.remove(&seat);
                    let version = version.map(str::to_owned);
                    return runtime.finish(token, End::ContinuedAsNew { input: None, version });
                }
                Op::ContinueTo(..) => {}
                Op::Event(name) => awaited.mailboxes.push(Mailbox::Event((*name).into())),
                Op::AnyEvent(names) => awaited.mailboxes.extend(names.iter().cloned().map(Mailbox::Event)),
            }
            match op {
                Op::Spawn(_)
                | Op::Ranked(..)
                | Op::SpawnChild(..)
                | Op::Cancel
                | Op::Status(_)
                | Op::Trace(_)
                | Op::ContinueTo(..) => {
                    this.at += 1;
                    this.is_issued = false;
                    continue;
                }
                Op::Sleep(_) | Op::Detached(..) | Op::Send(..) => awaited.timers.extend(this.last),
                Op::Activity(_)
                | Op::Queued(..)
                | Op::Retried(_)
                | Op::Inline(_)
                | Op::Within(..)
                | Op::Event(_)
                | Op::AnyEvent(_)
                | Op::Child(..) => {}
            }
            let Next::Delivered(delivered) = runtime.step(token, awaited)? else {
                return Ok(());
            };
            let is_awaited = match (&delivered.delivery, op) {
                (Delivery::Message { .. }, Op::Event(_) | Op::AnyEvent(_)) => true,
                (Delivery::Succeeded { operation, .. } | Delivery::Failed { operation, .. }, _) => {
                    Some(*operation) == this.last && !matches!(op, Op::Event(_) | Op::AnyEvent(_))
                }
                (Delivery::ChildFailed { operation, .. } | Delivery::Refused { operation, .. }, _) => {
                    if Some(*operation) == this.last {
                        generators.remove(&seat);
                        let why = format!("{:?}", delivered.delivery);
                        return runtime.finish(token, End::Failed(Some(why)));
                    }
                    false
                }
                (Delivery::Cancel { .. }, _) => {
                    generators.remove(&seat);
                    return runtime.finish(token, End::Cancelled(None));
                }
                _ => panic!("{delivered:?} was not awaited by {op:?}"),
            };
            if is_awaited {
                this.at += 1;
                this.is_issued = false;
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
        let session = self.runtime.session();
        session.map_or(0, |session| {
            let table = session.instances.table.lock();
            table
                .owned()
                .filter(|i| i.id == id)
                .map(|i| i.lock().held_messages())
                .sum()
        })
    }

    /// Returns the number of alarms that are set.
    pub(crate) fn alarms(&self) -> usize {
        self.runtime
            .session()
            .map_or(0, |session| session.instances.services.alarms.len())
    }

    /// Asserts that nothing is kept of instances that are not here.
    pub(crate) fn assert_empty(&self) {
        assert_eq!(self.runtime.map_sizes(), crate::MapSizes::default());
        let metrics = self.metrics();
        assert_eq!((metrics.cached_instances, metrics.open_activities), (0, 0));
        assert_eq!(self.generators.len(), 0, "generators");
        assert_eq!(self.running.len(), 0, "attempts");
        assert_eq!(self.store.watch.len(), 0, "waits");
        assert_eq!(self.alarms(), 0, "alarms");
        let session = self.runtime.session();
        assert!(
            session.is_none_or(|session| session.worker.ownership.is_at_rest()),
            "claims, or what is on its way out"
        );
    }
}

fn schedule(name: &str, max_attempts: u32, options: ActivityOptions) -> Command {
    let retry = RetryPolicy {
        max_attempts,
        ..RetryPolicy::default()
    };
    Command::ScheduleActivity {
        name: name.into(),
        input: None,
        options: ActivityOptions { retry, ..options },
    }
}

fn instance(name: &str, id: &str) -> InstanceStart {
    InstanceStart {
        id: id.into(),
        name: name.into(),
        version: "1.0.0".into(),
        input: None,
        tags: None,
        priority: 0,
        trace: None,
    }
}

/// The answer to a request.
pub(crate) struct Answer<T>(Arc<Mutex<Option<Result<T, RuntimeError>>>>);

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// Returns a place for an answer.
pub(crate) fn answer() -> Answer<()> {
    Answer::default()
}

impl<T: Send + 'static> Answer<T> {
    pub(crate) fn reply(&self) -> crate::Reply<T> {
        let place = Arc::clone(&self.0);
        Box::new(move |answer| {
            assert!(place.lock().replace(answer).is_none(), "it was answered twice");
        })
    }

    pub(crate) fn take(&self) -> Option<Result<T, RuntimeError>> {
        self.0.lock().take()
    }
}
