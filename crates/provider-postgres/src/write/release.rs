//! Release of an instance that its worker no longer needs. The instance is due, for any worker.

use perdure_provider::{Outcome, ReleaseInstance};

use crate::error::Failure;
use crate::params::P;
use crate::revocation;
use crate::rows::integer;
use crate::session::Session;
use crate::statement::named;

pub(super) async fn release(session: &Session<'_>, release: &ReleaseInstance) -> Result<Outcome, Failure> {
    let gone = named!(
        session.query_optional,
        "UPDATE {schema}.instances SET owner = NULL, wake_at = coalesce($now, {now})
         WHERE key = $key AND (owner = $owner) IS TRUE AND epoch = $epoch RETURNING 1",
        {
            now: session.now(),
            key: P::Int(release.key.0),
            owner: P::Text(&release.worker.0),
            epoch: P::Int(integer(release.epoch.0)),
        }
    )
    .await?;
    revocation::forget(session, release).await?;
    Ok(gone.map_or(Outcome::Fenced, |_| Outcome::Noted))
}
