//! One instance that this worker owns.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use perdure_engine::{
    Completion, Engine, EventId, ExecutionId, Incarnation, Mailbox, Message, MessageBody, MessageSeq, Start,
};
use perdure_provider::{AcquiredInstance, Epoch, InstanceKey, Loaded, MessagePage, Suspicion};
use perdure_scheduler::{Control, LaneId, Then};

use crate::activity::beats::Heartbeats;
use crate::activity::lent::Lent;
use crate::instance::backlog::Backlog;
use crate::instance::page_ahead::PageAhead;
use crate::options::{MESSAGE_BYTES_HELD_MAX, MESSAGES_HELD_MAX, RuntimeOptions};
use crate::platform::alarms::AlarmId;
use crate::platform::byte_budget::Held;
use crate::platform::panics::caught;
use crate::turn::pending_start::PendingStart;

/// Name of a loaded instance between the runtime and its host; never used again within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

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
    /// Which start of its id it comes from, which its first event says: known once that is read.
    incarnation: OnceLock<Incarnation>,
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
    /// What of its history is in memory and not replayed yet.
    pub(crate) held: Option<Held>,
    /// Bytes of the first page of its history, as far as that is known.
    pub(crate) page_bytes: usize,
    /// What is stored besides its history was taken in since it was acquired.
    pub(crate) is_read: bool,
    /// No turn of the execution was committed yet.
    pub(crate) is_fresh: bool,
    /// Id of the next event, as the store has it.
    pub(crate) next_event_id: EventId,
    /// The alarm set for its earliest awaited timer.
    pub(crate) alarm: Option<AlarmId>,
    /// The engine was made again from history while attempts of its activities may still run here.
    pub(crate) reloaded: bool,
    /// Highest message that was loaded, or is known to be left in the store.
    pub(crate) seen: MessageSeq,
    pub(crate) backlog: Backlog,
    /// Bytes of the values in messages that the engine has not taken in.
    pending_bytes: usize,
    /// Messages that are no mail were left in the store: it is read again when those that are here were consumed.
    left_settled: bool,
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
            page_bytes,
            history,
            messages,
            seen,
            heartbeats,
            tasks,
            suspicion,
        } = acquired;
        let complete = history.last().is_some_and(|last| last.event_id.next() == next_event_id);
        // Without its first event it is not loaded.
        let is_read = !history.is_empty();
        let engine = is_read.then(|| {
            caught(|| {
                Engine::new(Start {
                    execution,
                    history,
                    complete,
                    fresh,
                    budget: options.budget,
                })
            })
        });
        let (engine, problem) = match engine.transpose() {
            Ok(engine) => (
                engine.map(|engine| engine.with_limits(options.limits).with_version(&version)),
                None,
            ),
            Err(problem) => (None, Some(problem)),
        };
        let incarnation = engine.as_ref().and_then(Engine::incarnation);
        let mut core = Core {
            control: Control::default(),
            epoch,
            engine,
            ahead: None,
            held: None,
            page_bytes,
            is_read,
            is_fresh: fresh,
            next_event_id,
            alarm: None,
            reloaded: false,
            seen,
            backlog: Backlog::default(),
            pending_bytes: 0,
            left_settled: false,
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
            incarnation: incarnation.map(OnceLock::from).unwrap_or_default(),
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

    /// Which start of its id it comes from. No attempt of it begins before that is known.
    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation.get().copied()
    }

    /// Its first event was read, perhaps again.
    pub(crate) fn set_incarnation(&self, incarnation: Option<Incarnation>) {
        if let Some(incarnation) = incarnation {
            let _ = self.incarnation.set(incarnation);
        }
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
            self.pending_bytes = 0;
            for completion in self.control.take() {
                engine.offer(completion);
            }
        }
    }

    /// Keep something for the engine, or leave it in the store. `false`: it changes nothing, a message that was loaded before, that is about to be
    /// read, or that nobody waits for.
    pub(crate) fn keep(&mut self, completion: Completion) -> bool {
        if let Completion::Message(message) = &completion {
            // What is to be read holds earlier ones: a turn that is under way must not come to this one first.
            if self.rereads || message.seq <= self.seen {
                return false;
            }
            self.seen = message.seq;
            let is_full = self.held_bytes() >= MESSAGE_BYTES_HELD_MAX;
            match &message.body {
                MessageBody::Mail { mailbox, .. }
                    if is_full || self.backlog.exists() || self.held_messages() >= MESSAGES_HELD_MAX =>
                {
                    self.backlog.leave(mailbox);
                    let awaits = |engine: &Engine| engine.awaits_mailbox(mailbox);
                    return self.engine.as_ref().is_none_or(awaits);
                }
                MessageBody::Mail { .. } => {}
                _ if is_full || self.left_settled => {
                    self.left_settled = true;
                    return true;
                }
                _ => {}
            }
            self.pending_bytes += message.body.bytes();
        }
        self.control.put(completion);
        true
    }

    /// At most so many messages of its mailboxes are in memory.
    pub(crate) fn held_messages(&self) -> usize {
        self.control.events().len() + self.engine.as_ref().map_or(0, Engine::held_messages)
    }

    /// Bytes of the values in the messages that are in memory.
    fn held_bytes(&self) -> usize {
        self.pending_bytes + self.engine.as_ref().map_or(0, Engine::held_bytes)
    }

    /// So much of its history is in memory and not replayed yet.
    pub(crate) fn settle_held(&mut self) {
        match self.engine.as_ref().map_or(0, Engine::unreplayed_bytes) {
            0 => self.held = None,
            bytes => {
                if let Some(held) = &mut self.held {
                    held.set(bytes);
                }
            }
        }
    }

    /// What it needs before its code can run at all. Nothing of a suspect is read before its trial is announced (T1).
    pub(crate) fn lacks(&self) -> Option<Needs> {
        if self.awaits_trial() {
            return Some(Needs::Trial);
        }
        match &self.engine {
            Some(engine) if self.is_read => {
                let history = || engine.needs_history().map(Needs::History);
                self.rereads.then_some(Needs::Messages).or_else(history)
            }
            _ => Some(Needs::Stored),
        }
    }

    /// What it does about what has come, which is taken in. A message that nobody waits for, or a timer that nobody waits for any more,
    /// wakes nobody.
    pub(crate) fn next(&mut self, now_ms: i64) -> Then<Needs> {
        self.take_in();
        match &self.engine {
            None => Then::Needs(if self.awaits_trial() {
                Needs::Trial
            } else {
                Needs::Stored
            }),
            Some(_) if self.rereads => Then::Needs(Needs::Messages),
            Some(engine) if engine.is_runnable(now_ms) => Then::Step,
            Some(_) if self.left_settled => Then::Needs(Needs::Messages),
            Some(engine) if engine.lacks_message() && self.backlog.may_hold(engine.awaited_mailboxes()) => {
                Then::Needs(Needs::Found)
            }
            Some(_) => Then::Rest,
        }
    }

    /// A released instance is this worker's again.
    pub(crate) fn reuse(&mut self, acquired: AcquiredInstance) {
        self.control.renew();
        self.epoch = acquired.epoch;
        self.is_read = false;
        (self.suspicion, self.on_trial) = (acquired.suspicion, false);
    }

    /// Take in what is stored of it besides its history. All messages, also those below `seen`: a later one can have been read from the inbox
    /// before an earlier one is loaded. `left`: what the backlog had before.
    pub(crate) fn take_stored(&mut self, loaded: Loaded, left: u64) {
        if !self.is_read {
            self.is_read = true;
            self.heartbeats = Heartbeats::stored(loaded.heartbeats);
            if self.engine.is_none() {
                self.lent = Lent::of(loaded.tasks);
            }
        }
        self.take_messages(loaded.messages, left);
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
        self.is_fresh = false;
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
        self.left_settled = page.more_settled;
        self.take_page(page);
    }

    /// Take in the messages of the mailboxes that the store was searched for, of which none is held.
    pub(crate) fn take_found(&mut self, page: MessagePage, mailboxes: Vec<Mailbox>, left: u64) {
        let is_mail = |message: &Message| matches!(message.body, MessageBody::Mail { .. });
        let none_of = (!page.messages.iter().any(is_mail)).then_some(mailboxes);
        self.backlog.read(left, page.more_up_to.is_some(), none_of);
        let bytes: usize = page.messages.iter().map(|message| message.body.bytes()).sum();
        let rows = self.held_messages() + page.messages.len();
        if rows > MESSAGES_HELD_MAX || self.held_bytes() + bytes > MESSAGE_BYTES_HELD_MAX {
            self.forget_mail();
        }
        self.left_settled = page.more_settled;
        self.take_page(page);
    }

    fn take_page(&mut self, page: MessagePage) {
        let MessagePage {
            messages, more_up_to, ..
        } = page;
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
        for message in messages {
            if !known.contains(&message.seq) {
                self.pending_bytes += message.body.bytes();
                self.control.put(Completion::Message(message));
            }
        }
    }

    fn forget_mail(&mut self) {
        let mut bytes = 0;
        self.control.retain(|completion| match completion {
            Completion::Message(message) if matches!(message.body, MessageBody::Mail { .. }) => {
                bytes += message.body.bytes();
                false
            }
            _ => true,
        });
        self.pending_bytes = self.pending_bytes.saturating_sub(bytes);
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
    /// The first page of its history, unless it has its engine, and what else is stored of it.
    Stored,
    /// The page of its history that begins with this event.
    History(EventId),
    /// That its trial is announced (T1).
    Trial,
}
