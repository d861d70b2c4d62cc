//! One execution: replayed from its history first, then live.
//!
//! It owns the phase, the deterministic time, the order of events and what the turn in progress has done. What is open
//! (`operations`), what has come from outside (`inbox`) and the history that is still ahead (`tape`) have their own files,
//! and so has what the engine does in each of its two working phases.

mod live;
mod replaying;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use crate::inbox::Inbox;
use crate::mismatch::Attempt;
use crate::operations::Operations;
use crate::random::Random;
use crate::tape::{Recorded, Tape};
use crate::{
    Bug, Command, Completion, Delivery, Event, EventId, EventKind, EventRecord, ExecutionId, Fault, Incarnation,
    InstanceStart, Limits, Mailbox, MessageSeq, Outcome, ParentLink, Payload, RecordError, Step, Terminal, ToOthers,
    TurnMessage, TurnOutput, TurnStart, Waiting, Waits, is_planted,
};

/// How much one turn may do before others get theirs. A turn can end only where the code waits, so the last thing that it
/// is handed may take it beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Completions delivered in one turn while live.
    pub deliveries: u32,
    /// Commands issued in one turn while live.
    pub commands: u32,
    /// Bytes of the values recorded in one turn while live.
    pub bytes: u64,
    /// Completions delivered in one turn while replaying.
    pub replayed: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            deliveries: 256,
            commands: 1_024,
            bytes: 8 * 1024 * 1024,
            replayed: 4_096,
        }
    }
}

/// What an engine starts from.
#[derive(Clone, Debug)]
pub struct Start {
    /// Which execution of its instance it is.
    pub execution: ExecutionId,
    /// First page of the history, from `ExecutionStarted` on.
    pub history: Vec<EventRecord>,
    /// Whether that page is all of it.
    pub complete: bool,
    /// Whether no turn was committed yet: nothing after event 1 has run.
    pub fresh: bool,
    /// Budget of each turn.
    pub budget: Budget,
}

/// A first turn that comes so much later than the start, ms, or, where the clock of whoever started it is ahead, earlier, is recorded with
/// its time.
const LATE_MS: u64 = 1_000;

/// The patch that is recorded before the timer of [`Engine::grace_timer`].
const GRACE_PATCH: &str = "perdure.cancelGrace";

#[derive(Clone, Debug)]
enum Phase {
    Replaying(Tape),
    Live,
    /// E4.
    Broken(Box<Fault>),
    /// The code ended.
    Ended(Terminal),
    /// The code ended, and goes on as the next execution, which begins with this event.
    Continued(Box<Event>),
    /// The execution was ended from outside where the replay is now.
    Terminated,
}

/// The engine of one execution. See the crate's invariants.
#[derive(Clone, Debug)]
pub struct Engine {
    phase: Phase,
    budget: Budget,
    execution: ExecutionId,
    incarnation: Option<Incarnation>,
    limits: Limits,
    name: String,
    version: String,
    /// The version, where the start had left it open and no turn has recorded it yet.
    settled_version: Option<String>,
    input: Payload,
    parent: Option<Box<ParentLink>>,
    random: Random,
    /// Id of the next event: recorded when live, consumed when replaying.
    next_event_id: EventId,
    /// Everything before this event is durable.
    durable_to: EventId,
    /// Bytes of the values in the history so far.
    history_bytes: u64,
    time_ms: i64,
    operations: Operations,
    custom_status: Payload,
    trace: Option<Box<str>>,
    /// What the code was told of its patches. History decides: false becomes true where a replay finds the patch recorded.
    patches: BTreeMap<String, bool>,
    inbox: Inbox,
    /// Whether the code has come to its first wait.
    has_waited: bool,
    /// Whether a request to cancel was delivered.
    was_cancelled: bool,
    turn: Turn,
}

/// What the turn in progress has done so far.
#[derive(Clone, Debug, Default)]
struct Turn {
    events: Vec<EventRecord>,
    consumed: Vec<MessageSeq>,
    to_others: ToOthers,
    /// Children that it has asked for and given up.
    never_started: BTreeSet<EventId>,
    /// The custom status before the first change.
    status_before: Option<Payload>,
    deliveries: u32,
    commands: u32,
    /// Of the values in its events.
    bytes: u64,
    replayed: u32,
    /// It has gone on for long.
    was_long: bool,
    stopped: Stopped,
}

