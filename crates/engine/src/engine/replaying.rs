//! The engine while it replays: every command and every wait of the code is compared with history.

use super::{Engine, Phase, StopReason};
use crate::event::Role;
use crate::mismatch::{Attempt, agree, ends_agree};
use crate::replay_queue::Recorded;
use crate::{
    Awaited, CommandEvent, Delivery, DeliveryEvent, EndEvent, Event, EventId, Interruption, Mismatch, NoteEvent,
    Payload, Step,
};

/// A recorded event that the replay has passed.
pub(super) struct PassedEvent<R> {
    pub(super) id: EventId,
    time_ms: i64,
    pub(super) event: R,
}

impl Engine {
    /// First event of the next page to load; `None` once the last page is here, or if the engine is not replaying.
    #[must_use]
    pub fn next_page(&self) -> Option<EventId> {
        match &self.phase {
            Phase::Replaying(queue) if !queue.is_complete() => Some(queue.next_page()),
            _ => None,
        }
    }

    /// Bytes of the loaded pages that were not replayed yet.
    #[must_use]
    pub fn unreplayed_bytes(&self) -> usize {
        match &self.phase {
            Phase::Replaying(queue) => queue.bytes(),
            _ => 0,
        }
    }

    /// Returns true if the next action in history is the success of this operation. The code receives it at its next
    /// wait, unless it departs from its history before.
    #[must_use]
    pub fn succeeds_next(&self, operation: EventId) -> bool {
        match self.next_action() {
            Some(Event::Delivery(delivery)) => delivery.succeeded() == Some(operation),
            _ => false,
        }
    }

    /// Returns the value that history holds for the next command or end of the code; `None` if it holds none. The
    /// engine compares this value byte by byte with the value of the code. A driver that may encode a value differently
    /// each time therefore asks for it first.
    #[must_use]
    pub fn recorded_payload(&self) -> Payload {
        let value = match self.next_action()? {
            Event::Command(command) => command.payload(),
            Event::End(end)
                if !matches!(
                    end,
                    EndEvent::ExecutionFailed { .. } | EndEvent::ExecutionCancelled { .. }
                ) =>
            {
                end.payload()
            }
            _ => None,
        };
        value.map(str::to_owned)
    }

    /// Returns the due time of the timer that history holds as the next command; `None` if the next command is another
    /// one, or if there is no more history.
    pub(super) fn recorded_timer(&self) -> Option<i64> {
        match self.next_action()? {
            Event::Command(CommandEvent::TimerCreated { fire_at_ms }) => Some(*fire_at_ms),
            _ => None,
        }
    }

    /// Returns true if history holds this command as the next action.
    pub(super) fn has_next(&self, command: &CommandEvent) -> bool {
        matches!(self.next_action(), Some(Event::Command(recorded)) if recorded == command)
    }

    fn next_action(&self) -> Option<&Event> {
        match &self.phase {
            Phase::Replaying(queue) => queue.next_action(),
            _ => None,
        }
    }

    /// Id of the event, recorded or to be recorded, of the next command or end of the code. A driver identifies the
    /// command by this id.
    #[must_use]
    pub fn next_command_id(&self) -> EventId {
        match &self.phase {
            Phase::Replaying(queue) => EventId(self.next_event_id.0 + queue.notes_ahead()),
            _ => self.next_event_id,
        }
    }

    /// Applies `ExecutionBegan`, if history holds it, before the code runs: takes the time of the first turn and the
    /// version.
    pub(super) fn replay_begin(&mut self) {
        if self.next_event_id != EventId::FIRST.next() {
            return;
        }
        let began = self.pop_if(|note| matches!(note, NoteEvent::ExecutionBegan { .. }));
        if let Some(PassedEvent { time_ms, event, .. }) = began {
            self.begins_at(time_ms);
            if let NoteEvent::ExecutionBegan { version: Some(version) } = event {
                self.version = version;
            }
        }
    }

    pub(super) fn replay_command(&mut self, command: &CommandEvent) -> Result<EventId, Mismatch> {
        let attempt = Attempt::Command(command);
        match self.pass(|recorded| agree(recorded, command), attempt)? {
            Some(PassedEvent { id, event, .. }) => {
                self.apply_command(id, event);
                Ok(id)
            }
            None => Ok(self.next_event_id),
        }
    }

    /// Takes the recorded end that equals the end of the code. Returns false if the execution was terminated before its
    /// code ever ran.
    pub(super) fn replay_end(&mut self, end: &EndEvent) -> Result<bool, Mismatch> {
        let passed = self.pass(|recorded: &Event| ends_agree(recorded, end), Attempt::End(end))?;
        Ok(passed.is_some())
    }

    /// Takes the next recorded event, which must be equal to the action of the code. `None`: the execution was
    /// terminated before its code ever ran.
    fn pass<R: Role>(
        &mut self,
        is_equal: impl FnOnce(&R) -> bool,
        attempt: Attempt<'_>,
    ) -> Result<Option<PassedEvent<R>>, Mismatch> {
        let is_first = self.next_event_id == EventId::FIRST.next();
        self.skip_notes();
        if let Some(passed) = self.pop_if(is_equal) {
            return Ok(Some(passed));
        }
        match &self.phase {
            Phase::Replaying(queue)
                if is_first && !queue.has_begun() && matches!(queue.front(), Some(Event::Termination(_))) =>
            {
                self.phase = Phase::Terminated;
                Ok(None)
            }
            _ => Err(self.break_at(attempt)),
        }
    }

