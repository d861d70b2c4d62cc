//! The effects of turns, with one statement for all turns of a layer. Its update is the fence
//! (P2): a turn whose instance has another owner, epoch, execution or next event id moves nothing, and nothing of it is
//! written.

use std::borrow::Cow;
use std::collections::HashMap;

use perdure_provider::{AfterTurn, Outcome, TurnCommit};
use tokio_postgres::Row;

use super::cross_instance::{self, TurnEffects};
use super::events::Events;
use super::found::parent;
use super::layers::Layer;
use super::next_state::{NextState, custom_status};
use crate::error::Failure;
use crate::params::P;
use crate::query::Query;
use crate::rows::{index, integer};
use crate::session::Session;
use crate::statement::{columns, query};
use crate::status;
use crate::text::encode;

/// The condition of a turn whose worker owns the instance.
macro_rules! owned {
    () => {
        "(i.owner = t.owner) IS TRUE AND i.epoch = t.epoch"
    };
}

/// A statement that moves instances on. With `IS TRUE` the keys of the moved ones are hashed. A join would compare each
/// pair, because the planner expects one row.
macro_rules! moved {
    ($fence:expr, $before:literal, $more:expr) => {
        concat!(
            "WITH ",
            $before,
            "moved AS (
  UPDATE {schema}.instances i SET
    epoch = t.epoch,
    next_event_id = t.next,
    execution = t.next_execution,
    version = coalesce(t.version, i.version),
    turns = CASE WHEN t.begins THEN 0 ELSE i.turns + t.counts END,
    status = t.status,
    owner = CASE WHEN t.keeps THEN t.owner END,
    released_by = CASE WHEN t.sleeps THEN t.owner ELSE i.released_by END,
    wake_at =
      CASE WHEN t.sleeps AND i.unread > t.consumed AND i.message_seq > t.seen
        THEN least(coalesce($now, {now}), t.wake_at)
      WHEN t.sleeps THEN t.wake_at
      WHEN t.begins AND NOT t.keeps THEN coalesce($now, {now}) END,
    unread = CASE WHEN t.ends THEN 0 ELSE i.unread - t.consumed END,
    custom_status = CASE WHEN t.has_status THEN t.custom_status ELSE i.custom_status END,
    custom_status_version = i.custom_status_version + t.has_status::int,
    state_version = i.state_version + t.has_state::int,
    report = t.report,
    open_work = CASE WHEN t.report IS NULL THEN t.open_work ELSE i.open_work END,
    mismatched_code = t.mismatched_code,
    suspicion = CASE WHEN t.begins OR t.next > t.fence THEN 0 ELSE i.suspicion END,
    probation = CASE WHEN t.begins OR t.next > t.fence THEN 0 ELSE i.probation END,
    updated_at = t.time,
    completed_at = CASE WHEN t.ends THEN t.time END
  FROM {t}
  WHERE i.key = ANY (ARRAY[t.key]) AND ",
            $fence,
            " AND i.execution = t.execution AND i.next_event_id = t.fence
  RETURNING i.key, i.wake_at, i.parent_key, i.parent_execution, i.parent_event, t.ends
), appended AS (
  INSERT INTO {schema}.history ({e.columns})
  SELECT * FROM {e} WHERE (e.instance_key IN (SELECT key FROM moved)) IS TRUE
)",
            $more
        )
    };
}

macro_rules! whole {
    () => {
        ", consumed AS (
  DELETE FROM {schema}.messages d USING {c}
  WHERE d.instance_key = ANY (ARRAY[c.key]) AND d.seq = c.seq AND (c.key IN (SELECT key FROM moved)) IS TRUE
  RETURNING d.instance_key
), dropped AS (
  DELETE FROM {schema}.messages WHERE instance_key = ANY (ARRAY(SELECT key FROM moved WHERE ends))
), forgotten AS (
  DELETE FROM {schema}.heartbeats d USING {h}
  WHERE d.instance_key = ANY (ARRAY[h.key]) AND d.execution = h.execution AND d.event_id = h.event_id
    AND (h.key IN (SELECT key FROM moved)) IS TRUE
)
SELECT key, false, wake_at, parent_key, parent_execution, parent_event FROM moved
UNION ALL SELECT instance_key, true, NULL, NULL, NULL, NULL FROM consumed"
    };
}

/// Turns that only append events and move their instances on.
const PLAIN: &str = moved!(
    owned!(),
    "",
    " SELECT key, false, wake_at, parent_key, parent_execution, parent_event FROM moved"
);

/// Turns of which some consume messages, forget heartbeats, or end their instances. The result has a row for each
/// consumed message, too.
const WHOLE: &str = moved!(owned!(), "", whole!());

