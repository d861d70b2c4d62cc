//! One instance that this worker owns.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use perdure_engine::{Completion, Engine, EventId, ExecutionId, Mailbox, Message, MessageBody, MessageSeq, Start};
use perdure_provider::{AcquiredInstance, Epoch, InstanceKey, MessagePage, Suspicion};
use perdure_scheduler::{Control, LaneId, Then};

use crate::alarms::AlarmId;
use crate::backlog::Backlog;
use crate::heartbeats::Heartbeats;
use crate::loading::PageAhead;
use crate::options::{MESSAGES_HELD_MAX, RuntimeOptions};
use crate::panics::caught;
use crate::starting::PendingStart;
use crate::tasks::Lent;

/// Name of a loaded instance between the runtime and its host; never used again within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// No lane.
const NO_SEAT: usize = usize::MAX;

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
    /// The lane that has its generator, while one has: no other may run its turns. Changes under the lock of the core.
    seat: AtomicUsize,
    core: Mutex<Core>,
}

/// What changes about a loaded instance.
pub(crate) struct Core {
    /// Its events are what came while the engine was busy or absent.
    pub(crate) control: Control<Completion>,
    pub(crate) epoch: Epoch,
    /// `None`: it was set aside to save memory and comes back from history.
    pub(crate) engine: Option<Engine>,
    /// The page of its history that its replay comes to next, being read.
    pub(crate) ahead: Option<PageAhead>,
    /// Id of the next event, as the store has it.
    pub(crate) next_event_id: EventId,
    /// The alarm set for its earliest awaited timer.
    pub(crate) alarm: Option<AlarmId>,
    /// The engine was made again from history while attempts of its activities may still run here.
    pub(crate) reloaded: bool,
    /// Highest message that was loaded, or is known to be left in the store.
    pub(crate) seen: MessageSeq,
    pub(crate) backlog: Backlog,
    /// Messages wait in the store that were not handed over, or one that cannot be read: before anything else all that wait are read.
    pub(crate) rereads: bool,
    /// What its open activities have told of their progress.
    pub(crate) heartbeats: Heartbeats,
    /// Its open activities that other workers run, or have run attempts of.
    pub(crate) lent: Lent,
    /// Its start, which is written with its first turn.
    pub(crate) start: Option<PendingStart>,
    /// Nothing of it was ever committed.
    pub(crate) is_new: bool,
    /// A client of this process started it.
    pub(crate) was_started_here: bool,
    /// What speaks against it.
    pub(crate) suspicion: Suspicion,
    /// It is tried (T1).
    pub(crate) on_trial: bool,
}

