//! The engine while it replays: every command and every wait of the code is compared with history.

use super::{Engine, Phase, Stopped};
use crate::event::Role;
use crate::mismatch::{Attempt, agree};
use crate::replay_queue::Recorded;
use crate::{Awaited, Delivery, Event, EventId, Mismatch, Step};

impl Engine {
    /// First event of the next page to load; `None` once the last page is here, or if the engine is not replaying.
    #[must_use]
    pub fn next_page(&self) -> Option<EventId> {
        match &self.phase {
            Phase::Replaying(tape) if !tape.is_complete() => Some(tape.next_page()),
            _ => None,
        }
    }

    /// Bytes of the loaded pages that were not replayed yet.
    #[must_use]
    pub fn unreplayed_bytes(&self) -> usize {
        match &self.phase {
            Phase::Replaying(tape) => tape.bytes(),
            _ => 0,
        }
    }

    /// Returns true if the next action in history is the success of this operation. The code receives it at its next
    /// wait, unless it departs from its history before.
    #[must_use]
    pub fn succeeds_next(&self, operation: EventId) -> bool {
        let Phase::Replaying(tape) = &self.phase else {
            return false;
        };
        match tape.next_attempted() {
            Some(
                Event::ActivityCompleted { scheduled, .. }
                | Event::ChildCompleted { scheduled, .. }
                | Event::OperationConfirmed { scheduled }
                | Event::TimerFired { timer: scheduled },
            ) => *scheduled == operation,
            _ => false,
        }
    }

    pub(super) fn replay_command(&mut self, event: &Event) -> Result<EventId, Mismatch> {
        let Some((id, recorded)) = self.take_equal(event, Attempt::Command)? else {
            return Ok(self.next_event_id);
        };
        self.apply_command(id, recorded.event);
        Ok(id)
    }

    /// Returns true if history holds the patch at this point. The patches recorded before it, which the code no longer
    /// asks for, are passed over.
    pub(super) fn replay_patch(&mut self, patch: &str) -> bool {
        let Phase::Replaying(tape) = &self.phase else {
            unreachable!("only called while replaying")
        };
        let Some(before) = tape.next_patches().position(|next| next == patch) else {
            return false;
        };
        for _ in 0..=before {
            let (_, recorded) = self.pop().expect("it was just found");
            self.apply_delivery(recorded.event);
        }
        true
    }

    /// Returns the value that history holds for the next command or end of the code; `None` if that has no value, or if
    /// there is no more history.
    pub(super) fn replay_payload(&self) -> Option<&String> {
        let Phase::Replaying(tape) = &self.phase else {
            return None;
        };
        match tape.next_attempted()? {
            Event::ActivityScheduled { input: value, .. }
            | Event::ExecutionCompleted { output: value }
            | Event::ExecutionContinuedAsNew { input: value, .. }
            | Event::MessageSent { payload: value, .. } => value.as_ref(),
            Event::ChildScheduled(start) | Event::InstanceStarted(start) => start.input.as_ref(),
            _ => None,
        }
    }

    /// Returns the due time of the timer that history holds as the next command; `None` if the next command is another
    /// one, or if there is no more history.
    pub(super) fn recorded_timer(&self) -> Option<i64> {
        let Phase::Replaying(tape) = &self.phase else {
            return None;
        };
        match tape.next_attempted()? {
            Event::TimerCreated { fire_at_ms } => Some(*fire_at_ms),
            _ => None,
        }
    }

    /// Id of the event, recorded or to be recorded, of the next command or end of the code. A driver identifies the
    /// command by this id.
    #[must_use]
    pub fn next_command_id(&self) -> EventId {
        match &self.phase {
            Phase::Replaying(tape) => EventId(self.next_event_id.0 + tape.bookkeeping_ahead()),
            _ => self.next_event_id,
        }
    }

    /// Applies `ExecutionBegan`, if history holds it, before the code runs: takes the time of the first turn and the
    /// version.
    pub(super) fn replay_begin(&mut self) {
        let Phase::Replaying(tape) = &self.phase else { return };
        if matches!(tape.front(), Some(Event::ExecutionBegan { .. })) && self.next_event_id == EventId::FIRST.next() {
            let (_, recorded) = self.pop().expect("its front was just looked at");
            self.time_ms = recorded.time_ms;
            if let Event::ExecutionBegan { version: Some(version) } = recorded.event {
                self.version = version;
            }
        }
    }

    /// Takes the recorded event that equals the action of the code. `None`: the execution was terminated before its
    /// code ever ran.
    pub(super) fn take_equal<'a>(
        &mut self,
        event: &'a Event,
        attempt: impl FnOnce(&'a Event) -> Attempt<'a>,
    ) -> Result<Option<(EventId, Recorded)>, Mismatch> {
        let is_first = self.next_event_id == EventId::FIRST.next();
        self.skip_bookkeeping();
        let Phase::Replaying(tape) = &mut self.phase else {
            unreachable!("only called while replaying")
        };
        match tape.front() {
            Some(recorded) if agree(recorded, event) => Ok(self.pop()),
            Some(recorded) if recorded.role() == Role::Termination && is_first && !tape.has_begun() => {
                self.phase = Phase::Terminated;
                Ok(None)
            }
            _ => Err(self.break_at(attempt(event))),
        }
    }

