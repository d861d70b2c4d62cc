//! Completions from outside that were not delivered yet.
//!
//! This file owns their order. It does not own the decision if a completion is still wanted, which is the engine's
//! (E5).
//!
//! | from | on | to |
//! |---|---|---|
//! | | an attempt of this process ends | held: `activities`, in the order of arrival |
//! | | a message of the store is read | held: `cancels`, `settled` or `mail`, in the order of the store |
//! | held in `mail` | its mailbox is awaited | ready |
//! | ready | its mailbox is no longer awaited, or takes no more asks | held in `mail` |
//! | held in `mail`, or ready | the engine drops its mailbox messages | in the store alone; it is read again later |
//! | held in another queue, or ready | the next delivery, in the order below | taken |
//!
//! Asks are awaited although no wait of the code says so, until they are closed.
//!
//! Requests to cancel are delivered first, then attempts of this process, then results of children, sent operations and
//! remote attempts, then the oldest ready message.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::ask::ASKS_MAILBOX;
use crate::small_set::SmallSet;
use crate::{
    AttemptResult, Bug, Completion, EventId, ExecutionId, Mailbox, Message, MessageBody, MessageSeq, Payload,
    Settlement, is_planted,
};

/// Messages in the store's order.
type Queue<T = Payload> = VecDeque<(MessageSeq, T)>;

/// Result of an operation that an execution requested from another instance or worker.
type Settled = (ExecutionId, EventId, Settlement);

/// The next completion to deliver.
#[derive(Debug, PartialEq)]
pub(crate) enum Arrival {
    Cancel {
        seq: MessageSeq,
        reason: Payload,
    },
    Activity {
        scheduled: EventId,
        result: AttemptResult,
    },
    Settled {
        seq: MessageSeq,
        execution: ExecutionId,
        scheduled: EventId,
        settlement: Settlement,
    },
    Mail {
        seq: MessageSeq,
        mailbox: Mailbox,
        payload: Payload,
    },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Inbox {
    cancels: Queue,
    /// Ends of attempts of this process, by the schedule of the activity.
    activities: VecDeque<(EventId, AttemptResult)>,
    settled: Queue<Settled>,
    /// Messages by mailbox. None of these queues is empty.
    mail: HashMap<Mailbox, Queue>,
    /// Mailboxes that the code awaits. Asks are always awaited, until they are closed.
    awaited: SmallSet<Mailbox>,
    /// True if no more asks are taken.
    are_asks_closed: bool,
    /// The awaited mailboxes that are polled.
    polled: SmallSet<Mailbox>,
    /// True if the store was read after the last poll was made.
    has_looked: bool,
    /// The awaited mailboxes that have messages, by the number of their oldest message.
    ready: BTreeMap<MessageSeq, Mailbox>,
    /// Number of messages in `mail`.
    mail_len: usize,
    /// Bytes of the values in `mail`, `settled` and `cancels`.
    message_bytes: usize,
}

impl Inbox {
    pub(crate) fn offer(&mut self, completion: Completion) {
        match completion {
            Completion::Message(Message { seq, body }) => {
                let bytes = body.bytes();
                let is_new = match body {
                    MessageBody::Mail { mailbox, payload } => {
                        let is_new = self.put_mail(mailbox, seq, payload);
                        self.mail_len += usize::from(is_new);
                        is_new
                    }
                    MessageBody::Cancel { reason } => put(&mut self.cancels, seq, reason),
                    MessageBody::Settled {
                        execution,
                        scheduled,
                        settlement,
                    } => put(&mut self.settled, seq, (execution, scheduled, settlement)),
                };
                if is_new {
                    self.message_bytes += bytes;
                }
            }
            Completion::ActivityCompleted { scheduled, output } => {
                self.activities.push_back((scheduled, AttemptResult::Completed(output)));
            }
            Completion::AttemptFailed {
                scheduled,
                error,
                error_name,
                error_codes,
                non_retryable,
                retry_after_ms,
            } => {
                let result = AttemptResult::Failed {
                    error,
                    error_name,
                    error_codes,
                    non_retryable,
                    retry_after_ms,
                };
                self.activities.push_back((scheduled, result));
            }
        }
    }