    /// Returns the next step that history holds; `None`: history is at its end.
    pub(super) fn replay_next(&mut self) -> Result<Option<Step>, Mismatch> {
        self.skip_notes();
        if let Phase::Replaying(queue) = &mut self.phase {
            queue.begin();
        }
        let Phase::Replaying(queue) = &self.phase else {
            unreachable!("only called while replaying")
        };
        match queue.front() {
            None if queue.is_complete() => Ok(None),
            None => Ok(Some(self.stop(StopReason::NeedHistory))),
            Some(Event::Delivery(_)) if !queue.reaches_next_wait() => Ok(Some(self.stop(StopReason::NeedHistory))),
            Some(Event::Delivery(_)) if self.turn.replayed >= self.budget.replayed.max(1) || self.turn.is_long() => {
                Ok(Some(self.stop(StopReason::Budget)))
            }
            Some(Event::Delivery(delivery)) if self.is_awaited(delivery) => Ok(Some(self.replay_delivery())),
            Some(Event::Termination(_)) => {
                self.phase = Phase::Terminated;
                Ok(Some(Step::Wait))
            }
            Some(
                Event::Delivery(_)
                | Event::Started(_)
                | Event::Command(_)
                | Event::Interruption(_)
                | Event::Note(_)
                | Event::End(_),
            ) => Err(self.break_at_wait()),
        }
    }

    fn is_awaited(&self, delivery: &DeliveryEvent) -> bool {
        match delivery {
            DeliveryEvent::MessageReceived { mailbox, .. } => self.inbox.awaits(mailbox),
            DeliveryEvent::MailboxEmpty { mailbox } => self.inbox.is_polled(mailbox),
            DeliveryEvent::TimerFired { timer } => self.operations.awaits_timer(*timer),
            DeliveryEvent::OperationConfirmed { scheduled } => self.operations.awaits_sent(*scheduled),
            DeliveryEvent::OperationRefused { scheduled, .. } => {
                self.operations.is_sent(*scheduled) || self.operations.is_child(*scheduled)
            }
            DeliveryEvent::ChildCompleted { scheduled, .. } | DeliveryEvent::ChildFailed { scheduled, .. } => {
                self.operations.is_child(*scheduled)
            }
            DeliveryEvent::ActivityCompleted { scheduled, .. } | DeliveryEvent::ActivityFailed { scheduled, .. } => {
                self.operations.activity(*scheduled).is_some()
            }
            DeliveryEvent::CancelRequested { .. } => true,
        }
    }

    fn replay_delivery(&mut self) -> Step {
        let PassedEvent { time_ms, event, .. } = self
            .pop_if(|_: &DeliveryEvent| true)
            .expect("its front was just looked at");
        self.turn.replayed += 1;
        self.time_ms = time_ms;
        let delivery = self.apply_delivery(event);
        Step::Deliver { delivery, time_ms }
    }

    /// Delivers the request to cancel that the code received at this point although it did not wait.
    pub(super) fn replay_interruption(&mut self) -> Option<(Delivery, i64)> {
        let PassedEvent { time_ms, event, .. } = self.pop_if(|_: &Interruption| true)?;
        self.time_ms = time_ms;
        Some((self.apply_interruption(event), time_ms))
    }

    fn skip_notes(&mut self) {
        while let Some(note) = self.pop_if(|_: &NoteEvent| true) {
            self.apply_note(note.id, note.event);
        }
    }

    /// Takes the next recorded event as passed, if it has the role and is wanted.
    pub(super) fn pop_if<R: Role>(&mut self, is_wanted: impl FnOnce(&R) -> bool) -> Option<PassedEvent<R>> {
        let Phase::Replaying(queue) = &mut self.phase else {
            return None;
        };
        if !is_wanted(R::of(queue.front()?)?) {
            return None;
        }
        let Recorded { time_ms, event, .. } = queue.pop()?;
        self.history_bytes += event.payload_bytes() as u64;
        let id = self.next_event_id;
        self.next_event_id = id.next();
        Some(PassedEvent {
            id,
            time_ms,
            event: R::take(event)?,
        })
    }

    fn break_at_wait(&mut self) -> Mismatch {
        let mailboxes = self.inbox.awaited().iter().cloned().collect();
        let timers = self.operations.awaited();
        self.break_at(Attempt::Wait(&Awaited { mailboxes, timers }))
    }

    fn break_at(&mut self, attempt: Attempt<'_>) -> Mismatch {
        let recorded = match &self.phase {
            Phase::Replaying(queue) => queue.front(),
            _ => None,
        };
        let mismatch = Mismatch::new(self.next_event_id, recorded, attempt, &self.operations);
        self.phase = Phase::Broken(Box::new(mismatch.clone().into()));
        mismatch
    }
}
