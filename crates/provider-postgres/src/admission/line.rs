//! The first entries in line of a queue, as a pass reads them.

use perdure_provider::{EntryKey, KeyState, Waiting};
use tokio_postgres::Row;

use crate::acquire::parts::Registered;
use crate::error::Failure;
use crate::queues::key_state;
use crate::rows::text;

/// An entry in line, with the row of its key.
pub(super) struct InLine {
    pub(super) waiting: Waiting,
    pub(super) name: String,
    pub(super) version: String,
    /// Bytes of the data to load.
    pub(super) size: i64,
    pub(super) key: Option<KeyState>,
}

impl InLine {
    pub(super) fn of(row: &Row) -> Result<Self, Failure> {
        let has_key = row.try_get::<_, Option<&str>>(8)?.is_some();
        Ok(Self {
            waiting: Waiting {
                entry: EntryKey(row.try_get(0)?),
                key: text(row, 1)?,
                priority: row.try_get(2)?,
                turn: row.try_get(3)?,
                queued_at_ms: row.try_get(4)?,
            },
            name: text(row, 5)?,
            version: text(row, 6)?,
            size: row.try_get(7)?,
            key: has_key.then(|| key_state(row, 8)).transpose()?,
        })
    }
}

/// A look at the first entries in line.
pub(super) struct LineRequest<'a> {
    pub(super) queue: &'a str,
    pub(super) registered: &'a Registered<'a>,
    /// Most entries.
    pub(super) limit: usize,
    /// Bytes of the data to load after which there are no more entries.
    pub(super) bytes: usize,
}
