//! The run of a plan: processes, their threads, clients, and faults.
//!
//! All of it is one thread with a virtual clock. At each step one thing is drawn from the seed, out of the turns of all
//! lanes and the things that are due, and done. Between two steps the tasks of the runtimes get on as far as chance has
//! it.

pub(crate) mod client;
mod liveness;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use perdure_provider::{Epoch, InstanceKey};
use perdure_runtime::{Failure, Host, Job, LaneId, Runtime, RuntimeError, RuntimeOptions, Store};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend::{Backend, Connection};
use crate::checker;
use crate::code::{ACTIVITY, Edition, QUEUE, VERSION, name_of, work_of};
use crate::link::{Air, Link, Linked, Pulse, sleep};
use crate::log::Log;
use crate::machine::{Living, VirtualClock, VirtualMachine};
use crate::plan::{Act, Fault, PATIENCE_MS, Plan, RUN_MS};
use crate::process::{Lane, MAIN, Pid, Process};
use crate::program::{Kind, Program};
use crate::witness::{Seen, Standing, Witness};
use client::{LATE_MS, Requests};
use liveness::Holds;

/// News from within tasks to the world.
pub(crate) enum News {
    /// A lane was parked and has work.
    Woken(Pid, LaneId),
    /// A process has died in one of its calls.
    Died(Pid),
    /// A runtime was started, or not.
    Started(Pid, bool),
    /// A process has shut down.
    Left(Pid),
    /// A client's request was answered.
    Answered(Pid, usize, Result<(), RuntimeError>),
}

/// The queue of the news.
#[derive(Default)]
pub(crate) struct Newsroom {
    news: Mutex<VecDeque<News>>,
    came: Notify,
}

impl Newsroom {
    pub(crate) fn tell(&self, news: News) {
        self.news.lock().push_back(news);
        self.came.notify_one();
    }

    fn take(&self) -> Option<News> {
        self.news.lock().pop_front()
    }
}

/// Something that is due at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// An act of the plan, by its place.
    Act(usize),
    AttemptOver(Pid, perdure_runtime::ActivityToken),
    Beat(Pid, perdure_runtime::ActivityToken),
    Unblock(Pid, LaneId),
    Continue(Pid),
    Begin(usize, Edition),
    Start(Pid),
    Attach(Pid, LaneId),
    /// A client's request, by its number.
    Request(usize),
    /// From here on there are no faults.
    Quiet,
    /// A look, once a second, that checks liveness and whether all is over.
    Look,
}

/// Wakes one lane of a process.
struct Waker(Arc<Newsroom>, Pid, LaneId);

impl Host for Waker {
    fn wake(&self) {
        self.0.tell(News::Woken(self.1, self.2));
    }

    fn held_up(&self, _message: &str) {}
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
    pub(crate) air: Arc<Air>,
    living: Living,
    clocks: Vec<Arc<VirtualClock>>,
    /// A clock that agrees with the store's.
    pub(crate) right_clock: Arc<VirtualClock>,
    /// All processes that there ever were.
    pub(crate) processes: Vec<Process>,
    /// The process of each slot, unless it is down.
    slots: Vec<Option<Pid>>,
    due: BTreeMap<(Instant, u64), Due>,
    number: u64,
    pub(crate) newsroom: Arc<Newsroom>,
    pub(crate) requests: Requests,
    /// The number of turns that have held up their threads, by program.
    hogged: BTreeMap<usize, u32>,
    pub(crate) is_quiet: bool,
    /// Turns that hold up their threads in quiet times.
    pub(crate) holds: Holds,
    /// Instances, with their epochs, that a worker owns in the store without knowing it, and since when.
    pub(crate) unknown: BTreeMap<(InstanceKey, Epoch), Instant>,
    /// A connection that looks at the store from outside.
    pub(crate) onlooker: Connection,
    /// The time since which nothing has got on, and the number of events then.
    still: (Instant, u64),
    is_stuck: bool,
    /// The time at which the faults ended.
    pub(crate) quiet_since: Instant,
    /// True if everything has ended, and the processes are shut down.
    is_ending: bool,
    left: BTreeSet<Pid>,
    /// Names of the processes among them that shut down in the end, when nothing was in their way.
    pub(crate) left_in_order: BTreeSet<String>,
    /// Answers that came to stopped processes.
    held_answers: Vec<(Pid, usize, Result<(), RuntimeError>)>,
}

