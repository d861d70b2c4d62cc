//! The settings of a store, and the workers that use it.

use std::fs;
use std::path::Path;

use perdure_provider::Inspection;
use rusqlite::Connection;

use crate::connection::log_of;
use crate::error::Failure;
use crate::pragma::read_pragma;
use crate::session::Session;
use crate::{schema, worker};

/// Inspects the store. `file` is `None` in memory.
pub(crate) fn of_store(session: &Session<'_>, file: Option<&Path>) -> Result<Inspection, Failure> {
    let connection = session.connection();
    let page = bytes(connection, "page_size")?;
    // A log that no longer exists holds nothing.
    let log_bytes = file.map_or(0, |file| fs::metadata(log_of(file)).map_or(0, |log| log.len()));
    let settings = vec![
        ("sqlite_version", rusqlite::version().to_owned()),
        ("journal_mode", read_pragma(connection, "journal_mode")?),
        ("synchronous", synchronous(connection)?),
        ("free_bytes", (bytes(connection, "freelist_count")? * page).to_string()),
        ("wal_bytes", log_bytes.to_string()),
    ];
    Ok(Inspection {
        now_ms: session.now_ms(),
        schema_version: schema::identify(connection)?,
        bytes: bytes(connection, "page_count")? * page + log_bytes,
        settings,
        workers: worker::loads(connection)?,
    })
}

fn bytes(connection: &Connection, pragma: &str) -> Result<u64, Failure> {
    Ok(read_pragma::<i64>(connection, pragma)?.unsigned_abs())
}

fn synchronous(connection: &Connection) -> Result<String, Failure> {
    let level: i64 = read_pragma(connection, "synchronous")?;
    Ok(match level {
        0 => "off".to_owned(),
        1 => "normal".to_owned(),
        2 => "full".to_owned(),
        3 => "extra".to_owned(),
        other => other.to_string(),
    })
}
