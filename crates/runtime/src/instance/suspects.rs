//! The suspects of a session: those on probation, and those that wait for their probation. Invariants T1 to T5 stand in
//! [`probations`](crate::instance::probations), which announces probations to the store.

use std::collections::VecDeque;
use std::sync::Arc;

use perdure_provider::{ProbationStep, Suspicion};
use perdure_scheduler::State;
use rustc_hash::FxHashMap;

use crate::options::PROBATIONS_MAX;
use crate::platform::alarms::{AlarmId, Alarms};
use crate::state::alarm::Alarm;
use crate::state::{Instance, Token};

/// The stage of a probation.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Stage {
    /// The turn of the suspect is under way, or is about to begin.
    Turn,
    /// The turn is over, and this is being announced, because the suspect is on probation alone.
    Announcing,
    /// The activities of the suspect run. The alarm ends the probation, unless it is over already.
    Activities(Option<AlarmId>),
}

impl Stage {
    pub(crate) fn cancel(self, alarms: &Alarms<Alarm>) {
        if let Stage::Activities(Some(alarm)) = self {
            alarms.cancel(alarm);
        }
    }
}

/// The suspects of a session.
#[derive(Default)]
pub(crate) struct Probations {
    /// The suspects on probation, from the announcement until the end is written.
    pub(crate) on_probation: FxHashMap<Token, Stage>,
    /// True while one suspect is on probation alone: no other probation begins until that one is over.
    pub(crate) is_alone: bool,
    pub(crate) waiting: VecDeque<Arc<Instance>>,
}

impl Probations {
    /// Forgets all suspects, because the session is over.
    pub(crate) fn clear(&mut self, alarms: &Alarms<Alarm>) {
        self.on_probation.values().for_each(|stage| stage.cancel(alarms));
        *self = Self::default();
    }

    /// Returns the next suspect whose probation can begin now, and how it begins.
    pub(crate) fn next(&mut self) -> Option<(Arc<Instance>, ProbationStep)> {
        while let Some(next) = self.waiting.front() {
            let (state, suspicion) = {
                let core = next.lock();
                (core.control.state(), core.suspicion)
            };
            let is_gone = state == State::Complete;
            if !is_gone && !self.has_room_for(next.token, suspicion) {
                return None;
            }
            let next = self.waiting.pop_front()?;
            if !is_gone {
                self.is_alone =
                    suspicion.needs_isolation() || (self.on_probation.is_empty() && self.waiting.is_empty());
                self.on_probation.insert(next.token, Stage::Turn);
                let step = if self.is_alone {
                    ProbationStep::Alone
                } else {
                    ProbationStep::WithOthers
                };
                return Some((next, step));
            }
        }
        None
    }

    fn has_room_for(&self, token: Token, suspicion: Suspicion) -> bool {
        let fits = !self.is_alone && !suspicion.needs_isolation() && self.on_probation.len() < PROBATIONS_MAX;
        // The end of the suspect's own last probation must be written first: a store may carry out the two writes in
        // any order.
        self.on_probation.is_empty() || (fits && !self.on_probation.contains_key(&token))
    }
}