impl<'a> World<'a> {
    pub(crate) fn new(plan: &'a Plan, backend: &'a dyn Backend, log: Arc<Log>) -> Self {
        let mut rng = Rng::with_seed(plan.seed ^ 0x5eed);
        let air = Air::new(rng.fork());
        let mut world = Self {
            plan,
            programs: Arc::new(plan.programs.all.clone()),
            backend,
            has_faulted: false,
            rng,
            log,
            witness: Arc::default(),
            air: Arc::new(air),
            living: Living::default(),
            clocks: plan.slots.iter().map(|slot| VirtualClock::new(slot.off_ms)).collect(),
            right_clock: VirtualClock::new(0),
            processes: Vec::new(),
            slots: vec![None; plan.slots.len()],
            due: BTreeMap::new(),
            number: 0,
            newsroom: Arc::default(),
            requests: Requests::default(),
            hogged: BTreeMap::new(),
            is_quiet: false,
            holds: Holds::new(),
            unknown: BTreeMap::new(),
            onlooker: backend.connect(),
            still: (Instant::now(), 0),
            is_stuck: false,
            quiet_since: Instant::now(),
            is_ending: false,
            left: BTreeSet::new(),
            left_in_order: BTreeSet::new(),
            held_answers: Vec::new(),
        };
        for (place, (at_ms, _)) in plan.acts.iter().enumerate() {
            world.after(*at_ms, Due::Act(place));
        }
        for (slot, edition) in plan.slots.iter().map(|slot| slot.edition).enumerate() {
            world.after(0, Due::Begin(slot, edition));
        }
        world.after(plan.quiet_ms, Due::Quiet);
        world
    }

    pub(crate) fn after(&mut self, ms: u64, due: Due) {
        self.number += 1;
        self.due
            .insert((Instant::now() + Duration::from_millis(ms), self.number), due);
    }

