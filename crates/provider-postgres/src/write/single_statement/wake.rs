//! One turn that wakes its instance (P20), unless other instances have to hear of its end. It may take an ask, answer
//! it, and set one value of the state: so a call of an entity is one statement.

use std::borrow::Cow;
use std::sync::LazyLock;

use perdure_engine::{AnsweredAsk, StateChange};
use perdure_provider::{ANSWERS_KEPT, AfterTurn, InstanceStatus, Outcome, SqlBuilder, TurnCommit};

use super::plain_turn::appends;
use super::turn::{STATUS_COLUMNS, status_after};
use super::values::{self, EVENTS_MAX, Stored};
use crate::asks;
use crate::connection::Connection;
use crate::error::Failure;
use crate::marks::{self, Mark};
use crate::params::P;
use crate::rows::integer;
use crate::statement::params;
use crate::status;
use crate::text::encode;
use crate::write::next_state::{NextState, custom_status};

/// One statement for each [`Shape`]. The worker is locked against its removal, and has to be registered. The
/// mark is left only if the instance is acquired. An instance that ends here has no parent that would have to be told.
static WRITTEN: LazyLock<Vec<String>> = LazyLock::new(|| Shape::all().map(Shape::statement).collect());

/// The properties of a turn that decide the text of its statement.
#[derive(Clone, Copy)]
struct Shape {
    events: usize,
    /// True if it takes an ask.
    asks: bool,
    /// True if it sets a value of the state.
    sets: bool,
    /// True if it consumes messages.
    consumes: bool,
}

/// The parameters of an ask, those of a value of the state, and those of consumed messages.
const ASK_PARAMS: [&str; 4] = ["asked", "outcome", "answer", "kept"];
const STATE_PARAMS: [&str; 2] = ["state_name", "state_value"];
const MESSAGE_PARAMS: [&str; 2] = ["consumed", "seen"];

/// An instance that ends needs none of its messages (P6).
const CONSUMED: &str = ", consumed AS (
  DELETE FROM {schema}.messages
  WHERE instance_key = $key AND ($ends OR seq = ANY ($consumed::bigint[])) AND EXISTS (SELECT FROM moved)
)";

/// The ask is in no row yet. Its answer, if it has one, is the next one of the instance.
const ASKED: &str = ", asked AS (
  INSERT INTO {schema}.asks (instance_key, id, outcome, answer, number)
  SELECT key, $asked, $outcome, $answer, CASE WHEN $outcome IS NOT NULL
    THEN coalesce((SELECT max(number) FROM {schema}.asks WHERE instance_key = $key), 0) + 1 END
  FROM moved RETURNING number
), dropped AS (
  DELETE FROM {schema}.asks d USING asked WHERE d.instance_key = $key AND d.number <= asked.number - $kept
)";

const SET: &str = ", changed AS (
  INSERT INTO {schema}.state (instance_key, name, value, version)
  SELECT key, $state_name, $state_value, state_version FROM moved
  ON CONFLICT (instance_key, name) DO UPDATE SET value = excluded.value, version = excluded.version
)";

impl Shape {
    fn of(turn: &TurnCommit) -> Option<Self> {
        let goes_on = !matches!(turn.after, AfterTurn::ContinueAsNew(_) | AfterTurn::Suspend { .. });
        let answers_its_own = match &turn.answers[..] {
            [] => true,
            [answered] => turn.asked.as_ref() == Some(&answered.ask),
            _ => false,
        };
        let sets = match &turn.state[..] {
            [] => false,
            [StateChange::Set { .. }] => true,
            _ => return None,
        };
        let fits = turn.wakes && goes_on && appends(turn) && turn.events.len() <= EVENTS_MAX;
        (fits && answers_its_own).then_some(Self {
            events: turn.events.len(),
            asks: turn.asked.is_some(),
            sets,
            consumes: !turn.consumed.is_empty(),
        })
    }

