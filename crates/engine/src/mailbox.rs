//! The mailboxes of an instance.

/// A mailbox of an instance: its events of one name, or one of its FIFO queues.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mailbox {
    /// Fed by `raiseEvent`.
    Event(String),
    /// Fed by `enqueueEvent`.
    Queue(String),
}