    /// Runs until everything has ended, or must have.
    pub(crate) async fn run(&mut self) {
        let end = Instant::now() + Duration::from_millis(RUN_MS);
        loop {
            while let Some(news) = self.newsroom.take() {
                self.hear(news);
            }
            if std::mem::take(&mut self.has_faulted) {
                checker::rows(&*self.onlooker.provider, &self.witness).await;
            }
            if self.is_ending && self.left.len() == self.processes.len() {
                return;
            }
            if Instant::now() >= end || self.is_stuck {
                return self.give_up();
            }
            if self.go_on() {
                for _ in 0..self.rng.u8(..4) {
                    tokio::task::yield_now().await;
                }
                continue;
            }
            let next = self.due.first_key_value().map_or(end, |((at, _), _)| *at);
            tokio::select! {
                biased;
                () = self.newsroom.came.notified() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Does one of the things that can be done now. Returns false if there is none.
    fn go_on(&mut self) -> bool {
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
                self.happen(due);
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
    pub(crate) fn able(&self, but: Option<Pid>) -> Vec<Pid> {
        let is_able = |process: &Process| {
            process.pulse == Pulse::Running && process.is_started && !process.is_client && !process.is_leaving
        };
        let pids = (0..).zip(&self.processes);
        let able = pids.filter(|(pid, process)| Some(*pid) != but && is_able(process));
        able.map(|(pid, _)| pid).collect()
    }

    fn process(&mut self, pid: Pid) -> &mut Process {
        &mut self.processes[pid as usize]
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Woken(pid, lane) => self.process(pid).lanes[lane.0].is_awake = true,
            News::Died(pid) => self.kill(pid, None),
            News::Started(pid, true) => {
                self.process(pid).is_started = true;
                for lane in 1..self.process(pid).lanes.len() {
                    self.attach(pid, LaneId(lane));
                }
            }
            News::Started(pid, false) => self.after(500, Due::Start(pid)),
            News::Left(pid) => self.has_left(pid),
            News::Answered(pid, request, answer) => match self.process(pid).pulse {
                Pulse::Running => self.answered(pid, request, answer),
                // The answer reaches the client once the process goes on.
                Pulse::Stopped => self.held_answers.push((pid, request, answer)),
                Pulse::Dead => {}
            },
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Act(place) => match self.plan.acts[place].1 {
                Act::Request(request) => {
                    let number = self.requests.add(request);
                    self.send(number);
                }
                Act::Fault(fault) => {
                    self.has_faulted = true;
                    self.fault(fault);
                }
            },
            Due::AttemptOver(pid, token) => self.attempt_over(pid, token),
            Due::Beat(pid, token) => self.beat(pid, token),
            Due::Unblock(pid, lane) => self.unblock(pid, lane),
            Due::Continue(pid) => self.cont(pid),
            Due::Begin(slot, edition) => self.begin(slot, edition),
            Due::Start(pid) => self.start(pid),
            Due::Attach(pid, lane) => self.attach(pid, lane),
            Due::Request(number) => self.send(number),
            Due::Quiet => self.quiet(),
            Due::Look => self.look(),
        }
    }

    // ---- processes ----

    fn begin(&mut self, slot: usize, edition: Edition) {
        if self.slots[slot].is_some() || self.is_ending {
            return;
        }
        let edition = if self.is_quiet { Edition::New } else { edition };
        let pid = self.processes.len() as Pid;
        let plan = &self.plan.slots[slot];
        self.living.lock().insert(pid);
        let clock = Arc::clone(&self.clocks[slot]);
        let machine = VirtualMachine::new(
            clock,
            plan.host.clone(),
            pid,
            Arc::clone(&self.living),
            self.rng.u64(..),
        );
        let name = format!("p{slot}.{pid}");
        self.log.say(&name, format_args!("begins with the {edition:?} edition"));
        let newsroom = Arc::clone(&self.newsroom);
        let link = Link::new(
            self.backend.connect(),
            Arc::clone(&self.air),
            Arc::clone(&self.log),
            Arc::clone(&self.witness),
            name.clone(),
            Box::new(move || newsroom.tell(News::Died(pid))),
        );
        let store = Store::new(Arc::new(Linked(Arc::clone(&link))), machine, Handle::current());
        let options = RuntimeOptions {
            threads: plan.threads,
            activity_concurrency: plan.activity_concurrency,
            cached_instances_max: plan.cached_instances_max,
            lease: Duration::from_millis(self.plan.lease_ms),
            turn_deadline: Duration::from_millis(self.plan.turn_deadline_ms),
            queues: ["default".to_owned()]
                .into_iter()
                .chain(plan.serves_queue.then(|| QUEUE.to_owned()))
                .collect(),
            ..RuntimeOptions::default()
        };
        let runtime = Arc::new(Runtime::new(Arc::clone(&store), options));
        for program in 0..self.programs.len() {
            let registered = runtime.register(name_of(program), VERSION.into(), format!("{edition:?}"));
            registered.expect("nothing is registered so far");
            runtime.share(name_of(program), VERSION.into());
        }
        runtime.register_activity(ACTIVITY.into());
        runtime.share_activity(ACTIVITY.into());
        self.processes.push(Process {
            name,
            slot,
            link,
            store,
            runtime,
            pulse: Pulse::Running,
            edition,
            is_started: false,
            is_client: plan.is_client,
            is_leaving: false,
            successor: None,
            lanes: (0..=plan.threads).map(|_| Lane::default()).collect(),
            attempts: BTreeMap::new(),
        });
        self.slots[slot] = Some(pid);
        if !plan.is_client {
            self.start(pid);
        }
    }

    fn start(&mut self, pid: Pid) {
        let process = &self.processes[pid as usize];
        if process.pulse == Pulse::Dead {
            return;
        }
        let (runtime, newsroom) = (Arc::clone(&process.runtime), Arc::clone(&self.newsroom));
        let host = Arc::new(Waker(Arc::clone(&newsroom), pid, MAIN));
        tokio::spawn(async move {
            let is_started = runtime.start(host).await.is_ok();
            newsroom.tell(News::Started(pid, is_started));
        });
    }

    fn attach(&mut self, pid: Pid, lane: LaneId) {
        let process = &self.processes[pid as usize];
        if process.pulse != Pulse::Dead && !process.is_leaving {
            let host = Arc::new(Waker(Arc::clone(&self.newsroom), pid, lane));
            process.runtime.attach(lane, host).expect("there is such a lane");
        }
    }

    /// SIGKILL. The process begins anew after `down_ms`, or soon.
    fn kill(&mut self, pid: Pid, down_ms: Option<u64>) {
        let down_ms = down_ms.unwrap_or_else(|| self.rng.u64(1..3_000));
        let process = self.process(pid);
        if process.pulse == Pulse::Dead {
            return;
        }
        let (slot, edition) = (process.slot, process.edition);
        self.end_process(pid);
        self.air.fire("kill");
        self.after(down_ms, Due::Begin(slot, edition));
    }

    /// Removes a process, of which nothing is heard any more.
    fn end_process(&mut self, pid: Pid) {
        let process = self.process(pid);
        process.pulse = Pulse::Dead;
        process.link.set_pulse(Pulse::Dead);
        process.attempts.clear();
        process.lanes.iter_mut().for_each(Lane::lose);
        let (slot, name) = (process.slot, process.name.clone());
        self.slots[slot] = None;
        self.log.say(&name, format_args!("is gone"));
        self.living.lock().remove(&pid);
        self.left.insert(pid);
        self.witness.disturb(&name);
        self.lost_requests(pid);
    }

    /// Shuts a process down in good order. Another one begins in its place.
    fn deploy(&mut self, pid: Pid, timeout_ms: u64, edition: Edition, down_ms: u64) {
        let process = self.process(pid);
        if process.is_client {
            return self.kill(pid, Some(down_ms));
        }
        if process.is_leaving {
            return;
        }
        process.successor = Some((edition, down_ms));
        self.shut_down(pid, Duration::from_millis(timeout_ms));
    }

    /// Shuts a process down in good order.
    fn shut_down(&mut self, pid: Pid, timeout: Duration) {
        let process = self.process(pid);
        if process.is_leaving || process.pulse == Pulse::Dead {
            return;
        }
        if process.is_client {
            return self.end_process(pid);
        }
        process.is_leaving = true;
        let (name, runtime, newsroom) = (
            process.name.clone(),
            Arc::clone(&process.runtime),
            Arc::clone(&self.newsroom),
        );
        self.log.say(&name, format_args!("shuts down"));
        self.witness.disturb(&name);
        tokio::spawn(async move {
            // The runtime may not be started yet.
            while let Err(RuntimeError::State(_)) = runtime.begin_shutdown() {
                sleep(Duration::from_millis(10)).await;
            }
            runtime.finish_shutdown(timeout).await;
            newsroom.tell(News::Left(pid));
        });
    }

    fn has_left(&mut self, pid: Pid) {
        if self.process(pid).pulse == Pulse::Dead {
            return;
        }
        // Runs the jobs that the host is still to be told of.
        let mut process = self.processes.swap_remove(pid as usize);
        for lane in (0..process.lanes.len()).map(LaneId) {
            if let Some(Job::Turn(token)) = process.lanes[lane.0].held.take() {
                process.turn(lane, token, &self.programs);
            }
            while let Some(job) = process.runtime.next_job(lane, false) {
                if let Job::Turn(token) = job {
                    process.turn(lane, token, &self.programs);
                }
            }
        }
        if self.is_ending {
            self.left_in_order.insert(process.name.clone());
        }
        if let Some((edition, down_ms)) = process.successor {
            self.after(down_ms, Due::Begin(process.slot, edition));
        }
        let sizes = process.runtime.map_sizes();
        if sizes != perdure_runtime::MapSizes::default() {
            self.witness
                .accuse(format!("S22: {} has shut down and still holds {sizes:?}", process.name));
        }
        let last = self.processes.len();
        self.processes.push(process);
        self.processes.swap(pid as usize, last);
        self.end_process(pid);
    }

    fn cont(&mut self, pid: Pid) {
        let process = self.process(pid);
        if process.pulse == Pulse::Stopped {
            process.pulse = Pulse::Running;
            process.link.set_pulse(Pulse::Running);
            let name = process.name.clone();
            self.log.say(&name, format_args!("goes on"));
            for (pid, request, answer) in self.held_answers.extract_if(.., |(of, _, _)| *of == pid) {
                self.newsroom.tell(News::Answered(pid, request, answer));
            }
            self.witness.disturb(&name);
        }
    }

    // ---- faults ----

    fn fault(&mut self, fault: Fault) {
        if self.is_quiet {
            return;
        }
        let pid = |slot: usize| self.slots[slot];
        match fault {
            Fault::Kill { slot, down_ms } => {
                if let Some(pid) = pid(slot) {
                    self.kill(pid, Some(down_ms));
                }
            }
            Fault::Crash { slot, calls, moment } => {
                if let Some(pid) = pid(slot) {
                    self.process(pid).link.crash_at(calls, moment);
                }
            }
            Fault::Stop { slot, ms } => {
                if let Some(pid) = pid(slot).filter(|pid| self.processes[*pid as usize].pulse == Pulse::Running) {
                    let process = self.process(pid);
                    process.pulse = Pulse::Stopped;
                    process.link.set_pulse(Pulse::Stopped);
                    let name = process.name.clone();
                    self.log.say(&name, format_args!("stands still for {ms} ms"));
                    self.witness.disturb(&name);
                    self.air.fire(if ms > self.plan.lease_ms {
                        "stop beyond the lease"
                    } else {
                        "stop"
                    });
                    self.after(ms, Due::Continue(pid));
                }
            }
            Fault::Outage { ms } => {
                self.air.fire("outage");
                self.log.say("store", format_args!("is gone for {ms} ms"));
                *self.air.outage_until.lock() = Instant::now() + Duration::from_millis(ms);
            }
            Fault::Refusal { ms, refusal } => {
                self.air.fire("refusal");
                self.log.say("store", format_args!("refuses for {ms} ms: {refusal:?}"));
                *self.air.refusal.lock() = Some((Instant::now() + Duration::from_millis(ms), refusal));
            }
            Fault::Jump { slot, ms } => {
                self.air.fire("clock that was set");
                self.log.say("clock", format_args!("of slot {slot} is set by {ms} ms"));
                self.clocks[slot].jump(ms);
            }
            Fault::Deploy {
                slot,
                edition,
                timeout_ms,
                down_ms,
            } => {
                self.air.fire("deployment");
                if let Some(pid) = pid(slot) {
                    self.deploy(pid, timeout_ms, edition, down_ms);
                }
            }
            Fault::Block { slot, lane, ms } => {
                if let Some(pid) = pid(slot) {
                    self.block(pid, LaneId(lane), ms);
                }
            }
            Fault::LoseThread { slot, lane, down_ms } => {
                if let Some(pid) = pid(slot).filter(|pid| self.processes[*pid as usize].is_started) {
                    self.lose_thread(pid, LaneId(lane), down_ms);
                }
            }
            Fault::Weather(weather) => *self.air.weather.lock() = weather,
        }
    }

    fn block(&mut self, pid: Pid, lane: LaneId, ms: u64) {
        let process = self.process(pid);
        if process.pulse == Pulse::Running && !process.lanes[lane.0].is_blocked {
            process.lanes[lane.0].is_blocked = true;
            let name = process.name.clone();
            self.air.fire("blocked thread");
            self.witness.disturb(&name);
            self.log.say(&name, format_args!("lane {} is busy for {ms} ms", lane.0));
            self.after(ms, Due::Unblock(pid, lane));
        }
    }

    fn unblock(&mut self, pid: Pid, lane: LaneId) {
        if self.defers(pid, Due::Unblock(pid, lane)) {
            return;
        }
        self.held_up(pid, lane);
        let process = &mut self.processes[pid as usize];
        if process.pulse != Pulse::Running || !process.lanes[lane.0].is_blocked {
            return;
        }
        process.lanes[lane.0].is_blocked = false;
        process.lanes[lane.0].is_awake = true;
        let (held, name) = (process.lanes[lane.0].held.take(), process.name.clone());
        self.log.say(&name, format_args!("lane {} is free", lane.0));
        self.witness.disturb(&name);
        if let Some(Job::Turn(token)) = held {
            let process = &mut self.processes[pid as usize];
            process.turn(lane, token, &self.programs);
        }
    }

    fn lose_thread(&mut self, pid: Pid, lane: LaneId, down_ms: u64) {
        let process = self.process(pid);
        if process.pulse != Pulse::Running || process.is_leaving {
            return;
        }
        let name = process.name.clone();
        process.lanes[lane.0].lose();
        process.attempts.retain(|_, (_, of)| *of != lane);
        process.runtime.lose(lane);
        self.air.fire("lost thread");
        self.log.say(&name, format_args!("lane {} loses its thread", lane.0));
        self.witness.disturb(&name);
        self.after(down_ms, Due::Attach(pid, lane));
    }

    /// Ends all faults, and deploys the right code everywhere.
    fn quiet(&mut self) {
        self.is_quiet = true;
        self.still = (Instant::now(), 0);
        self.quiet_since = Instant::now();
        self.log.say("world", format_args!("becomes quiet"));
        *self.air.weather.lock() = crate::plan::Weather::default();
        *self.air.outage_until.lock() = Instant::now();
        *self.air.refusal.lock() = None;
        for slot in 0..self.slots.len() {
            let pid = self.slots[slot];
            if let Some(pid) = pid {
                self.cont(pid);
            }
            match pid {
                Some(pid) if self.process(pid).edition != Edition::New => {
                    self.deploy(pid, 0, Edition::New, 10);
                }
                Some(pid) => self.process(pid).link.calm_down(),
                None => {}
            }
        }
        self.after(1_000, Due::Look);
    }

    // ---- jobs ----

    fn take_job(&mut self, place: usize, lane: LaneId) {
        let process = &mut self.processes[place];
        let pid = place as Pid;
        let Some(job) = process.runtime.next_job(lane, false) else {
            process.lanes[lane.0].is_awake = false;
            return;
        };
        match job {
            Job::Turn(token) => self.turn(pid, lane, token),
            Job::Activity(job) => {
                let name = process.name.clone();
                if job.inline.is_some_and(|token| !process.lanes[lane.0].has_code(token)) {
                    // The code has ended, which is not stored yet.
                    process.lanes[lane.0].is_awake |= process.runtime.fail_activity(lane, job.token, failure());
                    return;
                }
                self.witness.begins(
                    &self.log,
                    &name,
                    &job.instance_id,
                    job.execution,
                    job.scheduled,
                    job.attempt,
                );
                self.attempt(pid, lane, *job);
            }
            Job::Abort { activity, reason } => {
                self.log
                    .say(&process.name, format_args!("aborts {activity}: {reason:?}"));
                process.attempts.remove(&activity);
            }
            Job::Drop(token) => process.lanes[lane.0].drop_code(token),
            Job::Log(record) if record.internal => {
                self.log.say(&process.name, format_args!("says: {}", record.message));
                if record.message.contains("a defect of Perdure") {
                    self.witness.accuse(format!("panic: {}", record.message));
                }
            }
            Job::Log(_) | Job::Ended(_) => {}
        }
    }

    fn turn(&mut self, pid: Pid, lane: LaneId, token: perdure_runtime::Token) {
        let process = &mut self.processes[pid as usize];
        let Some(program) = process.program_of(token) else {
            return;
        };
        match self.programs[program].kind {
            Kind::Poison if !self.is_ending => {
                self.air.fire("poison");
                self.kill(pid, Some(200));
            }
            Kind::Hog if self.hogged.get(&program).is_none_or(|times| *times < 2) => {
                *self.hogged.entry(program).or_default() += 1;
                process.lanes[lane.0].held = Some(Job::Turn(token));
                let ms = self.plan.turn_deadline_ms * 2;
                self.holds_up(pid, lane, token);
                self.block(pid, lane, ms);
            }
            _ => process.turn(lane, token, &self.programs),
        }
    }

    fn attempt(&mut self, pid: Pid, lane: LaneId, job: perdure_runtime::ActivityJob) {
        let work = work_of(job.input.as_deref().unwrap_or_default());
        let (token, attempt) = (job.token, job.attempt);
        let ms = if attempt <= work.hangs {
            job.timeout_ms.expect("what hangs has a timeout")
        } else {
            work.ms
        };
        self.process(pid).attempts.insert(token, (job, lane));
        self.after(ms, Due::AttemptOver(pid, token));
        if work.beats {
            self.after(ms / 2, Due::Beat(pid, token));
        }
    }

    /// Puts a thing off if the process stands still. Returns true if it did.
    fn defers(&mut self, pid: Pid, due: Due) -> bool {
        let is_stopped = self.process(pid).pulse == Pulse::Stopped;
        if is_stopped {
            self.after(50, due);
        }
        is_stopped
    }

    /// Puts a thing off if the thread of the attempt is busy or its process stands still. Returns true if it did.
    fn defers_attempt(&mut self, pid: Pid, token: perdure_runtime::ActivityToken, due: Due) -> bool {
        let process = &self.processes[pid as usize];
        let is_busy = process
            .attempts
            .get(&token)
            .is_some_and(|(_, lane)| process.lanes[lane.0].is_blocked);
        if is_busy {
            self.after(50, due);
        }
        is_busy || self.defers(pid, due)
    }

    fn attempt_over(&mut self, pid: Pid, token: perdure_runtime::ActivityToken) {
        if self.defers_attempt(pid, token, Due::AttemptOver(pid, token)) {
            return;
        }
        let process = &mut self.processes[pid as usize];
        let Some((job, lane)) = process.attempts.remove(&token) else {
            return;
        };
        let work = work_of(job.input.as_deref().unwrap_or_default());
        let fails = job.attempt <= work.hangs + work.fails || work.is_fatal;
        let what = if fails { "fails" } else { "succeeds" };
        self.log.say(
            &process.name,
            format_args!(
                "attempt {} of {} {} #{} {what}",
                job.attempt, job.instance_id, job.execution, job.scheduled
            ),
        );
        self.witness.ends(
            &process.name,
            &job.instance_id,
            job.execution,
            job.scheduled,
            job.attempt,
        );
        let drain = if fails {
            process.runtime.fail_activity(lane, token, failure())
        } else {
            process
                .runtime
                .complete_activity(lane, token, Some(work.value().to_string()))
        };
        process.lanes[lane.0].is_awake |= drain;
    }

    fn beat(&mut self, pid: Pid, token: perdure_runtime::ActivityToken) {
        if self.defers_attempt(pid, token, Due::Beat(pid, token)) {
            return;
        }
        let process = &self.processes[pid as usize];
        if let Some((job, _)) = process.attempts.get(&token) {
            process
                .runtime
                .heartbeat(token, format!("{} {}", job.instance_id, job.attempt));
        }
    }

    // ---- the end ----

    /// The requests and instances that are not over yet.
    fn open(&self) -> Vec<String> {
        let requests = self.requests.open().map(|request| format!("request {request:?}"));
        let instances = self
            .unfinished()
            .map(|seen| format!("{} is {:?}", seen.id, seen.standing));
        requests.chain(instances).collect()
    }

    /// Instances that go on by themselves. A poisonous one that is suspended does not.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = Seen> {
        let instances = self.witness.instances().into_iter().map(|(_, seen)| seen);
        instances.filter(|seen| match seen.standing {
            Standing::Ended => false,
            Standing::Suspended => self.kind_of(&seen.id) != Kind::Poison,
            Standing::Open => true,
        })
    }

    fn kind_of(&self, id: &str) -> Kind {
        let number = id
            .strip_prefix("instance-")
            .and_then(|number| number.parse::<usize>().ok());
        number.map_or(Kind::Plain, |program| self.programs[program].kind)
    }

    fn look(&mut self) {
        // Calls that are still on their way come first.
        if self.open().is_empty() && self.quiet_since.elapsed() > Duration::from_millis(LATE_MS) {
            self.is_ending = true;
            self.log.say("world", format_args!("has nothing open"));
            for pid in 0..self.processes.len() {
                self.shut_down(pid as Pid, Duration::from_secs(1));
            }
            return;
        }
        self.look_at_what_is_due();
        self.look_at_what_was_taken();
        self.look_at_what_is_owned();
        self.look_at_what_is_held();
        let events = self.witness.figures().events;
        if events > self.still.1 {
            self.still = (Instant::now(), events);
        }
        self.is_stuck = !self.open().is_empty() && self.still.0.elapsed() > Duration::from_millis(PATIENCE_MS);
        for (_, seen) in self.witness.instances() {
            if seen.standing == Standing::Suspended && self.kind_of(&seen.id) != Kind::Poison {
                self.resume(&seen.id);
            }
        }
        self.after(1_000, Due::Look);
    }

    fn give_up(&mut self) {
        let living = self.processes.iter().filter(|process| process.pulse != Pulse::Dead);
        for process in living {
            for line in process.lanes.iter().flat_map(Lane::pending) {
                self.log.say(&process.name, format_args!("{line}"));
            }
        }
        let open = self.open();
        let left: Vec<&str> = self
            .processes
            .iter()
            .filter(|p| p.pulse != Pulse::Dead)
            .map(|p| p.name.as_str())
            .collect();
        self.witness.accuse(format!(
            "L1: not over: {}; processes {}",
            open.join(", "),
            left.join(", ")
        ));
    }
}

fn failure() -> Failure {
    Failure {
        error: Some("failed".into()),
        error_name: "Error".into(),
        non_retryable: false,
        retry_after_ms: None,
    }
}
