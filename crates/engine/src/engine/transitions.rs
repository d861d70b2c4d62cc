//! Effects of recorded events on the engine, the same live and in a replay.

use super::Engine;
use crate::{
    CommandEvent, Delivery, DeliveryEvent, EventId, InstanceStart, Interruption, NoteEvent, TurnMessage, TurnStart,
};

impl Engine {
    pub(super) fn apply_command(&mut self, id: EventId, command: CommandEvent) {
        match command {
            CommandEvent::ActivityScheduled { name, input, options } => {
                self.operations.schedule(id, name, input, options, self.time_ms);
            }
            CommandEvent::TimerCreated { fire_at_ms } => self.operations.create_timer(id, fire_at_ms),
            CommandEvent::ChildScheduled(start) => {
                self.operations.start_child(id);
                self.start_instance(id, true, start);
            }
            CommandEvent::InstanceStarted(start) => {
                self.operations.send(id);
                self.start_instance(id, false, start);
            }
            CommandEvent::MessageSent {
                instance,
                mailbox,
                payload,
            } => {
                self.operations.send(id);
                if self.is_live() {
                    self.turn.cross_instance.messages.push(TurnMessage {
                        scheduled: id,
                        instance,
                        mailbox,
                        payload,
                    });
                }
            }
            CommandEvent::OperationCancelled { scheduled } => {
                if self.operations.cancel(scheduled) {
                    self.turn.cancel_child(scheduled);
                }
            }
        }
    }

    fn start_instance(&mut self, scheduled: EventId, is_child: bool, start: InstanceStart) {
        if self.is_live() {
            self.turn.cross_instance.starts.push(TurnStart {
                scheduled,
                is_child,
                start,
            });
        }
    }

    /// Applies a delivery. Returns what the code is handed.
    pub(super) fn apply_delivery(&mut self, event: DeliveryEvent) -> Delivery {
        let succeeded = |operation, value| Delivery::Succeeded { operation, value };
        match event {
            DeliveryEvent::ActivityCompleted { scheduled, output }
            | DeliveryEvent::ChildCompleted { scheduled, output } => {
                self.operations.close(scheduled);
                succeeded(scheduled, output)
            }
            DeliveryEvent::TimerFired { timer: scheduled } | DeliveryEvent::OperationConfirmed { scheduled } => {
                self.operations.close(scheduled);
                succeeded(scheduled, None)
            }
            DeliveryEvent::ActivityFailed {
                scheduled,
                attempt,
                error,
            } => {
                self.operations.close(scheduled);
                Delivery::Failed {
                    operation: scheduled,
                    error,
                    attempt,
                }
            }
            DeliveryEvent::ChildFailed {
                scheduled,
                failure,
                error,
            } => {
                self.operations.close(scheduled);
                Delivery::ChildFailed {
                    operation: scheduled,
                    failure,
                    error,
                }
            }
            DeliveryEvent::OperationRefused { scheduled, refusal } => {
                self.operations.close(scheduled);
                Delivery::Refused {
                    operation: scheduled,
                    refusal,
                }
            }
            DeliveryEvent::MessageReceived { mailbox, payload } => Delivery::Message { mailbox, payload },
            DeliveryEvent::MailboxEmpty { mailbox } => Delivery::MailboxEmpty { mailbox },
            DeliveryEvent::CancelRequested { reason } => {
                let timeout_ms = self.note_cancel();
                Delivery::Cancel { reason, timeout_ms }
            }
        }
    }

    /// Applies a delivery to code that does not wait. Returns what the code is handed.
    pub(super) fn apply_interruption(&mut self, Interruption { reason }: Interruption) -> Delivery {
        let timeout_ms = self.note_cancel();
        Delivery::Cancel { reason, timeout_ms }
    }

    /// Applies a note that event `id` records.
    pub(super) fn apply_note(&mut self, id: EventId, note: NoteEvent) {
        match note {
            // The event is taken before the code runs. One that follows a refused page no longer changes anything.
            NoteEvent::ExecutionBegan { .. } => {}
            NoteEvent::ActivityAttemptFailed {
                scheduled,
                attempt,
                retry_at_ms,
                ..
            } => self.operations.retry(scheduled, id, attempt, retry_at_ms),
            NoteEvent::PatchApplied { patch } => {
                self.patches.insert(patch, true);
            }
            NoteEvent::CancelRequested { .. } => self.was_cancelled = true,
        }
    }
}
