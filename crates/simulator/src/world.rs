//! The run of a plan: processes, their threads, clients, and faults.
//!
//! All of it is one thread with a virtual clock. At each step one thing is drawn from the seed, out of the turns of all
//! lanes and the things that are due, and done. Between two steps the tasks of the runtimes get on as far as chance has
//! it.

mod appends;
mod client;
mod faults;
mod jobs;
mod lines;
mod liveness;
mod processes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use perdure_provider::{AskState, Epoch, InstanceKey};
use perdure_runtime::{ActivityToken, Appended, LaneId, RuntimeError};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend::{Backend, Connection};
use crate::checker;
use crate::code::Edition;
use crate::link::{LinkFaults, ProcessState};
use crate::log::Log;
use crate::machine::{LivePids, VirtualClock};
use crate::plan::{Act, LATE_MS, PATIENCE_MS, Plan, RUN_MS};
use crate::process::{Lane, Pid, Process};
use crate::program::{Kind, Program};
use crate::requests::Requests;
use crate::witness::{InstanceState, KnownInstance, LineFacts, Witness};

/// Signal from within tasks to the world.
pub(crate) enum Signal {
    /// A lane was parked and has work.
    Woken(Pid, LaneId),
    /// A process has died in one of its calls.
    Died(Pid),
    /// A runtime was started, or not.
    Started(Pid, bool),
    /// A process has shut down.
    Left(Pid),
    /// A client's request was answered: an ask with its state.
    Answered(Pid, usize, Result<Option<AskState>, RuntimeError>),
    /// An append of an attempt was answered.
    Appended(Pid, ActivityToken, Result<Appended, RuntimeError>),
}

/// The signals that the world has not received yet.
#[derive(Default)]
pub(crate) struct Signals {
    queue: Mutex<VecDeque<Signal>>,
    arrived: Notify,
}

impl Signals {
    pub(crate) fn send(&self, signal: Signal) {
        self.queue.lock().push_back(signal);
        self.arrived.notify_one();
    }

    fn take(&self) -> Option<Signal> {
        self.queue.lock().pop_front()
    }
}

/// Something that is due at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WorldEvent {
    /// An act of the plan, by its place.
    Act(usize),
    AttemptOver(Pid, ActivityToken),
    Heartbeat(Pid, ActivityToken),
    /// An attempt appends entries to a stream.
    Append(Pid, ActivityToken),
    /// An attempt hears that its entries were appended, or not.
    Appended(Pid, ActivityToken),
    Unblock(Pid, LaneId),
    Continue(Pid),
    Begin(usize, Edition),
    Start(Pid),
    Attach(Pid, LaneId),
    /// A process registers a program.
    Register(Pid, usize),
    /// A client's request, by its number.
    Request(usize),
    /// From here on there are no faults.
    Quiet,
    /// A look, once a second, that checks liveness and whether all is over.
    Check,
}

/// Queues with an instance that any worker could be given: what had happened in each when that was found, and since
/// when nothing has.
type FreeSlots = BTreeMap<String, (LineFacts, Instant)>;

/// Turns that hold up their threads in quiet times.
type BlockedThreads = BTreeMap<(Pid, LaneId), BlockedThread>;

/// A turn that holds up its thread.
struct BlockedThread {
    instance: String,
    epoch: Epoch,
    /// Processes that could take the instance.
    others: Vec<Pid>,
}

/// The run of a plan.
pub(crate) struct World<'a> {
    pub(crate) plan: &'a Plan,
    programs: Arc<Vec<Program>>,
    backend: &'a dyn Backend,
    /// True after a fault: the rows are checked before anything else happens.
    has_faulted: bool,
    pub(crate) rng: Rng,
    pub(crate) log: Arc<Log>,
    pub(crate) witness: Arc<Witness>,
    pub(crate) faults: Arc<LinkFaults>,
    living: LivePids,
    clocks: Vec<Arc<VirtualClock>>,
    /// A clock that agrees with the store's.
    pub(crate) right_clock: Arc<VirtualClock>,
    /// All processes that there ever were.
    pub(crate) processes: Vec<Process>,
    /// The process of each slot, unless it is down.
    slots: Vec<Option<Pid>>,
    due: BTreeMap<(Instant, u64), WorldEvent>,
    number: u64,
    pub(crate) signals: Arc<Signals>,
    pub(crate) requests: Requests,
    /// The number of turns that have held up their threads, by program.
    blocking_turns: BTreeMap<usize, u32>,
    pub(crate) is_quiet: bool,
    /// Turns that hold up their threads in quiet times.
    held_threads: BlockedThreads,
    /// Instances, with their epochs, that a worker owns in the store without knowing it, and since when.
    pub(crate) unknown: BTreeMap<(InstanceKey, Epoch), Instant>,
    /// Queues with an instance that could have a slot, and since when.
    free_slots: FreeSlots,
    /// A connection that looks at the store from outside.
    pub(crate) observer: Connection,
    /// The time since which nothing has got on, and the number of events then.
    last_progress: (Instant, u64),
    is_stuck: bool,
    /// The time at which the faults ended.
    pub(crate) quiet_since: Instant,
    /// True if everything has ended, and the processes are shut down.
    is_ending: bool,
    left: BTreeSet<Pid>,
    /// Names of the processes among them that shut down in the end, when nothing was in their way.
    pub(crate) left_in_order: BTreeSet<String>,
    /// Answers that arrived to stopped processes.
    held_answers: Vec<(Pid, usize, Result<Option<AskState>, RuntimeError>)>,
}

