//! How a store is opened, and every limit it keeps.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use perdure_provider::{Clock, SystemClock};

/// Oldest SQLite that is used, as `sqlite3_libversion_number` gives it: 3.51.3 mended a reset of the log that could damage a file.
pub(crate) const SQLITE_VERSION_MIN: i32 = 3_051_003;

/// Most writes that one batch should hold (told to callers in `ProviderInfo`).
pub(crate) const BATCH_WRITES_MAX: usize = 1_024;
/// Jobs that share one transaction.
pub(crate) const TRANSACTION_JOBS_MAX: usize = 1_024;
/// A job joins a transaction only while that has fewer writes than this: the lock is held for some tens of ms at most.
pub(crate) const TRANSACTION_WRITES_MAX: usize = 4_096;

/// Prepared statements that a connection keeps; more than there are.
pub(crate) const STATEMENTS_MAX: usize = 64;
/// Threads that read.
pub(crate) const READERS: usize = 2;
/// How many messages of others an inbox query walks over before it asks instance by instance.
pub(crate) const INBOX_SCAN_MAX: i64 = 1_000;

/// First waits for a locked file: another process holds the lock for less than a ms most of the time.
pub(crate) const BUSY_SLEEP_FIRST: Duration = Duration::from_micros(100);
/// How often the first wait is tried.
pub(crate) const BUSY_FIRST_TRIES: i32 = 10;
/// Later waits.
pub(crate) const BUSY_SLEEP: Duration = Duration::from_millis(1);
/// After so many waits (some 5 s) the call fails with `Busy`.
pub(crate) const BUSY_TRIES_MAX: i32 = 5_000;
/// After so many waits (some 20 ms) a checkpoint is given up until the log has grown on.
pub(crate) const CHECKPOINT_TRIES_MAX: i32 = 30;
/// How often opening is tried when the file is locked in a way that waiting inside SQLite does not help.
pub(crate) const OPEN_TRIES_MAX: u32 = 500;
/// Wait between these.
pub(crate) const OPEN_SLEEP: Duration = Duration::from_millis(10);

/// Pages in the log after which SQLite copies them into the file (16 MiB).
pub(crate) const WAL_PAGES: u32 = 4_000;
/// The log file is cut to this size when it starts again, bytes.
pub(crate) const WAL_BYTES_KEPT: i64 = 32 * 1024 * 1024;
/// Over this size readers have kept the log from starting again: the writer waits for them, bytes.
pub(crate) const WAL_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How often the writer looks at the size of the log, in transactions.
pub(crate) const WAL_CHECK_EVERY: u64 = 64;
/// Page cache of the writer, KiB.
pub(crate) const WRITER_CACHE_KIB: i64 = 16_384;
/// Page cache of each reader, KiB.
pub(crate) const READER_CACHE_KIB: i64 = 4_096;

/// Pages that a backup copies at a time.
pub(crate) const BACKUP_PAGES: std::ffi::c_int = 1_024;

/// How often an idle writer asks whether another process wrote.
pub(crate) const FOREIGN_CHANGE_EVERY: Duration = Duration::from_millis(25);

/// What a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A loss of power.
    #[default]
    Full,
    /// A killed process; a loss of power may take the last commits, never a part of one.
    Normal,
}

/// How to open a store.
#[derive(Clone)]
pub struct SqliteOptions {
    /// What a commit survives.
    pub durability: Durability,
    /// Make the file when it is not there, and bring an older schema to this version's. Without it both are refused, and left as they are.
    pub migrate: bool,
    /// The store's clock: leases and due times are compared with it alone (P9).
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
