//! Events as columns.

use std::borrow::Cow;

use perdure_engine::{EventRecord, ExecutionId};
use perdure_provider::{AfterTurn, InstanceKey, TurnCommit};

use crate::params::P;
use crate::rows::integer;
use crate::statement::columns;
use crate::text::encode;

/// Columns of rows to append to the history.
#[derive(Default)]
pub(super) struct Events<'w> {
    instance_key: Vec<i64>,
    execution: Vec<i64>,
    event_id: Vec<i64>,
    time: Vec<i64>,
    kind: Vec<&'w str>,
    ref_id: Vec<Option<i64>>,
    name: Vec<Option<Cow<'w, str>>>,
    payload: Vec<Option<Cow<'w, str>>>,
    meta: Vec<Option<Cow<'w, str>>>,
}

impl<'w> Events<'w> {
    pub(super) fn push(&mut self, key: InstanceKey, execution: ExecutionId, event: &'w EventRecord) {
        self.instance_key.push(key.0);
        self.execution.push(integer(execution.0));
        self.event_id.push(integer(event.event_id.0));
        self.time.push(event.time_ms);
        self.kind.push(event.kind.as_str());
        self.ref_id.push(event.ref_id.map(|id| integer(id.0)));
        self.name.push(event.name.as_deref().map(encode));
        self.payload.push(event.payload.as_deref().map(encode));
        self.meta.push(event.meta.as_deref().map(encode));
    }

    /// Adds the events of a turn, and the first event of the execution that follows it.
    pub(super) fn push_turn(&mut self, key: InstanceKey, turn: &'w TurnCommit) {
        for event in &turn.events {
            self.push(key, turn.execution, event);
        }
        if let AfterTurn::ContinueAsNew(next) = &turn.after {
            self.push(key, turn.execution.next(), &next.first_event);
        }
    }

    columns! {
        instance_key: Ints,
        execution: Ints,
        event_id: Ints,
        time: Ints,
        kind: Names,
        ref_id: MaybeInts,
        name: MaybeTexts,
        payload: MaybeTexts,
        meta: MaybeTexts,
    }
}
