//! The request for work: what is due, taken in order (P3, P4).
//!
//! The partial index on `(name, version, priority, wake_at, key)` holds the active, unowned instances alone. For each registered
//! orchestration and each priority in use it is read from the longest due on and no further than the limit. Rows that another worker is
//! about to take are skipped, so that workers share what is due without waiting for each other.

use std::borrow::Cow;
use std::collections::HashMap;

use perdure_engine::{EventId, EventRecord, ExecutionId, Message, MessageSeq};
use perdure_provider::{Acquire, Acquired, AcquiredInstance, Epoch, InstanceKey, MessagePage, Suspicion};
use tokio_postgres::Row;

use crate::connection::{Ask, Connection};
use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, message, number, optional_text, text};
use crate::session::Session;
use crate::text::encode;
use crate::{history, inbox};

macro_rules! classes {
    () => {
        "RECURSIVE r AS (
  SELECT DISTINCT name, version FROM unnest($2::text[], $3::text[]) AS r (name, version)
), class AS (
  SELECT r.name, r.version, (
    SELECT priority FROM {schema}.instances i WHERE i.wake_at IS NOT NULL AND i.name = r.name AND i.version = r.version
    ORDER BY priority DESC LIMIT 1) AS priority FROM r
  UNION ALL
  SELECT c.name, c.version, (
    SELECT priority FROM {schema}.instances i
    WHERE i.wake_at IS NOT NULL AND i.name = c.name AND i.version = c.version AND i.priority < c.priority
    ORDER BY priority DESC LIMIT 1) FROM class c WHERE c.priority IS NOT NULL
)"
    };
}

/// A worker that takes instances is locked against its removal; one that is not registered any more gets nothing.
const TAKE: &str = concat!(
    "WITH ",
    classes!(),
    ", w AS MATERIALIZED (
  SELECT id FROM {schema}.workers WHERE id = $4 FOR KEY SHARE
), due AS MATERIALIZED (
  SELECT d.key FROM w, class c CROSS JOIN LATERAL (
    SELECT i.key, i.wake_at FROM {schema}.instances i
    WHERE i.wake_at IS NOT NULL AND i.name = c.name AND i.version = c.version AND i.priority = c.priority
      AND i.wake_at <= coalesce($1, {now})
    ORDER BY i.wake_at, i.key LIMIT $5 FOR NO KEY UPDATE SKIP LOCKED) d
  ORDER BY c.priority DESC, d.wake_at, d.key LIMIT $5
), ranked AS MATERIALIZED (
  SELECT key, row_number() OVER () AS place FROM due
)
UPDATE {schema}.instances i SET owner = $4, epoch = i.epoch + 1, wake_at = NULL, on_trial = 0 FROM ranked WHERE i.key = ranked.key
RETURNING ranked.place, i.key, i.id, i.name, i.version, i.parent_id, i.execution, i.epoch, i.next_event_id, i.turns, i.message_seq,
  EXISTS (SELECT FROM {schema}.heartbeats h WHERE h.instance_key = i.key), EXISTS (SELECT FROM {schema}.tasks t WHERE t.instance_key = i.key),
  i.suspicion"
);

/// When the next one is due that is not taken; never, for a worker that is not registered.
const NEXT: &str = concat!(
    "WITH ",
    classes!(),
    " SELECT coalesce($1, {now}), min((
  SELECT i.wake_at FROM {schema}.instances i
  WHERE i.wake_at IS NOT NULL AND i.name = c.name AND i.version = c.version AND i.priority = c.priority ORDER BY i.wake_at LIMIT 1))
FROM class c WHERE c.priority IS NOT NULL AND EXISTS (SELECT FROM {schema}.workers WHERE id = $4)"
);

const HISTORY: &str =
    "SELECT a.key, h.* FROM unnest($1::bigint[], $2::bigint[]) AS a (key, execution) CROSS JOIN LATERAL (
    SELECT event_id, time, kind, ref_id, name, payload, meta FROM {schema}.history
    WHERE instance_key = a.key AND execution = a.execution ORDER BY event_id LIMIT $3) h
  ORDER BY a.key, h.event_id";

const MESSAGES: &str = "SELECT m.*, a.key FROM unnest($1::bigint[]) AS a (key) CROSS JOIN LATERAL (
    SELECT seq, kind, name, payload, execution, ref_id FROM {schema}.messages WHERE instance_key = a.key ORDER BY seq LIMIT $2) m
  ORDER BY a.key, m.seq";

