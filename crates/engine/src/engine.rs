//! The engine of one execution: it replays the history first and is live from then on.
//!
//! This file owns the phase, the deterministic time, the order of events and the state of the turn in progress. Other
//! files own the open operations (`operations`), the completions that were not delivered yet (`inbox`) and the history
//! that is still to be replayed (`tape`). Each of the two working phases also has a file of its own (`replaying`,
//! `live`).

mod live;
mod replaying;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use crate::inbox::Inbox;
use crate::mismatch::Attempt;
use crate::operations::Operations;
use crate::random::Random;
use crate::replay_queue::{Recorded, Tape};
use crate::{
    Bug, Command, Completion, CrossInstanceEffects, Delivery, Event, EventId, EventKind, EventRecord, ExecutionId,
    Fault, Incarnation, InstanceStart, Limits, Mailbox, MessageSeq, Outcome, ParentLink, Payload, RecordError, Step,
    Terminal, TurnMessage, TurnOutput, TurnStart, Waiting, Waits, is_planted,
};

/// Budget of one turn: the work that it may do before other instances get their turns. A turn can end only where the
/// code waits, so its last delivery may exceed the budget.
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

/// Arguments of [`Engine::new`].
#[derive(Clone, Debug)]
pub struct Start {
    /// Number of the execution within its instance.
    pub execution: ExecutionId,
    /// First page of the history, from `ExecutionStarted` on.
    pub history: Vec<EventRecord>,
    /// True if that page is the whole history.
    pub complete: bool,
    /// True if no turn was committed yet: nothing after event 1 has run.
    pub fresh: bool,
    /// Budget of each turn.
    pub budget: Budget,
}

/// Difference between the start and the first turn, in ms, above which the time of the first turn is recorded. The
/// first turn comes later than the start, or earlier if the clock of the process that started the instance is ahead.
const LATE_MS: u64 = 1_000;

/// Patch that is recorded before the timer of [`Engine::grace_timer`].
const GRACE_PATCH: &str = "perdure.cancelGrace";

#[derive(Clone, Debug)]
enum Phase {
    Replaying(Tape),
    Live,
    /// E4.
    Broken(Box<Fault>),
    /// The code ended.
    Ended(Terminal),
    /// The code ended, and the instance continues with the next execution, which begins with this event.
    Continued(Box<Event>),
    /// The execution was ended from outside at the event that the replay has reached.
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
    /// The version, if the start left it open and no turn has recorded it yet.
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
    /// Answers of [`Engine::patched`] so far, by patch. History decides: false becomes true when a replay finds the
    /// patch recorded.
    patches: BTreeMap<String, bool>,
    inbox: Inbox,
    /// True if the code has reached its first wait.
    has_waited: bool,
    /// True if a request to cancel was delivered.
    was_cancelled: bool,
    turn: Turn,
}

/// State of the turn in progress.
#[derive(Clone, Debug, Default)]
struct Turn {
    events: Vec<EventRecord>,
    consumed: Vec<MessageSeq>,
    cross_instance: CrossInstanceEffects,
    /// Children that this turn has both scheduled and given up.
    never_started: BTreeSet<EventId>,
    /// The custom status before its first change in this turn.
    status_before: Option<Payload>,
    deliveries: u32,
    commands: u32,
    /// Bytes of the values in `events`.
    bytes: u64,
    replayed: u32,
    /// True if the turn has taken long ([`Engine::hurry`]).
    was_long: bool,
    stopped: Stopped,
}

impl Turn {
    /// Gives up a child. A child that was not started yet is never started.
    fn cancel_child(&mut self, scheduled: EventId) {
        if self.cross_instance.starts(scheduled) {
            self.never_started.insert(scheduled);
        } else {
            self.cross_instance.cancelled.push(scheduled);
        }
    }

    /// True if the turn must end because it has taken long. A turn without a delivery goes on, so that each turn makes
    /// progress.
    const fn is_long(&self) -> bool {
        self.was_long && self.deliveries + self.replayed > 0
    }
}

