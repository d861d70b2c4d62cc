//! Instances that terminations and suspensions take from their owners (P15).

use perdure_provider::{Epoch, InstanceKey, ReleaseInstance, Revoked, WorkerId};
use rusqlite::{Connection, params};

use crate::error::Failure;
use crate::rows::{integer, number};
use crate::session::Session;

/// Notes that an instance is taken from its owner, if it has one.
pub(crate) fn note(
    session: &Session<'_>,
    owner: Option<&WorkerId>,
    key: InstanceKey,
    epoch: Epoch,
) -> Result<(), Failure> {
    if let Some(owner) = owner {
        session.execute(
            "INSERT INTO revocations (worker, instance_key, epoch) VALUES (?1, ?2, ?3)
             ON CONFLICT (worker, instance_key) DO UPDATE SET epoch = excluded.epoch",
            params![&*owner.0, key.0, integer(epoch.0)],
        )?;
    }
    Ok(())
}

pub(crate) fn of_worker(connection: &Connection, worker: &WorkerId) -> Result<Vec<Revoked>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT instance_key, epoch FROM revocations WHERE worker = ?1 ORDER BY instance_key")?;
    let revoked = statement.query_map(params![&*worker.0], |row| {
        Ok(Revoked {
            key: InstanceKey(row.get(0)?),
            epoch: Epoch(number(row, 1)?),
        })
    })?;
    Ok(revoked.collect::<rusqlite::Result<_>>()?)
}

/// Forgets the revocation of an instance, because the worker knows it.
pub(crate) fn forget(session: &Session<'_>, release: &ReleaseInstance) -> Result<(), Failure> {
    session.execute(
        "DELETE FROM revocations WHERE worker = ?1 AND instance_key = ?2 AND epoch <= ?3",
        params![&*release.worker.0, release.key.0, integer(release.epoch.0)],
    )?;
    Ok(())
}

/// Forgets all revocations of a worker, because the worker is gone.
pub(crate) fn forget_all(session: &Session<'_>, worker: &WorkerId) -> Result<(), Failure> {
    session.execute("DELETE FROM revocations WHERE worker = ?1", params![&*worker.0])?;
    Ok(())
}