    /// Returns the next step that history holds; `None`: history is at its end, and the engine is live from here on.
    pub(super) fn replay_next(&mut self) -> Result<Option<Step>, Mismatch> {
        self.skip_bookkeeping();
        let Phase::Replaying(tape) = &mut self.phase else {
            unreachable!("only called while replaying")
        };
        tape.begin();
        match tape.front().map(Event::role) {
            None if tape.is_complete() => {
                self.go_live();
                Ok(None)
            }
            None => Ok(Some(self.stop(Stopped::NeedHistory))),
            Some(Role::Delivery) if !tape.reaches_next_wait() => Ok(Some(self.stop(Stopped::NeedHistory))),
            Some(Role::Delivery) if self.turn.replayed >= self.budget.replayed.max(1) || self.turn.is_long() => {
                Ok(Some(self.stop(Stopped::Budget)))
            }
            Some(Role::Delivery) => self.replay_delivery().map(Some),
            Some(Role::Termination) => {
                self.phase = Phase::Terminated;
                Ok(Some(Step::Wait))
            }
            Some(Role::Start | Role::Command | Role::Interruption | Role::Bookkeeping | Role::End) => {
                Err(self.break_at_wait())
            }
        }
    }

    fn replay_delivery(&mut self) -> Result<Step, Mismatch> {
        let Phase::Replaying(tape) = &self.phase else {
            unreachable!("only called while replaying")
        };
        let is_awaited = match tape.front() {
            Some(Event::MessageReceived { mailbox, .. }) => self.inbox.awaited().contains(mailbox),
            Some(Event::TimerFired { timer }) => self.operations.awaits_timer(*timer),
            Some(Event::OperationConfirmed { scheduled }) => self.operations.awaits_sent(*scheduled),
            Some(Event::OperationRefused { scheduled, .. }) => {
                self.operations.is_sent(*scheduled) || self.operations.is_child(*scheduled)
            }
            Some(Event::ChildCompleted { scheduled, .. } | Event::ChildFailed { scheduled, .. }) => {
                self.operations.is_child(*scheduled)
            }
            Some(Event::ActivityCompleted { scheduled, .. } | Event::ActivityFailed { scheduled, .. }) => {
                self.operations.activity(*scheduled).is_some()
            }
            _ => true,
        };
        if !is_awaited {
            return Err(self.break_at_wait());
        }
        let (_, Recorded { time_ms, event, .. }) = self.pop().expect("its front was just looked at");
        self.turn.replayed += 1;
        self.time_ms = time_ms;
        let delivery = self
            .apply_delivery(event)
            .expect("an event of role Delivery hands something over");
        Ok(Step::Deliver { delivery, time_ms })
    }

    /// Delivers the request to cancel that the code received at this point although it did not wait.
    pub(super) fn replay_interruption(&mut self) -> Option<(Delivery, i64)> {
        let Phase::Replaying(tape) = &self.phase else {
            unreachable!("only called while replaying")
        };
        if tape.front()?.role() != Role::Interruption {
            return None;
        }
        let (_, Recorded { time_ms, event, .. }) = self.pop()?;
        self.time_ms = time_ms;
        Some((self.apply_delivery(event)?, time_ms))
    }

    fn skip_bookkeeping(&mut self) {
        while let Phase::Replaying(tape) = &self.phase
            && tape.front().is_some_and(|event| event.role() == Role::Bookkeeping)
        {
            let (_, recorded) = self.pop().expect("its front was just looked at");
            self.apply_delivery(recorded.event);
        }
    }

    /// Takes the next recorded event as passed.
    fn pop(&mut self) -> Option<(EventId, Recorded)> {
        let Phase::Replaying(tape) = &mut self.phase else {
            return None;
        };
        let recorded = tape.pop()?;
        self.history_bytes += recorded.event.payload_bytes() as u64;
        let id = self.next_event_id;
        self.next_event_id = id.next();
        Some((id, recorded))
    }

    fn break_at_wait(&mut self) -> Mismatch {
        let mailboxes = self.inbox.awaited().iter().cloned().collect();
        let timers = self.operations.awaited();
        self.break_at(Attempt::Wait(&Awaited { mailboxes, timers }))
    }

    fn break_at(&mut self, attempt: Attempt<'_>) -> Mismatch {
        let recorded = match &self.phase {
            Phase::Replaying(tape) => tape.front(),
            _ => None,
        };
        let mismatch = Mismatch::new(self.next_event_id, recorded, attempt, &self.operations);
        self.phase = Phase::Broken(Box::new(mismatch.clone().into()));
        mismatch
    }
}
