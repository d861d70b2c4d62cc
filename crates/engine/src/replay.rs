//! The part of history that the code has not been through yet.

use std::collections::VecDeque;

use crate::event::Role;
use crate::{Event, EventId, EventRecord, RecordError};

/// One recorded event on its way through a replay.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) id: EventId,
    pub(crate) time_ms: i64,
    pub(crate) event: Event,
}

/// Pages of history, consumed from the front.
///
/// A delivery is only handed out when the commands that the code issues after it are here too, that is when the page is the
/// last one or holds a later delivery: so a command never has to wait for a page, and checking it needs no crossing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape {
    events: VecDeque<Recorded>,
    deliveries: usize,
    complete: bool,
    next_id: Option<EventId>,
}

impl Tape {
    /// Append a page; `complete` says that it reaches the end of history.
    pub(crate) fn extend(&mut self, page: Vec<EventRecord>, complete: bool) -> Result<(), RecordError> {
        self.events.reserve(page.len());
        for record in page {
            let (id, time_ms, kind) = (record.event_id, record.time_ms, record.kind);
            let expected = self.next_id.unwrap_or(EventId::FIRST);
            if id != expected {
                let problem = format!("event {expected} was expected in its place");
                return Err(RecordError {
                    event_id: id,
                    kind,
                    problem,
                });
            }
            self.next_id = Some(id.next());
            let event = record.into_event()?;
            self.deliveries += usize::from(event.role() == Role::Delivery);
            self.events.push_back(Recorded { id, time_ms, event });
        }
        self.complete = complete;
        Ok(())
    }

    pub(crate) fn front(&self) -> Option<&Recorded> {
        self.events.front()
    }

    pub(crate) fn pop(&mut self) -> Option<Recorded> {
        let recorded = self.events.pop_front()?;
        self.deliveries -= usize::from(recorded.event.role() == Role::Delivery);
        Some(recorded)
    }

    /// Whether the delivery at the front may be handed out now.
    pub(crate) fn may_deliver(&self) -> bool {
        self.complete || self.deliveries >= 2
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// First event of the next page.
    pub(crate) fn next_page(&self) -> EventId {
        self.next_id.unwrap_or(EventId::FIRST)
    }
}
