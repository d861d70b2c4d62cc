//! The orchestrations of the workers that are registered.

use perdure_provider::Newest;

use crate::error::Failure;
use crate::rows::text;
use crate::session::Session;

/// Returns the orchestrations of the workers whose leases hold.
pub(crate) async fn live_orchestrations(session: &Session<'_>) -> Result<Vec<Newest>, Failure> {
    let rows = session
        .query(
            "SELECT newest_versions FROM {schema}.workers WHERE lease_until > coalesce($1, {now})
             AND newest_versions IS NOT NULL",
            &[session.now()],
        )
        .await?;
    rows.iter().map(|row| Ok(Newest::read(&text(row, 0)?))).collect()
}