impl<'a> World<'a> {
    pub(crate) fn new(plan: &'a Plan, backend: &'a dyn Backend, log: Arc<Log>) -> Self {
        let mut rng = Rng::with_seed(plan.seed ^ 0x5eed);
        let faults = LinkFaults::new(rng.fork());
        let mut world = Self {
            plan,
            programs: Arc::new(plan.programs.all.clone()),
            backend,
            has_faulted: false,
            rng,
            log,
            witness: Arc::new(Witness::of(backend.snapshot().is_none())),
            faults: Arc::new(faults),
            living: LivePids::default(),
            clocks: plan.slots.iter().map(|slot| VirtualClock::new(slot.off_ms)).collect(),
            right_clock: VirtualClock::new(0),
            processes: Vec::new(),
            slots: vec![None; plan.slots.len()],
            due: BTreeMap::new(),
            number: 0,
            signals: Arc::default(),
            requests: Requests::default(),
            blocking_turns: BTreeMap::new(),
            is_quiet: false,
            held_threads: BlockedThreads::new(),
            unknown: BTreeMap::new(),
            free_slots: FreeSlots::new(),
            observer: backend.connect(),
            last_progress: (Instant::now(), 0),
            is_stuck: false,
            quiet_since: Instant::now(),
            is_ending: false,
            left: BTreeSet::new(),
            left_in_order: BTreeSet::new(),
            held_answers: Vec::new(),
        };
        for (place, (at_ms, _)) in plan.acts.iter().enumerate() {
            world.after(*at_ms, WorldEvent::Act(place));
        }
        for (slot, edition) in plan.slots.iter().map(|slot| slot.edition).enumerate() {
            world.after(0, WorldEvent::Begin(slot, edition));
        }
        world.after(plan.quiet_ms, WorldEvent::Quiet);
        world
    }

    pub(crate) fn after(&mut self, ms: u64, due: WorldEvent) {
        self.number += 1;
        self.due
            .insert((Instant::now() + Duration::from_millis(ms), self.number), due);
    }

