//! The entries that attempts append to a stream. As in the JavaScript host, an attempt appends one batch at a time and
//! none twice, and its end is reported after the answer to the last one.

use std::sync::Arc;

use perdure_runtime::ActivityToken;

use super::{Signal, World, WorldEvent};
use crate::code::work_of;
use crate::entries::run_of;
use crate::process::{Pid, RunningAttempt};

impl World<'_> {
    /// An attempt appends its first entries in the middle of its time.
    pub(super) fn append(&mut self, pid: Pid, token: ActivityToken) {
        if self.defers_attempt(pid, token, WorldEvent::Append(pid, token)) {
            return;
        }
        let attempt = self.processes[pid as usize].attempts.get(&token);
        if attempt.is_some_and(|attempt| attempt.appends.sent == 0) {
            self.send_entries(pid, token, false);
        }
    }

    /// An attempt that is over appends the rest of its entries. Returns true if the end of the attempt has to wait for
    /// an answer.
    pub(super) fn appends_rest(&mut self, pid: Pid, token: ActivityToken) -> bool {
        let Some(attempt) = self.process(pid).attempts.get_mut(&token) else {
            return false;
        };
        let work = work_of(attempt.job.input.as_deref().unwrap_or_default());
        attempt.appends.is_over = true;
        if !attempt.appends.is_under_way && work.writes_entries && attempt.appends.sent < work.entries() {
            self.send_entries(pid, token, true);
            return true;
        }
        attempt.appends.is_under_way
    }

    /// Sends the first entries of an attempt, or with `all` those that did not go out.
    fn send_entries(&mut self, pid: Pid, token: ActivityToken, all: bool) {
        let signals = Arc::clone(&self.signals);
        let process = &mut self.processes[pid as usize];
        let Some(RunningAttempt { job, appends, .. }) = process.attempts.get_mut(&token) else {
            return;
        };
        let work = work_of(job.input.as_deref().unwrap_or_default());
        let up_to = if all { work.entries() } else { work.first_entries() };
        let (append, begins) = appends.send(work, &run_of(job, &process.name, token), up_to);
        let reply = Box::new(move |answer| signals.send(Signal::Appended(pid, token, answer)));
        process.runtime.append(token, append, begins, reply);
    }

    /// An append was answered.
    pub(super) fn appended(&mut self, pid: Pid, token: ActivityToken) {
        if self.defers_attempt(pid, token, WorldEvent::Appended(pid, token)) {
            return;
        }
        let Some(RunningAttempt { appends, .. }) = self.process(pid).attempts.get_mut(&token) else {
            return;
        };
        appends.is_under_way = false;
        if appends.is_over {
            self.attempt_over(pid, token);
        }
    }
}
