//! The end of an attempt that a worker ran for another worker's instance (P12).

use perdure_engine::{AttemptResult, Settlement};
use perdure_provider::{Outcome, TaskDone};

use super::found::Parent;
use super::heartbeat;
use super::mailbox::{Messages, Sent};
use crate::error::Failure;
use crate::params::P;
use crate::rows::integer;
use crate::session::Session;

pub(super) async fn done(session: &Session<'_>, done: &TaskDone) -> Result<Outcome, Failure> {
    let task = done.task;
    let row = [
        P::Int(task.key.0),
        P::Int(integer(task.execution.0)),
        P::Int(integer(task.scheduled.0)),
        P::Int(i64::from(task.attempt)),
        P::Text(&done.worker.0),
    ];
    let removed = session
        .query_optional(
            "DELETE FROM {schema}.tasks WHERE instance_key = $1 AND execution = $2 AND event_id = $3 AND attempt = $4 AND owner = $5 RETURNING 1",
            &row,
        )
        .await?;
    if removed.is_none() {
        return Ok(Outcome::Fenced);
    }
    if matches!(done.result, AttemptResult::Completed(_)) {
        session.query(heartbeat::FORGET, &row[..3]).await?;
    }
    let waiting = Parent {
        key: task.key,
        execution: task.execution,
        event: task.scheduled,
    };
    let settled = waiting.settled(Settlement::Attempted {
        attempt: task.attempt,
        result: done.result.clone(),
    });
    let mut message = Messages::default();
    message.settle(&waiting, &settled, done.time_ms);
    let mut receivers = Vec::new();
    for sent in message.send(session).await? {
        if let Sent::Delivered { owner, .. } = sent {
            receivers.push(owner);
        }
    }
    Ok(Outcome::TaskDone { receivers })
}
