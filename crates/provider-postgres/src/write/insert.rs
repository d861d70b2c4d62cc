//! New instances: their rows and first events, and the effects of their first turns, with one statement for all
//! starts of a layer that run at once, and one for all others.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{BadWrite, Epoch, InstanceKey, NewInstance, OnConflict, Outcome, QueueEntry, TurnCommit};
use tokio_postgres::Row;

use super::events::Events;
use super::found::{Parent, find};
use super::later::{self, LaterInstances};
use super::next_state::{NextState, custom_status};
use super::terminate;
use crate::admission::{NewSlot, NewSlots};
use crate::deletion::remove_records;
use crate::error::Failure;
use crate::params::P;
use crate::query::Query;
use crate::rows::{integer, number};
use crate::session::Session;
use crate::statement::{columns, query};
use crate::text::encode;

/// Rows are made in the order of their ids, so that two transactions that start the same instances do not wait for each
/// other.
///
/// A worker that claims a start is locked against its removal, so that the removal finds what the worker owns. A worker
/// that is no longer registered owns nothing, and the first turn that it ran is not written.
macro_rules! start {
    ($more:literal) => {
        concat!(
            "WITH w AS MATERIALIZED (
  SELECT id FROM {schema}.workers WHERE id = ANY ($claims::text[]) ORDER BY id FOR KEY SHARE
), made AS (
  INSERT INTO {schema}.instances (key, id, name, version, execution, status, owner, released_by, epoch, next_event_id,
    turns, wake_at, custom_status, custom_status_version, state_version, priority, parent_id, parent_key,
    parent_execution, parent_event, tags, report, open_work, mismatched_code, created_at, updated_at, completed_at)
  SELECT key, id, name, CASE WHEN claimed THEN coalesce(next_version, version) ELSE version END,
  CASE WHEN claimed THEN execution ELSE 1 END,
    CASE WHEN claimed THEN status ELSE 'Pending' END, CASE WHEN claimed AND keeps THEN claim END,
    CASE WHEN claimed AND NOT keeps AND NOT is_due AND NOT ends THEN claim END, claimed::int,
    CASE WHEN claimed THEN next_event_id ELSE 2 END, CASE WHEN claimed THEN turns ELSE 0 END,
    CASE WHEN NOT claimed AND in_queue THEN NULL WHEN NOT claimed OR is_due THEN coalesce($now, {now}) ELSE wake_at END,
    CASE WHEN claimed THEN custom_status END,
    (claimed AND has_status)::int, (claimed AND has_state)::int, priority, parent_id, parent_key, parent_execution,
    parent_event, tags, CASE WHEN claimed THEN report END, CASE WHEN claimed THEN open_work END,
    CASE WHEN claimed THEN mismatched_code END, created_at,
    CASE WHEN claimed THEN updated_at ELSE created_at END, CASE WHEN claimed AND ends THEN updated_at END
  FROM (
    SELECT s.*, (s.claim IN (SELECT id FROM w)) IS TRUE AS claimed FROM {s}
  ) s ORDER BY id
  ON CONFLICT (id) DO NOTHING RETURNING key, epoch, wake_at, completed_at
), appended AS (
  INSERT INTO {schema}.history ({e.columns})
  SELECT * FROM {e}
  WHERE CASE WHEN e.execution = 1 AND e.event_id = 1 THEN e.instance_key IN (SELECT key FROM made)
    ELSE e.instance_key IN (SELECT key FROM made WHERE epoch = 1) END
)",
            $more,
            "
SELECT key, epoch, wake_at FROM made"
        )
    };
}

const START: &str = start!("");

/// Also makes the places of the instances that have slots. One whose worker is no longer registered is in line.
const START_WITH_PLACES: &str = start!(
    ", entered AS (
  INSERT INTO {schema}.queue_places (key, queue, queue_key, name, version, priority, turn, queued_at, place)
  SELECT p.key, p.queue, p.queue_key, p.name, p.version, p.priority, p.turn, p.queued_at,
    CASE WHEN p.key IN (SELECT key FROM made WHERE epoch = 0) THEN 0 ELSE 2 END
  FROM {p} WHERE (p.key IN (SELECT key FROM made WHERE completed_at IS NULL)) IS TRUE
)"
);

/// New instances.
pub(super) struct Starts<'w> {
    at_once: NewInstances<'w>,
    later: LaterInstances<'w>,
}

