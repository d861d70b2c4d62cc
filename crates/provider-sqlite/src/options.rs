//! The options of opening a store, and every limit that the store keeps.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use perdure_provider::{Clock, SystemClock};

/// Oldest SQLite that is accepted, as `sqlite3_libversion_number` gives it. Version 3.51.3 fixed a reset of the log
/// that could damage a file.
pub(crate) const SQLITE_VERSION_MIN: i32 = 3_051_003;

/// Most writes that one batch should hold (told to callers in `ProviderInfo`).
pub(crate) const BATCH_WRITES_MAX: usize = 1_024;
/// Most jobs that share one transaction.
pub(crate) const TRANSACTION_JOBS_MAX: usize = 1_024;
/// Number of writes in a transaction at which no further job joins it. This keeps the lock for some tens of ms at most.
pub(crate) const TRANSACTION_WRITES_MAX: usize = 4_096;

/// Prepared statements that a connection keeps. There are fewer statements than this.
pub(crate) const STATEMENTS_MAX: usize = 64;
/// Number of threads that read.
pub(crate) const READERS: usize = 2;
/// Number of messages for other workers that an inbox query walks over before it asks instance by instance.
pub(crate) const INBOX_SCAN_MAX: i64 = 1_000;

/// Length of the first waits for a locked file. Another process holds the lock for less than a ms most of the time.
pub(crate) const BUSY_SLEEP_FIRST: Duration = Duration::from_micros(100);
/// Number of first waits.
pub(crate) const BUSY_FIRST_TRIES: i32 = 10;
/// Length of later waits.
pub(crate) const BUSY_SLEEP: Duration = Duration::from_millis(1);
/// Number of waits (some 5 s) after which the call fails with `Busy`.
pub(crate) const BUSY_TRIES_MAX: i32 = 5_000;
/// Number of waits (some 20 ms) after which a checkpoint is given up until the log has grown further.
pub(crate) const CHECKPOINT_TRIES_MAX: i32 = 30;
/// Number of times that opening is tried again when the file is locked in a way for which waiting inside SQLite does
/// not help.
pub(crate) const OPEN_TRIES_MAX: u32 = 500;
/// Wait between these tries.
pub(crate) const OPEN_SLEEP: Duration = Duration::from_millis(10);

/// Pages in the log after which SQLite copies them into the file (16 MiB).
pub(crate) const WAL_PAGES: u32 = 4_000;
/// Size to which the log file is cut when it starts again, bytes.
pub(crate) const WAL_BYTES_KEPT: i64 = 32 * 1024 * 1024;
/// Size of the log above which the writer waits for readers, because they have kept the log from starting again, bytes.
pub(crate) const WAL_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Number of transactions after which the writer looks at the size of the log again.
pub(crate) const WAL_CHECK_EVERY: u64 = 64;
/// Page cache of the writer, KiB.
pub(crate) const WRITER_CACHE_KIB: i64 = 16_384;
/// Page cache of each reader, KiB.
pub(crate) const READER_CACHE_KIB: i64 = 4_096;

/// Pages that a backup copies at a time.
pub(crate) const BACKUP_PAGES: std::ffi::c_int = 1_024;

/// Time after which an idle writer watches the log for writes of other processes.
pub(crate) const WATCH_AFTER: Duration = Duration::from_millis(1);
/// Time from a write to the log to the first question whether it is committed. A commit syncs the log before others see
/// it.
pub(crate) const COMMIT_EXPECTED_FIRST: Duration = Duration::from_micros(100);
/// Number of such questions, each after half as much time again as the one before: 11 ms in all.
pub(crate) const COMMIT_EXPECTED_TRIES: u32 = 10;
/// Interval in which an idle writer asks whether another process wrote.
pub(crate) const FOREIGN_CHANGE_EVERY: Duration = Duration::from_millis(25);

/// The failures that a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A commit survives a loss of power.
    #[default]
    Full,
    /// A commit survives a killed process. A loss of power may take the last commits, but never a part of one.
    Normal,
}

/// The options of opening a store.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The failures that a commit survives.
    pub durability: Durability,
    /// True if opening may create a missing file and bring an older schema to this version's. Otherwise both are
    /// refused, and the path is left as it is.
    pub migrate: bool,
    /// The store's clock. Leases and due times are compared with it alone (P9).
    pub clock: Arc<dyn Clock>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            migrate: true,
            clock: Arc::new(SystemClock),
        }
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}
