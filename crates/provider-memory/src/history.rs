//! Histories: one row for each event.

use perdure_engine::{EventId, EventRecord, ExecutionId};
use perdure_provider::InstanceKey;

use crate::tables::{Tables, of_execution};

/// Append one event (P8).
pub(crate) fn append(tables: &mut Tables, key: InstanceKey, execution: ExecutionId, event: &EventRecord) {
    let at = (key, execution, event.event_id);
    assert!(!tables.history.contains(&at), "an event is recorded once: {event:?}");
    tables.history.insert(at, event.clone());
}

/// Up to `limit` events from event `from` on.
pub(crate) fn read(
    tables: &Tables,
    key: InstanceKey,
    execution: ExecutionId,
    from: EventId,
    limit: usize,
) -> Vec<EventRecord> {
    let mut range = of_execution(key, execution);
    range.start.2 = from;
    let events = tables.history.range(range).take(limit);
    events.map(|(_, event)| event.clone()).collect()
}