impl<'w> Starts<'w> {
    /// Takes one key for each start, and the slots that some of them get. Of several starts with one id, only the first
    /// is written. Fails for a start that must never be stored.
    pub(super) fn of(
        keys: &[i64],
        starts: impl IntoIterator<Item = (&'w NewInstance, Option<Parent>)>,
        slots: &NewSlots,
    ) -> Result<Self, Failure> {
        let (mut at_once, mut later) = (NewInstances::default(), LaterInstances::default());
        let mut ids = HashSet::new();
        for ((instance, parent), key) in starts.into_iter().zip(keys) {
            instance.check().map_err(Failure::internal)?;
            if !ids.insert(&instance.id) {
                continue;
            }
            let slot = instance.queue.as_ref().zip(slots.get(key));
            if instance.runs_at_once() || slot.is_some() {
                at_once.push(InstanceKey(*key), instance, parent, slot)?;
            } else {
                later.push(InstanceKey(*key), instance, parent);
            }
        }
        Ok(Self { at_once, later })
    }

    /// Returns the statements for the starts that run at once, and for all others. `None`: there are no such starts.
    pub(super) fn queries(&self, session: &Session<'_>) -> [Option<Query<'_>>; 2] {
        [self.at_once.query(session), self.later.query(session)]
    }

    /// Inserts the instances.
    pub(super) async fn insert(&self, session: &Session<'_>) -> Result<AllInserted, Failure> {
        let [at_once, later] = self.queries(session);
        let queries: Vec<&Query<'_>> = [&at_once, &later].into_iter().flatten().collect();
        session.connection().prepare(&queries).await?;
        let (at_once, later) = tokio::try_join!(biased; session.run(at_once.as_ref()), session.run(later.as_ref()))?;
        AllInserted::of(&at_once, &later)
    }
}

/// New instances as columns.
#[derive(Default)]
struct NewInstances<'w> {
    claims: Vec<&'w str>,
    key: Vec<i64>,
    id: Vec<Cow<'w, str>>,
    name: Vec<Cow<'w, str>>,
    version: Vec<Cow<'w, str>>,
    claim: Vec<Option<Cow<'w, str>>>,
    priority: Vec<i64>,
    parent_id: Vec<Option<Cow<'w, str>>>,
    tags: Vec<Option<Cow<'w, str>>>,
    parent_key: Vec<Option<i64>>,
    parent_execution: Vec<Option<i64>>,
    parent_event: Vec<Option<i64>>,
    created_at: Vec<i64>,
    updated_at: Vec<i64>,
    execution: Vec<i64>,
    next_event_id: Vec<i64>,
    turns: Vec<i64>,
    status: Vec<&'w str>,
    next_version: Vec<Option<Cow<'w, str>>>,
    custom_status: Vec<Option<Cow<'w, str>>>,
    report: Vec<Option<Cow<'w, str>>>,
    open_work: Vec<Option<Cow<'w, str>>>,
    mismatched_code: Vec<Option<Cow<'w, str>>>,
    keeps: Vec<bool>,
    is_due: Vec<bool>,
    ends: Vec<bool>,
    has_status: Vec<bool>,
    has_state: Vec<bool>,
    wake_at: Vec<Option<i64>>,
    in_queue: Vec<bool>,
    places: SlotPlaces<'w>,
    events: Events<'w>,
}

