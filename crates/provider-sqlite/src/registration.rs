//! The workers that are registered, and the orchestrations of those whose leases are valid.

use perdure_provider::{Newest, WorkerId};
use rusqlite::params;

use crate::error::Failure;
use crate::session::Session;

/// Returns the orchestrations of the workers with a valid lease.
pub(crate) fn live_orchestrations(session: &Session<'_>) -> Result<Vec<Newest>, Failure> {
    // The table has a few rows, one for each running process, so no index is kept.
    let mut statement = session
        .connection()
        .prepare_cached("SELECT newest_versions FROM workers WHERE lease_until > ?1 AND newest_versions IS NOT NULL")?;
    let live = statement.query_map(params![session.now_ms()], |row| {
        Ok(Newest::read(row.get_ref(0)?.as_str().unwrap_or_default()))
    })?;
    Ok(live.collect::<rusqlite::Result<_>>()?)
}

pub(crate) fn is_registered(session: &Session<'_>, worker: &WorkerId) -> Result<bool, Failure> {
    let row = session.query_optional("SELECT 1 FROM workers WHERE id = ?1", params![&*worker.0], |_| Ok(()))?;
    Ok(row.is_some())
}