    fn put_mail(&mut self, mailbox: Mailbox, seq: MessageSeq, payload: Payload) -> bool {
        let awaited = self.awaits(&mailbox).then(|| mailbox.clone());
        let queue = self.mail.entry(mailbox).or_default();
        let oldest = queue.front().map(|(oldest, _)| *oldest);
        let is_new = put(queue, seq, payload);
        if let Some(mailbox) = awaited
            && is_new
            && oldest.is_none_or(|oldest| seq < oldest)
        {
            if let Some(oldest) = oldest {
                self.ready.remove(&oldest);
            }
            self.ready.insert(seq, mailbox);
        }
        is_new
    }

    /// Returns true if the mail of a mailbox is delivered as it comes.
    pub(crate) fn awaits(&self, mailbox: &Mailbox) -> bool {
        if mailbox.holds_asks() {
            return !self.are_asks_closed;
        }
        self.awaited.contains(mailbox)
    }

    /// Takes no more asks: those that wait stay in the store.
    pub(crate) fn close_asks(&mut self) {
        self.are_asks_closed = true;
        if let Some(oldest) = self.oldest_of(&ASKS_MAILBOX) {
            self.ready.remove(&oldest);
        }
    }

    /// Notes that a mailbox is awaited from now on.
    pub(crate) fn wait_for(&mut self, mailbox: Mailbox) {
        self.awaited.insert(mailbox.clone());
        if self.awaits(&mailbox)
            && let Some(oldest) = self.oldest_of(&mailbox)
        {
            self.ready.insert(oldest, mailbox);
        }
    }

    /// Notes that a mailbox is no longer awaited.
    pub(crate) fn forget(&mut self, mailbox: &Mailbox) {
        if self.awaited.remove(mailbox)
            && !self.awaits(mailbox)
            && let Some(oldest) = self.oldest_of(mailbox)
        {
            self.ready.remove(&oldest);
        }
    }

    /// Notes that a mailbox is polled, or no longer.
    pub(crate) fn set_polled(&mut self, mailbox: Mailbox, is_polled: bool) {
        if is_polled {
            self.polled.insert(mailbox);
            self.has_looked = false;
        } else {
            self.polled.remove(&mailbox);
        }
    }

    pub(crate) fn is_polled(&self, mailbox: &Mailbox) -> bool {
        self.polled.contains(mailbox) && self.awaited.contains(mailbox)
    }

    /// True if a poll waits until the store was read.
    pub(crate) fn awaits_look(&self) -> bool {
        !self.has_looked && self.polled.iter().any(|mailbox| self.awaited.contains(mailbox))
    }

    /// Notes that the store was read.
    pub(crate) const fn note_look(&mut self) {
        self.has_looked = true;
    }

    /// Notes that the next answer of a poll needs another read of the store.
    pub(crate) const fn forget_look(&mut self) {
        self.has_looked = false;
    }

    /// Returns a polled mailbox that holds no message.
    pub(crate) fn empty_poll(&self) -> Option<&Mailbox> {
        let is_empty = |mailbox: &&Mailbox| self.awaited.contains(mailbox) && !self.mail.contains_key(mailbox);
        self.polled.iter().find(is_empty).filter(|_| self.has_looked)
    }

    /// Notes that no mailbox is awaited.
    pub(crate) fn forget_awaited(&mut self) {
        self.awaited.clear();
        self.ready.clear();
        if !self.mail.is_empty()
            && self.awaits(&ASKS_MAILBOX)
            && let Some(oldest) = self.oldest_of(&ASKS_MAILBOX)
        {
            self.ready.insert(oldest, ASKS_MAILBOX.clone());
        }
    }

    /// The mailboxes that the code awaits.
    pub(crate) const fn awaited(&self) -> &SmallSet<Mailbox> {
        &self.awaited
    }