impl<'w> NewInstances<'w> {
    fn push(
        &mut self,
        key: InstanceKey,
        instance: &'w NewInstance,
        parent: Option<Parent>,
        slot: Option<(&'w QueueEntry, &NewSlot)>,
    ) -> Result<(), Failure> {
        if let Some((entry, slot)) = slot {
            self.places.push(key, instance, entry, *slot);
        }
        self.in_queue.push(slot.is_some());
        let first = &instance.first_event;
        let turn = instance.first_turn.as_deref();
        if let Some(worker) = &instance.claim
            && !self.claims.contains(&&*worker.0)
        {
            self.claims.push(&worker.0);
        }
        self.key.push(key.0);
        self.id.push(encode(&instance.id));
        self.name.push(encode(&instance.name));
        self.version.push(encode(&instance.version));
        self.claim
            .push(instance.claim.as_ref().map(|worker| Cow::Borrowed(&*worker.0)));
        self.priority.push(instance.priority.into());
        self.parent_id.push(instance.parent_id.as_deref().map(encode));
        self.tags.push(instance.tags.as_deref().map(encode));
        self.parent_key.push(parent.map(|parent| parent.key.0));
        self.parent_execution
            .push(parent.map(|parent| integer(parent.execution.0)));
        self.parent_event.push(parent.map(|parent| integer(parent.event.0)));
        self.created_at.push(first.time_ms);
        self.updated_at.push(turn.map_or(first.time_ms, |turn| turn.time_ms));
        self.events.push(key, ExecutionId::FIRST, first);
        let next = turn.map(|turn| after_first_turn(instance, turn)).transpose()?;
        self.execution.push(next.as_ref().map_or(1, |next| next.execution));
        self.next_event_id
            .push(next.as_ref().map_or(2, |next| next.next_event_id));
        self.turns
            .push(next.as_ref().map_or(0, |next| if next.begins { 0 } else { next.turns }));
        self.status
            .push(next.as_ref().map_or("Pending", |next| next.status.as_str()));
        self.keeps.push(next.as_ref().is_none_or(|next| next.keeps));
        self.is_due
            .push(next.as_ref().is_some_and(|next| next.begins && !next.keeps));
        self.ends.push(next.as_ref().is_some_and(|next| next.ends));
        self.wake_at.push(next.as_ref().and_then(|next| next.wake_at_ms));
        let (next_version, report, open_work, mismatched_code) = next.map_or((None, None, None, None), |next| {
            (next.version, next.report, next.open_work, next.mismatched_code)
        });
        self.next_version.push(next_version);
        self.report.push(report);
        self.open_work.push(open_work);
        self.mismatched_code.push(mismatched_code);
        self.custom_status.push(turn.and_then(custom_status));
        self.has_status
            .push(turn.is_some_and(|turn| turn.custom_status.is_some()));
        self.has_state.push(turn.is_some_and(|turn| !turn.state.is_empty()));
        if let Some(turn) = turn {
            self.events.push_turn(key, turn);
        }
        Ok(())
    }

    columns! {
        key: Ints,
        id: Texts,
        name: Texts,
        version: Texts,
        claim: MaybeTexts,
        priority: Ints,
        parent_id: MaybeTexts,
        tags: MaybeTexts,
        parent_key: MaybeInts,
        parent_execution: MaybeInts,
        parent_event: MaybeInts,
        created_at: Ints,
        updated_at: Ints,
        execution: Ints,
        next_event_id: Ints,
        turns: Ints,
        status: Names,
        next_version: MaybeTexts,
        custom_status: MaybeTexts,
        report: MaybeTexts,
        open_work: MaybeTexts,
        mismatched_code: MaybeTexts,
        keeps: Bools,
        is_due: Bools,
        ends: Bools,
        has_status: Bools,
        has_state: Bools,
        wake_at: MaybeInts,
        in_queue: Bools,
    }

    /// Returns the statement. `None`: there are no starts.
    fn query(&self, session: &Session<'_>) -> Option<Query<'_>> {
        if self.key.is_empty() {
            return None;
        }
        Some(if self.places.key.is_empty() {
            query!(
                START,
                { now: session.now(), claims: P::Names(&self.claims) };
                s: NewInstances = self;
                e: Events = self.events
            )
        } else {
            query!(
                START_WITH_PLACES,
                { now: session.now(), claims: P::Names(&self.claims) };
                s: NewInstances = self;
                e: Events = self.events;
                p: SlotPlaces = self.places
            )
        })
    }
}

/// The places of new instances that have slots, as columns.
#[derive(Default)]
struct SlotPlaces<'w> {
    key: Vec<i64>,
    queue: Vec<Cow<'w, str>>,
    queue_key: Vec<Cow<'w, str>>,
    name: Vec<Cow<'w, str>>,
    version: Vec<Cow<'w, str>>,
    priority: Vec<i64>,
    turn: Vec<i64>,
    queued_at: Vec<i64>,
}

impl<'w> SlotPlaces<'w> {
    fn push(&mut self, key: InstanceKey, instance: &'w NewInstance, entry: &'w QueueEntry, slot: NewSlot) {
        self.key.push(key.0);
        self.queue.push(encode(&entry.queue));
        self.queue_key.push(encode(&entry.key));
        self.name.push(encode(&instance.name));
        self.version.push(encode(&instance.version));
        self.priority.push(instance.priority.into());
        self.turn.push(slot.turn);
        self.queued_at.push(slot.now_ms);
    }

