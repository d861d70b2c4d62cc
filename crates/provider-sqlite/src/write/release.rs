//! The release of an instance that its worker does not run: it is due, for any worker.

use perdure_provider::{Outcome, ReleaseInstance};
use rusqlite::params;

use crate::error::Failure;
use crate::revocation;
use crate::rows::integer;
use crate::session::Session;

pub(super) fn release(session: &Session<'_>, release: &ReleaseInstance) -> Result<Outcome, Failure> {
    revocation::forget(session, release)?;
    let gone = session.execute(
        "UPDATE instances SET owner = NULL, wake_at = ?4 WHERE key = ?1 AND owner = ?2 AND epoch = ?3",
        params![
            release.key.0,
            &*release.worker.0,
            integer(release.epoch.0),
            session.now_ms()
        ],
    )?;
    Ok(if gone == 1 { Outcome::Noted } else { Outcome::Fenced })
}
