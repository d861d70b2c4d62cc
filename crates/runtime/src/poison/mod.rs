//! Instances that must not go on as they are: poison pills, and instances whose code or history does not fit.
//!
//! This folder owns the evidence against an instance (probations, the watchdog), its suspension with the report of the
//! reason, and its resumption when other code is registered. Holding an instance on request belongs to clients.

pub(crate) mod mismatched;
pub(crate) mod probations;
pub(crate) mod report;
pub(crate) mod suspects;
pub(crate) mod suspending;
pub(crate) mod watchdog;
