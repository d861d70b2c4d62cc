//! The request for work: what is due, taken in order (P3, P4).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use perdure_engine::{Bug, EventId, is_planted};
use perdure_provider::{Acquire, Acquired, AcquiredInstance, Epoch, InstanceKey};

use crate::tables::{Tables, of_execution};
use crate::{history, inbox, worker};

pub(crate) fn acquire(tables: &mut Tables, request: &Acquire) -> Acquired {
    let mut acquired = Acquired {
        now_ms: tables.now_ms,
        ..Acquired::default()
    };
    // A worker that was removed meanwhile gets nothing: nobody would ever take it over from it.
    if !worker::is_registered(tables, &request.worker) {
        return acquired;
    }
    let registered = request.registered.iter();
    let registered: BTreeSet<_> = registered.map(|(name, version)| (&**name, &**version)).collect();
    let mut due = Vec::new();
    for ((wake_at_ms, key), ()) in tables.indexes.due.iter() {
        let row = tables.instance(*key).expect("an entry of an index has its row");
        if !registered.contains(&(&*row.name, &*row.version)) {
            continue;
        }
        if *wake_at_ms > tables.now_ms {
            acquired.next_wake_at_ms = Some(*wake_at_ms);
            break;
        }
        due.push((Reverse(row.priority), *wake_at_ms, *key));
    }
    due.sort_unstable();
    let left_behind = due.split_off(due.len().min(request.limit));
    if let Some(first) = left_behind.iter().map(|(_, wake_at_ms, _)| *wake_at_ms).min() {
        acquired.next_wake_at_ms = Some(first);
    }
    let taken = due.into_iter().map(|(_, _, key)| take(tables, request, key));
    acquired.instances = taken.collect();
    acquired
}

/// Make the worker the owner.
fn take(tables: &mut Tables, request: &Acquire, key: InstanceKey) -> AcquiredInstance {
    tables.edit(key, |row| {
        row.disown(None);
        row.owner = Some(request.worker.clone());
        row.epoch = Epoch(row.epoch.0 + u64::from(!is_planted(Bug::EpochUsedAgain)));
    });
    let row = tables.instance(key).expect("it was just changed");
    let own = of_execution(key, row.execution);
    let heartbeats = tables.heartbeats.range(own.clone());
    let tasks = tables.tasks.range(own);
    AcquiredInstance {
        key,
        id: row.id.clone(),
        name: row.name.clone(),
        version: row.version.clone(),
        parent_id: row.parent_id.clone(),
        execution: row.execution,
        epoch: row.epoch,
        next_event_id: row.next_event_id,
        fresh: row.turns == 0,
        history: history::read(tables, key, row.execution, EventId::FIRST, request.history_page),
        messages: inbox::of_instance(tables, key, None, request.message_page),
        seen: tables.last_seq(),
        heartbeats: heartbeats
            .map(|((_, _, scheduled), details)| (*scheduled, details.clone()))
            .collect(),
        tasks: tasks.map(|((_, _, scheduled), _)| *scheduled).collect(),
        suspicion: row.suspicion,
    }
}
