//! Deletion of ended instances (P13), one by its id or all of a filter, and of their histories afterwards. Histories of
//! former executions are deleted, too. A history is deleted from its last event on, so that a concurrent reader finds
//! no gap.

use std::ops::Bound;

use perdure_engine::ExecutionId;
use perdure_provider::{InstanceKey, Outcome, Place, PruneExecutions, PruneRequest, Pruned, PrunedExecutions};

use crate::tables::{EventKey, Tables, of_execution, of_instance};
use crate::{asks, logs, queues, start_keys, state, streams, tasks};

pub(crate) fn delete(tables: &mut Tables, id: &str) -> Outcome {
    let Some(row) = tables.find(id) else {
        return Outcome::NotFound;
    };
    let (key, status) = (row.key, row.status);
    if !status.is_terminal() {
        return Outcome::NotEnded { status };
    }
    remove(tables, key);
    Outcome::Deleted
}

/// Removes all rows of an instance but its history and the chunks and writers of its streams, which may be many and are
/// left to be swept.
fn remove(tables: &mut Tables, key: InstanceKey) {
    remove_instance(tables, key);
    tables.deleted.insert(key, ());
}

/// Removes an instance with all its rows but its history and the chunks and writers of its streams.
pub(crate) fn remove_instance(tables: &mut Tables, key: InstanceKey) {
    tables.remove_messages(key);
    tables.heartbeats.remove_range(of_instance(key));
    tasks::remove_all(tables, key);
    state::remove(tables, key);
    asks::remove(tables, key);
    streams::remove(tables, key);
    queues::leave(tables, key.into());
    start_keys::remove(tables, key);
    logs::remove(tables, key);
    tables.takeovers.remove(&key);
    tables.remove_row(key);
}

/// Walks over the ended instances from the longest ended on, and no further than the walk may go.
pub(crate) fn prune(tables: &mut Tables, request: &PruneRequest) -> Pruned {
    let PruneRequest {
        filter,
        after,
        limit,
        walk_max,
    } = request;
    let mut last = after.unwrap_or(Place {
        at_ms: i64::MIN,
        key: InstanceKey(i64::MIN),
    });
    let mut pruned = Pruned::default();
    let after = (Bound::Excluded((last.at_ms, last.key)), Bound::Unbounded);
    let before_ms = filter.completed_before_ms.unwrap_or(i64::MAX);
    let ended = tables.indexes.ended.range(after).map(|(place, ())| *place);
    let in_time = ended.take_while(|(at_ms, _)| *at_ms < before_ms);
    let walked: Vec<_> = in_time.take(walk_max.saturating_add(1)).collect();
    for (n, (at_ms, key)) in walked.into_iter().enumerate() {
        if n >= *walk_max || pruned.deleted >= *limit {
            pruned.next = Some(last);
            break;
        }
        let row = tables.instance(key).expect("an entry of an index has its row");
        if filter.matches(&row.candidate()) {
            remove(tables, key);
            pruned.deleted += 1;
        }
        last = Place { at_ms, key };
    }
    pruned
}

/// Walks over the continued instances in order of the keys, and no further than the walk may go.
pub(crate) fn prune_executions(tables: &mut Tables, request: &PruneExecutions) -> PrunedExecutions {
    let PruneExecutions {
        filter,
        keep,
        from,
        events_max,
        walk_max,
    } = request;
    let from = from.unwrap_or(InstanceKey(i64::MIN));
    let continued = tables
        .instances_from(from)
        .filter(|row| row.execution > ExecutionId::FIRST);
    let walked: Vec<(InstanceKey, ExecutionId, bool)> = continued
        .take(walk_max.saturating_add(1))
        .map(|row| (row.key, row.execution, filter.matches(&row.candidate())))
        .collect();
    let mut pruned = PrunedExecutions::default();
    let mut left = *events_max;
    for (n, (key, execution, matches)) in walked.into_iter().enumerate() {
        if n >= *walk_max || left == 0 {
            pruned.next = Some(key);
            break;
        }
        // The first execution that stays.
        let first = ExecutionId((execution.0 + 1).saturating_sub(*keep).min(execution.0));
        while let Some(oldest) = oldest_execution(tables, key).filter(|oldest| matches && *oldest < first) {
            if left == 0 {
                pruned.next = Some(key);
                return pruned;
            }
            left -= remove_last(tables, of_execution(key, oldest), left);
            pruned.deleted += usize::from(oldest_execution(tables, key) != Some(oldest));
        }
    }
    pruned
}

fn oldest_execution(tables: &Tables, key: InstanceKey) -> Option<ExecutionId> {
    let first = tables.history.range(of_instance(key)).next();
    first.map(|((_, execution, _), _)| *execution)
}

/// Removes the last events of a range, at most `limit`. Returns the number of removed events.
fn remove_last(tables: &mut Tables, range: std::ops::Range<EventKey>, limit: usize) -> usize {
    let last: Vec<EventKey> = (tables.history.range(range).rev().take(limit))
        .map(|(place, _)| *place)
        .collect();
    for place in &last {
        tables.history.remove(place);
    }
    last.len()
}

/// Deletes up to `limit` events and chunks of streams that deleted instances have left. Returns true if more may be
/// left.
pub(crate) fn sweep(tables: &mut Tables, limit: usize) -> bool {
    let mut left = limit;
    while let Some(key) = tables.deleted.first_key().copied() {
        left -= remove_last(tables, of_instance(key), left);
        left -= streams::sweep(tables, key, left);
        if left == 0 {
            return true;
        }
        tables.deleted.remove(&key);
    }
    false
}
