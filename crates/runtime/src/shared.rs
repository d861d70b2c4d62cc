//! What a runtime shares with its sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use perdure_provider::{Convict, Status};
use perdure_scheduler::{Class, Lane};

use crate::activities::ActivityToken;
use crate::instance::{Instance, Token};
use crate::job::{EndedInstance, Host, Level, LogRecord, Queued};
use crate::metrics::Counters;
use crate::options::RuntimeOptions;
use crate::pulse::Pulse;
use crate::registry::Registry;
use crate::store::Store;
use crate::store_clock::StoreClock;

pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    pub(crate) options: RuntimeOptions,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) lane: Lane<Queued>,
    /// Of the lane's thread.
    pub(crate) pulse: Pulse,
    host: Mutex<Option<Arc<dyn Host>>>,
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
            pulse: Pulse::default(),
            host: Mutex::default(),
            registry: Mutex::default(),
            metrics: Counters::default(),
            reports_ends: AtomicBool::new(false),
            tokens: AtomicU32::new(1),
            activities: AtomicU32::new(1),
        })
    }

    /// The lane's thread is this host's from now on.
    pub(crate) fn attach(self: &Arc<Self>, host: Arc<dyn Host>) {
        *self.host.lock() = Some(Arc::clone(&host));
        let weak = Arc::downgrade(self);
        self.lane.attach(Box::new(move || {
            host.wake();
            if let Some(shared) = weak.upgrade() {
                shared.pulse.stir();
            }
        }));
    }

    /// Say something while the lane's thread cannot.
    pub(crate) fn tell_host(&self, message: &str) {
        let host = self.host.lock().clone();
        if let Some(host) = host {
            host.held_up(message);
        }
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

    /// An instance was suspended because too much speaks against it, and that is durable.
    pub(crate) fn convicted(&self, convict: Convict) {
        let message = format!(
            "instance '{}' is suspended: it has taken down or held up its workers again and again",
            convict.id
        );
        self.log(Level::Error, message);
        self.store.watch.look(&convict.id);
        if self.reports_ends.load(Ordering::Relaxed) {
            let ended = EndedInstance {
                instance_id: convict.id,
                execution: convict.execution,
                name: convict.name,
                version: convict.version,
                status: Status::Suspended,
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