/// Turns of which some wake their instances (P20). Their workers are locked against their removal.
const WAKING: &str = moved!(
    concat!(
        "(NOT t.wakes AND ",
        owned!(),
        " OR t.wakes AND i.owner IS NULL AND i.status = 'Running' AND i.message_seq <= t.seen AND i.epoch = t.epoch - 1
    AND t.owner IN (SELECT id FROM registered)
    AND NOT EXISTS (SELECT FROM {schema}.asks d WHERE d.instance_key = ANY (ARRAY[t.key]) AND d.id = t.asked))"
    ),
    "registered AS MATERIALIZED (
  SELECT id FROM {schema}.workers WHERE id = ANY ($waking::text[]) FOR KEY SHARE
), ",
    concat!(
        ", asked AS (
  INSERT INTO {schema}.asks (instance_key, id)
  SELECT t.key, t.asked FROM {t} WHERE t.asked IS NOT NULL AND (t.key IN (SELECT key FROM moved)) IS TRUE
)",
        whole!()
    )
);

/// Turns as columns.
#[derive(Default)]
pub(super) struct Turns<'w> {
    key: Vec<i64>,
    owner: Vec<&'w str>,
    epoch: Vec<i64>,
    execution: Vec<i64>,
    fence: Vec<i64>,
    next: Vec<i64>,
    next_execution: Vec<i64>,
    counts: Vec<i64>,
    time: Vec<i64>,
    seen: Vec<i64>,
    consumed: Vec<i64>,
    version: Vec<Option<Cow<'w, str>>>,
    status: Vec<&'w str>,
    report: Vec<Option<Cow<'w, str>>>,
    open_work: Vec<Option<Cow<'w, str>>>,
    mismatched_code: Vec<Option<Cow<'w, str>>>,
    custom_status: Vec<Option<Cow<'w, str>>>,
    keeps: Vec<bool>,
    sleeps: Vec<bool>,
    ends: Vec<bool>,
    begins: Vec<bool>,
    has_status: Vec<bool>,
    has_state: Vec<bool>,
    wakes: Vec<bool>,
    asked: Vec<Option<Cow<'w, str>>>,
    /// Workers of the turns that wake their instances.
    waking: Vec<Cow<'w, str>>,
    wake_at: Vec<Option<i64>>,
    events: Events<'w>,
    /// Instance and number of each consumed message.
    gone: [Vec<i64>; 2],
    /// Instance, execution and scheduling event of each activity that is over.
    over: [Vec<i64>; 3],
}

