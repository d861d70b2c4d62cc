//! The engine's tests, as data: `support` says how a script is run, every other file is about one thing that scripts do.

mod activities;
mod cancel;
mod mailboxes;
mod random;
mod retries;
mod status;
mod support;
mod timers;
