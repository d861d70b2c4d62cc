//! The first statement of a layer. It locks the instances that the layer changes, in the order of their keys, so that
//! no two transactions wait for each other. The statements after it see all that was committed until then.

use std::borrow::Cow;

use perdure_provider::{AfterTurn, OnConflict, Write};

use super::layers::Layer;
use crate::params::P;
use crate::query::Query;
use crate::statement::query;
use crate::text::encode;

const LOCK: &str = "SELECT FROM {schema}.instances WHERE key IN (
    SELECT unnest($keys::bigint[])
    UNION ALL SELECT i.key FROM {named} JOIN {schema}.instances i ON i.id = ANY (ARRAY[named.id])
    UNION ALL SELECT i.parent_key FROM {ending} JOIN {schema}.instances i ON i.key = ANY (ARRAY[ending.key])
    UNION ALL SELECT c.key FROM {cancelled}
      JOIN {schema}.instances c
      ON c.parent_key = ANY (ARRAY[cancelled.parent]) AND c.parent_execution = cancelled.execution
      AND c.parent_event = cancelled.event
  ) ORDER BY key FOR NO KEY UPDATE";

/// The instances to lock.
#[derive(Default)]
pub(super) struct Lock<'w> {
    keys: Vec<i64>,
    ids: Vec<Cow<'w, str>>,
    /// Instances that end. Their parents are told.
    ending: Vec<i64>,
    /// Children to cancel, by the key, execution and event of the parent.
    cancelled: [Vec<i64>; 3],
}

impl<'w> Lock<'w> {
    /// Collects the instances of a layer. A turn that neither ends its instance nor does anything to others needs no
    /// lock besides that of its own statement. That statement looks at one row for each turn, and at nothing that
    /// others write.
    pub(super) fn of(layer: &Layer<'w>) -> Self {
        let mut lock = Self::default();
        for (_, turn) in &layer.turns {
            let is_end = matches!(turn.after, AfterTurn::End { .. });
            if is_end || turn.cross_instance.is_some() {
                lock.keys.push(turn.key.0);
            }
            if is_end {
                lock.ending.push(turn.key.0);
            }
        }
        lock.ids.extend(
            layer
                .messages
                .iter()
                .map(|(_, outgoing)| encode(&outgoing.message.instance)),
        );
        for (_, write) in &layer.singles {
            match write {
                Write::Terminate(end) => lock.ids.push(encode(&end.id)),
                Write::Suspend(suspension) => lock.ids.push(encode(&suspension.id)),
                Write::Resume { id, .. } | Write::Delete { id } => lock.ids.push(encode(id)),
                Write::Start(new) => lock.ids.push(encode(&new.id)),
                Write::KeyedStart(keyed) => lock.ids.push(encode(&keyed.start.id)),
                Write::StartWithMessage(both) => lock.ids.push(encode(&both.start.id)),
                Write::Heartbeat(heartbeat) => lock.keys.push(heartbeat.key.0),
                Write::Append(append) => lock.keys.push(append.key.0),
                Write::Probation(probation) => lock.keys.push(probation.key.0),
                Write::ReleaseInstance(release) => lock.keys.push(release.key.0),
                Write::ReleaseTask(release) => lock.keys.push(release.task.key.0),
                Write::TaskDone(done) => lock.keys.push(done.task.key.0),
                Write::Turn(_) | Write::Message(_) | Write::Ask(_) => {}
            }
        }
        let first_turns = layer.starts.iter().filter_map(|(_, new)| new.first_turn.as_deref());
        for turn in layer.turns.iter().map(|(_, turn)| *turn).chain(first_turns) {
            let Some(cross_instance) = &turn.cross_instance else {
                continue;
            };
            lock.ids.extend(
                cross_instance
                    .messages
                    .iter()
                    .map(|other| encode(&other.message.instance)),
            );
            let replacing = cross_instance.starts.iter().map(|start| &start.instance);
            lock.ids.extend(
                replacing
                    .filter(|new| new.on_conflict != OnConflict::Keep)
                    .map(|new| encode(&new.id)),
            );
            for event in &cross_instance.cancelled {
                let [parents, executions, events] = &mut lock.cancelled;
                parents.push(turn.key.0);
                executions.push(crate::rows::integer(turn.execution.0));
                events.push(crate::rows::integer(event.0));
            }
        }
        lock
    }

    /// Collects the receivers that their messages may have started.
    pub(super) fn of_started(layer: &Layer<'w>) -> Self {
        let ids = layer.starting.iter().map(|(_, both)| encode(&both.start.id));
        Self {
            ids: ids.collect(),
            ..Self::default()
        }
    }

    /// Collects the receivers of messages.
    pub(super) fn of_receivers(keys: impl Iterator<Item = i64>, ids: impl Iterator<Item = &'w str>) -> Self {
        Self {
            keys: keys.collect(),
            ids: ids.map(Cow::Borrowed).collect(),
            ..Self::default()
        }
    }

    /// Returns the statement. `None`: there is nothing to lock.
    pub(super) fn query(&self) -> Option<Query<'_>> {
        let [parents, executions, events] = &self.cancelled;
        let is_empty = self.keys.is_empty() && self.ids.is_empty() && parents.is_empty();
        (!is_empty).then(|| {
            query!(
                LOCK,
                { keys: P::Ints(&self.keys) },
                named { id: P::Texts(&self.ids) },
                ending { key: P::Ints(&self.ending) },
                cancelled { parent: P::Ints(parents), execution: P::Ints(executions), event: P::Ints(events) }
            )
        })
    }
}
