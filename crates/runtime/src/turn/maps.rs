//! Turns in progress, keyed by instance: what the host's synchronous calls find their engine through.

use std::sync::Arc;

use parking_lot::Mutex;
use perdure_scheduler::LaneId;
use rustc_hash::FxHashMap;

use crate::instance::{Instance, Token};
use crate::worker::session::Session;

/// A turn in progress.
#[derive(Clone)]
pub(crate) struct Turn {
    pub(crate) session: Arc<Session>,
    pub(crate) instance: Arc<Instance>,
    /// Whose thread runs it.
    pub(crate) lane: LaneId,
    /// When it began, ms since 1970.
    pub(crate) began_ms: i64,
}

/// The map of turns; an entry lives from [`begin`](Turns::begin) to [`end`](Turns::end) and never longer.
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

    /// A generator is dropped: so is the turn that it is in, which may have been another's by now.
    pub(crate) fn drop_at(&self, token: Token, lane: LaneId) {
        let mut turns = self.0.lock();
        if turns.get(&token).is_some_and(|turn| turn.lane == lane) {
            turns.remove(&token);
        }
    }

    /// The thread of a lane is gone, with the turns that it was in.
    pub(crate) fn drop_all_at(&self, lane: LaneId) {
        self.0.lock().retain(|_, turn| turn.lane != lane);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}
