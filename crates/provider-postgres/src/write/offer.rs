//! Attempts that any worker may run (P12): they are offered and withdrawn with turns.

use std::borrow::Cow;

use perdure_engine::EventId;
use perdure_provider::{InstanceKey, TaskOffer, WorkerId};

use super::found::Origin;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{index, integer, number, worker};
use crate::session::Session;
use crate::statement::named;
use crate::text::encode;

pub(super) async fn offer_all<'w>(
    session: &Session<'_>,
    offers: impl Iterator<Item = (Origin, &'w TaskOffer)>,
) -> Result<(), Failure> {
    let (mut key, mut execution, mut event, mut attempt) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut queue, mut name): (Vec<Cow<'_, str>>, Vec<Cow<'_, str>>) = (Vec::new(), Vec::new());
    let (mut priority, mut due_at, mut deadline) = (Vec::new(), Vec::new(), Vec::new());
    let mut of_session: Vec<Option<Cow<'_, str>>> = Vec::new();
    for (origin, offer) in offers {
        key.push(origin.key.0);
        execution.push(integer(origin.execution.0));
        event.push(integer(offer.scheduled.0));
        attempt.push(i64::from(offer.attempt));
        queue.push(encode(&offer.queue));
        name.push(encode(&offer.name));
        priority.push(i64::from(offer.priority));
        due_at.push(offer.due_at_ms);
        deadline.push(offer.deadline_ms);
        of_session.push(offer.session.as_deref().map(encode));
    }
    if key.is_empty() {
        return Ok(());
    }
    named!(
        session.query,
        // A wait for the worker of a session counts from now on.
        "INSERT INTO {schema}.tasks (instance_key, execution, event_id, attempt, queue, name, priority, due_at,
           deadline, session, route)
         SELECT instance_key, execution, event_id, attempt, queue, name, priority,
           CASE WHEN session IS NULL THEN due_at ELSE greatest(due_at, coalesce($now, {now})) END, deadline, session,
           CASE WHEN session IS NULL THEN '' ELSE '?' END
         FROM {offered}",
        { now: session.now() },
        offered {
            instance_key: P::Ints(&key),
            execution: P::Ints(&execution),
            event_id: P::Ints(&event),
            attempt: P::Ints(&attempt),
            queue: P::Texts(&queue),
            name: P::Texts(&name),
            priority: P::Ints(&priority),
            due_at: P::Ints(&due_at),
            deadline: P::MaybeInts(&deadline),
            session: P::MaybeTexts(&of_session),
        }
    )
    .await?;
    Ok(())
}

/// Withdraws tasks. Returns, for each that is being run, the place of the turn that withdrew it and the worker that
/// runs it.
pub(super) async fn withdraw_all(
    session: &Session<'_>,
    withdrawn: impl Iterator<Item = (usize, Origin, EventId)>,
) -> Result<Vec<(usize, WorkerId)>, Failure> {
    let (mut n, mut key, mut execution, mut event) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (at, origin, scheduled) in withdrawn {
        n.push(index(at));
        key.push(origin.key.0);
        execution.push(integer(origin.execution.0));
        event.push(integer(scheduled.0));
    }
    if n.is_empty() {
        return Ok(Vec::new());
    }
    let rows = named!(
        session.query,
        "DELETE FROM {schema}.tasks t USING {w}
         WHERE t.instance_key = ANY (ARRAY[w.key]) AND t.execution = w.execution AND t.event_id = w.event
         RETURNING w.n, t.owner",
        {},
        w {
            n: P::Ints(&n),
            key: P::Ints(&key),
            execution: P::Ints(&execution),
            event: P::Ints(&event)
        }
    )
    .await?;
    let mut stopped = Vec::new();
    for row in &rows {
        let at = usize::try_from(number(row, 0)?).unwrap_or(usize::MAX);
        stopped.extend(worker(row, 1)?.map(|owner| (at, owner)));
    }
    Ok(stopped)
}

/// Withdraws all tasks of an instance. Returns the workers that run them.
pub(super) async fn withdraw_of(session: &Session<'_>, key: InstanceKey) -> Result<Vec<WorkerId>, Failure> {
    let rows = session
        .query(
            "DELETE FROM {schema}.tasks WHERE instance_key = $1 RETURNING owner",
            &[P::Int(key.0)],
        )
        .await?;
    let mut owners = Vec::new();
    for row in &rows {
        owners.extend(worker(row, 0)?);
    }
    Ok(owners)
}
