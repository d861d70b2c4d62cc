//! The part of history that is still to be replayed.
//!
//! The code may run, from its start or from a delivery, only when all commands up to its next wait are here: when the
//! last page is here, or a later delivery. A command therefore never has to wait for a page, and checking it needs no
//! crossing.
//!
//! | state | pages | a wait of the code |
//! |---|---|---|
//! | not begun | a page with a delivery, or the last one, lets the code start | the queue has begun |
//! | begun | a delivery after the front one, or the last page, lets the code continue | takes the front delivery |
//! | complete | the last page is here: no other follows | without a delivery at the front the replay is over |
//! | ended | an event that ends the execution was read: another event is an error | |

use std::collections::VecDeque;

use crate::{Event, EventId, EventRecord, NoteEvent, RecordError};

/// One recorded event on its way through a replay.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) time_ms: i64,
    pub(crate) event: Event,
    /// Bytes of the record.
    bytes: usize,
}

/// Pages of history, consumed from the front.
#[derive(Clone, Debug)]
pub(crate) struct ReplayQueue {
    events: VecDeque<Recorded>,
    /// Bytes of `events`.
    bytes: usize,
    /// First id of the next page.
    next_page: EventId,
    deliveries: usize,
    /// True if the code has run up to its first wait.
    begun: bool,
    complete: bool,
    ended: bool,
}

impl ReplayQueue {
    pub(crate) const fn new() -> Self {
        let events = VecDeque::new();
        Self {
            events,
            bytes: 0,
            next_page: EventId::FIRST,
            deliveries: 0,
            begun: false,
            complete: false,
            ended: false,
        }
    }

    /// Appends a page. `complete`: the page reaches the end of history.
    pub(crate) fn extend(&mut self, page: Vec<EventRecord>, complete: bool) -> Result<(), RecordError> {
        self.events.reserve(page.len());
        for record in page {
            self.push(record)?;
        }
        self.complete = complete;
        Ok(())
    }

    fn push(&mut self, record: EventRecord) -> Result<(), RecordError> {
        let (event_id, kind, time_ms) = (record.event_id, record.kind, record.time_ms);
        let fail = |problem| {
            Err(RecordError {
                event_id,
                kind,
                problem,
            })
        };
        if event_id != self.next_page {
            return fail(format!("event {} was expected in its place", self.next_page));
        }
        if self.ended {
            return fail("the execution ended before it".into());
        }
        let bytes = record.bytes();
        let event = record.into_event()?;
        match event {
            Event::Started(_) if event_id != EventId::FIRST => {
                return fail("only the first event can be a start".into());
            }
            Event::Note(NoteEvent::ExecutionBegan { .. }) if event_id != EventId::FIRST.next() => {
                return fail("an execution begins with its second event or not at all".into());
            }
            Event::Delivery(_) => self.deliveries += 1,
            Event::End(_) | Event::Termination(_) => self.ended = true,
            Event::Started(_) | Event::Command(_) | Event::Interruption(_) | Event::Note(_) => {}
        }
        self.next_page = event_id.next();
        self.bytes += bytes;
        self.events.push_back(Recorded { time_ms, event, bytes });
        Ok(())
    }

    pub(crate) fn front(&self) -> Option<&Event> {
        self.events.front().map(|recorded| &recorded.event)
    }

    /// Returns the next action of the code, or its end, or delivery, that history holds, if it is here. The notes
    /// before it are passed over.
    pub(crate) fn next_action(&self) -> Option<&Event> {
        let mut events = self.events.iter().map(|recorded| &recorded.event);
        events.find(|event| !matches!(event, Event::Note(_)))
    }

    /// Number of notes before [`next_action`](Self::next_action).
    pub(crate) fn notes_ahead(&self) -> u64 {
        let ahead = self.events.iter();
        ahead
            .take_while(|recorded| matches!(recorded.event, Event::Note(_)))
            .count() as u64
    }

    /// Patches at the front of the queue, up to the first event of another kind.
    pub(crate) fn next_patches(&self) -> impl Iterator<Item = &str> {
        self.events.iter().map_while(|recorded| match &recorded.event {
            Event::Note(NoteEvent::PatchApplied { patch }) => Some(patch.as_str()),
            _ => None,
        })
    }

    pub(crate) fn pop(&mut self) -> Option<Recorded> {
        let recorded = self.events.pop_front()?;
        self.bytes -= recorded.bytes;
        self.deliveries -= usize::from(matches!(recorded.event, Event::Delivery(_)));
        Some(recorded)
    }

    /// Bytes of the events that are here.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes that the code waits.
    pub(crate) const fn begin(&mut self) {
        self.begun = true;
    }

    /// True if the code has reached its first wait.
    pub(crate) const fn has_begun(&self) -> bool {
        self.begun
    }

    /// True if the code may run on, from its start or with the delivery at the front.
    pub(crate) const fn reaches_next_wait(&self) -> bool {
        // After the first wait, one of the deliveries is the one that the code goes on with.
        self.complete || self.deliveries > self.begun as usize
    }

    pub(crate) const fn is_complete(&self) -> bool {
        self.complete
    }

    /// First event of the next page.
    pub(crate) const fn next_page(&self) -> EventId {
        self.next_page
    }
}
