//! The faults of the plan, and their end.

use std::time::Duration;

use perdure_runtime::{Job, LaneId};
use tokio::time::Instant;

use super::{World, WorldEvent};
use crate::code::Edition;
use crate::link::ProcessState;
use crate::plan::{Fault, FaultRates};
use crate::process::Pid;

impl World<'_> {
    pub(super) fn fault(&mut self, fault: Fault) {
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
                if let Some(pid) = pid(slot) {
                    self.stop(pid, ms);
                }
            }
            Fault::Outage { ms } => {
                self.faults.fire("outage");
                self.log.say("store", format_args!("is gone for {ms} ms"));
                *self.faults.outage_until.lock() = Instant::now() + Duration::from_millis(ms);
            }
            Fault::Refusal { ms, refusal } => {
                self.faults.fire("refusal");
                self.log.say("store", format_args!("refuses for {ms} ms: {refusal:?}"));
                *self.faults.refusal.lock() = Some((Instant::now() + Duration::from_millis(ms), refusal));
            }
            Fault::Jump { slot, ms } => {
                self.faults.fire("clock that was set");
                self.log.say("clock", format_args!("of slot {slot} is set by {ms} ms"));
                self.clocks[slot].jump(ms);
            }
            Fault::Deploy {
                slot,
                edition,
                timeout_ms,
                down_ms,
            } => {
                self.faults.fire("deployment");
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
            Fault::Rates(rates) => *self.faults.rates.lock() = rates,
        }
    }

    fn stop(&mut self, pid: Pid, ms: u64) {
        let process = self.process(pid);
        if process.state != ProcessState::Running {
            return;
        }
        process.state = ProcessState::Stopped;
        process.link.set_process_state(ProcessState::Stopped);
        let name = process.name.clone();
        self.log.say(&name, format_args!("stands still for {ms} ms"));
        self.witness.disturb(&name);
        self.faults.fire(if ms > self.plan.lease_ms {
            "stop beyond the lease"
        } else {
            "stop"
        });
        self.after(ms, WorldEvent::Continue(pid));
    }

    pub(super) fn block(&mut self, pid: Pid, lane: LaneId, ms: u64) {
        let process = self.process(pid);
        if process.state == ProcessState::Running && !process.lanes[lane.0].is_blocked {
            process.lanes[lane.0].is_blocked = true;
            let name = process.name.clone();
            self.faults.fire("blocked thread");
            self.witness.disturb(&name);
            self.log.say(&name, format_args!("lane {} is busy for {ms} ms", lane.0));
            self.after(ms, WorldEvent::Unblock(pid, lane));
        }
    }

    pub(super) fn unblock(&mut self, pid: Pid, lane: LaneId) {
        if self.defers(pid, WorldEvent::Unblock(pid, lane)) {
            return;
        }
        self.check_held_thread(pid, lane);
        let process = &mut self.processes[pid as usize];
        if process.state != ProcessState::Running || !process.lanes[lane.0].is_blocked {
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
        if process.state != ProcessState::Running || process.is_leaving {
            return;
        }
        let name = process.name.clone();
        process.lanes[lane.0].lose();
        process.attempts.retain(|_, attempt| attempt.lane != lane);
        process.runtime.detach(lane);
        self.faults.fire("lost thread");
        self.log.say(&name, format_args!("lane {} loses its thread", lane.0));
        self.witness.disturb(&name);
        self.after(down_ms, WorldEvent::Attach(pid, lane));
    }

    /// Ends all faults, and deploys the right code everywhere.
    pub(super) fn quiet(&mut self) {
        self.is_quiet = true;
        self.last_progress = (Instant::now(), 0);
        self.quiet_since = Instant::now();
        self.log.say("world", format_args!("becomes quiet"));
        *self.faults.rates.lock() = FaultRates::default();
        *self.faults.outage_until.lock() = Instant::now();
        *self.faults.refusal.lock() = None;
        for slot in 0..self.slots.len() {
            let pid = self.slots[slot];
            if let Some(pid) = pid {
                self.continue_process(pid);
            }
            match pid {
                Some(pid) if self.process(pid).edition != Edition::New => {
                    self.deploy(pid, 0, Edition::New, 10);
                }
                Some(pid) => self.process(pid).link.cancel_crash(),
                None => {}
            }
        }
        self.after(1_000, WorldEvent::Check);
    }
}
