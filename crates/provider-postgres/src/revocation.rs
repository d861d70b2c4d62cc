//! Revocations: instances that terminations and suspensions take from their owners (P15). The inbox reads them together
//! with its messages.

use perdure_provider::{Epoch, InstanceKey, ReleaseInstance, Revoked, WorkerId};

use crate::error::Failure;
use crate::params::P;
use crate::rows::integer;
use crate::session::Session;
use crate::statement::named;

/// Notes that an instance is taken from its owner, if it has one. The row of the instance is locked, as it is where the
/// owner is [removed](crate::worker::release). So either the removal finds the note, or this call finds no owner.
pub(crate) async fn note(
    session: &Session<'_>,
    owner: Option<&WorkerId>,
    key: InstanceKey,
    epoch: Epoch,
) -> Result<(), Failure> {
    if let Some(owner) = owner {
        named!(
            session.query,
            "INSERT INTO {schema}.revocations ({columns}) VALUES ({values})
             ON CONFLICT (worker, instance_key) DO UPDATE SET epoch = excluded.epoch",
            { worker: P::Text(&owner.0), instance_key: P::Int(key.0), epoch: P::Int(integer(epoch.0)) }
        )
        .await?;
    }
    Ok(())
}

/// Parses the revocations that the inbox has read: `key epoch` for each, with a comma between.
pub(crate) fn read(noted: Option<&str>) -> Result<Vec<Revoked>, Failure> {
    let revoked = |text: &str| {
        let (key, epoch) = text.split_once(' ')?;
        Some(Revoked {
            key: InstanceKey(key.parse().ok()?),
            epoch: Epoch(epoch.parse().ok()?),
        })
    };
    let noted = noted.into_iter().flat_map(|noted| noted.split(','));
    noted
        .map(|text| revoked(text).ok_or_else(|| Failure::internal("a revocation that is none")))
        .collect()
}

/// Deletes the note of a revocation that the worker knows.
pub(crate) async fn forget(session: &Session<'_>, release: &ReleaseInstance) -> Result<(), Failure> {
    named!(
        session.query,
        "DELETE FROM {schema}.revocations WHERE worker = $worker AND instance_key = $key AND epoch <= $epoch",
        {
            worker: P::Text(&release.worker.0),
            key: P::Int(release.key.0),
            epoch: P::Int(integer(release.epoch.0)),
        }
    )
    .await?;
    Ok(())
}

/// Deletes all notes for a worker that is gone.
pub(crate) async fn forget_all(session: &Session<'_>, worker: P<'_>) -> Result<(), Failure> {
    session
        .query("DELETE FROM {schema}.revocations WHERE worker = $1", &[worker])
        .await?;
    Ok(())
}
