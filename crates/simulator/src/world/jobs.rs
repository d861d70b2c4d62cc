//! The jobs of the lanes: turns, and attempts of activities.

use perdure_runtime::{ActivityJob, ActivityToken, Failure, Job, LaneId, Token};

use super::{World, WorldEvent};
use crate::code::{UNSERVED, work_of};
use crate::entries::Appends;
use crate::link::ProcessState;
use crate::process::{Pid, RunningAttempt};
use crate::program::Kind;

impl World<'_> {
    pub(super) fn take_job(&mut self, place: usize, lane: LaneId) {
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
                if job.schedule_to_start_timeout_ms.is_some() {
                    self.log
                        .say(&name, format_args!("finds {} #{} late", job.instance_id, job.scheduled));
                    process.lanes[lane.0].is_awake |= process.runtime.fail_activity(lane, job.token, late());
                    return;
                }
                if job.queue.as_deref() == Some(UNSERVED) {
                    let (id, scheduled) = (&job.instance_id, job.scheduled);
                    self.witness.report(format!(
                        "P28: an attempt of {id} #{scheduled} begins in {name}, which does not serve its queue"
                    ));
                }
                self.witness.begins(&self.log, &name, &job);
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
                    self.witness.report(format!("panic: {}", record.message));
                }
            }
            Job::Log(_) | Job::Ended(_) => {}
        }
    }

    pub(super) fn turn(&mut self, pid: Pid, lane: LaneId, token: Token) {
        let process = &mut self.processes[pid as usize];
        let Some(program) = process.program_of(token) else {
            return;
        };
        match self.programs[program].kind {
            Kind::Poison if !self.is_ending => {
                self.faults.fire("poison");
                self.kill(pid, Some(200));
            }
            Kind::Blocking if self.blocking_turns.get(&program).is_none_or(|times| *times < 2) => {
                *self.blocking_turns.entry(program).or_default() += 1;
                process.lanes[lane.0].held = Some(Job::Turn(token));
                let ms = self.plan.turn_deadline_ms * 2;
                self.note_held_thread(pid, lane, token);
                self.block(pid, lane, ms);
            }
            _ => process.turn(lane, token, &self.programs),
        }
    }

    fn attempt(&mut self, pid: Pid, lane: LaneId, job: ActivityJob) {
        let work = work_of(job.input.as_deref().unwrap_or_default());
        let (token, attempt) = (job.token, job.attempt);
        let ms = if attempt <= work.hangs {
            job.timeout_ms.expect("what hangs has a timeout")
        } else {
            work.ms
        };
        let appends = Appends::default();
        let running = RunningAttempt { job, lane, appends };
        self.process(pid).attempts.insert(token, running);
        self.after(ms, WorldEvent::AttemptOver(pid, token));
        if work.sends_heartbeats {
            self.after(ms / 2, WorldEvent::Heartbeat(pid, token));
        }
        if work.writes_entries {
            self.after(ms / 2, WorldEvent::Append(pid, token));
        }
    }

    /// Puts a thing off if the process stands still. Returns true if it did.
    pub(super) fn defers(&mut self, pid: Pid, due: WorldEvent) -> bool {
        let is_stopped = self.process(pid).state == ProcessState::Stopped;
        if is_stopped {
            self.after(50, due);
        }
        is_stopped
    }

    /// Puts a thing off if the thread of the attempt is busy or its process stands still. Returns true if it did.
    pub(super) fn defers_attempt(&mut self, pid: Pid, token: ActivityToken, due: WorldEvent) -> bool {
        let process = &self.processes[pid as usize];
        let is_busy = process
            .attempts
            .get(&token)
            .is_some_and(|attempt| process.lanes[attempt.lane.0].is_blocked);
        if is_busy {
            self.after(50, due);
        }
        is_busy || self.defers(pid, due)
    }

    pub(super) fn attempt_over(&mut self, pid: Pid, token: ActivityToken) {
        if self.defers_attempt(pid, token, WorldEvent::AttemptOver(pid, token)) || self.appends_rest(pid, token) {
            return;
        }
        let process = &mut self.processes[pid as usize];
        let Some(RunningAttempt { job, lane, .. }) = process.attempts.remove(&token) else {
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

    pub(super) fn heartbeat(&mut self, pid: Pid, token: ActivityToken) {
        if self.defers_attempt(pid, token, WorldEvent::Heartbeat(pid, token)) {
            return;
        }
        let process = &self.processes[pid as usize];
        if let Some(RunningAttempt { job, .. }) = process.attempts.get(&token) {
            process
                .runtime
                .heartbeat(token, format!("{} {}", job.instance_id, job.attempt));
        }
    }
}

fn late() -> Failure {
    Failure {
        non_retryable: true,
        ..failure()
    }
}

fn failure() -> Failure {
    Failure {
        error: Some("failed".into()),
        error_name: "Error".into(),
        error_codes: Vec::new(),
        non_retryable: false,
        retry_after_ms: None,
    }
}
