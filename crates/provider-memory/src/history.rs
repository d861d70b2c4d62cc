//! Histories: one row for each event.

use perdure_engine::{EventId, EventKind, EventRecord, ExecutionId};
use perdure_provider::{ExecutionSummary, ExecutionsRequest, InstanceKey, PageLimit};

use crate::tables::{Tables, of_execution};

/// Appends one event (P8).
pub(crate) fn append(tables: &mut Tables, key: InstanceKey, execution: ExecutionId, event: &EventRecord) {
    let at = (key, execution, event.event_id);
    assert!(!tables.history.contains(&at), "an event is recorded once: {event:?}");
    tables.history.insert(at, event.clone());
}

/// Returns a page of the events from event `from` on.
pub(crate) fn read(
    tables: &Tables,
    key: InstanceKey,
    execution: ExecutionId,
    from: EventId,
    limit: PageLimit,
) -> Vec<EventRecord> {
    let mut range = of_execution(key, execution);
    range.start.2 = from;
    let mut bytes = 0;
    let mut events = Vec::new();
    for (_, event) in tables.history.range(range) {
        if limit.is_reached(events.len(), bytes) {
            break;
        }
        bytes += event.bytes();
        events.push(event.clone());
    }
    events
}

/// Returns a page of the executions of an instance, the newest first.
pub(crate) fn executions(tables: &Tables, request: ExecutionsRequest) -> Vec<ExecutionSummary> {
    let ExecutionsRequest { key, from, limit } = request;
    let mut bytes = 0;
    let mut page = Vec::new();
    let mut up_to = of_execution(key, from).end;
    let first = of_execution(key, ExecutionId(0)).start;
    while !limit.is_reached(page.len(), bytes)
        && let Some(((_, execution, _), last)) = tables.history.range(first..up_to).next_back()
    {
        let mut events: Vec<EventRecord> = tables
            .history
            .range(of_execution(key, *execution))
            .take(2)
            .map(|(_, event)| event)
            .filter(|event| event.event_id == EventId::FIRST || event.kind == EventKind::ExecutionBegan)
            .filter(|event| event.event_id < last.event_id)
            .cloned()
            .collect();
        events.push(last.clone());
        let summary = ExecutionSummary::new(*execution, events);
        bytes += summary.bytes();
        page.push(summary);
        up_to = of_execution(key, *execution).start;
    }
    page
}
