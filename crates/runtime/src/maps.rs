//! Turns in progress, keyed by instance: what the host's synchronous calls find their engine through.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::instance::{Instance, Token};
use crate::session::Session;

/// A turn in progress.
#[derive(Clone)]
pub(crate) struct Turn {
    pub(crate) session: Arc<Session>,
    pub(crate) instance: Arc<Instance>,
}

/// The map of turns; an entry lives from [`begin`](Turns::begin) to [`end`](Turns::end) and never longer.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<Token, Turn>>);

impl Turns {
    pub(crate) fn begin(&self, turn: Turn) {
        self.0.lock().insert(turn.instance.token, turn);
    }

    pub(crate) fn get(&self, token: Token) -> Option<Turn> {
        self.0.lock().get(&token).cloned()
    }

    pub(crate) fn end(&self, token: Token) -> Option<Turn> {
        self.0.lock().remove(&token)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}
