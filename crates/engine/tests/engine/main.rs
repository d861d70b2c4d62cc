//! The engine's tests, as data: `support` says how a script is run, and each other file is about one feature of
//! scripts.

mod activities;
mod budget;
mod cancel;
mod continue_as_new;
mod cross_instance;
mod damaged_records;
mod grace_timer;
mod interrupt;
mod limits;
mod mailboxes;
mod mismatch;
mod mismatch_histories;
mod orders;
mod paging;
mod patched;
mod random;
mod records;
mod replay;
mod retries;
mod status;
mod support;
mod terminal;
mod timers;
mod trace;
mod waits;