    /// Yields all shapes, in the order of their places.
    fn all() -> impl Iterator<Item = Self> {
        (1..=EVENTS_MAX).flat_map(|events| {
            (0..8).map(move |flags| Self {
                events,
                asks: flags & 4 != 0,
                sets: flags & 2 != 0,
                consumes: flags & 1 != 0,
            })
        })
    }

    fn place(self) -> usize {
        let flags = [self.asks, self.sets, self.consumes];
        8 * (self.events - 1) + flags.iter().fold(0, |place, flag| 2 * place + usize::from(*flag))
    }

    fn statement(self) -> String {
        let Self {
            events,
            asks,
            sets,
            consumes,
        } = self;
        let (marked, rows) = (marks::leaving("FROM moved"), values::rows(events));
        let (unknown, asked) = if asks {
            let unknown = "
    AND NOT EXISTS (SELECT FROM {schema}.asks WHERE instance_key = $key AND id = $asked)";
            (unknown, ASKED)
        } else {
            ("", "")
        };
        let (raised, changed) = if sets {
            ("state_version = state_version + 1,", SET)
        } else {
            ("", "")
        };
        // Without messages to consume, no message may wait that would have to be dropped at the end.
        let (read, counted, consumed) = if consumes {
            let counted = "unread = CASE WHEN $ends THEN 0 ELSE unread - cardinality($consumed::bigint[]) END,";
            ("message_seq <= $seen", counted, CONSUMED)
        } else {
            ("unread = 0", "", "")
        };
        let sql = format!(
            "WITH registered AS MATERIALIZED (
  SELECT id FROM {{schema}}.workers WHERE id = $owner FOR KEY SHARE
), moved AS (
  UPDATE {{schema}}.instances SET epoch = $epoch, next_event_id = $next, turns = turns + 1, updated_at = $time,
    status = $status, owner = CASE WHEN $keeps THEN $owner END, wake_at = $wake_at, suspicion = 0, probation = 0,
    released_by = CASE WHEN $keeps OR $ends THEN released_by ELSE $owner END,
    report = NULL, mismatched_code = NULL, open_work = $open_work, {raised}{counted}
    custom_status = CASE WHEN $has_custom_status THEN $custom_status ELSE custom_status END,
    custom_status_version = custom_status_version + $has_custom_status::int,
    completed_at = CASE WHEN $ends THEN $time END
  WHERE key = $key AND owner IS NULL AND status = 'Running' AND {read} AND epoch = $epoch - 1
    AND execution = $execution AND next_event_id = $first AND (parent_key IS NULL OR NOT $ends)
    AND EXISTS (SELECT FROM registered){unknown}
  RETURNING {STATUS_COLUMNS}key, execution
), marked AS (
  {marked}
), appended AS (
  INSERT INTO {{schema}}.history (instance_key, execution, event_id, time, kind, ref_id, name, payload, meta)
  SELECT moved.key, moved.execution, e.* FROM moved CROSS JOIN (VALUES {rows}) AS e
){asked}{changed}{consumed}
SELECT {STATUS_COLUMNS}key FROM moved"
        );
        let statement = SqlBuilder::new('$', &sql).params(Params::NAMES);
        let statement = if asks { statement.params(&ASK_PARAMS) } else { statement };
        let statement = if sets {
            statement.params(&STATE_PARAMS)
        } else {
            statement
        };
        let statement = if consumes {
            statement.params(&MESSAGE_PARAMS)
        } else {
            statement
        };
        values::add_params(statement, events).build()
    }
}

params! {
    /// The parameters of the turn itself and of the mark. Those of the events follow.
    struct Params {
        key, owner, epoch, execution, first, next, time, status, keeps, ends, wake_at, has_custom_status,
        custom_status, open_work, mark_slot, mark_number,
    }
}

/// A turn that is written by one statement.
pub(crate) struct Wake<'w>(&'w TurnCommit, Shape);

impl<'w> Wake<'w> {
    pub(super) fn of(turn: &'w TurnCommit) -> Option<Self> {
        Shape::of(turn).map(|shape| Self(turn, shape))
    }

