//! What waits for an instance in the store beyond what it holds.
//!
//! An instance holds [`MESSAGES_HELD_MAX`](crate::options::MESSAGES_HELD_MAX) messages of its mailboxes; what comes then is left in the store
//! until the code waits for it. Invariants:
//!
//! - **B1** Without a backlog every message up to `seen` was handed over. With one, nothing that comes is handed over as it comes, but for
//!   what is no mail (a request to cancel, what became of a child): that is never left.
//! - **B2** Of each mailbox the instance holds the oldest messages that wait, or none: FIFO whatever was left.
//! - **B3** When it waits for mailboxes of which it holds nothing, the store is searched for these mailboxes alone. It sleeps only when
//!   that search found nothing, and nothing has come for them since: whatever the store holds of other mailboxes, it wakes for its own.
//!   Where these are many, what waits for it longest of any mailbox is read first: it mostly holds some of theirs, and costs no more when they are more.
//! - **B4** A search is made between turns, when nothing that was consumed is still in the store.

use perdure_engine::Mailbox;

#[derive(Default)]
pub(crate) struct Backlog {
    exists: bool,
    /// The mailboxes, in order, of which the store holds nothing up to `seen` that is not here.
    searched: Option<Vec<Mailbox>>,
    /// How many messages were left in the store: tells whether one was while it was read.
    left: u64,
}

impl Backlog {
    pub(crate) const fn exists(&self) -> bool {
        self.exists
    }

    /// A message of a mailbox came and was left.
    pub(crate) fn leave(&mut self, mailbox: &Mailbox) {
        self.exists = true;
        self.left += 1;
        self.searched
            .take_if(|searched| searched.binary_search(mailbox).is_ok());
    }

    /// To be handed to [`read`](Self::read) when the store was read, with what it was before.
    pub(crate) const fn left(&self) -> u64 {
        self.left
    }

    /// The store was read. `more`: it holds others; `none_of`: the mailboxes, in order, of which it holds none.
    pub(crate) fn read(&mut self, left_before: u64, more: bool, none_of: Option<Vec<Mailbox>>) {
        let is_current = self.left == left_before;
        self.exists = more || !is_current;
        self.searched = none_of.filter(|_| is_current);
    }

    /// Whether the store may hold messages of these mailboxes, which come in order.
    pub(crate) fn may_hold<'a>(&self, mailboxes: impl Iterator<Item = &'a Mailbox>) -> bool {
        self.exists && self.searched.as_ref().is_none_or(|searched| !mailboxes.eq(searched))
    }
}
