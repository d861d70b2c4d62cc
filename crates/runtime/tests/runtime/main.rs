//! The runtime as a whole and its parts, on a store in memory and a clock that stands still. Each file tests one idea;
//! `support` has the store and the host.

mod activities;
mod backlog;
mod cache;
mod client_suspension;
mod committer;
mod continue_as_new;
mod cross_instance;
mod description;
mod heartbeats;
mod housekeeping;
mod inline;
mod lanes;
mod lease;
mod loading;
mod messages;
mod mismatched;
mod ownership;
mod probations;
mod shutdown;
mod starting;
mod support;
mod suspension;
mod tasks;
mod turns;
mod watch;
mod watchdog;
