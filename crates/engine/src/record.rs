//! Events as rows: the columns that every store keeps, and nothing that belongs to one store.
//!
//! The table of all kinds is in `table`, the type of each kind's meta column in `meta`.

mod meta;
mod table;

pub use meta::incarnation_of;
pub use table::EventKind;

use crate::{EventId, Payload};

/// One history event as a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Place in the execution's history, from 1.
    pub event_id: EventId,
    /// When it was recorded, ms since 1970.
    pub time_ms: i64,
    /// Kind of the event.
    pub kind: EventKind,
    /// The earlier event it refers to (the schedule of a completion).
    pub ref_id: Option<EventId>,
    /// Name of the orchestration, activity, patch or mailbox.
    pub name: Option<String>,
    /// Input, output, error or message, as the driver made it.
    pub payload: Payload,
    /// Further fields of the event: a JSON object made by the engine.
    pub meta: Option<String>,
}

/// A row that is no event: the store was changed by another program than Perdure, or by a newer version of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {event_id} ({kind}) cannot be read: {problem}")]
pub struct RecordError {
    /// Id of the event.
    pub event_id: EventId,
    /// Its kind.
    pub kind: EventKind,
    /// The problem.
    pub problem: String,
}

impl EventRecord {
    /// Bytes of the texts in the row that may be long. They limit a page, as does the number of its events.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        len(&self.payload) + len(&self.meta)
    }

    /// Notes the fiber of the event as `fiber` in its meta, for readers of a history. Only schedules, starts, sent
    /// or received messages, and polls have a fiber, and those of the main fiber go without.
    ///
    /// ```
    /// # use perdure_engine::{CommandEvent, EventId, EventRecord};
    /// let mut row = EventRecord::new(EventId(2), 0, CommandEvent::TimerCreated { fire_at_ms: 5 });
    /// row.set_fiber(3);
    /// assert_eq!(row.meta.as_deref(), Some(r#"{"fireAtMs":5,"fiber":3}"#));
    /// ```
    pub fn set_fiber(&mut self, fiber: u32) {
        use EventKind as Kind;
        let has_one = matches!(
            self.kind,
            Kind::ActivityScheduled
                | Kind::TimerCreated
                | Kind::ChildScheduled
                | Kind::InstanceStarted
                | Kind::EventSent
                | Kind::QueueSent
                | Kind::EventReceived
                | Kind::QueueReceived
                | Kind::EventAbsent
                | Kind::QueueEmpty
        );
        if fiber == 0 || !has_one {
            return;
        }
        let meta = self.meta.get_or_insert_with(|| "{}".into());
        // The meta is a JSON object, and this function is called once for a row.
        let comma = if meta.len() > 2 { "," } else { "" };
        meta.truncate(meta.len() - 1);
        meta.push_str(&format!("{comma}\"fiber\":{fiber}}}"));
    }
}
