//! The end of an attempt that a worker ran for another worker's instance (P12).

use perdure_engine::{AttemptResult, Settlement};
use perdure_provider::{Outcome, TaskDone};

use super::attempt::Activity;
use super::found::Parent;
use super::heartbeat;
use super::mailbox::{Messages, Sent};
use crate::activity_sessions::note_use;
use crate::error::Failure;
use crate::params::P;
use crate::queues::leave;
use crate::session::Session;
use crate::statement::named;

pub(super) async fn done(session: &Session<'_>, done: &TaskDone) -> Result<Outcome, Failure> {
    let task = done.task;
    let activity = Activity::of(task.key, task.execution, task.scheduled);
    let removed = named!(
        session.query_optional,
        concat!(
            "WITH gone AS (
               DELETE FROM {schema}.tasks
               WHERE instance_key = $key AND execution = $execution AND event_id = $event AND attempt = $attempt
               AND (owner = $owner) IS TRUE RETURNING queue, session, place_key
             ), used AS (",
            note_use!("gone"),
            "), ",
            leave!(),
            " SELECT place_key IS NOT NULL FROM gone"
        ),
        {
            now: session.now(),
            key: activity.key,
            execution: activity.execution,
            event: activity.scheduled,
            attempt: P::Int(i64::from(task.attempt)),
            owner: P::Text(&done.worker.0),
        }
    )
    .await?;
    let Some(removed) = removed else {
        return Ok(Outcome::Fenced);
    };
    if matches!(done.result, AttemptResult::Completed(_)) {
        heartbeat::forget(session, activity).await?;
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
    Ok(Outcome::TaskDone {
        receivers,
        freed: removed.try_get(0)?,
    })
}
