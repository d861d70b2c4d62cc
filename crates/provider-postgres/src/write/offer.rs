//! Attempts that any worker may run (P12): they are offered and withdrawn with turns.

use std::borrow::Cow;

use perdure_engine::EventId;
use perdure_provider::{ATTEMPT_ENTRIES_FROM, ATTEMPT_VERSION, InstanceKey, TaskOffer, WorkerId};

use super::found::Origin;
use crate::error::Failure;
use crate::params::P;
use crate::queues::{enter, leave, locked_queues};
use crate::rows::{index, integer, number, worker};
use crate::session::Session;
use crate::statement::{columns, named, query};
use crate::tasks::parts::start_by;
use crate::text::encode;

/// The time from which an attempt waits for a worker.
macro_rules! due {
    () => {
        "greatest(due_at, coalesce($now, {now}))"
    };
}

const OFFER: &str = concat!(
    "INSERT INTO {schema}.tasks (instance_key, execution, event_id, attempt, queue, name, priority, due_at, deadline,
  start_within, start_by, session, route)
SELECT instance_key, execution, event_id, attempt, queue, name, priority, ",
    due!(),
    ", deadline, start_within, ",
    start_by!("coalesce($now, {now})"),
    ", session, CASE WHEN session IS NULL THEN '' ELSE '?' END
FROM {o}"
);

/// The same if some of the attempts have keys. Those whose queues are set get places there, and wait for slots (P27).
/// The queues are locked against their deletion.
const OFFER_IN_QUEUES: &str = concat!(
    "WITH ",
    locked_queues!("$queues::text[]"),
    ", s AS MATERIALIZED (
  SELECT s.*, $version AS version, q.name IS NOT NULL AS has_place, s.due > coalesce($now, {now}) AS is_delayed, q.turn,
    q.is_fair
  FROM (SELECT o.*, ",
    due!(),
    " AS due FROM {o}) s
  LEFT JOIN q ON q.name = s.queue AND s.queue_key IS NOT NULL
), entered AS (
  ",
    enter!("has_place"),
    "
)
INSERT INTO {schema}.tasks (instance_key, execution, event_id, attempt, queue, name, priority, due_at, deadline,
  start_within, start_by, session, route, place_key)
SELECT instance_key, execution, event_id, attempt, queue, name, priority, due, deadline, start_within, ",
    start_by!("coalesce($now, {now})"),
    ", session, CASE WHEN has_place THEN '=' WHEN session IS NULL THEN '' ELSE '?' END, CASE WHEN has_place THEN key END
FROM s"
);

/// Offers as columns.
#[derive(Default)]
struct Offers<'w> {
    /// The numbers of the offers that have keys.
    in_queues: Vec<usize>,
    /// The queues of these offers.
    queues: Vec<Cow<'w, str>>,
    /// The keys of the places that the attempts would have.
    key: Vec<Option<i64>>,
    queue_key: Vec<Option<Cow<'w, str>>>,
    instance_key: Vec<i64>,
    execution: Vec<i64>,
    event_id: Vec<i64>,
    attempt: Vec<i64>,
    queue: Vec<Cow<'w, str>>,
    name: Vec<Cow<'w, str>>,
    priority: Vec<i64>,
    due_at: Vec<i64>,
    deadline: Vec<Option<i64>>,
    start_within: Vec<Option<i64>>,
    session: Vec<Option<Cow<'w, str>>>,
}

impl<'w> Offers<'w> {
    fn push(&mut self, origin: Origin, offer: &'w TaskOffer) {
        let queue = encode(&offer.queue);
        if offer.key.is_some() {
            self.in_queues.push(self.key.len());
            if !self.queues.contains(&queue) {
                self.queues.push(queue.clone());
            }
        }
        self.key.push(None);
        self.queue_key.push(offer.key.as_deref().map(encode));
        self.instance_key.push(origin.key.0);
        self.execution.push(integer(origin.execution.0));
        self.event_id.push(integer(offer.scheduled.0));
        self.attempt.push(i64::from(offer.attempt));
        self.queue.push(queue);
        self.name.push(encode(&offer.name));
        self.priority.push(i64::from(offer.priority));
        self.due_at.push(offer.due_at_ms);
        self.deadline.push(offer.deadline_ms);
        self.start_within.push(offer.start_within_ms);
        self.session.push(offer.session.as_deref().map(encode));
    }

    columns! {
        key: MaybeInts,
        queue_key: MaybeTexts,
        instance_key: Ints,
        execution: Ints,
        event_id: Ints,
        attempt: Ints,
        queue: Texts,
        name: Texts,
        priority: Ints,
        due_at: Ints,
        deadline: MaybeInts,
        start_within: MaybeInts,
        session: MaybeTexts,
    }
}

/// Writes offers. An attempt with a key gets a place in its queue, if that is set.
pub(super) async fn offer_all<'w>(
    session: &Session<'_>,
    offers: impl Iterator<Item = (Origin, &'w TaskOffer)>,
) -> Result<(), Failure> {
    let mut all = Offers::default();
    for (origin, offer) in offers {
        all.push(origin, offer);
    }
    if all.instance_key.is_empty() {
        return Ok(());
    }
    let version = encode(ATTEMPT_VERSION);
    let offer = if all.in_queues.is_empty() {
        query!(OFFER, { now: session.now() }; o: Offers = all)
    } else {
        let keys = session.connection().keys(all.in_queues.len()).await?;
        for (at, key) in all.in_queues.iter().zip(keys) {
            all.key[*at] = Some(ATTEMPT_ENTRIES_FROM + key);
        }
        query!(
            OFFER_IN_QUEUES,
            { now: session.now(), queues: P::Texts(&all.queues), version: P::Text(&version) };
            o: Offers = all
        )
    };
    session.query(offer.sql, &offer.params).await?;
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
        concat!(
            "WITH gone AS (
    DELETE FROM {schema}.tasks t USING {w}
    WHERE t.instance_key = ANY (ARRAY[w.key]) AND t.execution = w.execution AND t.event_id = w.event
    RETURNING w.n, t.owner, t.place_key
  ), ",
            leave!(),
            " SELECT n, owner FROM gone"
        ),
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
            concat!(
                "WITH gone AS (
    DELETE FROM {schema}.tasks WHERE instance_key = $1 RETURNING owner, place_key
  ), ",
                leave!(),
                " SELECT owner FROM gone"
            ),
            &[P::Int(key.0)],
        )
        .await?;
    let mut owners = Vec::new();
    for row in &rows {
        owners.extend(worker(row, 0)?);
    }
    Ok(owners)
}