/// Reasons for the end of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stopped {
    #[default]
    Waiting,
    Budget,
    NeedHistory,
}

impl Engine {
    /// Creates an engine at the beginning of an execution. Call [`needs_history`](Self::needs_history) before the code
    /// runs.
    ///
    /// # Errors
    ///
    /// [`RecordError`] if the history cannot be read or does not begin with `ExecutionStarted`.
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

    /// Replaces the default limits.
    #[must_use]
    pub const fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the version of the orchestration if the start left it open. The first turn records this version.
    #[must_use]
    pub fn with_version(mut self, version: &str) -> Self {
        if self.version.is_empty() && !version.is_empty() {
            self.version = version.to_owned();
            self.settled_version = Some(version.to_owned());
        }
        self
    }

    /// Incarnation of the instance: the number that tells this start of its id from other starts of the same id.
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

    /// Deterministic time, ms since 1970: the time of the last delivered event.
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

    /// Id that the next event gets, or that the replay has reached.
    #[must_use]
    pub const fn next_event_id(&self) -> EventId {
        self.next_event_id
    }

    /// True while the engine takes the code through its recorded history (E3).
    #[must_use]
    pub const fn is_replaying(&self) -> bool {
        matches!(self.phase, Phase::Replaying(_) | Phase::Terminated)
    }

    /// The fault that broke this engine, if it is broken.
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

    /// Returns true if this execution has a patch of its code. It has the patch unless it passed this point before the
    /// patch was there. The same patch gets the same answer from then on.
    ///
    /// Recorded history always reaches up to a wait (E3), so code that asks while it is replaying was here before, and
    /// had the patch only if the patch is recorded. A recorded patch that the code no longer asks for is no mismatch;
    /// the commands that the code issues instead are compared as always.
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

    /// Creates the timer that limits how long the execution may go on once it is cancelled. The timer is due `delay_ms`
    /// from now; `None`: the code has no such limit. A replay takes the timer that history holds, or none if history
    /// holds none. A limit that the code has changed since then applies to later cancellations.
    ///
    /// # Errors
    ///
    /// [`Fault`] as in [`issue`](Self::issue).
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

    /// Returns the value that history holds for the next command or end of the code; `None` if it holds none. The
    /// engine compares this value byte by byte with the value of the code. A driver that may encode a value differently
    /// each time therefore asks for it first.
    #[must_use]
    pub fn recorded_payload(&self) -> Payload {
        self.replay_payload().cloned()
    }

    /// The custom status as the code sees it at this point.
    #[must_use]
    pub const fn custom_status(&self) -> &Payload {
        &self.custom_status
    }

    /// Trace context of the start of the instance.
    #[must_use]
    pub fn trace(&self) -> Option<&str> {
        self.trace.as_deref()
    }

    /// Notes the fiber of the last recorded event (see [`EventRecord::set_fiber`]). Does nothing while replaying.
    pub fn of_fiber(&mut self, fiber: u32) {
        if let (Phase::Live, Some(last)) = (&self.phase, self.turn.events.last_mut()) {
            last.set_fiber(fiber);
        }
    }

    /// Sets or resets the custom status. It is stored with the turn if it differs at the end of the turn, unless this
    /// is a replay.
    pub fn set_custom_status(&mut self, value: Payload) {
        let before = mem::replace(&mut self.custom_status, value);
        if matches!(self.phase, Phase::Live) {
            self.turn.status_before.get_or_insert(before);
        }
    }

    /// Returns the first event of the page that must be here before the code may run. To be asked after [`Engine::new`]
    /// and after each page, until it is `None`. Commands up to the next wait are checked without waiting for a page.
    #[must_use]
    pub fn needs_history(&self) -> Option<EventId> {
        match &self.phase {
            Phase::Replaying(tape) if !tape.reaches_next_wait() => Some(tape.next_page()),
            _ => None,
        }
    }

