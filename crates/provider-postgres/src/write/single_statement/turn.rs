//! One turn after which its worker keeps the instance, or one that ends the instance if no other instance has to hear
//! of that.

use std::sync::LazyLock;

use perdure_engine::ExecutionId;
use perdure_provider::{AfterTurn, InstanceStatus, Outcome, SqlBuilder, Status, TurnCommit};
use tokio_postgres::Row;

use super::plain_turn::only_appends;
use super::values::{self, EVENTS_MAX, Stored};
use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, number, optional_text, text};
use crate::statement::params;
use crate::text::encode;
use crate::write::next_state::custom_status;

/// The columns of an instance of which [`status_after`] makes a status.
pub(super) const STATUS_COLUMNS: &str =
    "id, name, version, custom_status, custom_status_version, created_at, parent_id,
  tags, priority, state_version, ";

/// The properties of a turn that decide the text of its statement.
#[derive(Clone, Copy)]
struct Shape {
    ends: bool,
    has_status: bool,
    events: usize,
}

/// One statement for each [`Shape`], at its [place](Shape::place).
static WRITTEN: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for events in 1..=EVENTS_MAX {
        for (ends, has_status) in [(false, false), (false, true), (true, false), (true, true)] {
            all.push(
                Shape {
                    ends,
                    has_status,
                    events,
                }
                .statement(),
            );
        }
    }
    all
});

impl Shape {
    fn of(turn: &TurnCommit) -> Option<Self> {
        let ends = match turn.after {
            AfterTurn::Hold => false,
            AfterTurn::End { .. } => true,
            _ => return None,
        };
        let (events, has_status) = (turn.events.len(), turn.tell_status);
        (only_appends(turn) && events <= EVENTS_MAX).then_some(Self {
            ends,
            has_status,
            events,
        })
    }

    fn place(self) -> usize {
        4 * (self.events - 1) + 2 * usize::from(self.ends) + usize::from(self.has_status)
    }

    /// Returns the statement. Its update is the fence (P2). An instance that ends here has no message, which would have
    /// to be deleted, and no parent, which would have to be told.
    fn statement(self) -> String {
        let (becomes, fence) = if self.ends {
            (
                ", owner = NULL, completed_at = $time",
                " AND unread = 0 AND parent_key IS NULL",
            )
        } else {
            ("", "")
        };
        let columns = if self.has_status { STATUS_COLUMNS } else { "" };
        let rows = values::rows(self.events);
        let sql = format!(
            "WITH moved AS (
  UPDATE {{schema}}.instances SET next_event_id = $next, turns = turns + 1, updated_at = $time, status = $status,
  suspicion = 0, probation = 0,
    report = NULL, mismatched_code = NULL, open_work = $open_work,
    custom_status = CASE WHEN $has_custom_status THEN $custom_status ELSE custom_status END,
    custom_status_version = custom_status_version + $has_custom_status::int{becomes}
  WHERE key = $key AND (owner = $owner) IS TRUE AND epoch = $epoch AND execution = $execution
  AND next_event_id = $first{fence}
  RETURNING {columns}key, execution
), appended AS (
  INSERT INTO {{schema}}.history (instance_key, execution, event_id, time, kind, ref_id, name, payload, meta)
  SELECT moved.key, moved.execution, e.* FROM moved CROSS JOIN (VALUES {rows}) AS e
)
SELECT {columns}key FROM moved"
        );
        values::add_params(SqlBuilder::new('$', &sql).params(Params::NAMES), self.events).build()
    }
}

params! {
    /// The parameters of the turn itself. Those of its events follow.
    struct Params {
        key, owner, epoch, execution, first, next, time, status, has_custom_status, custom_status,
        open_work,
    }
}

pub(super) fn fits(turn: &TurnCommit) -> bool {
    Shape::of(turn).is_some()
}

/// Writes the turn. `None`: the instance is not in the expected state, or has something that this statement does not
/// handle.
pub(super) async fn write(connection: &Connection, turn: &TurnCommit) -> Result<Option<Vec<Outcome>>, Failure> {
    let Some(shape) = Shape::of(turn) else { return Ok(None) };
    let next = turn.check().map_err(Failure::internal)?;
    let status = match turn.after {
        AfterTurn::End { status } => status,
        _ => Status::Running,
    };
    let custom_status = custom_status(turn);
    let open_work = turn.open_work.as_deref().map(encode);
    let events: Vec<Stored<'_>> = turn.events.iter().map(Stored::of).collect();
    let params = Params {
        key: P::Int(turn.key.0),
        owner: P::Text(&turn.worker.0),
        epoch: P::Int(integer(turn.epoch.0)),
        execution: P::Int(integer(turn.execution.0)),
        first: P::Int(integer(turn.next_event_id.0)),
        next: P::Int(integer(next.0)),
        time: P::Int(turn.time_ms),
        status: P::Text(status.as_str()),
        has_custom_status: P::Bool(turn.custom_status.is_some()),
        custom_status: P::MaybeText(custom_status.as_deref()),
        open_work: P::MaybeText(open_work.as_deref()),
    };
    let params: Vec<P<'_>> = params.values().chain(events.iter().flat_map(Stored::params)).collect();
    let rows = connection.query(&WRITTEN[shape.place()], &params).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    connection.from.count_transaction();
    let status = if shape.has_status {
        Some(status_after(row, turn, status).map_err(Failure::of_unknown_outcome)?)
    } else {
        None
    };
    Ok(Some(vec![Outcome::Committed {
        status: status.map(Box::new),
        wake_at_ms: None,
        others: None,
    }]))
}

/// Returns the status after the turn.
pub(super) fn status_after(row: &Row, turn: &TurnCommit, status: Status) -> Result<InstanceStatus, Failure> {
    let ends = status.is_terminal();
    Ok(InstanceStatus {
        key: turn.key,
        id: text(row, 0)?,
        name: text(row, 1)?,
        version: text(row, 2)?,
        execution: ExecutionId(turn.execution.0),
        status,
        custom_status: optional_text(row, 3)?,
        custom_status_version: number(row, 4)?,
        created_at_ms: row.try_get(5)?,
        updated_at_ms: turn.time_ms,
        completed_at_ms: ends.then_some(turn.time_ms),
        parent_id: optional_text(row, 6)?,
        tags: optional_text(row, 7)?,
        priority: row.try_get(8)?,
        state_version: number(row, 9)?,
        // The result is in the last event.
        result: turn
            .events
            .last()
            .filter(|_| ends)
            .and_then(|last| last.payload.clone()),
    })
}
