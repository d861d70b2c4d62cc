//! Activities: their attempts and slots, their heartbeats, and the tasks that workers run for each other.
//!
//! This room owns which attempt runs, waits for a slot or waits for its retry. Whether a failed attempt is followed by another is decided
//! by the engine crate; the function itself is called by the host.

pub(crate) mod activities;
pub(crate) mod attempt;
pub(crate) mod beats;
pub(crate) mod heartbeats;
pub(crate) mod lent;
pub(crate) mod tasks;
pub(crate) mod turnover;
