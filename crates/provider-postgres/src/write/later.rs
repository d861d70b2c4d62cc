//! New instances that do not run at once: those with a start time, and those of queues (P24).

use std::borrow::Cow;

use perdure_engine::ExecutionId;
use perdure_provider::{InstanceKey, NewInstance, StartTime};

use super::events::Events;
use super::found::Parent;
use crate::error::Failure;
use crate::options::DELAY_MAX;
use crate::params::P;
use crate::query::Query;
use crate::queues::{enter_made, locked_queues};
use crate::rows::integer;
use crate::session::Session;
use crate::statement::{columns, query};
use crate::text::encode;

/// Rows are made in the order of their ids, as by the statement for starts that run at once.
///
/// The queues are locked against their deletion. An instance whose queue is not there is refused.
const START: &str = concat!(
    "WITH ",
    locked_queues!("$queues::text[]"),
    ", s AS MATERIALIZED (
  SELECT s.*, s.due > s.now AS is_delayed, s.queue IS NOT NULL AND q.name IS NULL AS is_refused, q.turn, q.is_fair
  FROM (
    SELECT a.*, coalesce($now, {now}) AS now, greatest(a.due_at, coalesce($now, {now}) + a.due_after) AS due
    FROM {a}) s
  LEFT JOIN q ON q.name = s.queue
), made AS (
  INSERT INTO {schema}.instances (key, id, name, version, execution, status, epoch, next_event_id, turns, wake_at,
    priority, parent_id, parent_key, parent_execution, parent_event, tags, created_at, updated_at)
  SELECT key, id, name, version, 1, 'Pending', 0, 2, 0, CASE WHEN queue IS NULL THEN due END, priority, parent_id,
    parent_key, parent_execution, parent_event, tags, created_at, created_at
  FROM s WHERE NOT is_refused ORDER BY id
  ON CONFLICT (id) DO NOTHING RETURNING key
), appended AS (
  INSERT INTO {schema}.history ({e.columns})
  SELECT * FROM {e} WHERE (e.instance_key IN (SELECT key FROM made)) IS TRUE
), entered AS (
  ",
    enter_made!(),
    "
)
SELECT key, false FROM made UNION ALL SELECT key, true FROM s WHERE is_refused"
);

/// New instances as columns.
#[derive(Default)]
pub(super) struct LaterInstances<'w> {
    queues: Vec<Cow<'w, str>>,
    key: Vec<i64>,
    id: Vec<Cow<'w, str>>,
    name: Vec<Cow<'w, str>>,
    version: Vec<Cow<'w, str>>,
    priority: Vec<i64>,
    parent_id: Vec<Option<Cow<'w, str>>>,
    tags: Vec<Option<Cow<'w, str>>>,
    parent_key: Vec<Option<i64>>,
    parent_execution: Vec<Option<i64>>,
    parent_event: Vec<Option<i64>>,
    created_at: Vec<i64>,
    due_after: Vec<i64>,
    due_at: Vec<Option<i64>>,
    queue: Vec<Option<Cow<'w, str>>>,
    queue_key: Vec<Option<Cow<'w, str>>>,
    events: Events<'w>,
}

impl<'w> LaterInstances<'w> {
    pub(super) fn push(&mut self, key: InstanceKey, instance: &'w NewInstance, parent: Option<Parent>) {
        let first = &instance.first_event;
        let (due_after, due_at) = match instance.due {
            StartTime::Now => (0, None),
            StartTime::After(ms) => (integer(ms).min(DELAY_MAX), None),
            StartTime::At(at_ms) => (0, Some(at_ms)),
        };
        self.key.push(key.0);
        self.id.push(encode(&instance.id));
        self.name.push(encode(&instance.name));
        self.version.push(encode(&instance.version));
        self.priority.push(instance.priority.into());
        self.parent_id.push(instance.parent_id.as_deref().map(encode));
        self.tags.push(instance.tags.as_deref().map(encode));
        self.parent_key.push(parent.map(|parent| parent.key.0));
        self.parent_execution
            .push(parent.map(|parent| integer(parent.execution.0)));
        self.parent_event.push(parent.map(|parent| integer(parent.event.0)));
        self.created_at.push(first.time_ms);
        self.due_after.push(due_after);
        self.due_at.push(due_at);
        let entry = instance.queue.as_ref();
        let queue = entry.map(|entry| encode(&entry.queue));
        if let Some(queue) = &queue
            && !self.queues.contains(queue)
        {
            self.queues.push(queue.clone());
        }
        self.queue.push(queue);
        self.queue_key.push(entry.map(|entry| encode(&entry.key)));
        self.events.push(key, ExecutionId::FIRST, first);
    }

    columns! {
        key: Ints,
        id: Texts,
        name: Texts,
        version: Texts,
        priority: Ints,
        parent_id: MaybeTexts,
        tags: MaybeTexts,
        parent_key: MaybeInts,
        parent_execution: MaybeInts,
        parent_event: MaybeInts,
        created_at: Ints,
        due_after: Ints,
        due_at: MaybeInts,
        queue: MaybeTexts,
        queue_key: MaybeTexts,
    }

    /// Returns the statement. `None`: there are no such starts. It gives the keys of the instances that were made, and
    /// of those that were refused.
    pub(super) fn query(&self, session: &Session<'_>) -> Option<Query<'_>> {
        if self.key.is_empty() {
            return None;
        }
        Some(query!(
            START,
            { now: session.now(), queues: P::Texts(&self.queues) };
            a: LaterInstances = self;
            e: Events = self.events
        ))
    }
}

/// Returns true if the queue of a start is not there. A queue that is there is locked against its deletion.
pub(super) async fn is_refused(session: &Session<'_>, instance: &NewInstance) -> Result<bool, Failure> {
    let Some(entry) = &instance.queue else {
        return Ok(false);
    };
    let queue = encode(&entry.queue);
    let found = session
        .query(
            "SELECT FROM {schema}.queues WHERE name = $1 FOR KEY SHARE",
            &[P::Text(&queue)],
        )
        .await?;
    Ok(found.is_empty())
}
