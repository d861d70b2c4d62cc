//! The runtime as a whole and its parts, on a store in memory and a clock that stands still. Each file tests one idea.

mod about;
mod activities;
mod backlog;
mod cache;
mod committer;
mod continue_as_new;
mod heartbeats;
mod holding;
mod housekeeping;
mod inline;
mod lanes;
mod lease;
mod loading;
mod messages;
mod mismatched;
mod others;
mod ownership;
mod probations;
mod shutdown;
mod starting;
mod suspension;
mod tasks;
mod turns;
mod watch;
mod watchdog;
