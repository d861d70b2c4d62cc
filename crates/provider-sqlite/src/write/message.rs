//! A message into an instance's mailbox.

use perdure_engine::MessageSeq;
use perdure_provider::{NewMessage, Outcome, Status};
use rusqlite::params;

use super::find;
use crate::error::Failure;
use crate::rows::message_columns;
use crate::session::Session;

pub(super) fn send(session: &mut Session<'_>, message: &NewMessage) -> Result<Outcome, Failure> {
    let Some(instance) = find(session, &message.instance)? else {
        return Ok(Outcome::NotFound);
    };
    if instance.status.is_terminal() {
        return Ok(Outcome::Ended {
            status: instance.status,
        });
    }
    let (kind, name, payload) = message_columns(&message.body);
    // Numbers rise in the order in which transactions commit, because one transaction writes at a time (P5).
    session.execute(
        "INSERT INTO messages (instance_key, kind, name, payload, time) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![instance.key.0, kind, name, payload, message.time_ms],
    )?;
    let seq = session.connection().last_insert_rowid();
    if instance.owner.is_none() && instance.status != Status::Suspended {
        // What is due already keeps its place in the order.
        session.execute(
            "UPDATE instances SET wake_at = ?2 WHERE key = ?1 AND (wake_at IS NULL OR wake_at > ?2)",
            params![instance.key.0, session.now_ms()],
        )?;
    }
    let seq = MessageSeq(u64::try_from(seq).expect("AUTOINCREMENT counts from 1"));
    Ok(Outcome::Delivered {
        key: instance.key,
        seq,
        owner: instance.owner,
    })
}
