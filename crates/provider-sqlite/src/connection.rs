//! Opening: the checks of a path, and the settings without which a commit would mean less than it says.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use perdure_provider::{ProviderError, ProviderErrorKind as Kind};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use crate::error::Failure;
use crate::options::{
    BUSY_FIRST_TRIES, BUSY_SLEEP, BUSY_SLEEP_FIRST, BUSY_TRIES_MAX, Durability, OPEN_SLEEP, OPEN_TRIES_MAX,
    READER_CACHE_KIB, SQLITE_VERSION_MIN, STATEMENTS_MAX, WAL_BYTES_KEPT, WAL_PAGES, WRITER_CACHE_KIB,
};
use crate::pragma::{read_pragma, set_and_check};
use crate::{locks, schema};

/// The number of times that a connection waits for a lock before it gives up. Only the connection's own thread changes
/// it.
#[derive(Clone)]
pub(crate) struct BusyLimit(Arc<AtomicI32>);

impl BusyLimit {
    fn new() -> Self {
        Self(Arc::new(AtomicI32::new(BUSY_TRIES_MAX)))
    }

    /// Runs `work` with at most `tries` waits.
    pub(crate) fn limited<T>(&self, tries: i32, work: impl FnOnce() -> T) -> T {
        self.0.store(tries, Ordering::Relaxed);
        let result = work();
        self.0.store(BUSY_TRIES_MAX, Ordering::Relaxed);
        result
    }
}

/// The connection that writes.
pub(crate) struct WriterConnection {
    pub(crate) connection: Connection,
    pub(crate) busy_limit: BusyLimit,
    /// Value of `PRAGMA data_version` before any caller got hold of the provider. From here on no commit of another
    /// connection is missed.
    pub(crate) data_version: i64,
}

/// Returns the absolute path of a store, after checking that a store can be there.
pub(crate) fn locate(path: &Path) -> Result<PathBuf, ProviderError> {
    let shown = path.display().to_string();
    let refuse = |detail: String| Failure::Found(Kind::CannotOpen, detail).named(&shown);
    if path.as_os_str().is_empty() {
        return Err(refuse("the path is empty.".into()));
    }
    // The path is made absolute, so that neither `:memory:` nor `file:` has a meaning of its own to SQLite.
    let path = std::path::absolute(path).map_err(|error| refuse(format!("{error}.")))?;
    match fs::metadata(&path) {
        Ok(found) if found.is_dir() => Err(refuse(
            "it is a directory; name a file in it, for example 'perdure.db'.".into(),
        )),
        Ok(found) if !found.is_file() => Err(refuse("it is not a regular file.".into())),
        Ok(_) => Ok(path),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let directory = path.parent().unwrap_or(&path);
            match fs::metadata(directory) {
                Ok(found) if found.is_dir() => Ok(path),
                Ok(_) => Err(refuse(format!("'{}' is not a directory.", directory.display()))),
                Err(error) if error.kind() == ErrorKind::NotFound => Err(refuse(format!(
                    "the directory '{}' does not exist; create it first, then open the store again.",
                    directory.display()
                ))),
                Err(error) => Err(refuse(format!("its directory cannot be read ({error})."))),
            }
        }
        Err(error) => Err(refuse(format!("it cannot be read ({error})."))),
    }
}

