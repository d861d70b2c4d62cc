//! The behaviours that every provider shows: P1 to P29 of `perdure_provider`, and what the architecture asks of a store
//! (sections 2, 4 and 6). One check for each, all listed in [`suite!`].
//!
//! A provider crate implements [`Fixture`] in a test file and expands the suite there:
//!
//! ```ignore
//! struct File(tempfile::TempDir);
//! impl perdure_provider_contract::Fixture for File { /* … */ }
//! perdure_provider_contract::suite!(File);
//! ```
//!
//! Checks never sleep: the store's clock is turned by hand, and what happens elsewhere is awaited, with a timeout that
//! only a failure reaches.

#[cfg(test)]
mod listed;
mod store;
mod values;
#[macro_use]
mod expand;
#[macro_use]
mod as_kept;
#[macro_use]
mod suite;

pub mod acquire;
pub mod activity_sessions;
pub mod admission;
pub mod asks;
pub mod backlog;
pub mod batches;
pub mod cancelling;
pub mod check;
pub mod claimed_slots;
pub mod continue_as_new;
pub mod cross_instance;
pub mod deletion;
pub mod due;
pub mod executions;
pub mod fences;
pub mod filters;
pub mod footprint;
pub mod handles;
pub mod heartbeats;
pub mod keyed_starts;
pub mod late_attempts;
pub mod limited_attempts;
pub mod listing;
pub mod logs;
pub mod messages;
pub mod open_work;
pub mod pages;
pub mod paused_queues;
pub mod payloads;
pub mod queues;
pub mod release;
pub mod replacing;
pub mod revocation;
pub mod starts;
pub mod starts_with_message;
pub mod state;
pub mod stats;
pub mod statuses;
pub mod stream_lives;
pub mod streams;
pub mod suspending;
pub mod suspension;
pub mod suspicion;
pub mod takeovers;
pub mod tasks;
pub mod termination;
pub mod texts;
pub mod turns;
pub mod versions;
pub mod waking;
pub mod workers;

pub use check::{Damage, finds_each_damage};
pub use store::{Fixture, Store};
pub use values::{completed, idle_turn, instance, new_worker, scheduled};