    fn oldest_of(&self, mailbox: &Mailbox) -> Option<MessageSeq> {
        self.mail.get(mailbox)?.front().map(|(oldest, _)| *oldest)
    }

    /// True if [`take`](Self::take) would return a completion.
    pub(crate) fn has_any(&self) -> bool {
        !self.cancels.is_empty() || !self.activities.is_empty() || !self.settled.is_empty() || self.has_awaited_mail()
    }

    pub(crate) fn has_awaited_mail(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(crate) const fn mail_len(&self) -> usize {
        self.mail_len
    }

    pub(crate) const fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    pub(crate) fn forget_mail(&mut self) {
        let payloads = self.mail.values().flatten().map(|(_, payload)| payload);
        let bytes: usize = payloads.map(|payload| payload.as_ref().map_or(0, String::len)).sum();
        self.message_bytes -= bytes;
        self.mail = HashMap::new();
        self.ready.clear();
        self.mail_len = 0;
    }

    pub(crate) fn has_cancel(&self) -> bool {
        !self.cancels.is_empty()
    }

    /// Takes the oldest request to cancel.
    pub(crate) fn take_cancel(&mut self) -> Option<(MessageSeq, Payload)> {
        let cancel = self.cancels.pop_front();
        if let Some((_, reason)) = &cancel {
            self.message_bytes -= reason.as_ref().map_or(0, String::len);
        }
        cancel
    }

    pub(crate) fn take(&mut self) -> Option<Arrival> {
        if let Some((seq, reason)) = self.take_cancel() {
            return Some(Arrival::Cancel { seq, reason });
        }
        if let Some((scheduled, result)) = self.activities.pop_front() {
            return Some(Arrival::Activity { scheduled, result });
        }
        if let Some((seq, (execution, scheduled, settlement))) = self.settled.pop_front() {
            self.message_bytes -= settlement.payload().as_ref().map_or(0, String::len);
            return Some(Arrival::Settled {
                seq,
                execution,
                scheduled,
                settlement,
            });
        }
        let (_, mailbox) = self.ready.pop_first()?;
        let queue = self.mail.get_mut(&mailbox)?;
        let (seq, payload) = if is_planted(Bug::NewestMessageFirst) {
            queue.pop_back()?
        } else {
            queue.pop_front()?
        };
        self.mail_len -= 1;
        self.message_bytes -= payload.as_ref().map_or(0, String::len);
        if let Some((oldest, _)) = queue.front() {
            self.ready.insert(*oldest, mailbox.clone());
        } else {
            self.mail.remove(&mailbox);
        }
        Some(Arrival::Mail { seq, mailbox, payload })
    }

    /// The activities whose attempts are over.
    pub(crate) fn settled_activities(&self) -> BTreeSet<EventId> {
        let here = self.activities.iter().map(|(scheduled, _)| *scheduled);
        let remote = self.settled.iter().filter_map(|(_, (_, scheduled, settlement))| {
            matches!(settlement, Settlement::Attempted { .. }).then_some(*scheduled)
        });
        here.chain(remote).collect()
    }

    /// Returns memory that an instance does not need while it sleeps.
    pub(crate) fn shrink(&mut self) {
        if self.cancels.is_empty() {
            self.cancels = VecDeque::new();
        }
        if self.activities.is_empty() {
            self.activities = VecDeque::new();
        }
        if self.settled.is_empty() {
            self.settled = VecDeque::new();
        }
        if self.mail.is_empty() && self.mail.capacity() > 0 {
            self.mail.shrink_to_fit();
        }
    }
}

/// Inserts a message in the store's order, in any order in which messages are read. Returns false if the message is
/// already there; it is not inserted again.
fn put<T>(queue: &mut Queue<T>, seq: MessageSeq, payload: T) -> bool {
    if queue.back().is_none_or(|(last, _)| *last < seq) {
        queue.push_back((seq, payload));
        return true;
    }
    match queue.binary_search_by_key(&seq, |(seq, _)| *seq) {
        Ok(_) => false,
        Err(place) => {
            queue.insert(place, (seq, payload));
            true
        }
    }
}