    columns! {
        key: Ints,
        queue: Texts,
        queue_key: Texts,
        name: Texts,
        version: Texts,
        priority: Ints,
        turn: Ints,
        queued_at: Ints,
    }
}

/// Returns the state of an instance after its first turn. Fails if the fence of the turn does not match a claimed
/// start.
pub(super) fn after_first_turn<'w>(instance: &NewInstance, turn: &'w TurnCommit) -> Result<NextState<'w>, Failure> {
    let fits = instance.claim.as_ref().is_none_or(|worker| *worker == turn.worker)
        && turn.execution == ExecutionId::FIRST
        && turn.next_event_id == EventId::FIRST.next()
        && turn.consumed.is_empty();
    if !fits {
        return Err(Failure::internal(BadWrite::FirstTurn));
    }
    NextState::of(turn)
}

/// An instance that was inserted.
#[derive(Clone)]
pub(super) struct Inserted {
    pub(super) key: InstanceKey,
    pub(super) is_claimed: bool,
    wake_at_ms: Option<i64>,
}

impl Inserted {
    /// Returns the outcome of the start, with that of its first turn. `terminated` is the outcome of the termination of
    /// the instance that had the id.
    pub(super) fn outcome(&self, instance: &NewInstance, terminated: Option<Outcome>) -> Outcome {
        let has_turn = self.is_claimed && instance.first_turn.is_some();
        Outcome::Started {
            key: self.key,
            claimed: self.is_claimed.then_some(Epoch(1)),
            turn: has_turn.then(|| {
                Box::new(Outcome::Committed {
                    status: None,
                    wake_at_ms: self.wake_at_ms,
                    others: None,
                })
            }),
            terminated: terminated.map(Box::new),
        }
    }
}

/// The instances that were inserted, by the keys of the starts.
pub(super) struct AllInserted {
    made: HashMap<i64, Inserted>,
    /// Starts whose queues are not there.
    refused: HashSet<i64>,
}

impl AllInserted {
    /// Takes the results of the two statements of [`Starts::queries`].
    pub(super) fn of(at_once: &[Row], later: &[Row]) -> Result<Self, Failure> {
        let (mut made, mut refused) = (HashMap::with_capacity(at_once.len() + later.len()), HashSet::new());
        for row in at_once {
            let key = row.try_get(0)?;
            let inserted = Inserted {
                key: InstanceKey(key),
                is_claimed: number(row, 1)? == 1,
                wake_at_ms: row.try_get(2)?,
            };
            made.insert(key, inserted);
        }
        for row in later {
            let key = row.try_get(0)?;
            if row.try_get(1)? {
                refused.insert(key);
                continue;
            }
            let inserted = Inserted {
                key: InstanceKey(key),
                is_claimed: false,
                wake_at_ms: None,
            };
            made.insert(key, inserted);
        }
        Ok(Self { made, refused })
    }

    /// Returns the instance that was inserted, or the outcome of a start that was refused.
    pub(super) fn get(&self, key: i64) -> Result<Inserted, Outcome> {
        match self.made.get(&key) {
            Some(inserted) => Ok(inserted.clone()),
            None if self.refused.contains(&key) => Err(Outcome::NoQueue),
            None => Err(Outcome::Exists),
        }
    }
}

/// Removes the instance that has the id of a start, if the start may replace it and will not be refused. Returns the
/// outcome of its termination, if it had not ended. `by` is the instance whose turn asks for the start.
pub(super) async fn make_room(
    session: &Session<'_>,
    instance: &NewInstance,
    by: Option<InstanceKey>,
) -> Result<Option<Outcome>, Failure> {
    let on_conflict = instance.on_conflict;
    if on_conflict == OnConflict::Keep || later::is_refused(session, instance).await? {
        return Ok(None);
    }
    let Some(found) = find(session, &instance.id).await? else {
        return Ok(None);
    };
    let terminated = if on_conflict.replaces(found.status) {
        None
    } else if on_conflict == OnConflict::TerminateAndRestart && by != Some(found.key) {
        Some(terminate::terminate(session, &instance.termination()).await?)
    } else {
        return Ok(None);
    };
    // The instance has no messages: they were deleted by the write that ended it (P6).
    session
        .query(
            concat!(
                "WITH history AS (DELETE FROM {schema}.history WHERE instance_key = $1),
                 chunks AS (DELETE FROM {schema}.stream_chunks WHERE instance_key = $1),
                 writers AS (DELETE FROM {schema}.stream_writers WHERE instance_key = $1), ",
                remove_records!("SELECT $1::bigint"),
                " DELETE FROM {schema}.instances WHERE key = $1"
            ),
            &[P::Int(found.key.0)],
        )
        .await?;
    Ok(terminated)
}
