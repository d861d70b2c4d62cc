//! Activities: their attempts and slots, their heartbeats, and the tasks that workers run for each other.
//!
//! This folder decides which attempt runs, waits for a slot or waits for its retry. The engine crate decides if a
//! failed attempt is followed by another one. The host calls the activity's function.

pub(crate) mod activities;
pub(crate) mod attempt;
pub(crate) mod beats;
pub(crate) mod heartbeats;
pub(crate) mod lent;
pub(crate) mod tasks;
pub(crate) mod turnover;