impl Instance {
    pub(crate) fn new(
        token: Token,
        acquired: AcquiredInstance,
        options: &RuntimeOptions,
    ) -> Result<Arc<Self>, (Arc<Self>, String)> {
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
            seen,
            heartbeats,
            tasks,
            suspicion,
        } = acquired;
        let complete = history.last().is_some_and(|last| last.event_id.next() == next_event_id);
        let engine = caught(|| {
            Engine::new(Start {
                execution,
                history,
                complete,
                fresh,
                budget: options.budget,
            })
        });
        let (engine, problem) = match engine {
            Ok(engine) => (Some(engine.with_limits(options.limits)), None),
            Err(problem) => (None, Some(problem)),
        };
        let mut core = Core {
            control: Control::default(),
            epoch,
            engine,
            ahead: None,
            next_event_id,
            alarm: None,
            reloaded: false,
            seen,
            backlog: Backlog::default(),
            rereads: false,
            heartbeats: Heartbeats::stored(heartbeats),
            lent: Lent::of(tasks),
            start: None,
            is_new: fresh && execution == ExecutionId::FIRST,
            was_started_here: false,
            suspicion,
            on_trial: false,
        };
        core.take_messages(messages, 0);
        let instance = Arc::new(Self {
            token,
            key: if key == NO_KEY { OnceLock::new() } else { key.into() },
            id,
            name,
            version,
            parent_id,
            execution,
            seat: AtomicUsize::new(NO_SEAT),
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

    /// The lane that has its generator. While it is queued, that does not change.
    pub(crate) fn seat(&self) -> Option<LaneId> {
        let seat = self.seat.load(Ordering::Acquire);
        (seat != NO_SEAT).then_some(LaneId(seat))
    }

    /// A lane has its generator from now on. The core is locked.
    pub(crate) fn sit(&self, lane: LaneId) {
        self.seat.store(lane.0, Ordering::Release);
    }

    /// No lane has its generator any more; the one that has had it is to be told. The core is locked.
    pub(crate) fn stand(&self) -> Option<LaneId> {
        let seat = self.seat();
        self.seat.store(NO_SEAT, Ordering::Release);
        seat
    }
}

impl Core {
    /// Hand over what came meanwhile.
    pub(crate) fn take_in(&mut self) {
        if let Some(engine) = &mut self.engine {
            for completion in self.control.take() {
                engine.offer(completion);
            }
        }
    }

    /// Keep something for the engine, or leave it in the store. `false`: it changes nothing, a message that was loaded before or that
    /// nobody waits for.
    pub(crate) fn keep(&mut self, completion: Completion) -> bool {
        if let Completion::Message(message) = &completion {
            if message.seq <= self.seen {
                return false;
            }
            self.seen = message.seq;
            if let MessageBody::Mail { mailbox, .. } = &message.body
                && (self.backlog.exists() || self.held_messages() >= MESSAGES_HELD_MAX)
            {
                self.backlog.leave(mailbox);
                let awaits = |engine: &Engine| engine.awaited_mailboxes().contains(mailbox);
                return self.engine.as_ref().is_none_or(awaits);
            }
        }
        self.control.put(completion);
        true
    }

    /// At most so many messages of its mailboxes are in memory.
    pub(crate) fn held_messages(&self) -> usize {
        self.control.events().len() + self.engine.as_ref().map_or(0, Engine::held_messages)
    }

    /// What it does about what has come, which is taken in. A message that nobody waits for, or a timer that nobody waits for any more,
    /// wakes nobody.
    pub(crate) fn next(&mut self, now_ms: i64) -> Then<Needs> {
        self.take_in();
        match &self.engine {
            None => Then::Needs(Needs::History(EventId::FIRST)),
            Some(_) if self.rereads => Then::Needs(Needs::Messages),
            Some(engine) if engine.is_runnable(now_ms) => Then::Step,
            Some(engine) if engine.lacks_message() && self.backlog.may_hold(engine.awaited_mailboxes()) => {
                Then::Needs(Needs::Found)
            }
            Some(_) => Then::Rest,
        }
    }

    /// A released instance is this worker's again.
    pub(crate) fn reuse(&mut self, acquired: AcquiredInstance) {
        let AcquiredInstance {
            epoch,
            messages,
            heartbeats,
            suspicion,
            ..
        } = acquired;
        self.control.renew();
        self.epoch = epoch;
        self.heartbeats = Heartbeats::stored(heartbeats);
        self.rereads = false;
        (self.suspicion, self.on_trial) = (suspicion, false);
        // All of them, also those below `seen`: a later one can have been read from the inbox before this acquisition brought an earlier one.
        self.take_messages(messages, self.backlog.left());
    }

    /// Its turn cannot begin before that is announced.
    pub(crate) fn awaits_trial(&self) -> bool {
        self.suspicion.is_suspect() && !self.on_trial
    }

    /// A turn of it is durable.
    pub(crate) fn committed(&mut self, next_event_id: EventId) {
        if next_event_id > self.next_event_id {
            (self.suspicion, self.on_trial) = (Suspicion::default(), false);
        }
        self.next_event_id = next_event_id;
    }

    /// Whether messages came that the engine has not taken in.
    pub(crate) fn has_pending_messages(&self) -> bool {
        self.backlog.exists()
            || self
                .control
                .events()
                .iter()
                .any(|c| matches!(c, Completion::Message(_)))
    }

    /// Take in the messages of any mailbox that were read from the store, whatever was known of them. `left`: what the backlog had before.
    pub(crate) fn take_messages(&mut self, page: MessagePage, left: u64) {
        if page.more_up_to.is_some() {
            // What is held may be newer than what the page ends with (B2).
            self.forget_mail();
        }
        self.backlog.read(left, page.more_up_to.is_some(), None);
        self.take_page(page);
    }

    /// Take in the messages of the mailboxes that the store was searched for, of which none is held.
    pub(crate) fn take_found(&mut self, page: MessagePage, mailboxes: Vec<Mailbox>, left: u64) {
        let is_mail = |message: &Message| matches!(message.body, MessageBody::Mail { .. });
        let none_of = (!page.messages.iter().any(is_mail)).then_some(mailboxes);
        self.backlog.read(left, page.more_up_to.is_some(), none_of);
        if self.held_messages() + page.messages.len() > MESSAGES_HELD_MAX {
            self.forget_mail();
        }
        self.take_page(page);
    }

    fn take_page(&mut self, page: MessagePage) {
        let MessagePage { messages, more_up_to } = page;
        let known: HashSet<MessageSeq> = self
            .control
            .events()
            .iter()
            .filter_map(|completion| match completion {
                Completion::Message(message) => Some(message.seq),
                _ => None,
            })
            .collect();
        let last = messages.last().map(|last| last.seq);
        self.seen = self.seen.max(last.max(more_up_to).unwrap_or(MessageSeq(0)));
        // The engine puts them in order, and takes none twice.
        let unknown = messages.into_iter().filter(|message| !known.contains(&message.seq));
        unknown.for_each(|message| self.control.put(Completion::Message(message)));
    }

    fn forget_mail(&mut self) {
        self.control.retain(|completion| match completion {
            Completion::Message(message) => !matches!(message.body, MessageBody::Mail { .. }),
            _ => true,
        });
        if let Some(engine) = &mut self.engine {
            engine.forget_messages();
        }
    }
}

/// What an instance needs before its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// All messages that wait for it: some came before it was here, or cannot be read.
    Messages,
    /// The messages of the mailboxes that it waits for, for which the store is to be searched (B3).
    Found,
    /// The page of its history that begins with this event.
    History(EventId),
    /// That its trial is announced (T1).
    Trial,
}
