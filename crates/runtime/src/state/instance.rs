//! An instance that this worker owns.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use perdure_engine::{
    Completion, Engine, EventId, ExecutionId, Incarnation, Mailbox, Message, MessageBody, MessageSeq, Start,
};
use perdure_provider::{AcquiredInstance, Epoch, InstanceKey, Loaded, MessagePage, Suspicion};
use perdure_scheduler::{Control, LaneId, NextAction};

use crate::client::pending_wake::PendingWake;
use crate::options::{MESSAGE_BYTES_HELD_MAX, MESSAGES_HELD_MAX, RuntimeOptions};
use crate::platform::alarms::AlarmId;
use crate::platform::byte_budget::Reservation;
use crate::platform::panics::caught;
use crate::state::backlog::Backlog;
use crate::state::heartbeats::Heartbeats;
use crate::state::page_ahead::PageAhead;
use crate::state::pending_start::PendingStart;
use crate::state::remote_activities::RemoteActivities;
use crate::state::turn_lines::TurnLines;

/// Name of a loaded instance between the runtime and its host. No name is used again within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Value of `lane` while no lane has the generator.
const NO_LANE: usize = usize::MAX;

/// Key of an instance that has none yet. Keys of stores begin with 1.
pub(crate) const NO_KEY: InstanceKey = InstanceKey(0);

/// A loaded instance.
pub(crate) struct Instance {
    pub(crate) token: Token,
    key: OnceLock<InstanceKey>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) parent_id: Option<String>,
    /// JSON of the tags that the instance was started with.
    pub(crate) tags: Option<String>,
    pub(crate) execution: ExecutionId,
    /// The start of its id that the instance comes from. The first event names it, so it is known once that event is
    /// read.
    incarnation: OnceLock<Incarnation>,
    /// The lane that has the instance's generator: no other lane may run its turns. It changes under the lock of the
    /// core.
    lane: AtomicUsize,
    core: Mutex<Core>,
}

/// The changing state of a loaded instance.
pub(crate) struct Core {
    /// Scheduling state. Its events came while the engine was busy or absent.
    pub(crate) control: Control<Completion>,
    pub(crate) epoch: Epoch,
    /// The engine; `None`: the instance was evicted to save memory, and comes back from its history.
    pub(crate) engine: Option<Engine>,
    /// The next page of its history for its replay, which is being read.
    pub(crate) ahead: Option<PageAhead>,
    /// Memory of the history that is loaded and not replayed yet.
    pub(crate) held: Option<Reservation>,
    /// Bytes of the first page of its history, as far as they are known.
    pub(crate) page_bytes: usize,
    /// True if the stored data besides the history was taken in since the instance was acquired.
    pub(crate) is_read: bool,
    /// True if no turn of the execution was committed yet.
    pub(crate) is_fresh: bool,
    /// Id of the next event in the store.
    pub(crate) next_event_id: EventId,
    /// The alarm for the earliest timer that the instance waits for.
    pub(crate) alarm: Option<AlarmId>,
    /// True if the engine was rebuilt from history while attempts of the instance's activities may still run here.
    pub(crate) reloaded: bool,
    /// Number of the latest message that was loaded, or is known to be left in the store.
    pub(crate) seen: MessageSeq,
    pub(crate) backlog: Backlog,
    /// Bytes of the values in messages that the engine has not taken in.
    pending_bytes: usize,
    /// True if messages that are no mail were left in the store. The store is read again when the messages that are
    /// here were consumed.
    left_settled: bool,
    /// True if the store has messages that were not handed over, or one that cannot be read. All waiting messages are
    /// then read before anything else.
    pub(crate) rereads: bool,
    /// Reported progress of its open activities.
    pub(crate) heartbeats: Heartbeats,
    /// Its open activities that other workers run, or have run attempts of.
    pub(crate) remote_activities: RemoteActivities,
    /// The start of the instance, which is written with its first turn.
    pub(crate) start: Option<PendingStart>,
    /// The wake whose turn acquires the instance.
    pub(crate) wake: Option<PendingWake>,
    /// True while it is not known whether the turn of a wake is written. Until then the instance is not this worker's.
    pub(crate) is_waking: bool,
    /// Lines that the turn in progress has logged and that are to be stored with it.
    pub(crate) lines: TurnLines,
    /// True if nothing of the instance was ever committed.
    pub(crate) is_new: bool,
    /// True if a client of this process started the instance.
    pub(crate) was_started_here: bool,
    /// Evidence against the instance.
    pub(crate) suspicion: Suspicion,
    /// True while the instance is on probation (T1).
    pub(crate) on_probation: bool,
}

