//! The state of an instance after a turn.

use std::borrow::Cow;

use perdure_engine::EventId;
use perdure_provider::{AfterTurn, Status, TurnCommit};

use crate::error::Failure;
use crate::rows::integer;
use crate::text::encode;

/// The state of an instance after a turn.
pub(super) struct NextState<'w> {
    pub(super) next_event_id: i64,
    pub(super) execution: i64,
    /// `None`: the version stays.
    pub(super) version: Option<Cow<'w, str>>,
    pub(super) status: Status,
    /// The number that is added to the turns of the instance.
    pub(super) turns: i64,
    /// The work that the instance waits for. A suspension leaves what is stored.
    pub(super) open_work: Option<Cow<'w, str>>,
    /// True if the worker keeps the instance.
    pub(super) keeps: bool,
    /// True if the instance is released, and waits for a time or a message.
    pub(super) sleeps: bool,
    pub(super) wake_at_ms: Option<i64>,
    pub(super) ends: bool,
    /// True if the next execution begins.
    pub(super) begins: bool,
    pub(super) report: Option<Cow<'w, str>>,
    pub(super) mismatched_code: Option<Cow<'w, str>>,
}

impl<'w> NextState<'w> {
    /// Fails for a turn that must never be stored.
    pub(super) fn of(turn: &'w TurnCommit) -> Result<Self, Failure> {
        let next = turn.check().map_err(Failure::internal)?;
        let running = Self {
            next_event_id: integer(next.0),
            execution: integer(turn.execution.0),
            version: None,
            status: Status::Running,
            turns: 1,
            open_work: turn.open_work.as_deref().map(encode),
            keeps: false,
            sleeps: false,
            wake_at_ms: None,
            ends: false,
            begins: false,
            report: None,
            mismatched_code: None,
        };
        Ok(match &turn.after {
            AfterTurn::Hold => Self { keeps: true, ..running },
            AfterTurn::Release { wake_at_ms } => Self {
                sleeps: true,
                wake_at_ms: *wake_at_ms,
                ..running
            },
            AfterTurn::End { status } => Self {
                status: *status,
                ends: true,
                ..running
            },
            AfterTurn::ContinueAsNew(next) => Self {
                next_event_id: integer(EventId::FIRST.next().0),
                execution: integer(turn.execution.next().0),
                version: Some(encode(&next.version)),
                keeps: next.hold,
                begins: true,
                ..running
            },
            // A suspension without events is no turn: an instance whose first turn never came about stays fresh.
            AfterTurn::Suspend {
                report,
                mismatched_code,
            } => Self {
                status: Status::Suspended,
                turns: i64::from(next > turn.next_event_id),
                report: Some(encode(report)),
                mismatched_code: mismatched_code.as_deref().map(encode),
                ..running
            },
        })
    }
}

/// Returns the custom status that a turn sets.
pub(super) fn custom_status(turn: &TurnCommit) -> Option<Cow<'_, str>> {
    turn.custom_status.as_ref()?.value.as_deref().map(encode)
}
