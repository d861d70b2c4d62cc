//! The engine past its history: it records completions from outside and delivers them.

use super::{Engine, Phase, Stopped, Turn};
use crate::inbox::Arrival;
use crate::limits::Grown;
use crate::operations::Operations;
use crate::{CancelPoint, Completion, Delivery, Event, EventId, EventRecord, LimitReached, Settlement, Step};

impl Engine {
    pub(super) fn live_next(&mut self, now_ms: i64) -> Result<Step, LimitReached> {
        let is_used_up = self.turn.deliveries >= self.budget.deliveries.max(1)
            || self.turn.commands >= self.budget.commands.max(1)
            || self.turn.bytes >= self.budget.bytes.max(1)
            || self.turn.is_long();
        if is_used_up && self.is_runnable(now_ms) {
            return Ok(self.stop(Stopped::Budget));
        }
        let now_ms = self.monotonic(now_ms);
        while let Some(event) = self.take_deliverable(now_ms) {
            // A request to cancel always comes through.
            if !matches!(event, Event::CancelRequested { .. }) {
                self.check_limits(&event)?;
            }
            self.record(event.clone(), now_ms);
            if let Some(delivery) = self.apply_delivery(event) {
                self.turn.deliveries += 1;
                self.time_ms = now_ms;
                return Ok(Step::Deliver {
                    delivery,
                    time_ms: now_ms,
                });
            }
        }
        Ok(Step::Wait)
    }

    /// Delivers a request to cancel although the code does not wait.
    pub(super) fn live_interruption(&mut self, now_ms: i64) -> Option<(Delivery, i64)> {
        let (seq, reason) = self.inbox.take_cancel()?;
        self.turn.consumed.push(seq);
        let event = Event::CancelRequested {
            reason,
            at: CancelPoint::Step,
        };
        self.time_ms = self.monotonic(now_ms);
        self.record(event.clone(), self.time_ms);
        self.turn.deliveries += 1;
        Some((self.apply_delivery(event)?, self.time_ms))
    }

    /// Checks the limits before an event is recorded. The engine is broken if a limit is exceeded (E4).
    pub(super) fn check_limits(&mut self, event: &Event) -> Result<(), LimitReached> {
        let grown = Grown {
            next_event_id: self.next_event_id,
            history_bytes: self.history_bytes,
            turn_bytes: self.turn.bytes,
            pending_activities: self.operations.activities(),
            is_cancelling: self.is_cancelling(),
        };
        match self.limits.exceeded_by(event, grown) {
            None => Ok(()),
            Some(limit) => {
                self.turn = Turn::default();
                self.operations = Operations::default();
                self.phase = Phase::Broken(Box::new(limit.into()));
                Err(limit)
            }
        }
    }

    pub(super) fn record(&mut self, event: Event, time_ms: i64) {
        let bytes = event.payload_bytes() as u64;
        self.turn.bytes += bytes;
        self.history_bytes += bytes;
        self.turn
            .events
            .push(EventRecord::new(self.next_event_id, time_ms, event));
        self.next_event_id = self.next_event_id.next();
    }

    /// Returns the next event that can be recorded now, a delivery or bookkeeping: first from the inbox, then an
    /// operation that is due.
    fn take_deliverable(&mut self, now_ms: i64) -> Option<Event> {
        while let Some(arrival) = self.inbox.take() {
            match arrival {
                Arrival::Cancel { seq, reason } => {
                    self.turn.consumed.push(seq);
                    return Some(Event::CancelRequested {
                        reason,
                        at: CancelPoint::Wait,
                    });
                }
                Arrival::Settled {
                    seq,
                    execution,
                    scheduled,
                    settlement,
                } => {
                    self.turn.consumed.push(seq);
                    if execution == self.execution
                        && let Some(event) = self.event_of_settlement(scheduled, settlement, now_ms)
                    {
                        return Some(event);
                    }
                }
                Arrival::Mail { seq, mailbox, payload } => {
                    self.turn.consumed.push(seq);
                    return Some(Event::MessageReceived { mailbox, payload });
                }
                Arrival::Activity(completion) => {
                    if let Some(event) = self.event_of(completion, now_ms) {
                        return Some(event);
                    }
                }
            }
        }
        self.due(now_ms)
    }

    /// Returns the event that records the settlement of a child, a sent operation, or an attempt of another worker;
    /// `None` if the operation has already settled (E5).
    fn event_of_settlement(&self, scheduled: EventId, settlement: Settlement, now_ms: i64) -> Option<Event> {
        if let Settlement::Attempted { attempt, result } = settlement {
            let is_current = self.operations.activity(scheduled)?.attempt == attempt;
            return is_current
                .then(|| self.event_of(result.into_completion(scheduled), now_ms))
                .flatten();
        }
        let is_child = self.operations.is_child(scheduled);
        if !is_child && !self.operations.is_sent(scheduled) {
            return None;
        }
        match settlement {
            Settlement::Refused(refusal) => Some(Event::OperationRefused { scheduled, refusal }),
            Settlement::Completed(output) => is_child.then_some(Event::ChildCompleted { scheduled, output }),
            Settlement::Failed(failure, error) => is_child.then_some(Event::ChildFailed {
                scheduled,
                failure,
                error,
            }),
            Settlement::Attempted { .. } => unreachable!("it was dealt with above"),
        }
    }

    /// Returns the event that records the completion of an activity; `None` if the activity is no longer open (E5).
    fn event_of(&self, completion: Completion, now_ms: i64) -> Option<Event> {
        match completion {
            Completion::ActivityCompleted { scheduled, output } => {
                self.operations.activity(scheduled)?;
                Some(Event::ActivityCompleted { scheduled, output })
            }
            Completion::AttemptFailed {
                scheduled,
                error,
                error_name,
                non_retryable,
                retry_after_ms,
            } => {
                let activity = self.operations.activity(scheduled)?;
                let (attempt, policy) = (activity.attempt, &activity.task.options.retry);
                let is_last = non_retryable || policy.non_retryable.contains(&error_name);
                let delay = if is_last {
                    None
                } else {
                    policy.delay_after(attempt, self.random.seed(), scheduled)
                };
                let retry_at_ms =
                    delay.map(|delay_ms| now_ms.saturating_add(retry_after_ms.unwrap_or(delay_ms).max(0)));
                let is_in_time = |at: &i64| activity.task.deadline_ms.is_none_or(|deadline| *at < deadline);
                Some(match retry_at_ms.filter(is_in_time) {
                    Some(retry_at_ms) => Event::ActivityAttemptFailed {
                        scheduled,
                        attempt,
                        error,
                        retry_at_ms,
                    },
                    None => Event::ActivityFailed {
                        scheduled,
                        attempt,
                        error,
                    },
                })
            }
            Completion::Message(_) => unreachable!("the inbox sorts messages out"),
        }
    }
}