impl Turn {
    /// A child is given up: one that was not started yet never is.
    fn cancel_child(&mut self, scheduled: EventId) {
        if self.to_others.starts(scheduled) {
            self.never_started.insert(scheduled);
        } else {
            self.to_others.cancelled.push(scheduled);
        }
    }

    /// Whether it is to end because it has gone on for long. One that has handed nothing over goes on: each turn gets the code further.
    const fn is_long(&self) -> bool {
        self.was_long && self.deliveries + self.replayed > 0
    }
}

/// Why a turn is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stopped {
    #[default]
    Waiting,
    Budget,
    NeedHistory,
}

impl Engine {
    /// An engine at the beginning of an execution. Ask [`needs_history`](Self::needs_history) before the code runs.
    ///
    /// # Errors
    ///
    /// [`RecordError`] when the history cannot be read or does not begin with `ExecutionStarted`.
    pub fn new(start: Start) -> Result<Self, RecordError> {
        let kind = start
            .history
            .first()
            .map_or(EventKind::ExecutionStarted, |first| first.kind);
        let mut tape = Tape::new();
        tape.extend(start.history, start.complete)?;
        let Some(Recorded {
            time_ms,
            event:
                Event::ExecutionStarted {
                    name,
                    version,
                    input,
                    seed,
                    incarnation,
                    parent,
                    custom_status,
                    trace,
                },
            ..
        }) = tape.pop()
        else {
            let problem = "the history does not begin with ExecutionStarted".into();
            return Err(RecordError {
                event_id: EventId::FIRST,
                kind,
                problem,
            });
        };
        let is_live = start.fresh && tape.front().is_none();
        let mut engine = Self {
            phase: Phase::Replaying(tape),
            budget: start.budget,
            execution: start.execution,
            incarnation,
            limits: Limits::default(),
            name,
            version,
            settled_version: None,
            history_bytes: input.as_ref().map_or(0, String::len) as u64,
            input,
            parent: parent.map(Box::new),
            random: Random::new(seed),
            next_event_id: EventId::FIRST.next(),
            durable_to: EventId::FIRST.next(),
            time_ms,
            operations: Operations::default(),
            custom_status,
            trace: trace.map(String::into_boxed_str),
            patches: BTreeMap::new(),
            inbox: Inbox::default(),
            has_waited: false,
            was_cancelled: false,
            turn: Turn::default(),
        };
        if is_live {
            engine.go_live();
        } else {
            engine.replay_begin();
        }
        Ok(engine)
    }

    /// The engine with other limits than the default ones.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The engine of an execution that runs this version, if its start left that open: its first turn records it.
    #[must_use]
    pub fn with_version(mut self, version: &str) -> Self {
        if self.version.is_empty() && !version.is_empty() {
            self.version = version.to_owned();
            self.settled_version = Some(version.to_owned());
        }
        self
    }

