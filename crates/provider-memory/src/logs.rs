//! The lines that the code of instances logged.

use std::ops::Range;

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{InstanceKey, LogPage, LogPlace, LogRequest, TurnLogs};

use crate::tables::Tables;

type LogKey = (InstanceKey, LogPlace);

fn of_instance(key: InstanceKey) -> Range<LogKey> {
    let first = LogPlace {
        execution: ExecutionId(0),
        event: EventId(0),
        line: 0,
    };
    (key, first)..(InstanceKey(key.0 + 1), first)
}

/// Adds the lines of a turn, and removes those that are too many.
pub(crate) fn add(tables: &mut Tables, key: InstanceKey, logs: &TurnLogs) {
    for line in &logs.lines {
        let place = (key, line.place);
        if !tables.logs.contains(&place) {
            tables.logs.insert(place, line.clone());
        }
    }
    let before: Vec<LogKey> = (tables.logs.range(of_instance(key)).rev())
        .skip(logs.lines_max)
        .map(|(place, _)| *place)
        .collect();
    for place in &before {
        tables.logs.remove(place);
    }
}

/// Removes the lines of an instance.
pub(crate) fn remove(tables: &mut Tables, key: InstanceKey) {
    tables.logs.remove_range(of_instance(key));
}

/// Returns lines of an instance. `None`: there is no instance of that id.
pub(crate) fn read(tables: &Tables, request: &LogRequest) -> Option<LogPage> {
    let key = tables.find(&request.id)?.key;
    let after = request.after_in(key);
    let lines = tables.logs.range(of_instance(key)).map(|(_, line)| line);
    let asked = lines.filter(|line| {
        line.place > after
            && request
                .execution
                .is_none_or(|execution| line.place.execution == execution)
    });
    let lines = asked.take(request.limit).cloned().collect();
    Some(LogPage { key, lines })
}

/// Removes lines that were logged before a time. Returns true if there may be more.
pub(crate) fn prune(tables: &mut Tables, before_ms: i64, limit: usize) -> bool {
    let old: Vec<LogKey> = (tables.logs.iter())
        .filter(|(_, line)| line.time_ms < before_ms)
        .map(|(place, _)| *place)
        .take(limit)
        .collect();
    for place in &old {
        tables.logs.remove(place);
    }
    old.len() == limit
}
