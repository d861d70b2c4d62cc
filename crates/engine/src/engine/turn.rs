//! The turn in progress: its beginning, its budget, its asks, its effects and its end.

use std::collections::BTreeSet;
use std::mem;

use super::{Engine, Phase};
use crate::open_work;
use crate::{
    AnsweredAsk, Bug, CrossInstanceEffects, EventId, EventRecord, FailedAttempt, MessageSeq, NoteEvent, Payload, Step,
    Terminal, TurnOutput, Waiting, is_planted,
};

/// Budget of one turn: the work that it may do before other instances get their turns. A turn can end only where the
/// code waits, so its last delivery may exceed the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Completions delivered in one turn while live.
    pub deliveries: u32,
    /// Commands issued in one turn while live.
    pub commands: u32,
    /// Bytes of the values recorded in one turn while live.
    pub bytes: u64,
    /// Completions delivered in one turn while replaying.
    pub replayed: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            deliveries: 256,
            commands: 1_024,
            bytes: 8 * 1024 * 1024,
            replayed: 4_096,
        }
    }
}

/// Difference between the start and the first turn, in ms, above which the time of the first turn is recorded. The
/// first turn comes later than the start, or earlier if the clock of the process that started the instance is ahead.
const LATE_MS: u64 = 1_000;

/// An ask that the driver is to accept or to refuse.
#[derive(Clone, Debug)]
pub(super) struct OfferedAsk {
    pub(super) seq: MessageSeq,
    pub(super) payload: Payload,
}

/// The asks of the turn in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct AsksOfTurn {
    /// An ask that the driver has been offered, and has neither accepted nor refused.
    pub(super) offered: Option<OfferedAsk>,
    pub(super) answers: Vec<AnsweredAsk>,
}

/// State of the turn in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    pub(super) events: Vec<EventRecord>,
    pub(super) consumed: Vec<MessageSeq>,
    pub(super) asks: Option<Box<AsksOfTurn>>,
    pub(super) cross_instance: CrossInstanceEffects,
    /// Children that this turn has both scheduled and given up.
    pub(super) never_started: BTreeSet<EventId>,
    pub(super) failed_attempts: Vec<FailedAttempt>,
    /// The custom status before its first change in this turn.
    pub(super) status_before: Option<Payload>,
    pub(super) deliveries: u32,
    pub(super) commands: u32,
    /// Bytes of the values in `events`, and of the entries of streams.
    pub(super) bytes: u64,
    pub(super) replayed: u32,
    /// True if the turn has taken long ([`Engine::end_turn_soon`]).
    pub(super) was_long: bool,
    pub(super) stopped: StopReason,
}

impl Turn {
    /// Gives up a child. A child that was not started yet is never started.
    pub(super) fn cancel_child(&mut self, scheduled: EventId) {
        if self.cross_instance.starts(scheduled) {
            self.never_started.insert(scheduled);
        } else {
            self.cross_instance.cancelled.push(scheduled);
        }
    }

    /// True if the turn must end because it has taken long. A turn without a delivery goes on, so that each turn makes
    /// progress.
    pub(super) const fn is_long(&self) -> bool {
        self.was_long && self.deliveries + self.replayed > 0
    }
}

/// Reasons for the end of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StopReason {
    #[default]
    Waiting,
    Budget,
    NeedHistory,
}

impl Engine {
    /// Begins a turn at `now_ms`. Records `ExecutionBegan` in the first turn if that comes notably later than the
    /// start, or if the start left the version open. Timers and times of the code then count from when the code runs,
    /// not from when a client asked for it.
    pub fn begin_turn(&mut self, now_ms: i64) {
        let is_first = self.next_event_id == EventId::FIRST.next() && self.turn.events.is_empty();
        if is_planted(Bug::StartTimeForFirstTurn) {
            return;
        }
        let is_recorded = now_ms.abs_diff(self.time_ms) > LATE_MS || self.records_version;
        if is_first && !self.has_waited && matches!(self.phase, Phase::Live) && is_recorded {
            let version = mem::take(&mut self.records_version).then(|| self.version.clone());
            self.record(NoteEvent::ExecutionBegan { version }, now_ms);
            self.begins_at(now_ms);
        }
    }

    /// Notes that the turn has taken long: it ends as if its budget were used up.
    pub const fn end_turn_soon(&mut self) {
        self.turn.was_long = true;
    }

    /// Ends the turn and returns its output.
    pub fn end_turn(&mut self) -> TurnOutput {
        let Turn {
            events,
            consumed,
            asks,
            mut cross_instance,
            never_started,
            failed_attempts,
            status_before,
            stopped,
            ..
        } = mem::take(&mut self.turn);
        let custom_status = status_before
            .filter(|before| *before != self.custom_status)
            .map(|_| self.custom_status.clone());
        cross_instance.leave_out(&never_started);
        self.inbox.shrink();
        let waiting = match (&self.phase, stopped) {
            (Phase::Ended(terminal), _) => Waiting::Ended(*terminal),
            (Phase::Continued(_), _) => Waiting::Ended(Terminal::ContinuedAsNew),
            (Phase::Live | Phase::Replaying(_), StopReason::Budget) => Waiting::More,
            (Phase::Replaying(queue), StopReason::NeedHistory) => Waiting::History {
                from: queue.next_page(),
            },
            (Phase::Broken(_) | Phase::Terminated, _) => Waiting::Outside {
                open_activities: 0,
                timer_at_ms: None,
            },
            _ => Waiting::Outside {
                open_activities: self.operations.activities(),
                timer_at_ms: self.next_timer(),
            },
        };
        self.durable_to = self.next_event_id;
        let effects = self.operations.take_effects(|| self.inbox.settled_activities());
        let next_event_id = events.first().map_or(self.next_event_id, |e| e.event_id);
        TurnOutput {
            next_event_id,
            events,
            consumed,
            custom_status,
            state: self.state.take_changes(),
            answers: asks.map(|asks| asks.answers).unwrap_or_default(),
            appends: self.streams.take_appends(),
            cross_instance: (!cross_instance.is_empty()).then(|| Box::new(cross_instance)),
            effects,
            failed_attempts,
            waiting,
        }
    }

    /// Returns the time at which the next timer fires, or the time limit is over.
    fn next_timer(&self) -> Option<i64> {
        let deadline = self.deadline_ms().filter(|_| !is_planted(Bug::LimitWakesNoInstance));
        [self.operations.next_timer(), deadline].into_iter().flatten().min()
    }

    /// Returns the work that the execution waits for, as text for people; `fibers` is JSON of the driver that says what
    /// its fibers wait for. `None`: there is nothing to wait for.
    #[must_use]
    pub fn open_work(&self, fibers: Option<&str>) -> Option<String> {
        match self.phase {
            Phase::Live | Phase::Replaying(_) => {
                let (open, count) = self.operations.open();
                let last = matches!(self.phase, Phase::Live).then(|| EventId(self.next_event_id.0 - 1));
                open_work::text(open, count, fibers, last)
            }
            Phase::Ended(_) | Phase::Continued(_) | Phase::Broken(_) | Phase::Terminated => None,
        }
    }

    pub(super) fn stop(&mut self, stopped: StopReason) -> Step {
        self.turn.stopped = stopped;
        match stopped {
            StopReason::Waiting => Step::Wait,
            StopReason::Budget => Step::Budget,
            StopReason::NeedHistory => Step::NeedHistory,
        }
    }
}
