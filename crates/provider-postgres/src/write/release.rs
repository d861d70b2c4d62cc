//! Release of an instance that its worker no longer needs. The instance is due, for any worker.

use perdure_provider::{Outcome, ReleaseInstance};

use crate::error::Failure;
use crate::params::P;
use crate::revocation;
use crate::rows::integer;
use crate::session::Session;

pub(super) async fn release(session: &Session<'_>, release: &ReleaseInstance) -> Result<Outcome, Failure> {
    let gone = session
        .query_optional(
            "UPDATE {schema}.instances SET owner = NULL, wake_at = coalesce($1, {now})
             WHERE key = $2 AND owner = $3 AND epoch = $4 RETURNING 1",
            &[
                session.now(),
                P::Int(release.key.0),
                P::Text(&release.worker.0),
                P::Int(integer(release.epoch.0)),
            ],
        )
        .await?;
    revocation::forget(session, release).await?;
    Ok(gone.map_or(Outcome::Fenced, |_| Outcome::Noted))
}
