//! The engine past its history: it records completions from outside and delivers them.

use super::turn::OfferedAsk;
use super::{Engine, Phase, StopReason, Turn};
use crate::inbox::Arrival;
use crate::limits::{ExecutionSize, Growth};
use crate::operations::Operations;
use crate::{
    AttemptResult, Delivery, DeliveryEvent, Event, EventId, EventRecord, FailedAttempt, Interruption, LimitReached,
    NoteEvent, Payload, Settlement, Step,
};

/// The next event to record.
enum Recordable {
    /// It is handed to the code.
    Delivery(DeliveryEvent),
    /// The code does not see it: the engine goes on with the event after it.
    Note(NoteEvent),
    /// It is recorded once the driver has accepted it.
    Ask(OfferedAsk),
}

impl Engine {
    pub(super) fn live_next(&mut self, now_ms: i64) -> Result<Step, LimitReached> {
        let is_used_up = self.turn.deliveries >= self.budget.deliveries.max(1)
            || self.turn.commands >= self.budget.commands.max(1)
            || self.turn.bytes >= self.budget.bytes.max(1)
            || self.turn.is_long();
        if is_used_up && self.is_runnable(now_ms) {
            return Ok(self.stop(StopReason::Budget));
        }
        let now_ms = self.monotonic(now_ms);
        while let Some(event) = self.take_recordable(now_ms) {
            match event {
                Recordable::Note(note) => {
                    self.check_limits(Growth::by_value(note.payload()))?;
                    if let NoteEvent::ActivityAttemptFailed {
                        scheduled,
                        attempt,
                        error,
                        retry_at_ms,
                    } = &note
                    {
                        self.note_failed_attempt(*scheduled, *attempt, error, Some(*retry_at_ms - now_ms));
                    }
                    let id = self.next_event_id;
                    self.record(note.clone(), now_ms);
                    self.apply_note(id, note);
                }
                Recordable::Delivery(delivery) => return self.deliver(delivery, now_ms),
                Recordable::Ask(ask) => return Ok(self.offer_ask(ask)),
            }
        }
        Ok(Step::Wait)
    }

    pub(super) fn deliver(&mut self, event: DeliveryEvent, now_ms: i64) -> Result<Step, LimitReached> {
        // A request to cancel always comes through.
        if !matches!(event, DeliveryEvent::CancelRequested { .. }) {
            self.check_limits(Growth::by_value(event.payload()))?;
        }
        if let DeliveryEvent::ActivityFailed {
            scheduled,
            attempt,
            error,
        } = &event
        {
            self.note_failed_attempt(*scheduled, *attempt, error, None);
        }
        if let DeliveryEvent::MailboxEmpty { .. } = &event {
            self.inbox.forget_look();
        }
        self.record(event.clone(), now_ms);
        let delivery = self.apply_delivery(event);
        self.turn.deliveries += 1;
        self.time_ms = now_ms;
        Ok(Step::Deliver {
            delivery,
            time_ms: now_ms,
        })
    }

    /// Notes a failed attempt for the log. The event that records it comes next.
    fn note_failed_attempt(&mut self, scheduled: EventId, attempt: u32, error: &Payload, delay_ms: Option<i64>) {
        if let Some(activity) = self.operations.activity(scheduled) {
            self.turn.failed_attempts.push(FailedAttempt {
                event_id: self.next_event_id,
                scheduled,
                name: activity.task.name.clone(),
                attempt,
                attempts_max: activity.task.options.retry.max_attempts,
                error: error.clone(),
                delay_ms,
            });
        }
    }

    /// Delivers a request to cancel although the code does not wait.
    pub(super) fn live_interruption(&mut self, now_ms: i64) -> Option<(Delivery, i64)> {
        let now_ms = self.monotonic(now_ms);
        let reason = if self.time_out(now_ms) {
            None
        } else {
            let (seq, reason) = self.inbox.take_cancel()?;
            self.turn.consumed.push(seq);
            reason
        };
        let event = Interruption { reason };
        self.time_ms = now_ms;
        self.record(event.clone(), self.time_ms);
        self.turn.deliveries += 1;
        Some((self.apply_interruption(event), self.time_ms))
    }

    /// Checks the limits before an event is recorded. The engine is broken if a limit is exceeded (E4).
    pub(super) fn check_limits(&mut self, growth: Growth) -> Result<(), LimitReached> {
        let size = ExecutionSize {
            next_event_id: self.next_event_id,
            history_bytes: self.history_bytes,
            turn_bytes: self.turn.bytes,
            pending_activities: self.operations.activities(),
            is_cancelling: self.is_cancelling(),
        };
        match self.limits.exceeded_by(growth, size) {
            None => Ok(()),
            Some(limit) => {
                self.turn = Turn::default();
                self.operations = Operations::default();
                self.phase = Phase::Broken(Box::new(limit.into()));
                Err(limit)
            }
        }
    }

