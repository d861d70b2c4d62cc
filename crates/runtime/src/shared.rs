//! What a runtime shares with its sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use perdure_provider::Clock;
use perdure_scheduler::{Class, Lane};

use crate::activities::ActivityToken;
use crate::instance::Token;
use crate::job::{Level, LogRecord, Queued};
use crate::metrics::Counters;
use crate::options::RuntimeOptions;
use crate::registry::Registry;
use crate::store::Store;

pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    pub(crate) options: RuntimeOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) lane: Lane<Queued>,
    pub(crate) registry: Mutex<Registry>,
    pub(crate) metrics: Counters,
    tokens: AtomicU32,
    activities: AtomicU32,
}

impl Shared {
    pub(crate) fn new(store: Arc<Store>, options: RuntimeOptions) -> Arc<Self> {
        Arc::new(Self {
            clock: Arc::clone(&store.clock),
            store,
            options,
            lane: Lane::default(),
            registry: Mutex::default(),
            metrics: Counters::default(),
            tokens: AtomicU32::new(1),
            activities: AtomicU32::new(1),
        })
    }

    pub(crate) fn next_token(&self) -> Token {
        Token(self.tokens.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn next_activity(&self) -> ActivityToken {
        ActivityToken(self.activities.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn log(&self, level: Level, message: String) {
        self.lane.push(
            Class::First,
            Queued::Log(LogRecord {
                level,
                message,
                fields: None,
                internal: true,
            }),
        );
    }
}
