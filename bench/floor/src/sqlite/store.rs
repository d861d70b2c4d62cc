//! A file with Perdure's tables and the settings under which Perdure writes it.

use rusqlite::Connection;

use crate::Failure;
use crate::arguments::Arguments;
use crate::migrations;

/// The settings of `provider-sqlite` (its `options.rs` and `connection.rs`). `synchronous` is FULL.
const SETTINGS: [(&str, i64); 5] = [
    ("synchronous", 2),
    ("wal_autocheckpoint", 4_000),
    ("journal_size_limit", 32 * 1024 * 1024),
    ("temp_store", 2),
    ("cache_size", -16_384),
];

/// Makes a new store.
pub(crate) fn create(arguments: &Arguments) -> Result<Connection, Failure> {
    let connection = Connection::open(arguments.text("db")?)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        return Err(format!("journal_mode is '{mode}'").into());
    }
    for (name, value) in SETTINGS {
        // Some settings answer with their new value, so the value that is read back counts.
        let _ = connection.pragma_update(None, name, value);
        let found: i64 = connection.pragma_query_value(None, name, |row| row.get(0))?;
        if found != value {
            return Err(format!("PRAGMA {name} was set to {value} and is {found}").into());
        }
    }
    for migration in migrations::texts(arguments)? {
        connection.execute_batch(&migration)?;
    }
    Ok(connection)
}
