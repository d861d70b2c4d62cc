//! A few events as plain values of a statement, which costs the server less than arrays.

use std::borrow::Cow;

use perdure_engine::EventRecord;
use perdure_provider::SqlBuilder;

use crate::params::P;
use crate::rows::integer;
use crate::text::encode;

/// Most events of such a statement.
pub(super) const EVENTS_MAX: usize = 4;

/// The columns of an event, and the types of their values.
const COLUMNS: [(&str, &str); 7] = [
    ("event_id", "bigint"),
    ("time", "bigint"),
    ("kind", "text"),
    ("ref_id", "bigint"),
    ("name", "text"),
    ("payload", "text"),
    ("meta", "text"),
];

/// Returns rows of events for an `INSERT` into the history, with a [parameter](add_params) for each value.
pub(super) fn rows(events: usize) -> String {
    let value = |n: usize, column: &str, kind: &str| format!("${column}_{n}::{kind}");
    let row = |n: usize| COLUMNS.map(|(column, kind)| value(n, column, kind)).join(", ");
    let rows: Vec<String> = (0..events).map(|n| format!("({})", row(n))).collect();
    rows.join(", ")
}

/// Adds the parameters of the [`rows`], in the order of [`Stored::params`].
pub(super) fn add_params(statement: SqlBuilder, events: usize) -> SqlBuilder {
    let names = (0..events).flat_map(|n| COLUMNS.map(|(column, _)| format!("{column}_{n}")));
    names.fold(statement, |statement, name| statement.param(&name))
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
