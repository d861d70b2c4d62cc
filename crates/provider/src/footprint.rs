//! The room that one instance takes in the store.

use perdure_engine::Mailbox;

/// Most mailboxes of an instance that a [`Footprint`] names.
pub const FOOTPRINT_MAILBOXES_MAX: usize = 100;

/// Counts of the rows of one instance, all of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Executions whose history is stored.
    pub executions: u64,
    /// Events of all these executions.
    pub events: u64,
    /// Bytes of the values and other facts in these events, as the store keeps them.
    pub history_bytes: u64,
    /// Messages that wait in mailboxes of the instance.
    pub unread: u64,
    /// Messages by mailbox, the fullest first and then by kind and name, at most [`FOOTPRINT_MAILBOXES_MAX`] mailboxes.
    pub mailboxes: Vec<(Mailbox, u64)>,
}
