//! Turns in progress, keyed by instance. The host's synchronous calls find their engine through this map.

use std::sync::Arc;

use parking_lot::Mutex;
use perdure_scheduler::LaneId;
use rustc_hash::FxHashMap;

use crate::instance::instances::Instances;
use crate::state::{Instance, Token};

/// A turn in progress.
#[derive(Clone)]
pub(crate) struct Turn {
    pub(crate) instances: Arc<Instances>,
    pub(crate) instance: Arc<Instance>,
    /// The lane whose thread runs the turn.
    pub(crate) lane: LaneId,
    /// Start of the turn, ms since 1970.
    pub(crate) began_ms: i64,
}

/// The map of turns. An entry lives from [`begin`](Turns::begin) to [`end`](Turns::end) and never longer.
#[derive(Default)]
pub(crate) struct Turns(Mutex<FxHashMap<Token, Turn>>);

impl Turns {
    pub(crate) fn begin(&self, turn: Turn) {
        self.0.lock().insert(turn.instance.token, turn);
    }

    pub(crate) fn get(&self, token: Token) -> Option<Turn> {
        self.0.lock().get(&token).cloned()
    }

    pub(crate) fn end(&self, token: Token) {
        self.0.lock().remove(&token);
    }

    /// Removes the turn that a dropped generator is in. A turn of the same instance on another lane stays.
    pub(crate) fn drop_at(&self, token: Token, lane: LaneId) {
        let mut turns = self.0.lock();
        if turns.get(&token).is_some_and(|turn| turn.lane == lane) {
            turns.remove(&token);
        }
    }

    /// Removes the turns of a lane whose thread is gone.
    pub(crate) fn drop_all_at(&self, lane: LaneId) {
        self.0.lock().retain(|_, turn| turn.lane != lane);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}
