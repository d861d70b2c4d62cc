//! The settings of a connection.

use rusqlite::Connection;
use rusqlite::types::FromSql;

use crate::error::Failure;

/// Sets a pragma and reads it back, because SQLite ignores a setting that it does not know or cannot honour.
pub(crate) fn set_and_check(connection: &Connection, pragma: &str, value: i64) -> Result<(), Failure> {
    connection
        .pragma_update(None, pragma, value)
        .or_else(|error| match error {
            // Some settings answer with their new value.
            rusqlite::Error::ExecuteReturnedResults => Ok(()),
            other => Err(other),
        })?;
    let found: i64 = read_pragma(connection, pragma)?;
    if found == value {
        Ok(())
    } else {
        Err(Failure::internal(format!(
            "PRAGMA {pragma} was set to {value} and is {found}."
        )))
    }
}

pub(crate) fn read_pragma<T: FromSql>(connection: &Connection, pragma: &str) -> Result<T, Failure> {
    Ok(connection.pragma_query_value(None, pragma, |row| row.get(0))?)
}
