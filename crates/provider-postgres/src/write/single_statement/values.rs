//! A few events as plain values of a statement, which costs the server less than arrays.

use std::borrow::Cow;
use std::fmt::Write;

use perdure_engine::EventRecord;

use crate::params::P;
use crate::rows::integer;
use crate::text::encode;

/// Most events of such a statement.
pub(super) const EVENTS_MAX: usize = 4;

/// Returns rows of events for an `INSERT` into the history: their seven columns, with parameters from `$first` on.
pub(super) fn rows(events: usize, mut first: usize) -> String {
    let mut rows = String::new();
    for n in 0..events {
        let [id, time, kind, ref_id, name, payload, meta] = std::array::from_fn(|column| first + column);
        let comma = if n == 0 { "" } else { ", " };
        let row = write!(
            rows,
            "{comma}(${id}::bigint, ${time}::bigint, ${kind}::text, ${ref_id}::bigint, ${name}::text, ${payload}::text, ${meta}::text)"
        );
        row.expect("a string takes everything");
        first += 7;
    }
    rows
}

/// An event as it is stored.
pub(super) struct Stored<'w> {
    event: &'w EventRecord,
    name: Option<Cow<'w, str>>,
    payload: Option<Cow<'w, str>>,
    meta: Option<Cow<'w, str>>,
}

impl<'w> Stored<'w> {
    pub(super) fn of(event: &'w EventRecord) -> Self {
        Self {
            event,
            name: event.name.as_deref().map(encode),
            payload: event.payload.as_deref().map(encode),
            meta: event.meta.as_deref().map(encode),
        }
    }

    pub(super) fn params(&self) -> [P<'_>; 7] {
        [
            P::Int(integer(self.event.event_id.0)),
            P::Int(self.event.time_ms),
            P::Text(self.event.kind.as_str()),
            P::MaybeInt(self.event.ref_id.map(|id| integer(id.0))),
            P::MaybeText(self.name.as_deref()),
            P::MaybeText(self.payload.as_deref()),
            P::MaybeText(self.meta.as_deref()),
        ]
    }
}