    /// Runs until everything has ended, or must have.
    pub(crate) async fn run(&mut self) {
        self.set_queues().await;
        let end = Instant::now() + Duration::from_millis(RUN_MS);
        loop {
            while let Some(signal) = self.signals.take() {
                self.receive(signal);
            }
            if std::mem::take(&mut self.has_faulted) {
                checker::rows(&*self.observer.provider, &self.witness).await;
            }
            if self.is_ending && self.left.len() == self.processes.len() {
                return;
            }
            if Instant::now() >= end || self.is_stuck {
                return self.give_up();
            }
            if self.take_step() {
                for _ in 0..self.rng.u8(..4) {
                    tokio::task::yield_now().await;
                }
                continue;
            }
            let next = self.due.first_key_value().map_or(end, |((at, _), _)| *at);
            tokio::select! {
                biased;
                () = self.signals.arrived.notified() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Does one of the things that can be done now. Returns false if there is none.
    fn take_step(&mut self) -> bool {
        let now = Instant::now();
        let due = self.due.range(..=(now, u64::MAX)).count();
        let ready: Vec<(usize, LaneId)> = self.ready_lanes();
        if due + ready.len() == 0 {
            return false;
        }
        let drawn = self.rng.usize(..due + ready.len());
        match ready.get(drawn.wrapping_sub(due)) {
            Some((process, lane)) if drawn >= due => self.take_job(*process, *lane),
            _ => {
                let key = *self.due.keys().nth(drawn).expect("so many are due");
                let due = self.due.remove(&key).expect("it is due");
                self.run_due(due);
            }
        }
        true
    }

    fn ready_lanes(&self) -> Vec<(usize, LaneId)> {
        let lanes = |(place, process): (usize, &Process)| {
            let ready = (0..process.lanes.len())
                .map(LaneId)
                .filter(|lane| process.can_run(*lane));
            ready.map(|lane| (place, lane)).collect::<Vec<_>>()
        };
        self.processes.iter().enumerate().flat_map(lanes).collect()
    }

    /// The processes that run instances, except `but`.
    pub(crate) fn workers(&self, but: Option<Pid>) -> Vec<Pid> {
        let is_able = |process: &Process| {
            process.state == ProcessState::Running && process.is_started && !process.is_client && !process.is_leaving
        };
        let pids = (0..).zip(&self.processes);
        let able = pids.filter(|(pid, process)| Some(*pid) != but && is_able(process));
        able.map(|(pid, _)| pid).collect()
    }

    fn process(&mut self, pid: Pid) -> &mut Process {
        &mut self.processes[pid as usize]
    }

    fn receive(&mut self, signal: Signal) {
        match signal {
            Signal::Woken(pid, lane) => self.process(pid).lanes[lane.0].is_awake = true,
            Signal::Died(pid) => self.kill(pid, None),
            Signal::Started(pid, true) => {
                self.process(pid).is_started = true;
                for lane in 1..self.process(pid).lanes.len() {
                    self.attach(pid, LaneId(lane));
                }
            }
            Signal::Started(pid, false) => self.after(500, WorldEvent::Start(pid)),
            Signal::Left(pid) => self.has_left(pid),
            Signal::Answered(pid, request, answer) => match self.process(pid).state {
                ProcessState::Running => self.answered(pid, request, answer),
                // The answer reaches the client once the process goes on.
                ProcessState::Stopped => self.held_answers.push((pid, request, answer)),
                ProcessState::Dead => {}
            },
            Signal::Appended(pid, token, answer) => {
                let name = &self.processes[pid as usize].name;
                self.log.say(name, format_args!("append of {token}: {answer:?}"));
                self.after(0, WorldEvent::Appended(pid, token));
            }
        }
    }

    fn run_due(&mut self, due: WorldEvent) {
        match due {
            WorldEvent::Act(place) => match self.plan.acts[place].1 {
                Act::Request(request) => {
                    let number = self.requests.add(request);
                    self.send(number);
                }
                Act::Fault(fault) => {
                    self.has_faulted = true;
                    self.fault(fault);
                }
            },
            WorldEvent::AttemptOver(pid, token) => self.attempt_over(pid, token),
            WorldEvent::Heartbeat(pid, token) => self.heartbeat(pid, token),
            WorldEvent::Append(pid, token) => self.append(pid, token),
            WorldEvent::Appended(pid, token) => self.appended(pid, token),
            WorldEvent::Unblock(pid, lane) => self.unblock(pid, lane),
            WorldEvent::Continue(pid) => self.continue_process(pid),
            WorldEvent::Begin(slot, edition) => self.begin(slot, edition),
            WorldEvent::Start(pid) => self.start(pid),
            WorldEvent::Attach(pid, lane) => self.attach(pid, lane),
            WorldEvent::Register(pid, program) => self.register(pid, program),
            WorldEvent::Request(number) => self.send(number),
            WorldEvent::Quiet => self.quiet(),
            WorldEvent::Check => self.check(),
        }
    }

    /// The requests and instances that are not over yet.
    fn open(&self) -> Vec<String> {
        let requests = self.requests.open().map(|request| format!("request {request:?}"));
        let instances = self.unfinished().map(|seen| format!("{} is {:?}", seen.id, seen.state));
        requests.chain(instances).collect()
    }

    /// Instances that go on by themselves. A poisonous one that is suspended does not.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = KnownInstance> {
        let instances = self.witness.instances().into_iter().map(|(_, seen)| seen);
        instances.filter(|seen| match seen.state {
            InstanceState::Ended => false,
            InstanceState::Suspended => self.kind_of(&seen.id) != Kind::Poison,
            InstanceState::Open => true,
        })
    }

    fn kind_of(&self, id: &str) -> Kind {
        let number = id
            .strip_prefix("instance-")
            .and_then(|number| number.parse::<usize>().ok());
        number.map_or(Kind::Plain, |program| self.programs[program].kind)
    }

    fn check(&mut self) {
        // Calls that are still on their way come first.
        if self.open().is_empty() && self.quiet_since.elapsed() > Duration::from_millis(LATE_MS) {
            self.is_ending = true;
            self.log.say("world", format_args!("has nothing open"));
            for pid in 0..self.processes.len() {
                self.shut_down(pid as Pid, Duration::from_secs(1));
            }
            return;
        }
        self.check_due_work();
        self.check_lines();
        self.check_revocations();
        self.check_ownership();
        self.check_places();
        self.find_ended_instances();
        let events = self.witness.figures().events;
        if events > self.last_progress.1 {
            self.last_progress = (Instant::now(), events);
        }
        self.is_stuck = !self.open().is_empty() && self.last_progress.0.elapsed() > Duration::from_millis(PATIENCE_MS);
        for (_, seen) in self.witness.instances() {
            if seen.state == InstanceState::Suspended && self.kind_of(&seen.id) != Kind::Poison {
                self.resume(&seen.id);
            }
        }
        // The request to pause a queue may have come after that to resume it.
        for queue in self.witness.paused() {
            self.resume_queue(&queue);
        }
        self.after(1_000, WorldEvent::Check);
    }

    fn give_up(&mut self) {
        let living = self
            .processes
            .iter()
            .filter(|process| process.state != ProcessState::Dead);
        for process in living {
            for line in process.lanes.iter().flat_map(Lane::pending) {
                self.log.say(&process.name, format_args!("{line}"));
            }
        }
        let open = self.open();
        let left: Vec<&str> = self
            .processes
            .iter()
            .filter(|p| p.state != ProcessState::Dead)
            .map(|p| p.name.as_str())
            .collect();
        self.witness.report(format!(
            "L1: not over: {}; processes {}",
            open.join(", "),
            left.join(", ")
        ));
    }
}
