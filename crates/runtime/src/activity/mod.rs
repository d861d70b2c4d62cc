//! Activities: the attempts that this worker runs and their slots, the heartbeats and the entries of streams that it
//! writes, and the tasks that workers run for each other.
//!
//! This room decides which attempt runs, waits for a slot or waits for its retry. The engine crate decides if a failed
//! attempt is followed by another one. The host calls the activity's function.

pub(crate) mod activities;
pub(crate) mod attempts;
pub(crate) mod completion_rate;
pub(crate) mod heartbeat_writes;
pub(crate) mod stream_appends;
pub(crate) mod tasks;