const HEARTBEATS: &str =
    "SELECT h.instance_key, h.scheduled, h.details FROM unnest($1::bigint[], $2::bigint[]) AS a (key, execution)
  JOIN {schema}.heartbeats h ON h.instance_key = a.key AND h.execution = a.execution ORDER BY 1, 2";

const TASKS: &str = "SELECT t.instance_key, t.event_id FROM unnest($1::bigint[], $2::bigint[]) AS a (key, execution)
  JOIN {schema}.tasks t ON t.instance_key = a.key AND t.execution = a.execution ORDER BY 1, 2";

/// Names and versions as columns.
struct Registered<'r> {
    names: Vec<Cow<'r, str>>,
    versions: Vec<Cow<'r, str>>,
}

impl<'r> Registered<'r> {
    fn of(request: &'r Acquire) -> Self {
        let (names, versions) = request
            .registered
            .iter()
            .map(|(name, version)| (encode(name), encode(version)))
            .unzip();
        Self { names, versions }
    }

    /// The first parameters of both statements.
    fn params<'p>(&'p self, now: P<'static>, request: &'p Acquire) -> [P<'p>; 4] {
        [
            now,
            P::Texts(&self.names),
            P::Texts(&self.versions),
            P::Text(&request.worker.0),
        ]
    }
}