/// Returns the engine of an instance that comes with its history. `None`: the history is to be read first.
fn engine_of(acquired: &mut AcquiredInstance, options: &RuntimeOptions) -> Result<Option<Engine>, String> {
    let history = std::mem::take(&mut acquired.history);
    let Some(last) = history.last() else { return Ok(None) };
    let start = Start {
        execution: acquired.execution,
        complete: last.event_id.next() == acquired.next_event_id,
        history,
        fresh: acquired.fresh,
        budget: options.budget,
    };
    let engine = caught(|| Engine::new(start))?;
    Ok(Some(engine.with_limits(options.limits).with_version(&acquired.version)))
}

impl Instance {
    /// Returns an acquired instance. On an error the instance has no engine, and can only be suspended.
    pub(crate) fn new(
        token: Token,
        mut acquired: AcquiredInstance,
        options: &RuntimeOptions,
    ) -> Result<Arc<Self>, (Arc<Self>, String)> {
        // An instance without its first event is not loaded.
        let is_read = !acquired.history.is_empty();
        let (engine, problem) = match engine_of(&mut acquired, options) {
            Ok(engine) => (engine, None),
            Err(problem) => (None, Some(problem)),
        };
        let incarnation = engine.as_ref().and_then(Engine::incarnation);
        let instance = Arc::new(Self {
            token,
            key: match acquired.key {
                NO_KEY => OnceLock::new(),
                key => key.into(),
            },
            id: std::mem::take(&mut acquired.id),
            name: std::mem::take(&mut acquired.name),
            version: std::mem::take(&mut acquired.version),
            parent_id: acquired.parent_id.take(),
            tags: acquired.tags.take(),
            execution: acquired.execution,
            incarnation: incarnation.map(OnceLock::from).unwrap_or_default(),
            lane: AtomicUsize::new(NO_LANE),
            core: Mutex::new(Core::new(acquired, engine, is_read)),
        });
        match problem {
            None => Ok(instance),
            Some(problem) => Err((instance, problem)),
        }
    }

    /// Returns the store's key of the instance. While the start is not written, this is a key that no instance has.
    pub(crate) fn key(&self) -> InstanceKey {
        self.key.get().copied().unwrap_or(NO_KEY)
    }

    /// Returns the start of its id that the instance comes from. No attempt of the instance begins before this is
    /// known.
    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation.get().copied()
    }

    /// Sets the incarnation after the first event was read, perhaps again.
    pub(crate) fn set_incarnation(&self, incarnation: Option<Incarnation>) {
        if let Some(incarnation) = incarnation {
            let _ = self.incarnation.set(incarnation);
        }
    }

    /// Sets the key after the start was written.
    pub(crate) fn set_key(&self, key: InstanceKey) {
        let first = self.key.set(key).is_ok();
        debug_assert!(first, "an instance is started once");
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Returns the lane that has the generator. It does not change while the instance is queued.
    pub(crate) fn lane(&self) -> Option<LaneId> {
        let lane = self.lane.load(Ordering::Acquire);
        (lane != NO_LANE).then_some(LaneId(lane))
    }

    /// Gives the generator to a lane. The core must be locked.
    pub(crate) fn pin(&self, lane: LaneId) {
        self.lane.store(lane.0, Ordering::Release);
    }

    /// Takes the generator from its lane. Returns that lane, which must be told. The core must be locked.
    pub(crate) fn unpin(&self) -> Option<LaneId> {
        let lane = self.lane();
        self.lane.store(NO_LANE, Ordering::Release);
        lane
    }
}

impl Core {
    fn new(acquired: AcquiredInstance, engine: Option<Engine>, is_read: bool) -> Self {
        let mut core = Self {
            control: Control::default(),
            epoch: acquired.epoch,
            engine,
            ahead: None,
            held: None,
            page_bytes: acquired.page_bytes,
            is_read,
            is_fresh: acquired.fresh,
            next_event_id: acquired.next_event_id,
            alarm: None,
            reloaded: false,
            seen: acquired.seen,
            backlog: Backlog::default(),
            pending_bytes: 0,
            left_settled: false,
            rereads: false,
            heartbeats: Heartbeats::stored(acquired.heartbeats),
            remote_activities: RemoteActivities::of(acquired.tasks),
            start: None,
            wake: None,
            is_waking: false,
            lines: TurnLines::default(),
            is_new: acquired.fresh && acquired.execution == ExecutionId::FIRST,
            was_started_here: false,
            suspicion: acquired.suspicion,
            on_probation: false,
        };
        core.take_messages(acquired.messages, 0);
        core
    }

