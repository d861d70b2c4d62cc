//! Stores for the tests of this crate.
#![allow(dead_code, reason = "each test file uses a part of it")]

mod directory;

use std::path::Path;
use std::sync::Arc;

use perdure_provider::{Clock, ManualClock, SystemClock};
use perdure_provider_sqlite::{SqliteOptions, SqliteProvider};

pub(crate) use directory::Directory;

pub(crate) fn open(path: &Path, clock: Arc<dyn Clock>) -> SqliteProvider {
    SqliteProvider::open(
        path,
        SqliteOptions {
            clock,
            ..SqliteOptions::default()
        },
    )
    .expect("the store opens")
}

pub(crate) fn manual_clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(1_000))
}

pub(crate) fn system_clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}
