//! The platform of a process: its machine, time and sleep, the store's clock as it is known here, and small tools.
//!
//! The tools are alarms, byte budgets, panics that are caught, and reads that are tried again. This folder knows
//! neither workers nor instances; all other folders build on it.

pub(crate) mod alarms;
pub(crate) mod byte_budget;
pub(crate) mod machine;
pub(crate) mod panics;
pub(crate) mod retry;
pub(crate) mod store_clock;
pub(crate) mod time;
pub(crate) mod virtual_time;