    /// Hands the events that came meanwhile to the engine.
    pub(crate) fn take_in(&mut self) {
        if let Some(engine) = &mut self.engine {
            self.pending_bytes = 0;
            for completion in self.control.take() {
                engine.offer(completion);
            }
        }
    }

    /// Keeps a completion for the engine, or leaves it in the store. Returns `false` if the completion changes nothing:
    /// a message that was loaded before, that is about to be read, or that the code does not wait for.
    pub(crate) fn keep(&mut self, completion: Completion) -> bool {
        if let Completion::Message(message) = &completion {
            // The messages that are about to be read include earlier ones. A turn that is under way must not come to
            // this message first.
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

    /// Returns the highest possible number of messages of the instance's mailboxes in memory.
    pub(crate) fn held_messages(&self) -> usize {
        self.control.events().len() + self.engine.as_ref().map_or(0, Engine::held_messages)
    }

    /// Returns the bytes of the values in the messages that are in memory.
    fn held_bytes(&self) -> usize {
        self.pending_bytes + self.engine.as_ref().map_or(0, Engine::held_bytes)
    }

    /// Sets the held memory to the bytes of history that are in memory and not replayed yet.
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

    /// Returns the first need of the instance before its code can run at all. Nothing of a suspect is read before its
    /// probation is announced (T1).
    pub(crate) fn lacks(&self) -> Option<TurnNeed> {
        if self.awaits_probation() {
            return Some(TurnNeed::Probation);
        }
        match &self.engine {
            Some(engine) if self.is_read => {
                let history = || engine.needs_history().map(TurnNeed::History);
                self.rereads.then_some(TurnNeed::Messages).or_else(history)
            }
            _ => Some(TurnNeed::Stored),
        }
    }

    /// Takes in the events that have come, and returns the next step of the instance. A message or a timer that the
    /// code does not wait for does not wake the instance.
    pub(crate) fn next(&mut self, now_ms: i64) -> NextAction<TurnNeed> {
        self.take_in();
        match &self.engine {
            None => NextAction::Needs(if self.awaits_probation() {
                TurnNeed::Probation
            } else {
                TurnNeed::Stored
            }),
            Some(_) if self.rereads => NextAction::Needs(TurnNeed::Messages),
            Some(engine) if engine.is_runnable(now_ms) => NextAction::Step,
            Some(_) if self.left_settled => NextAction::Needs(TurnNeed::Messages),
            Some(engine) if engine.lacks_message() && self.backlog.may_hold(engine.awaited_mailboxes()) => {
                NextAction::Needs(TurnNeed::Found)
            }
            Some(engine) if engine.awaits_look() => NextAction::Needs(if self.backlog.exists() {
                TurnNeed::Found
            } else {
                TurnNeed::Messages
            }),
            Some(_) => NextAction::Rest,
        }
    }

    /// Reuses a released instance that this worker owns again.
    pub(crate) fn reuse(&mut self, acquired: AcquiredInstance) {
        self.control.renew();
        self.epoch = acquired.epoch;
        self.is_read = false;
        (self.suspicion, self.on_probation) = (acquired.suspicion, false);
    }

    /// Returns true if a message for a mailbox can be handed to the instance, which sleeps in the store: its code waits
    /// for the message, and neither the store nor the instance has an earlier one, as far as is known here.
    pub(crate) fn can_wake(&self, mailbox: &Mailbox) -> bool {
        let is_known = !self.rereads && !self.left_settled && !self.backlog.exists();
        let waits = |engine: &Engine| engine.lacks_message() && engine.awaits_mailbox(mailbox);
        is_known && self.held_messages() == 0 && self.can_run_asleep() && self.engine.as_ref().is_some_and(waits)
    }

    /// Returns true if the instance, which sleeps in the store and is due with these messages, has a turn to run.
    pub(crate) fn can_wake_due(&self, messages: &[Message], now_ms: i64) -> bool {
        let is_for = |engine: &Engine, message: &Message| match &message.body {
            MessageBody::Mail { mailbox, .. } => engine.awaits_mailbox(mailbox),
            _ => true,
        };
        let runs =
            |engine: &Engine| engine.is_runnable(now_ms) || messages.iter().any(|message| is_for(engine, message));
        self.can_run_asleep() && self.engine.as_ref().is_some_and(runs)
    }

    /// Returns true if a turn of the instance needs nothing of the store but messages.
    fn can_run_asleep(&self) -> bool {
        self.remote_activities.offered() == 0 && !self.suspicion.is_suspect()
    }

    /// Takes in a wake, and its messages that the store has. A message that is handed over has no number of its own: no
    /// other message is here, and it is never written.
    pub(crate) fn take_wake(&mut self, wake: PendingWake, stored: Vec<Message>, epoch: Epoch) {
        self.control.renew();
        self.epoch = epoch;
        match wake.message() {
            Some(body) => {
                self.pending_bytes += body.bytes();
                self.control.put(Completion::Message(Message { seq: self.seen, body }));
            }
            None => {
                self.rereads = false;
                let left = self.backlog.left();
                let page = MessagePage {
                    messages: stored,
                    ..MessagePage::default()
                };
                self.take_messages(page, left);
            }
        }
        (self.wake, self.is_waking) = (Some(wake), true);
    }

    /// Takes in the stored data of the instance besides its history. All messages are taken, also those below `seen`: a
    /// later message can have been read from the inbox before an earlier one is loaded. `left` is the backlog's number
    /// from before the read.
    pub(crate) fn take_stored(&mut self, loaded: Loaded, left: u64) {
        if !self.is_read {
            self.is_read = true;
            self.heartbeats = Heartbeats::stored(loaded.heartbeats);
            if self.engine.is_none() {
                self.remote_activities = RemoteActivities::of(loaded.tasks);
            }
        }
        self.take_messages(loaded.messages, left);
    }

    /// Returns true if the probation of a suspect is not announced yet. Its turn cannot begin before that.
    pub(crate) fn awaits_probation(&self) -> bool {
        self.suspicion.is_suspect() && !self.on_probation
    }

    /// Notes that a turn of the instance is durable.
    pub(crate) fn committed(&mut self, next_event_id: EventId) {
        if next_event_id > self.next_event_id {
            (self.suspicion, self.on_probation) = (Suspicion::default(), false);
        }
        self.next_event_id = next_event_id;
        self.is_fresh = false;
    }

    /// Returns true if messages came that the engine has not taken in.
    pub(crate) fn has_pending_messages(&self) -> bool {
        self.backlog.exists()
            || self
                .control
                .events()
                .iter()
                .any(|c| matches!(c, Completion::Message(_)))
    }

    /// Takes in messages that were read from the store for all mailboxes, regardless of the former knowledge about the
    /// mailboxes. `left` is the backlog's number from before the read.
    pub(crate) fn take_messages(&mut self, page: MessagePage, left: u64) {
        if page.more_up_to.is_some() {
            // Held messages may be newer than the end of the page (B2).
            self.forget_mail();
        }
        self.backlog.read(left, page.more_up_to.is_some(), None);
        self.left_settled = page.more_settled;
        self.take_page(page);
        if !self.backlog.exists() {
            self.note_look();
        }
    }

    /// Takes in messages of the mailboxes that the store was searched for. The instance holds no message of these.
    pub(crate) fn take_found(&mut self, page: MessagePage, mailboxes: Vec<Mailbox>, left: u64) {
        let is_mail = |message: &Message| matches!(message.body, MessageBody::Mail { .. });
        let none_of = (!page.messages.iter().any(is_mail)).then_some(mailboxes);
        if none_of.is_some() {
            self.note_look();
        }
        self.backlog.read(left, page.more_up_to.is_some(), none_of);
        let bytes: usize = page.messages.iter().map(|message| message.body.bytes()).sum();
        let rows = self.held_messages() + page.messages.len();
        if rows > MESSAGES_HELD_MAX || self.held_bytes() + bytes > MESSAGE_BYTES_HELD_MAX {
            self.forget_mail();
        }
        self.left_settled = page.more_settled;
        self.take_page(page);
    }

    /// Notes for polls that the instance holds the oldest message that the store holds of each mailbox that it polls.
    fn note_look(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.note_look();
        }
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
        // The engine puts the messages in order, and takes none twice.
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

/// The need of an instance before its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnNeed {
    /// All messages that wait for the instance: some came before the instance was here, or cannot be read.
    Messages,
    /// The messages of the mailboxes that the instance waits for. The store is to be searched for them (B3).
    Found,
    /// The first page of its history, unless the instance has its engine, and its other stored data.
    Stored,
    /// The page of its history that begins with this event.
    History(EventId),
    /// The announcement of its probation (T1).
    Probation,
}
