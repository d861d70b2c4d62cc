//! Work that has been due for longer than a time.

use std::collections::BTreeMap;

use perdure_provider::{OverdueAttempts, OverdueInstances, OverdueRequest, OverdueWork};

use crate::rows::TaskRow;
use crate::tables::Tables;

/// Returns the overdue work. All of it is looked at, because a store in memory is small.
pub(crate) fn of_store(tables: &Tables, request: &OverdueRequest) -> OverdueWork {
    let mut work = OverdueWork::default();
    let before_ms = tables.now_ms.saturating_sub(request.for_ms);
    // The index gives the longest due instance first.
    for ((since_ms, key), ()) in tables.indexes.due.iter() {
        if *since_ms >= before_ms {
            break;
        }
        let Some(row) = tables.instance(*key) else { continue };
        let sort = (row.name.clone(), row.version.clone());
        if !request.served_orchestrations.contains(&sort) {
            work.add(OverdueInstances {
                name: sort.0,
                version: sort.1,
                instances: 1,
                oldest_ms: tables.now_ms.abs_diff(*since_ms),
                id: row.id.clone(),
            });
        }
    }
    for attempts in attempts(tables, request, before_ms) {
        work.add_attempts(attempts);
    }
    work.ordered()
}

/// Returns the overdue attempts. Of each route, queue and name, those of the highest priority decide, as in the other
/// stores.
fn attempts(tables: &Tables, request: &OverdueRequest, before_ms: i64) -> Vec<OverdueAttempts> {
    let mut sorts: BTreeMap<(&str, &str, &str), (i32, Vec<&TaskRow>)> = BTreeMap::new();
    for (_, row) in tables.tasks.iter().filter(|(_, row)| row.worker.is_none()) {
        let (priority, rows) = sorts
            .entry((&row.route, &row.queue, &row.name))
            .or_insert((row.priority, Vec::new()));
        if row.priority > *priority {
            (*priority, *rows) = (row.priority, Vec::new());
        }
        if row.priority == *priority {
            rows.push(row);
        }
    }
    let overdue = sorts.into_iter().filter_map(|((_, queue, name), (_, mut rows))| {
        rows.retain(|row| row.due_at_ms < before_ms);
        let first = rows.iter().min_by_key(|row| row.due_at_ms)?;
        Some(OverdueAttempts {
            queue: queue.to_owned(),
            name: name.to_owned(),
            attempts: rows.len() as u64,
            oldest_ms: tables.now_ms.abs_diff(first.due_at_ms),
            id: tables
                .instance(first.task.key)
                .map(|row| row.id.clone())
                .unwrap_or_default(),
        })
    });
    let is_served = |sort: &OverdueAttempts| {
        request
            .served_activities
            .contains(&(sort.queue.clone(), sort.name.clone()))
    };
    overdue.filter(|sort| !is_served(sort)).collect()
}