/// Opens the writer of a store in a file. The file is created if it is missing, brought to this version's schema, and
/// probed. Without `migrate` the first two are refused.
pub(crate) fn open_writer(path: &Path, durability: Durability, migrate: bool) -> Result<WriterConnection, Failure> {
    assert!(
        rusqlite::version_number() >= SQLITE_VERSION_MIN,
        "this build has SQLite {}",
        rusqlite::version()
    );
    if migrate {
        make_private(path)?;
    } else if !path.exists() {
        return Err(Failure::Found(Kind::CannotOpen, "there is no such file.".into()));
    }
    let log_exists = log_of(path).exists();
    retrying(|| {
        let (mut connection, busy_limit) = connect(path)?;
        if connection.is_readonly(MAIN_DB)? {
            return Err(Failure::Found(
                Kind::CannotOpen,
                "the user of this process may not write to it.".into(),
            ));
        }
        // Another application's file must stay as it is. No write comes before this line, and the close that follows an
        // error does not copy the contents of the log into the file.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, log_exists)?;
        if migrate {
            schema::identify(&connection)?;
        } else {
            schema::check_newest(&connection)?;
        }
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        set_durability(&connection, durability)?;
        set_common(&connection, WRITER_CACHE_KIB)?;
        schema::migrate(&mut connection)?;
        schema::probe(&connection)?;
        let data_version = read_pragma(&connection, "data_version")?;
        Ok(WriterConnection {
            connection,
            busy_limit,
            data_version,
        })
    })
    .map_err(|failure| match failure.kind() {
        // SQLite reports this by itself. Looking into the file beforehand would take away the locks that this process
        // has on it.
        Kind::NotADatabase if matches!(failure, Failure::Sqlite(_)) => Failure::Found(
            Kind::NotADatabase,
            "it is not a SQLite file. It was left as it is; choose another path.".into(),
        ),
        _ => failure,
    })
}

/// Returns the path at which SQLite keeps the write-ahead log of a file.
pub(crate) fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Opens a reader of a store that is open for writing.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, Failure> {
    retrying(|| {
        let (connection, _) = connect(path)?;
        set_common(&connection, READER_CACHE_KIB)?;
        set_and_check(&connection, "query_only", 1)?;
        Ok(connection)
    })
}

/// Opens a private store that lives as long as its one connection.
pub(crate) fn open_in_memory() -> Result<WriterConnection, Failure> {
    let mut connection = Connection::open_in_memory()?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    set_common(&connection, WRITER_CACHE_KIB)?;
    schema::migrate(&mut connection)?;
    let data_version = read_pragma(&connection, "data_version")?;
    Ok(WriterConnection {
        connection,
        busy_limit: BusyLimit::new(),
        data_version,
    })
}

/// Creates the file of a new store, which only its owner may read and write. SQLite would create one that the group and
/// others may read. The write-ahead log and its index get the mode of the file. An existing file keeps its own.
pub(crate) fn make_private(path: &Path) -> Result<(), Failure> {
    /// Closing a file takes away the locks that this process has on it, so no other thread of it may open the file in
    /// between.
    static MAKING: Mutex<()> = Mutex::new(());
    if fs::metadata(path).is_ok() {
        return Ok(());
    }
    let mut options = fs::OpenOptions::new();
    // `create_new` would take a link to no file for a file.
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _making = MAKING.lock();
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::StorageFull => Err(Failure::Found(
            Kind::Full,
            format!("the file cannot be created ({error})."),
        )),
        Err(error) => Err(Failure::Found(
            Kind::CannotOpen,
            format!("the file cannot be created ({error})."),
        )),
    }
}

fn connect(path: &Path) -> Result<(Connection, BusyLimit), Failure> {
    locks::install();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    let busy_limit = BusyLimit::new();
    let limit = busy_limit.clone();
    connection.busy_handler(Some(move |tries: i32| {
        sleep(if tries < BUSY_FIRST_TRIES {
            BUSY_SLEEP_FIRST
        } else {
            BUSY_SLEEP
        });
        tries < limit.0.load(Ordering::Relaxed)
    }))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok((connection, busy_limit))
}

fn set_durability(connection: &Connection, durability: Durability) -> Result<(), Failure> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        return Err(Failure::Found(
            Kind::CannotOpen,
            format!("its file system does not allow a write-ahead log (journal_mode stays '{mode}')."),
        ));
    }
    let synchronous = match durability {
        Durability::Full => 2,
        Durability::Normal => 1,
    };
    set_and_check(connection, "synchronous", synchronous)?;
    if durability == Durability::Full {
        // Only macOS knows these settings: there a plain fsync leaves the data in the drive's cache.
        set_and_check(connection, "fullfsync", 1)?;
        set_and_check(connection, "checkpoint_fullfsync", 1)?;
    }
    set_and_check(connection, "wal_autocheckpoint", i64::from(WAL_PAGES))?;
    set_and_check(connection, "journal_size_limit", WAL_BYTES_KEPT)
}

