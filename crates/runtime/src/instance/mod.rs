//! The instances that this worker owns: the table in which they are found, and their way into memory and out of it.
//!
//! This room owns the worker's places, starts and acquisitions, loading from the store, the cache of generators,
//! probations and suspensions. It runs no turn.

pub(crate) mod cache;
pub(crate) mod instances;
pub(crate) mod loading;
pub(crate) mod places;
pub(crate) mod probations;
pub(crate) mod starting;
pub(crate) mod starts;
pub(crate) mod suspects;
pub(crate) mod suspending;
pub(crate) mod table;
pub(crate) mod waking;
