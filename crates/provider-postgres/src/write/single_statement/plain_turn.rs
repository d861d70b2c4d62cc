//! Turns that only append events.

use perdure_provider::{AfterTurn, TurnCommit};

/// Returns true if a turn appends events, and changes nothing of others and no heartbeats, logged lines and streams of
/// its instance. It may consume messages.
pub(super) fn appends(turn: &TurnCommit) -> bool {
    !turn.events.is_empty()
        && turn.heartbeats_over.is_empty()
        && turn.cross_instance.is_none()
        && turn.logs.is_none()
        && turn.appends.is_empty()
}

/// Returns true if a turn of an owned instance only [appends](appends) events, and changes no messages, no values of
/// the state and no answers.
pub(super) fn only_appends(turn: &TurnCommit) -> bool {
    !turn.wakes && appends(turn) && turn.consumed.is_empty() && turn.state.is_empty() && turn.answers.is_empty()
}

/// Returns true if a turn only appends events, and its worker keeps the instance.
pub(super) fn only_holds(turn: &TurnCommit) -> bool {
    only_appends(turn) && turn.after == AfterTurn::Hold
}