fn set_common(connection: &Connection, cache_kib: i64) -> Result<(), Failure> {
    // Otherwise SQLite prepares a statement on a table with partial indexes again for each new value that is bound to
    // it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // No row refers to rows of other tables by a constraint: rows that belong together are written together.
    set_and_check(connection, "foreign_keys", 0)?;
    set_and_check(connection, "temp_store", 2)?;
    set_and_check(connection, "cache_size", -cache_kib)?;
    // A damaged page is noticed when it is read, before any write builds on it.
    set_and_check(connection, "cell_size_check", 1)
}

/// Tries an opening again while the file is locked. SQLite answers some locks at once where waiting could deadlock (the
/// change to WAL, the recovery of a log). No process holds these for long, so the whole opening is tried again.
fn retrying<T>(mut open: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    let mut tries = 0;
    loop {
        match open() {
            Err(failure) if failure.kind() == Kind::Busy && tries < OPEN_TRIES_MAX => tries += 1,
            result => return result,
        }
        sleep(OPEN_SLEEP);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a thread of this crate's own waits for a file lock, which announces nothing"
)]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Directory;

    #[test]
    fn settings_hold() {
        let directory = Directory::new();
        for (durability, synchronous) in [(Durability::Full, 2), (Durability::Normal, 1)] {
            let path = directory.join(format!("{durability:?}.db"));
            let writer = open_writer(&path, durability, true)
                .expect("the store opens")
                .connection;
            let read = |pragma| read_pragma::<i64>(&writer, pragma).expect("the setting is read");
            assert_eq!(
                read_pragma::<String>(&writer, "journal_mode").expect("the setting is read"),
                "wal"
            );
            assert_eq!(read("synchronous"), synchronous);
            assert_eq!(read("foreign_keys"), 0);
            assert_eq!(read("temp_store"), 2);
            assert_eq!(read("wal_autocheckpoint"), i64::from(WAL_PAGES));
            assert_eq!(read("journal_size_limit"), WAL_BYTES_KEPT);
            assert_eq!(read("query_only"), 0);
        }
    }

    #[test]
    fn a_setting_that_does_not_hold_is_an_error() {
        let writer = open_in_memory().expect("the store opens").connection;
        let failure = set_and_check(&writer, "page_size", 1_000).expect_err("it is no power of two");
        assert_eq!(failure.kind(), Kind::Internal);
        assert_eq!(failure.to_string(), "PRAGMA page_size was set to 1000 and is 4096.");
    }

    #[test]
    fn readers_cannot_write() {
        let directory = Directory::new();
        let path = directory.join("store.db");
        let _writer = open_writer(&path, Durability::Full, true).expect("the store opens");
        let reader = open_reader(&path).expect("a reader opens");
        assert_eq!(
            reader.query_row("SELECT count(*) FROM workers", [], |row| row.get(0)),
            Ok(0)
        );
        assert!(reader.execute("DELETE FROM workers", []).is_err());
    }

    #[test]
    fn a_lock_that_lasts_is_busy() {
        let directory = Directory::new();
        let path = directory.join("store.db");
        let open = || open_writer(&path, Durability::Full, true).expect("the store opens");
        let (one, two) = (open(), open());
        one.connection
            .execute_batch("BEGIN IMMEDIATE")
            .expect("nobody else writes");
        let locked = two
            .busy_limit
            .limited(3, || two.connection.execute_batch("BEGIN IMMEDIATE"));
        assert_eq!(Failure::from(locked.expect_err("the other writes")).kind(), Kind::Busy);
        one.connection.execute_batch("COMMIT").expect("the lock is held");
        two.connection
            .execute_batch("BEGIN IMMEDIATE")
            .expect("nobody else writes");
    }
}
