//! The backlog: messages that wait for an instance in the store beyond those that it holds.
//!
//! An instance holds [`MESSAGES_HELD_MAX`](crate::options::MESSAGES_HELD_MAX) messages of its mailboxes. Messages that
//! come then are left in the store until the code waits for them. Invariants:
//!
//! - **B1** Without a backlog, every message up to `seen` was handed over. With a backlog, no message is handed over as
//!   it comes, except for those that are no mail (a request to cancel, the end of a child): these never become part of
//!   the backlog.
//! - **B2** Of each mailbox, the instance holds the oldest messages that wait, or none. So the order stays FIFO,
//!   regardless of the messages that were left.
//! - **B3** When the instance waits for mailboxes of which it holds nothing, the store is searched for these mailboxes
//!   alone. The instance sleeps only when that search found nothing and nothing has come for these mailboxes since. It
//!   wakes for its own mailboxes, regardless of the messages that the store holds for others. If it waits for many
//!   mailboxes, the messages of any mailbox that have waited longest are read first: they mostly include some for these
//!   mailboxes, and that read costs no more when the mailboxes are more.
//! - **B4** A search is made between turns, when no consumed message is still in the store.

use perdure_engine::Mailbox;

#[derive(Default)]
pub(crate) struct Backlog {
    exists: bool,
    /// The mailboxes, in order, of which the store holds no message up to `seen` that is not here.
    searched: Option<Vec<Mailbox>>,
    /// Number of messages that were left in the store. A change tells that a message was left while the store was read.
    left: u64,
}

impl Backlog {
    pub(crate) const fn exists(&self) -> bool {
        self.exists
    }

    /// Notes that a message of a mailbox came and was left in the store.
    pub(crate) fn leave(&mut self, mailbox: &Mailbox) {
        self.exists = true;
        self.left += 1;
        self.searched
            .take_if(|searched| searched.binary_search(mailbox).is_ok());
    }

    /// Returns the number of messages that were left. The value from before a read of the store is passed to
    /// [`read`](Self::read).
    pub(crate) const fn left(&self) -> u64 {
        self.left
    }

    /// Notes that the store was read. `more` is true if the store holds other messages. `none_of` are the mailboxes, in
    /// order, of which the store holds none.
    pub(crate) fn read(&mut self, left_before: u64, more: bool, none_of: Option<Vec<Mailbox>>) {
        let is_current = self.left == left_before;
        self.exists = more || !is_current;
        self.searched = none_of.filter(|_| is_current);
    }

    /// Returns true if the store may hold messages of these mailboxes, which come in order.
    pub(crate) fn may_hold<'a>(&self, mailboxes: impl Iterator<Item = &'a Mailbox>) -> bool {
        self.exists && self.searched.as_ref().is_none_or(|searched| !mailboxes.eq(searched))
    }
}
