//! The life of the processes: their begin, their shutdown, and their death.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use perdure_provider::Queues;
use perdure_runtime::{Host, Job, LaneId, Runtime, RuntimeError, RuntimeOptions, Store};
use tokio::runtime::Handle;

use super::{Signal, Signals, World, WorldEvent};
use crate::code::{ACTIVITY, Edition, QUEUE, VERSION, name_of};
use crate::link::linked::Linked;
use crate::link::{Link, ProcessState, sleep};
use crate::machine::VirtualMachine;
use crate::process::{Lane, MAIN, Pid, Process};

/// One program of this many is registered after the process has begun.
const LATE_REGISTRATION: u32 = 8;

/// Wakes one lane of a process.
struct Waker(Arc<Signals>, Pid, LaneId);

impl Host for Waker {
    fn wake(&self) {
        self.0.send(Signal::Woken(self.1, self.2));
    }

    fn held_up(&self, _message: &str) {}
}

impl World<'_> {
    pub(super) fn begin(&mut self, slot: usize, edition: Edition) {
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
        let signals = Arc::clone(&self.signals);
        let link = Link::new(
            self.backend.connect(),
            Arc::clone(&self.faults),
            Arc::clone(&self.log),
            Arc::clone(&self.witness),
            name.clone(),
            Box::new(move || signals.send(Signal::Died(pid))),
        );
        let store = Store::new(Arc::new(Linked(Arc::clone(&link))), machine, Handle::current());
        let runtime = Arc::new(Runtime::new(Arc::clone(&store), self.options(slot)));
        runtime.register_activity(ACTIVITY.into());
        runtime.share_activity(ACTIVITY.into());
        self.processes.push(Process {
            name,
            slot,
            link,
            store,
            runtime,
            state: ProcessState::Running,
            edition,
            is_started: false,
            is_client: plan.is_client,
            is_leaving: false,
            successor: None,
            lanes: (0..=plan.threads).map(|_| Lane::default()).collect(),
            attempts: BTreeMap::new(),
        });
        self.slots[slot] = Some(pid);
        let is_client = plan.is_client;
        for program in 0..self.programs.len() {
            // In quiet times work must not wait for a registration (L2).
            if !self.is_quiet && self.rng.u32(..LATE_REGISTRATION) == 0 {
                let late_ms = self.rng.u64(..2_000);
                self.after(late_ms, WorldEvent::Register(pid, program));
            } else {
                self.register(pid, program);
            }
        }
        if !is_client {
            self.start(pid);
        }
    }

    fn options(&self, slot: usize) -> RuntimeOptions {
        let plan = &self.plan.slots[slot];
        RuntimeOptions {
            threads: plan.threads,
            activity_concurrency: plan.activity_concurrency,
            orchestration_concurrency: plan.orchestration_concurrency,
            cached_instances_max: plan.cached_instances_max,
            lease: Duration::from_millis(self.plan.lease_ms),
            turn_deadline: Duration::from_millis(self.plan.turn_deadline_ms),
            queues: Queues::Named(
                ["default".to_owned()]
                    .into_iter()
                    .chain(plan.serves_queue.then(|| QUEUE.to_owned()))
                    .collect(),
            ),
            // Few and short ones, so that sessions move.
            sessions_max: 2,
            session_idle: Duration::from_secs(1),
            ..RuntimeOptions::default()
        }
    }

    /// Registers a program with the runtime of a process, before or after its start.
    pub(super) fn register(&mut self, pid: Pid, program: usize) {
        let process = &self.processes[pid as usize];
        if process.state == ProcessState::Dead {
            return;
        }
        let code = format!("{:?}", process.edition);
        let registered = process.runtime.register(name_of(program), VERSION.into(), code);
        registered.expect("each program is registered once");
        process.runtime.share(name_of(program), VERSION.into());
    }

    pub(super) fn start(&mut self, pid: Pid) {
        let process = &self.processes[pid as usize];
        if process.state == ProcessState::Dead {
            return;
        }
        let (runtime, signals) = (Arc::clone(&process.runtime), Arc::clone(&self.signals));
        let host = Arc::new(Waker(Arc::clone(&signals), pid, MAIN));
        tokio::spawn(async move {
            let is_started = runtime.start(host).await.is_ok();
            signals.send(Signal::Started(pid, is_started));
        });
    }

    pub(super) fn attach(&mut self, pid: Pid, lane: LaneId) {
        let process = &self.processes[pid as usize];
        if process.state != ProcessState::Dead && !process.is_leaving {
            let host = Arc::new(Waker(Arc::clone(&self.signals), pid, lane));
            process.runtime.attach(lane, host).expect("there is such a lane");
        }
    }

    /// SIGKILL. The process begins anew after `down_ms`, or soon.
    pub(super) fn kill(&mut self, pid: Pid, down_ms: Option<u64>) {
        let down_ms = down_ms.unwrap_or_else(|| self.rng.u64(1..3_000));
        let process = self.process(pid);
        if process.state == ProcessState::Dead {
            return;
        }
        let (slot, edition) = (process.slot, process.edition);
        self.end_process(pid);
        self.faults.fire("kill");
        self.after(down_ms, WorldEvent::Begin(slot, edition));
    }

    /// Removes a process, of which nothing is heard any more.
    pub(super) fn end_process(&mut self, pid: Pid) {
        let process = self.process(pid);
        process.state = ProcessState::Dead;
        process.link.set_process_state(ProcessState::Dead);
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
    pub(super) fn deploy(&mut self, pid: Pid, timeout_ms: u64, edition: Edition, down_ms: u64) {
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
    pub(super) fn shut_down(&mut self, pid: Pid, timeout: Duration) {
        let process = self.process(pid);
        if process.is_leaving || process.state == ProcessState::Dead {
            return;
        }
        if process.is_client {
            return self.end_process(pid);
        }
        process.is_leaving = true;
        let (name, runtime, signals) = (
            process.name.clone(),
            Arc::clone(&process.runtime),
            Arc::clone(&self.signals),
        );
        self.log.say(&name, format_args!("shuts down"));
        self.witness.disturb(&name);
        tokio::spawn(async move {
            // The runtime may not be started yet.
            while let Err(RuntimeError::State(_)) = runtime.begin_shutdown() {
                sleep(Duration::from_millis(10)).await;
            }
            runtime.finish_shutdown(timeout).await;
            signals.send(Signal::Left(pid));
        });
    }

    pub(super) fn has_left(&mut self, pid: Pid) {
        if self.process(pid).state == ProcessState::Dead {
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
            self.after(down_ms, WorldEvent::Begin(process.slot, edition));
        }
        let sizes = process.runtime.map_sizes();
        if sizes != perdure_runtime::MapSizes::default() {
            self.witness
                .report(format!("S22: {} has shut down and still holds {sizes:?}", process.name));
        }
        let last = self.processes.len();
        self.processes.push(process);
        self.processes.swap(pid as usize, last);
        self.end_process(pid);
    }

    pub(super) fn continue_process(&mut self, pid: Pid) {
        let process = self.process(pid);
        if process.state == ProcessState::Stopped {
            process.state = ProcessState::Running;
            process.link.set_process_state(ProcessState::Running);
            let name = process.name.clone();
            self.log.say(&name, format_args!("goes on"));
            for (pid, request, answer) in self.held_answers.extract_if(.., |(of, _, _)| *of == pid) {
                self.signals.send(Signal::Answered(pid, request, answer));
            }
            self.witness.disturb(&name);
        }
    }
}
