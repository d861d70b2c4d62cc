//! The surroundings of the execution: the waits of its code, and the completions that come from outside.

use super::{Engine, Phase};
use crate::ask::ASKS_MAILBOX;
use crate::{Completion, DeliveryEvent, EventId, Mailbox, Waits};

impl Engine {
    /// Takes in a completion from outside. It is delivered when its turn comes.
    pub fn offer(&mut self, completion: Completion) {
        if matches!(self.phase, Phase::Replaying(_) | Phase::Live) {
            self.inbox.offer(completion);
        }
    }

    /// Returns true if a turn at `now_ms` would have anything to do.
    #[must_use]
    pub fn is_runnable(&self, now_ms: i64) -> bool {
        match &self.phase {
            Phase::Broken(_) | Phase::Ended(_) | Phase::Continued(_) | Phase::Terminated => false,
            Phase::Replaying(_) => true,
            Phase::Live => {
                let now_ms = self.monotonic(now_ms);
                self.is_over(now_ms) || self.inbox.has_any() || self.due(now_ms).is_some()
            }
        }
    }

    /// True if the instance was asked to cancel, even if the request was not delivered yet. It may then exceed its
    /// limits by [`CANCEL_GRACE`](crate::CANCEL_GRACE).
    #[must_use]
    pub fn is_cancelling(&self) -> bool {
        self.was_cancelled || self.inbox.has_cancel()
    }

    /// Mailboxes whose messages are delivered as they come, in order: those that fibers wait on, and the asks.
    pub fn awaited_mailboxes(&self) -> impl Iterator<Item = &Mailbox> {
        let asks: &Mailbox = &ASKS_MAILBOX;
        let before = self.inbox.awaited().iter().filter(move |mailbox| *mailbox < asks);
        let after = self.inbox.awaited().iter().filter(move |mailbox| *mailbox > asks);
        let asks = self.inbox.awaits(asks).then_some(asks);
        before.chain(asks).chain(after)
    }

    /// Highest possible number of such mailboxes.
    #[must_use]
    pub fn awaited_mailboxes_len(&self) -> usize {
        self.inbox.awaited().len() + 1
    }

    /// Returns true if the messages of this mailbox are delivered as they come.
    #[must_use]
    pub fn awaits_mailbox(&self, mailbox: &Mailbox) -> bool {
        self.inbox.awaits(mailbox)
    }

    /// True if the engine is live and holds no message of the mailboxes whose messages are delivered as they come.
    #[must_use]
    pub fn lacks_message(&self) -> bool {
        matches!(self.phase, Phase::Live) && !self.inbox.has_awaited_mail()
    }

    /// Number of mailbox messages that the engine holds.
    #[must_use]
    pub const fn held_messages(&self) -> usize {
        self.inbox.mail_len()
    }

    /// Bytes of the values in the messages that the engine holds.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.inbox.message_bytes()
    }

    /// Drops the mailbox messages that the engine holds. They are still in the store, and are offered again.
    pub fn forget_messages(&mut self) {
        self.inbox.forget_mail();
    }

    /// True if the execution waits for a message that is likely to come: a fiber waits on a mailbox, or a child has not
    /// ended. Messages that come seldom do not count: a request to cancel, a refusal, the end of a remote attempt.
    #[must_use]
    pub const fn awaits_message(&self) -> bool {
        !self.inbox.awaited().is_empty() || self.operations.children() > 0
    }

    /// Returns true if an activity is open or may be open: a replay may not have reached its schedule yet.
    #[must_use]
    pub fn may_await_activity(&self, scheduled: EventId) -> bool {
        self.is_replaying() || self.operations.activity(scheduled).is_some()
    }

    /// True if an inline activity is open. Its function is a part of the code's memory.
    #[must_use]
    pub const fn has_inline_activity(&self) -> bool {
        self.operations.has_inline()
    }

    pub(super) fn wait(&mut self, waits: Waits) {
        let more = match waits {
            Waits::All(awaited) => {
                self.inbox.forget_awaited();
                self.operations.forget_awaited();
                awaited
            }
            Waits::Changed { more, no_longer } => {
                for mailbox in &no_longer.mailboxes {
                    self.inbox.forget(mailbox);
                }
                for id in no_longer.timers {
                    self.operations.forget(id);
                }
                more
            }
        };
        for mailbox in more.mailboxes {
            self.inbox.wait_for(mailbox);
        }
        for id in more.timers {
            self.operations.wait_for(id);
        }
    }

    /// Notes that the code polls a mailbox that it waits for, or polls it no longer. A poll is a wait that ends with
    /// [`MailboxEmpty`](crate::Delivery::MailboxEmpty) if the mailbox holds no message. The store has to be read for
    /// that after the poll was made ([`awaits_look`](Self::awaits_look)), so that a poll finds every message that was
    /// acknowledged before.
    pub fn set_polled(&mut self, mailbox: Mailbox, is_polled: bool) {
        self.inbox.set_polled(mailbox, is_polled);
    }

    /// True if the engine is live and a poll waits until the store was read.
    #[must_use]
    pub fn awaits_look(&self) -> bool {
        matches!(self.phase, Phase::Live) && self.inbox.awaits_look()
    }

    /// Notes that the engine holds the oldest message that the store holds of each polled mailbox.
    pub fn note_look(&mut self) {
        if matches!(self.phase, Phase::Live) {
            self.inbox.note_look();
        }
    }

    /// Returns the next awaited event that needs no completion from outside. A confirmation comes first: that of a
    /// start or message which is durable by now. Then come the answer of a poll, and the timer that has been due for
    /// longest.
    pub(super) fn due(&self, now_ms: i64) -> Option<DeliveryEvent> {
        let sent = self.operations.first_sent().filter(|id| *id < self.durable_to);
        let confirmed = sent.map(|scheduled| DeliveryEvent::OperationConfirmed { scheduled });
        let due = || self.operations.due_timer(now_ms);
        let empty = || self.inbox.empty_poll().cloned();
        confirmed
            .or_else(|| empty().map(|mailbox| DeliveryEvent::MailboxEmpty { mailbox }))
            .or_else(|| due().map(|timer| DeliveryEvent::TimerFired { timer }))
    }
}