impl<'w> Turns<'w> {
    /// Fails for a turn that must never be stored.
    pub(super) fn of(turns: &[(usize, &'w TurnCommit)]) -> Result<Self, Failure> {
        let mut columns = Self::default();
        let mut by_key: Vec<_> = turns.iter().map(|(_, turn)| *turn).collect();
        // Rows are updated in the order of the arrays.
        by_key.sort_unstable_by_key(|turn| turn.key);
        for turn in by_key {
            columns.push(turn)?;
        }
        Ok(columns)
    }

    fn push(&mut self, turn: &'w TurnCommit) -> Result<(), Failure> {
        let next = NextState::of(turn)?;
        self.key.push(turn.key.0);
        self.owner.push(&turn.worker.0);
        self.epoch.push(integer(turn.epoch.0));
        self.execution.push(integer(turn.execution.0));
        self.fence.push(integer(turn.next_event_id.0));
        self.next.push(next.next_event_id);
        self.next_execution.push(next.execution);
        self.counts.push(next.turns);
        self.time.push(turn.time_ms);
        self.seen.push(integer(turn.seen.0));
        self.consumed.push(index(turn.consumed.len()));
        self.version.push(next.version);
        self.status.push(next.status.as_str());
        self.report.push(next.report);
        self.open_work.push(next.open_work);
        self.mismatched_code.push(next.mismatched_code);
        self.custom_status.push(custom_status(turn));
        self.keeps.push(next.keeps);
        self.sleeps.push(next.sleeps);
        self.ends.push(next.ends);
        self.begins.push(next.begins);
        self.has_status.push(turn.custom_status.is_some());
        self.has_state.push(!turn.state.is_empty());
        self.wakes.push(turn.wakes);
        self.asked.push(turn.asked.as_deref().map(encode));
        if turn.wakes {
            self.waking.push(Cow::Borrowed(&turn.worker.0));
        }
        self.wake_at.push(next.wake_at_ms);
        self.events.push_turn(turn.key, turn);
        // All messages of an instance that ends are deleted.
        if !next.ends {
            for seq in &turn.consumed {
                self.gone[0].push(turn.key.0);
                self.gone[1].push(integer(seq.0));
            }
        }
        for scheduled in &turn.heartbeats_over {
            let [key, execution, activity] = &mut self.over;
            key.push(turn.key.0);
            execution.push(integer(turn.execution.0));
            activity.push(integer(scheduled.0));
        }
        Ok(())
    }

    columns! {
        key: Ints,
        owner: Names,
        epoch: Ints,
        execution: Ints,
        fence: Ints,
        next: Ints,
        next_execution: Ints,
        counts: Ints,
        time: Ints,
        seen: Ints,
        consumed: Ints,
        version: MaybeTexts,
        status: Names,
        report: MaybeTexts,
        open_work: MaybeTexts,
        mismatched_code: MaybeTexts,
        custom_status: MaybeTexts,
        keeps: Bools,
        sleeps: Bools,
        ends: Bools,
        begins: Bools,
        has_status: Bools,
        has_state: Bools,
        wakes: Bools,
        asked: MaybeTexts,
        wake_at: MaybeInts,
    }

    /// Returns the statement. `None`: there are no turns.
    pub(super) fn query<'a>(&'a self, now: P<'a>) -> Option<Query<'a>> {
        if self.key.is_empty() {
            return None;
        }
        let wakes = !self.waking.is_empty();
        let is_plain = !wakes && self.gone[0].is_empty() && self.over[0].is_empty() && !self.ends.contains(&true);
        if is_plain {
            return Some(query!(PLAIN, { now: now }; t: Turns = self; e: Events = self.events));
        }
        let [key, seq] = &self.gone;
        let [activity_key, execution, scheduled] = &self.over;
        // The two texts differ in a parameter.
        macro_rules! whole_query {
            ($sql:expr, $($waking:tt)*) => {
                query!(
                    $sql,
                    { now: now, $($waking)* },
                    c { key: P::Ints(key), seq: P::Ints(seq) },
                    h { key: P::Ints(activity_key), execution: P::Ints(execution), event_id: P::Ints(scheduled) };
                    t: Turns = self;
                    e: Events = self.events
                )
            };
        }
        Some(if wakes {
            whole_query!(WAKING, waking: P::Texts(&self.waking))
        } else {
            whole_query!(WHOLE,)
        })
    }
}

/// Sets the outcomes of turns, and adds their effects on other instances to `effects`.
pub(super) fn outcomes<'w>(
    turns: &[(usize, &'w TurnCommit)],
    rows: &[Row],
    outcomes: &mut [Option<Outcome>],
    effects: &mut Vec<TurnEffects<'w>>,
) -> Result<(), Failure> {
    let mut moved: HashMap<i64, (Option<&Row>, usize)> = HashMap::with_capacity(turns.len());
    for row in rows {
        let (of, consumed) = moved.entry(row.try_get(0)?).or_default();
        if row.try_get(1)? {
            *consumed += 1;
        } else {
            *of = Some(row);
        }
    }
    for (place, turn) in turns {
        let Some((Some(row), consumed)) = moved.get(&turn.key.0) else {
            outcomes[*place] = Some(Outcome::Fenced);
            continue;
        };
        if *consumed != turn.consumed.len() && !matches!(turn.after, AfterTurn::End { .. }) {
            return Err(Failure::internal(format!(
                "a turn of instance {} consumed a message that does not wait for it",
                turn.key.0
            )));
        }
        outcomes[*place] = Some(Outcome::Committed {
            status: None,
            wake_at_ms: row.try_get(2)?,
            others: None,
        });
        effects.extend(TurnEffects::of(*place, turn, turn.key, parent(row, 3)?));
    }
    Ok(())
}

/// Adds the status to the outcomes of the turns that asked for it.
pub(super) async fn tell_status(
    session: &Session<'_>,
    layer: &Layer<'_>,
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Failure> {
    let mut asked = Vec::new();
    for (place, turn) in &layer.turns {
        if turn.tell_status && matches!(outcomes[*place], Some(Outcome::Committed { .. })) {
            asked.push((*place, turn.key.0));
        }
    }
    for (place, new) in &layer.starts {
        if let (Some(first), Some(Outcome::Started { key, turn: Some(_), .. })) = (&new.first_turn, &outcomes[*place])
            && first.tell_status
        {
            asked.push((*place, key.0));
        }
    }
    if asked.is_empty() {
        return Ok(());
    }
    let keys: Vec<i64> = asked.iter().map(|(_, key)| *key).collect();
    let statuses = status::of(session.connection(), &keys).await?;
    for (place, key) in asked {
        let told = statuses
            .iter()
            .find(|status| status.key.0 == key)
            .cloned()
            .map(Box::new);
        if let Some(Outcome::Committed { status, .. }) = cross_instance::committed(&mut outcomes[place]) {
            *status = told;
        }
    }
    Ok(())
}