    /// See [`Marked::write`](super::Marked::write).
    pub(super) async fn write(&self, connection: &Connection, mark: &Mark) -> Result<Option<Outcome>, Failure> {
        let Self(turn, shape) = *self;
        let next = NextState::of(turn)?;
        let custom_status = custom_status(turn);
        let asked = turn.asked.as_deref().map(|ask| Asked::of(ask, turn.answers.first()));
        let set = turn
            .state
            .first()
            .map(|set| (encode(set.name()), set.value().map(encode)));
        let consumed: Vec<i64> = turn.consumed.iter().map(|seq| integer(seq.0)).collect();
        let messages = shape
            .consumes
            .then(|| [P::Ints(&consumed), P::Int(integer(turn.seen.0))]);
        let events: Vec<Stored<'_>> = turn.events.iter().map(Stored::of).collect();
        let params = Params {
            key: P::Int(turn.key.0),
            owner: P::Text(&turn.worker.0),
            epoch: P::Int(integer(turn.epoch.0)),
            execution: P::Int(integer(turn.execution.0)),
            first: P::Int(integer(turn.next_event_id.0)),
            next: P::Int(next.next_event_id),
            time: P::Int(turn.time_ms),
            status: P::Text(next.status.as_str()),
            keeps: P::Bool(next.keeps),
            ends: P::Bool(next.ends),
            wake_at: P::MaybeInt(next.wake_at_ms),
            has_custom_status: P::Bool(turn.custom_status.is_some()),
            custom_status: P::MaybeText(custom_status.as_deref()),
            open_work: P::MaybeText(next.open_work.as_deref()),
            mark_slot: P::Text(&mark.slot),
            mark_number: P::Int(mark.number),
        };
        let params: Vec<P<'_>> = (params.values())
            .chain(asked.iter().flat_map(Asked::params))
            .chain(
                set.iter()
                    .flat_map(|(name, value)| [P::Text(name), P::MaybeText(value.as_deref())]),
            )
            .chain(messages.into_iter().flatten())
            .chain(events.iter().flat_map(Stored::params))
            .collect();
        let rows = connection.query(&WRITTEN[shape.place()], &params).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        connection.from.count_transaction();
        let status = turn
            .tell_status
            .then(|| status_after(row, turn, next.status))
            .transpose();
        let status = status.map_err(Failure::of_unknown_outcome)?;
        Ok(Some(outcome(&next, status)))
    }

    /// See [`Marked::recover_outcome`](super::Marked::recover_outcome). The status may be a later one.
    pub(super) async fn recover_outcome(&self, connection: &Connection) -> Result<Outcome, Failure> {
        let status = if self.0.tell_status {
            status::of(connection, &[self.0.key.0]).await?.pop()
        } else {
            None
        };
        Ok(outcome(&NextState::of(self.0)?, status))
    }
}

/// An ask that the turn takes, and its answer if the turn gives it.
struct Asked<'w> {
    ask: Cow<'w, str>,
    outcome: Option<&'static str>,
    answer: Option<Cow<'w, str>>,
}

impl<'w> Asked<'w> {
    fn of(ask: &'w str, answered: Option<&'w AnsweredAsk>) -> Self {
        Self {
            ask: encode(ask),
            outcome: answered.map(|answered| asks::outcome(&answered.answer)),
            answer: answered.and_then(|answered| answered.answer.payload().as_deref().map(encode)),
        }
    }

    /// Returns the values of [`ASK_PARAMS`].
    fn params(&self) -> [P<'_>; 4] {
        [
            P::Text(&self.ask),
            P::MaybeText(self.outcome),
            P::MaybeText(self.answer.as_deref()),
            P::Int(integer(ANSWERS_KEPT)),
        ]
    }
}

fn outcome(next: &NextState<'_>, status: Option<InstanceStatus>) -> Outcome {
    Outcome::Committed {
        status: status.map(Box::new),
        wake_at_ms: next.wake_at_ms,
        others: None,
    }
}
