//! Histories: one row for each event.

use perdure_engine::{EventId, EventRecord, ExecutionId};
use perdure_provider::{InstanceKey, PageLimit};

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
