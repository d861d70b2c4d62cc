//! The calls of a lane's thread that take jobs, and end attempts.

use std::sync::Arc;

use perdure_engine::{AttemptResult, Payload, StreamAppend};
use perdure_scheduler::LaneId;

use crate::activity::stream_appends::Appended;
use crate::client::store::Reply;
use crate::lane::job::{Job, Queued};
use crate::lane::pulse::CurrentWork;
use crate::runtime::Runtime;
use crate::state::attempt::ActivityToken;
use crate::turn;
use crate::turn::in_progress::Turn;

/// The failure of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The error as the driver encoded it.
    pub error: Payload,
    /// Name of the error.
    pub error_name: String,
    /// Codes of the error.
    pub error_codes: Vec<String>,
    /// True if the error says that another attempt is useless.
    pub non_retryable: bool,
    /// Delay before the next attempt, ms from now, if the error names one.
    pub retry_after_ms: Option<i64>,
}

impl Runtime {
    /// Returns the next job of a lane. `None` parks the lane until its host is woken, unless the lane `looks_again`
    /// soon by itself.
    pub fn next_job(&self, lane: LaneId, looks_again: bool) -> Option<Job> {
        let pulse = self.shared.pulse(lane);
        pulse.beat();
        loop {
            let queued = if looks_again {
                self.shared.lanes.pop_unparked(lane)
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
    pub(super) fn turn_over(&self, turn: &Turn) {
        self.turns.end(turn.instance.token);
        self.shared.pulse(turn.lane).leave();
    }

    /// Reports the progress of a running attempt.
    pub fn heartbeat(&self, token: ActivityToken, details: String) {
        if let Some(session) = self.session() {
            session.activities.heartbeat(token, details);
        }
    }

    /// Appends entries of a running attempt to a stream. `begins` is true for the first append of the attempt to it.
    pub fn append(&self, token: ActivityToken, append: StreamAppend, begins: bool, reply: Reply<Appended>) {
        match self.session() {
            Some(session) => session.activities.append(token, append, begins, reply),
            None => reply(Ok(Appended::Refused)),
        }
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
            error_codes,
            non_retryable,
            retry_after_ms,
        } = failure;
        self.settle(
            lane,
            token,
            AttemptResult::Failed {
                error,
                error_name,
                error_codes,
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
            self.shared.pulse(lane).note_unparked();
        }
        drain
    }
}