    /// Which start of its id the instance comes from.
    #[must_use]
    pub const fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation
    }

    /// Name of the orchestration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Version of the orchestration.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Input of the execution.
    #[must_use]
    pub const fn input(&self) -> &Payload {
        &self.input
    }

    /// Deterministic time, ms since 1970: that of the last event delivered.
    #[must_use]
    pub const fn time_ms(&self) -> i64 {
        self.time_ms
    }

    /// Events recorded so far at this point of the code, the same in a replay.
    #[must_use]
    pub const fn history_length(&self) -> u64 {
        self.next_event_id.0 - 1
    }

    /// Bytes of the values in the history so far at this point of the code, the same in a replay.
    #[must_use]
    pub const fn history_bytes(&self) -> u64 {
        self.history_bytes
    }

    /// Id that the next event will get, or that the replay has come to.
    #[must_use]
    pub const fn next_event_id(&self) -> EventId {
        self.next_event_id
    }

    /// Whether the code is being taken through what it did before (E3).
    #[must_use]
    pub const fn is_replaying(&self) -> bool {
        matches!(self.phase, Phase::Replaying(_) | Phase::Terminated)
    }

    /// What broke this engine, if anything did.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        match &self.phase {
            Phase::Broken(fault) => Some(fault),
            _ => None,
        }
    }

    /// A deterministic number in 0..1.
    pub fn random(&mut self) -> f64 {
        if is_planted(Bug::OtherRandomNumbers) {
            self.random = Random::new(u64::from(self.turn.replayed));
        }
        self.random.unit()
    }

    /// A deterministic version 4 UUID.
    pub fn random_uuid(&mut self) -> String {
        self.random.uuid()
    }

    /// Whether this execution has a patch of its code: it has unless it passed here before the patch was there. The same patch gets
    /// the same answer from then on.
    ///
    /// Recorded history always reaches up to a wait (E3), so code that asks while it is replaying was here before, and had the
    /// patch only if that is recorded. A recorded patch that the code does not ask for any more is no mismatch: what it does instead
    /// is compared as ever.
    pub fn patched(&mut self, patch: &str) -> bool {
        let known = self.patches.get(patch).copied();
        let has_it = match (&self.phase, known) {
            (_, Some(true)) => return true,
            (Phase::Replaying(_), _) if is_planted(Bug::PatchedForAll) => true,
            (Phase::Replaying(_), _) => self.replay_patch(patch),
            (Phase::Live, None) => {
                self.turn.commands = self.turn.commands.saturating_add(1);
                self.record(Event::PatchApplied { patch: patch.into() }, self.time_ms);
                true
            }
            _ => false,
        };
        self.patches.insert(patch.into(), has_it);
        has_it
    }

    /// A timer that limits how long the execution may go on once it is cancelled: `delay_ms` from now, where the code has such a limit. A replay
    /// takes the timer that history holds, or none: another limit of the code holds for what is cancelled from then on.
    ///
    /// # Errors
    ///
    /// [`Fault`] as of [`issue`](Self::issue).
    pub fn grace_timer(&mut self, delay_ms: Option<i64>) -> Result<Option<EventId>, Fault> {
        let is_there = (delay_ms.is_some() || self.is_replaying()) && self.patched(GRACE_PATCH);
        let command = match self.recorded_timer() {
            Some(fire_at_ms) => Some(Command::CreateTimerAt { fire_at_ms }),
            None => delay_ms.map(|delay_ms| Command::CreateTimer { delay_ms }),
        };
        command
            .filter(|_| is_there)
            .map(|command| self.issue(command))
            .transpose()
    }

    /// The value that history holds for what the code does next; `None` where it holds none. It is compared with what the code has
    /// byte by byte, so a driver that does not write a value twice alike asks for it first.
    #[must_use]
    pub fn recorded_payload(&self) -> Payload {
        self.replay_payload().cloned()
    }

    /// The custom status as the code sees it here.
    #[must_use]
    pub const fn custom_status(&self) -> &Payload {
        &self.custom_status
    }

    /// What the start of the instance was part of.
    #[must_use]
    pub fn trace(&self) -> Option<&str> {
        self.trace.as_deref()
    }

    /// What was recorded last is of this fiber (see [`EventRecord::set_fiber`]); nothing while replaying.
    pub fn of_fiber(&mut self, fiber: u32) {
        if let (Phase::Live, Some(last)) = (&self.phase, self.turn.events.last_mut()) {
            last.set_fiber(fiber);
        }
    }

    /// Set or reset the custom status. It is stored with the turn if it is another then, unless this is a replay.
    pub fn set_custom_status(&mut self, value: Payload) {
        let before = mem::replace(&mut self.custom_status, value);
        if matches!(self.phase, Phase::Live) {
            self.turn.status_before.get_or_insert(before);
        }
    }

    /// First event of the page that must be here before the code may run: after [`Engine::new`] and after each page, until
    /// it is `None`. Commands up to the next wait are checked without waiting for a page.
    #[must_use]
    pub fn needs_history(&self) -> Option<EventId> {
        match &self.phase {
            Phase::Replaying(tape) if !tape.reaches_next_wait() => Some(tape.next_page()),
            _ => None,
        }
    }

    /// Append a page of history, after [`Step::NeedHistory`] or when [`needs_history`](Self::needs_history) says so.
    ///
    /// # Errors
    ///
    /// [`RecordError`] when the page cannot be read or does not follow the one before.
    pub fn extend_history(&mut self, page: Vec<EventRecord>, complete: bool) -> Result<(), RecordError> {
        match &mut self.phase {
            Phase::Replaying(tape) => tape.extend(page, complete)?,
            _ => return Ok(()),
        }
        self.replay_begin();
        Ok(())
    }

    /// A turn begins at `now_ms`. If it is the first and comes notably later than the start, or the start had left the version open, that is recorded: timers and times of the code
    /// count from when it runs, not from when a client asked for it.
    pub fn begin_turn(&mut self, now_ms: i64) {
        let is_first = self.next_event_id == EventId::FIRST.next() && self.turn.events.is_empty();
        if is_planted(Bug::StartTimeForFirstTurn) {
            return;
        }
        let is_told = now_ms.abs_diff(self.time_ms) > LATE_MS || self.settled_version.is_some();
        if is_first && !self.has_waited && matches!(self.phase, Phase::Live) && is_told {
            let version = self.settled_version.take();
            self.record(Event::ExecutionBegan { version }, now_ms);
            self.time_ms = now_ms;
        }
    }

    /// The turn has gone on for long: it ends as if its budget were used up.
    pub const fn hurry(&mut self) {
        self.turn.was_long = true;
    }

    /// Take in something that happened outside; it is delivered when its turn comes.
    pub fn offer(&mut self, completion: Completion) {
        if matches!(self.phase, Phase::Replaying(_) | Phase::Live) {
            self.inbox.offer(completion);
        }
    }

    /// Whether a turn would have anything to do at `now_ms`.
    #[must_use]
    pub fn is_runnable(&self, now_ms: i64) -> bool {
        match &self.phase {
            Phase::Broken(_) | Phase::Ended(_) | Phase::Continued(_) | Phase::Terminated => false,
            Phase::Replaying(_) => true,
            Phase::Live => self.inbox.has_any() || self.due(self.monotonic(now_ms)).is_some(),
        }
    }

    /// Whether it was asked to cancel, delivered or not: it may exceed its limits by [`CANCEL_GRACE`](crate::CANCEL_GRACE) then.
    #[must_use]
    pub fn is_cancelling(&self) -> bool {
        self.was_cancelled || self.inbox.has_cancel()
    }

    /// The mailboxes that fibers wait on, in order.
    pub fn awaited_mailboxes(&self) -> impl Iterator<Item = &Mailbox> {
        self.inbox.awaited().iter()
    }

    /// How many these are.
    #[must_use]
    pub fn awaited_mailboxes_len(&self) -> usize {
        self.inbox.awaited().len()
    }

    /// Whether a fiber waits on a mailbox.
    #[must_use]
    pub fn awaits_mailbox(&self, mailbox: &Mailbox) -> bool {
        self.inbox.awaited().contains(mailbox)
    }

    /// Whether fibers wait on mailboxes and it holds no message of these.
    #[must_use]
    pub fn lacks_message(&self) -> bool {
        matches!(self.phase, Phase::Live) && !self.inbox.awaited().is_empty() && !self.inbox.has_awaited_mail()
    }

    /// Messages of mailboxes that it holds.
    #[must_use]
    pub const fn held_messages(&self) -> usize {
        self.inbox.mail_len()
    }

    /// Bytes of the values in the messages that it holds.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.inbox.message_bytes()
    }

    /// Forget the messages of mailboxes that it holds: they wait in the store, and are offered again.
    pub fn forget_messages(&mut self) {
        self.inbox.forget_mail();
    }

    /// Whether a message may wake it: a fiber waits on a mailbox, or a child has not ended.
    #[must_use]
    pub const fn awaits_message(&self) -> bool {
        !self.inbox.awaited().is_empty() || self.operations.children() > 0
    }

    /// Whether an activity is open, as far as that is known: a replay may not have come to its schedule.
    #[must_use]
    pub fn may_await_activity(&self, scheduled: EventId) -> bool {
        self.is_replaying() || self.operations.activity(scheduled).is_some()
    }

    /// Whether an inline activity is open: its function is part of what the code holds in memory.
    #[must_use]
    pub const fn has_inline_activity(&self) -> bool {
        self.operations.has_inline()
    }

    /// The code asks for something.
    ///
    /// # Errors
    ///
    /// [`Fault`] when history holds something else here, or a limit is reached; the engine is broken from then on (E4).
    pub fn issue(&mut self, command: Command) -> Result<EventId, Fault> {
        let event = command.into_event(self.time_ms);
        let id = self.next_event_id;
        match &mut self.phase {
            Phase::Broken(fault) => return Err(fault.as_ref().clone()),
            Phase::Replaying(_) => return Ok(self.replay_command(&event)?),
            // What is issued after the end has no effect: the code can still run `finally` blocks.
            Phase::Ended(_) | Phase::Continued(_) | Phase::Terminated => return Ok(id),
            Phase::Live => {}
        }
        self.check_limits(&event)?;
        self.turn.commands = self.turn.commands.saturating_add(1);
        self.record(event.clone(), self.time_ms);
        self.apply_command(id, event);
        Ok(id)
    }

    /// All fibers wait, for what `waits` tells besides open activities and children: what is next?
    ///
    /// # Errors
    ///
    /// [`Fault`] when history went on differently here, or a limit is reached; the engine is broken from then on (E4).
    pub fn next(&mut self, waits: impl Into<Waits>, now_ms: i64) -> Result<Step, Fault> {
        match self.next_recorded(waits)? {
            Some(step) => Ok(step),
            None => Ok(self.live_next(now_ms)?),
        }
    }

    /// As [`next`](Self::next), of what history holds alone; `None`: the code has been through all of it. Whoever only replays an execution
    /// stops there, before anything that is due would be delivered.
    ///
    /// # Errors
    ///
    /// [`Fault`] as of `next`.
    pub fn next_recorded(&mut self, waits: impl Into<Waits>) -> Result<Option<Step>, Fault> {
        self.wait(waits.into());
        self.has_waited = true;
        self.turn.stopped = Stopped::Waiting;
        match &self.phase {
            Phase::Broken(fault) => Err(fault.as_ref().clone()),
            Phase::Ended(_) | Phase::Continued(_) | Phase::Terminated => Ok(Some(Step::Wait)),
            Phase::Replaying(_) => Ok(self.replay_next()?),
            Phase::Live => Ok(None),
        }
    }

    /// A request to cancel that has come, delivered although the code does not wait; and the deterministic time from here on.
    ///
    /// Code that never waits would never hear of it: executions that follow each other, or commands without a wait between them. The driver
    /// asks at the same points of the code each time: history tells at which of them there was a request, and a replay finds it there.
    pub fn interrupt(&mut self, now_ms: i64) -> Option<(Delivery, i64)> {
        match &self.phase {
            Phase::Live => self.live_interruption(now_ms),
            Phase::Replaying(_) => self.replay_interruption(),
            Phase::Broken(_) | Phase::Ended(_) | Phase::Continued(_) | Phase::Terminated => None,
        }
    }

    /// The code returned or threw.
    ///
    /// # Errors
    ///
    /// [`Fault`] when history goes on here; the engine is broken from then on (E4).
    pub fn finish(&mut self, outcome: Outcome) -> Result<(), Fault> {
        let (event, ended) = match outcome {
            Outcome::Completed(output) => (Event::ExecutionCompleted { output }, Phase::Ended(Terminal::Completed)),
            Outcome::Failed(error) => (Event::ExecutionFailed { error }, Phase::Ended(Terminal::Failed)),
            Outcome::Cancelled(error) => (
                Event::ExecutionCancelled { error, outside: false },
                Phase::Ended(Terminal::Cancelled),
            ),
            Outcome::ContinuedAsNew { input, version } => self.continue_as_new(input, version),
        };
        match &mut self.phase {
            Phase::Broken(fault) => return Err(fault.as_ref().clone()),
            Phase::Ended(_) | Phase::Continued(_) | Phase::Terminated => return Ok(()),
            Phase::Replaying(_) => {
                if self.take_equal(&event, Attempt::End)?.is_none() {
                    return Ok(());
                }
            }
            Phase::Live => {
                self.record(event, self.time_ms);
            }
        }
        for child in self.operations.cancel_all() {
            self.turn.cancel_child(child);
        }
        self.phase = ended;
        Ok(())
    }

    fn continue_as_new(&self, input: Payload, version: Option<String>) -> (Event, Phase) {
        let version = version.unwrap_or_else(|| self.version.clone());
        let next = Event::ExecutionStarted {
            name: self.name.clone(),
            version: version.clone(),
            input: input.clone(),
            seed: self.random.next_seed(),
            incarnation: self.incarnation,
            parent: self.parent.as_deref().cloned(),
            custom_status: self.custom_status.clone(),
            trace: self.trace().map(str::to_owned),
        };
        (
            Event::ExecutionContinuedAsNew { input, version },
            Phase::Continued(Box::new(next)),
        )
    }

    /// First event of the execution that follows this one, when it [continued as new](Terminal::ContinuedAsNew).
    #[must_use]
    pub fn next_execution(&self) -> Option<&Event> {
        match &self.phase {
            Phase::Continued(next) => Some(next),
            _ => None,
        }
    }

    /// End the turn and take what it did.
    pub fn end_turn(&mut self) -> TurnOutput {
        let Turn {
            events,
            consumed,
            mut to_others,
            never_started,
            status_before,
            stopped,
            ..
        } = mem::take(&mut self.turn);
        let custom_status = status_before
            .filter(|before| *before != self.custom_status)
            .map(|_| self.custom_status.clone());
        to_others.leave_out(&never_started);
        self.inbox.shrink();
        let waiting = match (&self.phase, stopped) {
            (Phase::Ended(terminal), _) => Waiting::Ended(*terminal),
            (Phase::Continued(_), _) => Waiting::Ended(Terminal::ContinuedAsNew),
            (Phase::Live | Phase::Replaying(_), Stopped::Budget) => Waiting::More,
            (Phase::Replaying(tape), Stopped::NeedHistory) => Waiting::History { from: tape.next_page() },
            (Phase::Broken(_) | Phase::Terminated, _) => Waiting::Outside {
                open_activities: 0,
                timer_at_ms: None,
            },
            _ => Waiting::Outside {
                open_activities: self.operations.activities(),
                timer_at_ms: self.operations.next_timer(),
            },
        };
        self.durable_to = self.next_event_id;
        let effects = self.operations.take_effects(|| self.inbox.settled_activities());
        let next_event_id = events.first().map_or(self.next_event_id, |e| e.event_id);
        TurnOutput {
            next_event_id,
            events,
            consumed,
            custom_status,
            to_others: (!to_others.is_empty()).then(|| Box::new(to_others)),
            effects,
            waiting,
        }
    }

    // ---- what live and replaying share ----

    fn go_live(&mut self) {
        self.phase = Phase::Live;
        self.durable_to = self.next_event_id;
        self.operations.go_live();
    }

    /// A clock that was set back must not make time run backwards inside an execution.
    fn monotonic(&self, now_ms: i64) -> i64 {
        now_ms.max(self.time_ms)
    }

    fn stop(&mut self, stopped: Stopped) -> Step {
        self.turn.stopped = stopped;
        match stopped {
            Stopped::Waiting => Step::Wait,
            Stopped::Budget => Step::Budget,
            Stopped::NeedHistory => Step::NeedHistory,
        }
    }

    fn wait(&mut self, waits: Waits) {
        let more = match waits {
            Waits::All(awaited) => {
                self.inbox.forget_awaited();
                self.operations.forget_awaited();
                awaited
            }
            Waits::Changed { more, no_longer } => {
                for mailbox in &no_longer.mailboxes {
                    self.inbox.forget(mailbox);
                }
                for id in no_longer.timers {
                    self.operations.forget(id);
                }
                more
            }
        };
        for mailbox in more.mailboxes {
            self.inbox.wait_for(mailbox);
        }
        for id in more.timers {
            self.operations.wait_for(id);
        }
    }

    /// What is awaited and can be handed over without anything having come: what was sent before and is durable by now, then the
    /// earliest timer that is due.
    fn due(&self, now_ms: i64) -> Option<Event> {
        let sent = self.operations.first_sent().filter(|id| *id < self.durable_to);
        let confirmed = sent.map(|scheduled| Event::OperationConfirmed { scheduled });
        let due = || self.operations.due_timer(now_ms);
        confirmed.or_else(|| due().map(|timer| Event::TimerFired { timer }))
    }

    fn apply_command(&mut self, id: EventId, event: Event) {
        match event {
            Event::ActivityScheduled { name, input, options } => {
                self.operations.schedule(id, name, input, options, self.time_ms);
            }
            Event::TimerCreated { fire_at_ms } => self.operations.create_timer(id, fire_at_ms),
            Event::ChildScheduled(start) => {
                self.operations.start_child(id);
                self.start_other(id, true, start);
            }
            Event::InstanceStarted(start) => {
                self.operations.send(id);
                self.start_other(id, false, start);
            }
            Event::MessageSent {
                instance,
                mailbox,
                payload,
            } => {
                self.operations.send(id);
                if self.is_live() {
                    self.turn.to_others.messages.push(TurnMessage {
                        scheduled: id,
                        instance,
                        mailbox,
                        payload,
                    });
                }
            }
            Event::OperationCancelled { scheduled } => {
                if self.operations.cancel(scheduled) {
                    self.turn.cancel_child(scheduled);
                }
            }
            _ => unreachable!("only commands come here"),
        }
    }

    const fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live)
    }

    fn start_other(&mut self, scheduled: EventId, is_child: bool, start: InstanceStart) {
        if self.is_live() {
            self.turn.to_others.starts.push(TurnStart {
                scheduled,
                is_child,
                start,
            });
        }
    }

    /// Deliveries and bookkeeping; the former are handed to the code.
    fn apply_delivery(&mut self, event: Event) -> Option<Delivery> {
        Some(match event {
            Event::ActivityCompleted { scheduled, output } => {
                self.operations.close(scheduled);
                Delivery::Succeeded {
                    operation: scheduled,
                    value: output,
                }
            }
            Event::ActivityFailed {
                scheduled,
                attempt,
                error,
            } => {
                self.operations.close(scheduled);
                Delivery::Failed {
                    operation: scheduled,
                    error,
                    attempt,
                }
            }
            // Taken before the code runs; one that follows a page which was refused changes nothing any more.
            Event::ExecutionBegan { .. } => return None,
            Event::ActivityAttemptFailed {
                scheduled,
                attempt,
                retry_at_ms,
                ..
            } => {
                self.operations.retry(scheduled, attempt, retry_at_ms);
                return None;
            }
            Event::PatchApplied { patch } => {
                self.patches.insert(patch, true);
                return None;
            }
            Event::TimerFired { timer } => {
                self.operations.close(timer);
                Delivery::Succeeded {
                    operation: timer,
                    value: None,
                }
            }
            Event::ChildCompleted { scheduled, output } => {
                self.operations.close(scheduled);
                Delivery::Succeeded {
                    operation: scheduled,
                    value: output,
                }
            }
            Event::ChildFailed {
                scheduled,
                failure,
                error,
            } => {
                self.operations.close(scheduled);
                Delivery::ChildFailed {
                    operation: scheduled,
                    failure,
                    error,
                }
            }
            Event::OperationConfirmed { scheduled } => {
                self.operations.close(scheduled);
                Delivery::Succeeded {
                    operation: scheduled,
                    value: None,
                }
            }
            Event::OperationRefused { scheduled, refusal } => {
                self.operations.close(scheduled);
                Delivery::Refused {
                    operation: scheduled,
                    refusal,
                }
            }
            Event::MessageReceived { mailbox, payload } => Delivery::Message { mailbox, payload },
            Event::CancelRequested { reason, .. } => {
                self.was_cancelled = true;
                Delivery::Cancel { reason }
            }
            _ => unreachable!("only deliveries and bookkeeping come here"),
        })
    }
}
