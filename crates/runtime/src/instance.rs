//! One instance that this worker owns.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use perdure_engine::{Completion, Engine, EventId, ExecutionId, Message, MessageSeq, RecordError, Start};
use perdure_provider::{AcquiredInstance, Epoch, InstanceKey};
use perdure_scheduler::Process;

use crate::alarms::AlarmId;
use crate::heartbeats::Heartbeats;
use crate::options::RuntimeOptions;
use crate::starting::PendingStart;

/// Name of a loaded instance between the runtime and its host; never used again within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Keys of stores begin with 1.
pub(crate) const NO_KEY: InstanceKey = InstanceKey(0);

/// A loaded instance.
pub(crate) struct Instance {
    pub(crate) token: Token,
    key: OnceLock<InstanceKey>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) parent_id: Option<String>,
    pub(crate) execution: ExecutionId,
    core: Mutex<Core>,
}

/// What changes about a loaded instance.
pub(crate) struct Core {
    pub(crate) process: Process,
    pub(crate) epoch: Epoch,
    /// `None`: it was set aside to save memory and comes back from history.
    pub(crate) engine: Option<Engine>,
    /// Id of the next event, as the store has it.
    pub(crate) next_event_id: EventId,
    /// Whether the host holds its generator.
    pub(crate) hot: bool,
    /// The alarm set for its earliest awaited timer.
    pub(crate) alarm: Option<AlarmId>,
    /// The engine was made again from history while attempts of its activities may still run here.
    pub(crate) reloaded: bool,
    /// What came while the engine was busy or absent.
    pub(crate) pending: Vec<Completion>,
    /// Highest message loaded.
    pub(crate) seen: MessageSeq,
    /// What its open activities have told of their progress.
    pub(crate) heartbeats: Heartbeats,
    /// Its start, which is written with its first turn.
    pub(crate) start: Option<PendingStart>,
}

impl Instance {
    pub(crate) fn new(
        token: Token,
        acquired: AcquiredInstance,
        options: &RuntimeOptions,
    ) -> Result<Arc<Self>, (Arc<Self>, RecordError)> {
        let AcquiredInstance {
            key,
            id,
            name,
            version,
            parent_id,
            execution,
            epoch,
            next_event_id,
            fresh,
            history,
            messages,
            heartbeats,
        } = acquired;
        let complete = history.last().is_some_and(|last| last.event_id.next() == next_event_id);
        let engine = Engine::new(Start {
            execution,
            history,
            complete,
            fresh,
            budget: options.budget,
        });
        let seen = messages.last().map_or(MessageSeq(0), |m| m.seq);
        let pending = messages.into_iter().map(Completion::Message).collect();
        let (engine, problem) = match engine {
            Ok(engine) => (Some(engine.with_limits(options.limits)), None),
            Err(problem) => (None, Some(problem)),
        };
        let core = Core {
            process: Process::default(),
            epoch,
            engine,
            next_event_id,
            hot: false,
            alarm: None,
            reloaded: false,
            pending,
            seen,
            heartbeats: Heartbeats::stored(heartbeats),
            start: None,
        };
        let instance = Arc::new(Self {
            token,
            key: if key == NO_KEY { OnceLock::new() } else { key.into() },
            id,
            name,
            version,
            parent_id,
            execution,
            core: Mutex::new(core),
        });
        match problem {
            None => Ok(instance),
            Some(problem) => Err((instance, problem)),
        }
    }

    /// The store's name of it. While its start is not written it has none, and this is a key that no instance has.
    pub(crate) fn key(&self) -> InstanceKey {
        self.key.get().copied().unwrap_or(NO_KEY)
    }

    /// Its start was written.
    pub(crate) fn set_key(&self, key: InstanceKey) {
        let first = self.key.set(key).is_ok();
        debug_assert!(first, "an instance is started once");
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }
}

impl Core {
    /// Hand over what came meanwhile.
    pub(crate) fn take_in(&mut self) {
        if let Some(engine) = &mut self.engine {
            for completion in self.pending.drain(..) {
                engine.offer(completion);
            }
        }
    }

    /// Keep something for the engine. `false`: a message that was loaded before.
    pub(crate) fn keep(&mut self, completion: Completion) -> bool {
        if let Completion::Message(message) = &completion {
            if message.seq <= self.seen {
                return false;
            }
            self.seen = message.seq;
        }
        self.pending.push(completion);
        true
    }

    /// Every message up to this one is known, or was consumed.
    pub(crate) fn know_messages(&mut self, seen: MessageSeq) {
        self.seen = self.seen.max(seen);
    }

    /// Whether a turn would have anything to do; takes in what came meanwhile.
    pub(crate) fn is_runnable(&mut self, now_ms: i64) -> bool {
        self.take_in();
        match &self.engine {
            Some(engine) => engine.is_runnable(now_ms),
            None => true,
        }
    }

    /// A released instance is this worker's again.
    pub(crate) fn reuse(&mut self, epoch: Epoch, messages: Vec<Message>, heartbeats: Vec<(EventId, String)>) {
        self.process = Process::default();
        self.epoch = epoch;
        self.heartbeats = Heartbeats::stored(heartbeats);
        // All of them, also those below `seen`: a later one can have been read from the inbox before this acquisition brought an earlier one.
        self.take_messages(messages);
    }

    /// Whether messages came that the engine has not taken in.
    pub(crate) fn has_pending_messages(&self) -> bool {
        self.pending.iter().any(|c| matches!(c, Completion::Message(_)))
    }

    /// Make an idle instance ready for its first turn here, or blocked until what the turn needs has been read.
    pub(crate) fn make_ready(&mut self, came_early: bool) -> Needs {
        let notified = self.process.notify();
        debug_assert!(notified, "what was just loaded is idle");
        let needs = match self.engine.as_ref().and_then(Engine::needs_history) {
            _ if came_early => Needs::Messages,
            Some(from) => Needs::History(from),
            None => Needs::Nothing,
        };
        if needs != Needs::Nothing {
            let blocked = self.process.begin() && self.process.block();
            debug_assert!(blocked, "it was just made ready");
        }
        needs
    }

    /// Take in all messages that wait for the instance in the store, whatever was known of them.
    pub(crate) fn take_messages(&mut self, messages: Vec<Message>) {
        let known: HashSet<MessageSeq> = self
            .pending
            .iter()
            .filter_map(|completion| match completion {
                Completion::Message(message) => Some(message.seq),
                _ => None,
            })
            .collect();
        self.seen = messages.last().map_or(self.seen, |last| last.seq.max(self.seen));
        // The engine puts them in order, and takes none twice.
        let unknown = messages.into_iter().filter(|message| !known.contains(&message.seq));
        self.pending.extend(unknown.map(Completion::Message));
    }
}

/// What an instance needs before its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing.
    Nothing,
    /// All messages that wait for it: some came before it was here.
    Messages,
    /// The page of its history that begins with this event.
    History(EventId),
}