    /// Appends a page of history, after [`Step::NeedHistory`] or when [`needs_history`](Self::needs_history) says so.
    ///
    /// # Errors
    ///
    /// [`RecordError`] if the page cannot be read or does not follow the one before.
    pub fn extend_history(&mut self, page: Vec<EventRecord>, complete: bool) -> Result<(), RecordError> {
        match &mut self.phase {
            Phase::Replaying(tape) => tape.extend(page, complete)?,
            _ => return Ok(()),
        }
        self.replay_begin();
        Ok(())
    }

    /// Begins a turn at `now_ms`. Records `ExecutionBegan` in the first turn if that comes notably later than the
    /// start, or if the start left the version open. Timers and times of the code then count from when the code runs,
    /// not from when a client asked for it.
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

    /// Notes that the turn has taken long: it ends as if its budget were used up.
    pub const fn hurry(&mut self) {
        self.turn.was_long = true;
    }

    /// Takes in a completion from outside. It is delivered when its turn comes.
    pub fn offer(&mut self, completion: Completion) {
        if matches!(self.phase, Phase::Replaying(_) | Phase::Live) {
            self.inbox.offer(completion);
        }
    }

    /// Returns true if a turn at `now_ms` would have anything to do.
    #[must_use]
    pub fn is_runnable(&self, now_ms: i64) -> bool {
        match &self.phase {
            Phase::Broken(_) | Phase::Ended(_) | Phase::Continued(_) | Phase::Terminated => false,
            Phase::Replaying(_) => true,
            Phase::Live => self.inbox.has_any() || self.due(self.monotonic(now_ms)).is_some(),
        }
    }

    /// True if the instance was asked to cancel, even if the request was not delivered yet. It may then exceed its
    /// limits by [`CANCEL_GRACE`](crate::CANCEL_GRACE).
    #[must_use]
    pub fn is_cancelling(&self) -> bool {
        self.was_cancelled || self.inbox.has_cancel()
    }

    /// Mailboxes that fibers wait on, in order.
    pub fn awaited_mailboxes(&self) -> impl Iterator<Item = &Mailbox> {
        self.inbox.awaited().iter()
    }

    /// Number of mailboxes that fibers wait on.
    #[must_use]
    pub fn awaited_mailboxes_len(&self) -> usize {
        self.inbox.awaited().len()
    }

    /// Returns true if a fiber waits on this mailbox.
    #[must_use]
    pub fn awaits_mailbox(&self, mailbox: &Mailbox) -> bool {
        self.inbox.awaited().contains(mailbox)
    }

    /// True if the engine is live, fibers wait on mailboxes and the engine holds no message of these mailboxes.
    #[must_use]
    pub fn lacks_message(&self) -> bool {
        matches!(self.phase, Phase::Live) && !self.inbox.awaited().is_empty() && !self.inbox.has_awaited_mail()
    }

    /// Number of mailbox messages that the engine holds.
    #[must_use]
    pub const fn held_messages(&self) -> usize {
        self.inbox.mail_len()
    }