/// Whether a request would find anything now; the answer to it if not.
pub(crate) async fn look(connection: &Connection, request: &Acquire) -> Result<Option<Acquired>, Failure> {
    let registered = Registered::of(request);
    let now = P::MaybeInt(connection.from.clock_ms());
    let row = connection.query_one(NEXT, &registered.params(now, request)).await?;
    let (now_ms, next_wake_at_ms): (i64, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
    let is_due = request.limit > 0 && next_wake_at_ms.is_some_and(|at| at <= now_ms);
    Ok((!is_due).then(|| Acquired {
        instances: Vec::new(),
        next_wake_at_ms,
        now_ms,
    }))
}

pub(crate) async fn acquire(session: &Session<'_>, request: &Acquire) -> Result<Acquired, Failure> {
    let registered = Registered::of(request);
    let params = registered.params(session.now(), request);
    let limit = [P::Int(integer(request.limit as u64))];
    let mut rows = session.query(TAKE, &[&params[..], &limit].concat()).await?;
    rows.sort_unstable_by_key(|row| row.get::<_, i64>(0));
    let mut instances = Vec::with_capacity(rows.len());
    let mut unreadable = Vec::new();
    for row in &rows {
        match taken(row) {
            Ok(instance) => instances.push(instance),
            Err(failure) if failure.is_undecodable() => unreadable.push((InstanceKey(row.try_get(1)?), failure)),
            Err(failure) => return Err(failure),
        }
    }
    let next = session.query_one(NEXT, &params).await?;
    unreadable.extend(load(session, request, &mut instances, &rows).await?);
    for (key, why) in unreadable {
        // It is held with the reason, because one undecodable row must not keep all the others from being acquired.
        instances.retain(|instance| instance.key != key);
        session
            .query(
                "UPDATE {schema}.instances SET status = 'Suspended', owner = NULL, report = $2 WHERE key = $1",
                &[
                    P::Int(key.0),
                    P::Text(&encode(&format!(
                        "Rows of this instance in the store cannot be read: {why}"
                    ))),
                ],
            )
            .await?;
    }
    Ok(Acquired {
        instances,
        next_wake_at_ms: next.try_get(1)?,
        now_ms: next.try_get(0)?,
    })
}

fn taken(row: &Row) -> Result<AcquiredInstance, Failure> {
    Ok(AcquiredInstance {
        key: InstanceKey(row.try_get(1)?),
        id: text(row, 2)?,
        name: text(row, 3)?,
        version: text(row, 4)?,
        parent_id: optional_text(row, 5)?,
        execution: ExecutionId(number(row, 6)?),
        epoch: Epoch(number(row, 7)?),
        next_event_id: EventId(number(row, 8)?),
        fresh: number(row, 9)? == 0,
        history: Vec::new(),
        messages: MessagePage::default(),
        seen: MessageSeq(number(row, 10)?),
        heartbeats: Vec::new(),
        tasks: Vec::new(),
        suspicion: Suspicion(u32::try_from(number(row, 13)?).unwrap_or(u32::MAX)),
    })
}

/// Bring what belongs to the instances. Returns those whose rows cannot be read.
async fn load(
    session: &Session<'_>,
    request: &Acquire,
    instances: &mut [AcquiredInstance],
    rows: &[Row],
) -> Result<Vec<(InstanceKey, Failure)>, Failure> {
    if instances.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<i64> = instances.iter().map(|instance| instance.key.0).collect();
    let executions: Vec<i64> = instances.iter().map(|instance| integer(instance.execution.0)).collect();
    let of = || vec![P::Ints(&keys), P::Ints(&executions)];
    let any = |column: usize| rows.iter().any(|row| row.get(column));
    let events = Ask {
        written: HISTORY,
        params: [of(), vec![P::Int(integer(request.history_page as u64))]].concat(),
    };
    let messages = Ask {
        written: MESSAGES,
        params: vec![
            P::Ints(&keys),
            P::Int(integer(request.message_page as u64).saturating_add(1)),
        ],
    };
    let heartbeats = any(11).then(|| Ask {
        written: HEARTBEATS,
        params: of(),
    });
    let tasks = any(12).then(|| Ask {
        written: TASKS,
        params: of(),
    });
    let asks: Vec<&Ask<'_>> = [Some(&events), Some(&messages), heartbeats.as_ref(), tasks.as_ref()]
        .into_iter()
        .flatten()
        .collect();
    session.connection().prepare(&asks).await?;
    let (events, messages, heartbeats, tasks) = tokio::try_join!(
        biased;
        session.run(Some(&events)),
        session.run(Some(&messages)),
        session.run(heartbeats.as_ref()),
        session.run(tasks.as_ref()),
    )?;
    let mut places: HashMap<i64, usize> = keys.iter().enumerate().map(|(n, key)| (*key, n)).collect();
    let mut unreadable = Vec::new();
    let (events, mails) = (by_key(&events, 0)?, by_key(&messages, 6)?);
    for instance in instances.iter_mut() {
        let key = instance.key.0;
        let read = read_events(
            instance,
            events.get(&key).map_or(&[], Vec::as_slice),
            request.history_page,
        )
        .and_then(|events| {
            let messages = read_messages(mails.get(&key).map_or(&[], Vec::as_slice))?;
            instance.history = events;
            Ok(messages)
        });
        match read {
            Ok(messages) if messages.len() <= request.message_page => instance.messages.messages = messages,
            // More than a page: what is no mail among the rest belongs to it.
            Ok(_) => {
                let page = inbox::of_instance(session.connection(), instance.key, None, request.message_page).await;
                match page {
                    Ok(page) => instance.messages = page,
                    Err(failure) if failure.is_undecodable() => unreadable.push((instance.key, failure)),
                    Err(failure) => return Err(failure),
                }
            }
            Err(failure) if failure.is_undecodable() => unreadable.push((instance.key, failure)),
            Err(failure) => return Err(failure),
        }
    }
    for row in &heartbeats {
        if let Some(place) = places.get_mut(&row.try_get(0)?) {
            instances[*place]
                .heartbeats
                .push((EventId(number(row, 1)?), text(row, 2)?));
        }
    }
    for row in &tasks {
        if let Some(place) = places.get_mut(&row.try_get(0)?) {
            instances[*place].tasks.push(EventId(number(row, 1)?));
        }
    }
    Ok(unreadable)
}

fn by_key(rows: &[Row], column: usize) -> Result<HashMap<i64, Vec<&Row>>, Failure> {
    let mut by_key: HashMap<i64, Vec<&Row>> = HashMap::new();
    for row in rows {
        by_key.entry(row.try_get(column)?).or_default().push(row);
    }
    Ok(by_key)
}

fn read_events(instance: &AcquiredInstance, rows: &[&Row], page: usize) -> Result<Vec<EventRecord>, Failure> {
    let mut events = Vec::with_capacity(rows.len());
    for row in rows {
        history::push_event(row, 1, instance.key, EventId::FIRST, &mut events)?;
    }
    let recorded = instance.next_event_id.0.saturating_sub(1);
    if events.len() as u64 != recorded.min(page as u64) {
        return Err(Failure::corrupt(format!(
            "instance {} has {recorded} events and not all are there",
            instance.key.0
        )));
    }
    Ok(events)
}

fn read_messages(rows: &[&Row]) -> Result<Vec<Message>, Failure> {
    rows.iter().map(|row| message(row)).collect()
}
