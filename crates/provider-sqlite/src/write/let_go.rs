//! The release of an instance that its worker does not run: it is due, for any worker.

use perdure_provider::{LetGo, Outcome};
use rusqlite::params;

use crate::error::Failure;
use crate::revocation;
use crate::rows::integer;
use crate::session::Session;

pub(super) fn let_go(session: &Session<'_>, let_go: &LetGo) -> Result<Outcome, Failure> {
    revocation::forget(session, let_go)?;
    let gone = session.execute(
        "UPDATE instances SET owner = NULL, wake_at = ?4 WHERE key = ?1 AND owner = ?2 AND epoch = ?3",
        params![
            let_go.key.0,
            &*let_go.worker.0,
            integer(let_go.epoch.0),
            session.now_ms()
        ],
    )?;
    Ok(if gone == 1 { Outcome::Noted } else { Outcome::Fenced })
}
