//! One start, with or without a first turn after which its worker keeps the instance.

use std::sync::{LazyLock, OnceLock};

use perdure_provider::{Epoch, InstanceKey, NewInstance, OnConflict, Outcome, SqlBuilder, Status, TurnCommit};

use super::plain_turn::only_holds;
use super::values::{self, EVENTS_MAX, Stored};
use crate::connection::Connection;
use crate::error::Failure;
use crate::marks::{self, Mark};
use crate::params::P;
use crate::rows::integer;
use crate::statement::params;
use crate::text::encode;
use crate::write::insert::after_first_turn;
use crate::write::next_state::custom_status;

/// One statement for each number of events. The worker that claims the instance is locked against its removal, and has
/// to be registered. The mark is left only if the instance is made.
static WRITTEN: LazyLock<Vec<String>> = LazyLock::new(|| (1..=EVENTS_MAX).map(statement).collect());

fn statement(events: usize) -> String {
    let (marked, rows) = (marks::leaving("FROM made"), values::rows(events));
    let sql = format!(
        "WITH claimed AS MATERIALIZED (
  SELECT id FROM {{schema}}.workers WHERE id = $claim FOR KEY SHARE
), made AS (
  INSERT INTO {{schema}}.instances (key, id, name, version, execution, status, owner, epoch, next_event_id, turns,
  wake_at, custom_status,
    custom_status_version, open_work, priority, parent_id, tags, created_at, updated_at)
  SELECT $key, $id, $name, $version, 1, $status, $claim, ($claim IS NOT NULL)::int, $next_event_id, $turns,
  CASE WHEN $claim IS NULL THEN coalesce($now, {{now}}) END, $custom_status, $has_custom_status::int,
    $open_work, $priority::int, $parent_id, $tags, $created_at, $updated_at
  WHERE $claim IS NULL OR EXISTS (SELECT FROM claimed)
  ON CONFLICT (id) DO NOTHING RETURNING key
), marked AS (
  {marked}
), appended AS (
  INSERT INTO {{schema}}.history (instance_key, execution, event_id, time, kind, ref_id, name, payload, meta)
  SELECT made.key, 1, e.* FROM made CROSS JOIN (VALUES {rows}) AS e
)
SELECT key FROM made"
    );
    values::add_params(SqlBuilder::new('$', &sql).params(Params::NAMES), events).build()
}

params! {
    /// The parameters of the instance and of the mark. Those of the events follow.
    struct Params {
        claim, key, id, name, version, status, next_event_id, turns, now, custom_status, has_custom_status, open_work,
        priority, parent_id, tags, created_at, updated_at, mark_slot, mark_number,
    }
}

/// A start that is written by one statement.
pub(crate) struct Start<'w> {
    instance: &'w NewInstance,
    /// The first turn, if it was run.
    turn: Option<&'w TurnCommit>,
    /// Key of the instance, chosen by the first attempt to write it.
    key: OnceLock<InstanceKey>,
}

impl<'w> Start<'w> {
    pub(super) fn of(instance: &'w NewInstance) -> Option<Self> {
        let turn = instance.first_turn.as_deref();
        let fits = instance.on_conflict == OnConflict::Keep
            && instance.runs_at_once()
            && match turn {
                Some(turn) => {
                    instance.claim.is_some() && only_holds(turn) && !turn.tell_status && turn.events.len() < EVENTS_MAX
                }
                None => true,
            };
        fits.then(|| Self {
            instance,
            turn,
            key: OnceLock::new(),
        })
    }

    /// See [`Marked::write`](super::Marked::write).
    pub(super) async fn write(&self, connection: &Connection, mark: &Mark) -> Result<Option<Outcome>, Failure> {
        let Self { instance, turn, .. } = self;
        instance.check().map_err(Failure::internal)?;
        let new = InstanceKey(connection.keys(1).await?[0]);
        let key = *self.key.get_or_init(|| new);
        let next = turn.map(|turn| after_first_turn(instance, turn)).transpose()?;
        let [id, name, version] = [&instance.id, &instance.name, &instance.version].map(|text| encode(text));
        let custom_status = turn.and_then(custom_status);
        let [parent_id, tags] = [&instance.parent_id, &instance.tags].map(|text| text.as_deref().map(encode));
        let first = &instance.first_event;
        let next_event_id = next
            .as_ref()
            .map_or(integer(first.event_id.next().0), |next| next.next_event_id);
        let status = next.as_ref().map_or(Status::Pending, |next| next.status);
        let events: Vec<Stored<'_>> = std::iter::once(first)
            .chain(turn.iter().flat_map(|turn| &turn.events))
            .map(Stored::of)
            .collect();
        let params = Params {
            claim: P::MaybeText(instance.claim.as_ref().map(|worker| &*worker.0)),
            key: P::Int(key.0),
            id: P::Text(&id),
            name: P::Text(&name),
            version: P::Text(&version),
            status: P::Text(status.as_str()),
            next_event_id: P::Int(next_event_id),
            turns: P::Int(next.as_ref().map_or(0, |next| next.turns)),
            now: P::MaybeInt(connection.from.clock_ms()),
            custom_status: P::MaybeText(custom_status.as_deref()),
            has_custom_status: P::Bool(turn.is_some_and(|turn| turn.custom_status.is_some())),
            open_work: P::MaybeText(next.as_ref().and_then(|next| next.open_work.as_deref())),
            priority: P::Int(instance.priority.into()),
            parent_id: P::MaybeText(parent_id.as_deref()),
            tags: P::MaybeText(tags.as_deref()),
            created_at: P::Int(first.time_ms),
            updated_at: P::Int(turn.map_or(first.time_ms, |turn| turn.time_ms)),
            mark_slot: P::Text(&mark.slot),
            mark_number: P::Int(mark.number),
        };
        let params: Vec<P<'_>> = params.values().chain(events.iter().flat_map(Stored::params)).collect();
        let rows = connection.query(&WRITTEN[events.len() - 1], &params).await?;
        if rows.is_empty() {
            return Ok(None);
        }
        connection.from.count_transaction();
        self.recover_outcome().map(Some)
    }

    /// See [`Marked::recover_outcome`](super::Marked::recover_outcome).
    pub(super) fn recover_outcome(&self) -> Result<Outcome, Failure> {
        let key = self.key.get().copied();
        Ok(Outcome::Started {
            key: key.ok_or_else(|| Failure::internal("a start that was not written"))?,
            claimed: self.instance.claim.as_ref().map(|_| Epoch(1)),
            turn: self.turn.map(|_| {
                Box::new(Outcome::Committed {
                    status: None,
                    wake_at_ms: None,
                    others: None,
                })
            }),
            terminated: None,
        })
    }
}