    /// Bytes of the values in the messages that the engine holds.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.inbox.message_bytes()
    }

    /// Drops the mailbox messages that the engine holds. They are still in the store, and are offered again.
    pub fn forget_messages(&mut self) {
        self.inbox.forget_mail();
    }

    /// True if a message may wake the instance: a fiber waits on a mailbox, or a child has not ended.
    #[must_use]
    pub const fn awaits_message(&self) -> bool {
        !self.inbox.awaited().is_empty() || self.operations.children() > 0
    }

    /// Returns true if an activity is open or may be open: a replay may not have reached its schedule yet.
    #[must_use]
    pub fn may_await_activity(&self, scheduled: EventId) -> bool {
        self.is_replaying() || self.operations.activity(scheduled).is_some()
    }

    /// True if an inline activity is open. Its function is a part of the code's memory.
    #[must_use]
    pub const fn has_inline_activity(&self) -> bool {
        self.operations.has_inline()
    }

    /// Issues a command of the code. Returns its id.
    ///
    /// # Errors
    ///
    /// [`Fault`] if history holds something else here, or a limit is reached; the engine is broken from then on (E4).
    pub fn issue(&mut self, command: Command) -> Result<EventId, Fault> {
        let event = command.into_event(self.time_ms);
        let id = self.next_event_id;
        match &mut self.phase {
            Phase::Broken(fault) => return Err(fault.as_ref().clone()),
            Phase::Replaying(_) => return Ok(self.replay_command(&event)?),
            // A command after the end has no effect: the code can still run `finally` blocks.
            Phase::Ended(_) | Phase::Continued(_) | Phase::Terminated => return Ok(id),
            Phase::Live => {}
        }
        self.check_limits(&event)?;
        self.turn.commands = self.turn.commands.saturating_add(1);
        self.record(event.clone(), self.time_ms);
        self.apply_command(id, event);
        Ok(id)
    }

    /// Returns the next step, once all fibers wait. `waits` lists the awaited mailboxes, timers and sent operations;
    /// open activities and children are always awaited.
    ///
    /// # Errors
    ///
    /// [`Fault`] if history went on differently here, or a limit is reached; the engine is broken from then on (E4).
    pub fn next(&mut self, waits: impl Into<Waits>, now_ms: i64) -> Result<Step, Fault> {
        match self.next_recorded(waits)? {
            Some(step) => Ok(step),
            None => Ok(self.live_next(now_ms)?),
        }
    }

    /// Returns the next step as [`next`](Self::next) does, but from history alone; `None`: the code has been through
    /// all of it. A caller that only replays an execution stops there, before anything that is due would be delivered.
    ///
    /// # Errors
    ///
    /// [`Fault`] as in `next`.
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

    /// Delivers a waiting request to cancel although the code does not wait. Returns the delivery and the deterministic
    /// time from here on.
    ///
    /// Code that never waits would never hear of the request, for example executions that follow each other, or
    /// commands without a wait between them. The driver calls this at the same points of the code each time. History
    /// holds the point at which there was a request, and a replay delivers the request at that point.
    pub fn interrupt(&mut self, now_ms: i64) -> Option<(Delivery, i64)> {
        match &self.phase {
            Phase::Live => self.live_interruption(now_ms),
            Phase::Replaying(_) => self.replay_interruption(),
            Phase::Broken(_) | Phase::Ended(_) | Phase::Continued(_) | Phase::Terminated => None,
        }
    }

    /// Ends the execution: the code returned or threw.
    ///
    /// # Errors
    ///
    /// [`Fault`] if history goes on here; the engine is broken from then on (E4).
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

    /// First event of the next execution, if this one [continued as new](Terminal::ContinuedAsNew).
    #[must_use]
    pub fn next_execution(&self) -> Option<&Event> {
        match &self.phase {
            Phase::Continued(next) => Some(next),
            _ => None,
        }
    }

    /// Ends the turn and returns its output.
    pub fn end_turn(&mut self) -> TurnOutput {
        let Turn {
            events,
            consumed,
            mut cross_instance,
            never_started,
            status_before,
            stopped,
            ..
        } = mem::take(&mut self.turn);
        let custom_status = status_before
            .filter(|before| *before != self.custom_status)
            .map(|_| self.custom_status.clone());
        cross_instance.leave_out(&never_started);
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
            cross_instance: (!cross_instance.is_empty()).then(|| Box::new(cross_instance)),
            effects,
            waiting,
        }
    }

    // ---- shared by live and replaying ----

    fn go_live(&mut self) {
        self.phase = Phase::Live;
        self.durable_to = self.next_event_id;
        self.operations.go_live();
    }

    /// Returns `now_ms`, or the deterministic time if that is later. A clock that was set back must not make time run
    /// backwards inside an execution.
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

    /// Returns the next awaited event that needs no completion from outside. A confirmation comes first: that of a
    /// start or message which is durable by now. Then comes the timer that has been due for longest.
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
                    self.turn.cross_instance.messages.push(TurnMessage {
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
            self.turn.cross_instance.starts.push(TurnStart {
                scheduled,
                is_child,
                start,
            });
        }
    }

    /// Applies a delivery or a bookkeeping event. Returns the delivery, which is for the code; `None` for bookkeeping.
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
            // The event is taken before the code runs. One that follows a refused page no longer changes anything.
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