    pub(super) fn record(&mut self, event: impl Into<Event>, time_ms: i64) {
        let event = event.into();
        let bytes = event.payload_bytes() as u64;
        self.turn.bytes += bytes;
        self.history_bytes += bytes;
        self.turn
            .events
            .push(EventRecord::new(self.next_event_id, time_ms, event));
        self.next_event_id = self.next_event_id.next();
    }

    /// Returns the next event that can be recorded now: first the cancellation by the time limit, then one from the
    /// inbox, then an operation that is due.
    fn take_recordable(&mut self, now_ms: i64) -> Option<Recordable> {
        if self.time_out(now_ms) {
            return Some(Recordable::Delivery(DeliveryEvent::CancelRequested { reason: None }));
        }
        while let Some(arrival) = self.inbox.take() {
            let event = match arrival {
                Arrival::Cancel { seq, reason } => {
                    self.turn.consumed.push(seq);
                    Some(Recordable::Delivery(DeliveryEvent::CancelRequested { reason }))
                }
                Arrival::Settled {
                    seq,
                    execution,
                    scheduled,
                    settlement,
                } => {
                    self.turn.consumed.push(seq);
                    (execution == self.execution)
                        .then(|| self.event_of_settlement(scheduled, settlement, now_ms))
                        .flatten()
                }
                Arrival::Mail { seq, mailbox, payload } if mailbox.holds_asks() => {
                    Some(Recordable::Ask(OfferedAsk { seq, payload }))
                }
                Arrival::Mail { seq, mailbox, payload } => {
                    self.turn.consumed.push(seq);
                    Some(Recordable::Delivery(DeliveryEvent::MessageReceived {
                        mailbox,
                        payload,
                    }))
                }
                Arrival::Activity { scheduled, result } => self.event_of_attempt(scheduled, result, now_ms),
            };
            if event.is_some() {
                return event;
            }
        }
        self.due(now_ms).map(Recordable::Delivery)
    }

    /// Returns the event that records the settlement of a child, a sent operation, or a remote attempt; `None` if the
    /// operation has already settled (E5).
    fn event_of_settlement(&self, scheduled: EventId, settlement: Settlement, now_ms: i64) -> Option<Recordable> {
        let is_child = self.operations.is_child(scheduled);
        let event = match settlement {
            Settlement::Attempted { attempt, result } => {
                let is_current = self.operations.activity(scheduled)?.attempt == attempt;
                return is_current
                    .then(|| self.event_of_attempt(scheduled, result, now_ms))
                    .flatten();
            }
            Settlement::Refused(refusal) => (is_child || self.operations.is_sent(scheduled))
                .then_some(DeliveryEvent::OperationRefused { scheduled, refusal }),
            Settlement::Completed(output) => is_child.then_some(DeliveryEvent::ChildCompleted { scheduled, output }),
            Settlement::Failed(failure, error) => is_child.then_some(DeliveryEvent::ChildFailed {
                scheduled,
                failure,
                error,
            }),
        };
        event.map(Recordable::Delivery)
    }

    /// Returns the event that records the end of an attempt; `None` if the activity is no longer open (E5).
    fn event_of_attempt(&self, scheduled: EventId, result: AttemptResult, now_ms: i64) -> Option<Recordable> {
        let activity = self.operations.activity(scheduled)?;
        let (attempt, policy) = (activity.attempt, &activity.task.options.retry);
        let (error, is_retryable, retry_after_ms) = match result {
            AttemptResult::Completed(output) => {
                return Some(Recordable::Delivery(DeliveryEvent::ActivityCompleted {
                    scheduled,
                    output,
                }));
            }
            AttemptResult::Failed {
                error,
                error_name,
                error_codes,
                non_retryable,
                retry_after_ms,
            } => {
                let is_retryable = !non_retryable && policy.retries(&error_name, &error_codes);
                (error, is_retryable, retry_after_ms)
            }
        };
        let delay = if is_retryable {
            policy.delay_after(attempt, self.random.seed(), scheduled)
        } else {
            None
        };
        let retry_at_ms = delay.map(|delay_ms| now_ms.saturating_add(retry_after_ms.unwrap_or(delay_ms).max(0)));
        let is_in_time = |at: &i64| activity.task.deadline_ms.is_none_or(|deadline| *at < deadline);
        Some(match retry_at_ms.filter(is_in_time) {
            Some(retry_at_ms) => Recordable::Note(NoteEvent::ActivityAttemptFailed {
                scheduled,
                attempt,
                error,
                retry_at_ms,
            }),
            None => Recordable::Delivery(DeliveryEvent::ActivityFailed {
                scheduled,
                attempt,
                error,
            }),
        })
    }
}
