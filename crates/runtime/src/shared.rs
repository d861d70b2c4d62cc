//! What a runtime shares with its sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use perdure_provider::{Clock, Status};
use perdure_scheduler::{Class, Lane};

use crate::activities::ActivityToken;
use crate::instance::{Instance, Token};
use crate::job::{EndedInstance, Level, LogRecord, Queued};
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
    /// Whether the host wants to be told of instances that end.
    pub(crate) reports_ends: AtomicBool,
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
            reports_ends: AtomicBool::new(false),
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

    /// An instance has ended or was suspended, and that is durable.
    pub(crate) fn ended(&self, instance: &Instance, status: Status) {
        if self.reports_ends.load(Ordering::Relaxed) {
            let ended = EndedInstance {
                instance_id: instance.id.clone(),
                execution: instance.execution.0,
                name: instance.name.clone(),
                version: instance.version.clone(),
                status,
            };
            self.lane.push(Class::First, Queued::Ended(ended));
        }
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
