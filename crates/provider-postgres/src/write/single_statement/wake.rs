//! One turn that wakes its instance (P20), unless other instances have to hear of its end.

use std::sync::LazyLock;

use perdure_provider::{AfterTurn, InstanceStatus, Outcome, SqlBuilder, TurnCommit};

use super::plain_turn::appends;
use super::turn::{STATUS_COLUMNS, status_after};
use super::values::{self, EVENTS_MAX, Stored};
use crate::connection::Connection;
use crate::error::Failure;
use crate::marks::{self, Mark};
use crate::params::P;
use crate::rows::integer;
use crate::statement::params;
use crate::status;
use crate::write::next_state::{NextState, custom_status};

/// One statement for each number of events. The worker is locked against its removal, and has to be registered. The
/// mark is left only if the instance is acquired. An instance that ends here has no parent that would have to be told.
static WRITTEN: LazyLock<Vec<String>> = LazyLock::new(|| (1..=EVENTS_MAX).map(statement).collect());

fn statement(events: usize) -> String {
    let (marked, rows) = (marks::leaving("FROM moved"), values::rows(events));
    let sql = format!(
        "WITH registered AS MATERIALIZED (
  SELECT id FROM {{schema}}.workers WHERE id = $owner FOR KEY SHARE
), moved AS (
  UPDATE {{schema}}.instances SET epoch = $epoch, next_event_id = $next, turns = turns + 1, updated_at = $time,
    status = $status, owner = CASE WHEN $keeps THEN $owner END, wake_at = $wake_at, suspicion = 0, probation = 0,
    report = NULL, mismatched_code = NULL, open_work = $open_work,
    custom_status = CASE WHEN $has_custom_status THEN $custom_status ELSE custom_status END,
    custom_status_version = custom_status_version + $has_custom_status::int,
    completed_at = CASE WHEN $ends THEN $time END
  WHERE key = $key AND owner IS NULL AND status = 'Running' AND unread = 0 AND epoch = $epoch - 1
    AND execution = $execution AND next_event_id = $first AND (parent_key IS NULL OR NOT $ends)
    AND EXISTS (SELECT FROM registered)
  RETURNING {STATUS_COLUMNS}key, execution
), marked AS (
  {marked}
), appended AS (
  INSERT INTO {{schema}}.history (instance_key, execution, event_id, time, kind, ref_id, name, payload, meta)
  SELECT moved.key, moved.execution, e.* FROM moved CROSS JOIN (VALUES {rows}) AS e
)
SELECT {STATUS_COLUMNS}key FROM moved"
    );
    values::add_params(SqlBuilder::new('$', &sql).params(Params::NAMES), events).build()
}

params! {
    /// The parameters of the turn itself and of the mark. Those of the events follow.
    struct Params {
        key, owner, epoch, execution, first, next, time, status, keeps, ends, wake_at, has_custom_status,
        custom_status, open_work, mark_slot, mark_number,
    }
}

/// A turn that is written by one statement.
pub(crate) struct Wake<'w>(&'w TurnCommit);

impl<'w> Wake<'w> {
    pub(super) fn of(turn: &'w TurnCommit) -> Option<Self> {
        let goes_on = !matches!(turn.after, AfterTurn::ContinueAsNew(_) | AfterTurn::Suspend { .. });
        (turn.wakes && goes_on && appends(turn) && turn.events.len() <= EVENTS_MAX).then_some(Self(turn))
    }

    /// See [`Marked::write`](super::Marked::write).
    pub(super) async fn write(&self, connection: &Connection, mark: &Mark) -> Result<Option<Outcome>, Failure> {
        let turn = self.0;
        let next = NextState::of(turn)?;
        let custom_status = custom_status(turn);
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
        let params: Vec<P<'_>> = params.values().chain(events.iter().flat_map(Stored::params)).collect();
        let rows = connection.query(&WRITTEN[events.len() - 1], &params).await?;
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

fn outcome(next: &NextState<'_>, status: Option<InstanceStatus>) -> Outcome {
    Outcome::Committed {
        status: status.map(Box::new),
        wake_at_ms: next.wake_at_ms,
        others: None,
    }
}
