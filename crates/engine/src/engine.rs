//! The engine of one execution: it replays the history first and is live from then on.
//!
//! This file owns the phase and the calls of the driver. Its folder owns the turn in progress (`turn`), what each event
//! does to the engine (`transitions`), the waits (`waits`), the time limit (`deadline`), the patches (`patches`) and
//! each of the two working phases (`replaying`, `live`). Other files own the open operations (`operations`), the
//! completions that were not delivered yet (`inbox`) and the history that is still to be replayed (`replay_queue`).
//!
//! | from | on | to |
//! |---|---|---|
//! | | [`Engine::new`] of a fresh execution | `Live` |
//! | | [`Engine::new`] with a history | `Replaying` |
//! | `Replaying` | the code waits where the last page ends | `Live` |
//! | `Replaying` | the code departs from history | `Broken` |
//! | `Replaying` | the code has reached a termination | `Terminated` |
//! | `Live` | an event would exceed a limit | `Broken` |
//! | `Replaying`, `Live` | [`Engine::finish`] with the next execution | `Continued` |
//! | `Replaying`, `Live` | [`Engine::finish`] otherwise | `Ended` |
//!
//! `Broken`, `Ended`, `Continued` and `Terminated` are final: a later call of the driver changes nothing.

mod asks;
mod deadline;
mod live;
mod patches;
mod replaying;
mod transitions;
mod turn;
mod waits;

use std::collections::BTreeMap;
use std::mem;

pub use turn::Budget;
use turn::{StopReason, Turn};

use crate::inbox::Inbox;
use crate::limits::Growth;
use crate::operations::Operations;
use crate::random::Random;
use crate::replay_queue::{Recorded, ReplayQueue};
use crate::state::State;
use crate::stream::Streams;
use crate::time_limit::Deadline;
use crate::{
    Bug, Command, CommandEvent, Delivery, EndEvent, Event, EventId, EventKind, EventRecord, ExecutionId,
    ExecutionStarted, Fault, Incarnation, Limits, Outcome, ParentLink, Payload, RecordError, StateChange, StateValues,
    Step, StreamKeep, Terminal, Waits, is_planted,
};

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

#[derive(Clone, Debug)]
enum Phase {
    Replaying(ReplayQueue),
    Live,
    /// E4.
    Broken(Box<Fault>),
    /// The code ended.
    Ended(Terminal),
    /// The code ended, and the instance continues with the next execution, which begins with this event.
    Continued(Box<ExecutionStarted>),
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
    /// True if the start left the version open, and no turn has recorded it yet.
    records_version: bool,
    input: Payload,
    parent: Option<Box<ParentLink>>,
    random: Random,
    /// Id of the next event: recorded when live, consumed when replaying.
    next_event_id: EventId,
    /// Everything before this event is durable.
    durable_to: EventId,
    /// Bytes of the values in the history so far.
    history_bytes: u64,
    /// The event that follows and the number of lines that the code has logged before it: see
    /// [`Engine::next_line`].
    lines: (EventId, u32),
    time_ms: i64,
    operations: Operations,
    custom_status: Payload,
    state: State,
    streams: Streams,
    trace: Option<Box<str>>,
    deadline: Option<Box<Deadline>>,
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
        let mut queue = ReplayQueue::new();
        queue.extend(start.history, start.complete)?;
        let Some(Recorded {
            time_ms,
            event: Event::Started(started),
            ..
        }) = queue.pop()
        else {
            let problem = "the history does not begin with ExecutionStarted".into();
            return Err(RecordError {
                event_id: EventId::FIRST,
                kind,
                problem,
            });
        };
        let is_live = start.fresh && queue.front().is_none();
        let mut engine = Self {
            phase: Phase::Replaying(queue),
            budget: start.budget,
            execution: start.execution,
            incarnation: started.incarnation,
            limits: Limits::default(),
            name: started.name,
            version: started.version,
            records_version: false,
            history_bytes: started.input.as_ref().map_or(0, String::len) as u64,
            lines: (EventId::FIRST, 0),
            input: started.input,
            parent: started.parent.map(Box::new),
            random: Random::new(started.seed),
            next_event_id: EventId::FIRST.next(),
            durable_to: EventId::FIRST.next(),
            time_ms,
            operations: Operations::default(),
            custom_status: started.custom_status,
            state: State::new(started.state),
            streams: Streams::new(started.closed_streams),
            trace: started.trace.map(String::into_boxed_str),
            deadline: started.time_limit.map(|limit| Box::new(Deadline::new(limit, time_ms))),
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
            self.records_version = true;
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

    /// Returns the place of a line that the code logs at this point: the event that follows in the history, and the
    /// number of the line among those before this event, from 0. The place is the same in a replay.
    pub const fn next_line(&mut self) -> (EventId, u32) {
        if self.lines.0.0 != self.next_event_id.0 {
            self.lines = (self.next_event_id, 0);
        }
        let place = self.lines;
        self.lines.1 = place.1.saturating_add(1);
        place
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

    /// The custom status as the code sees it at this point.
    #[must_use]
    pub const fn custom_status(&self) -> &Payload {
        &self.custom_status
    }

    /// The state as the code sees it at this point.
    #[must_use]
    pub fn state(&self) -> &StateValues {
        self.state.values()
    }

    /// Trace context of the start of the instance.
    #[must_use]
    pub fn trace(&self) -> Option<&str> {
        self.trace.as_deref()
    }

    /// Notes the fiber of the last recorded event (see [`EventRecord::set_fiber`]). Does nothing while replaying.
    pub fn set_fiber(&mut self, fiber: u32) {
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

    /// Changes a value of the state. It is stored with the turn if it differs at the end of the turn, unless this is a
    /// replay.
    pub fn change_state(&mut self, change: &StateChange) {
        self.state.change(change, matches!(self.phase, Phase::Live));
    }

    /// Writes an entry to a stream. It is stored with the turn, unless this is a replay. Returns false, and writes
    /// nothing, if the stream is closed.
    pub fn write_stream(&mut self, stream: &str, keep: StreamKeep, entry: &Payload) -> bool {
        let is_stored = matches!(self.phase, Phase::Live) || is_planted(Bug::StreamWrittenAgain);
        let is_open = self.streams.write(stream, keep, entry, is_stored);
        if is_stored && is_open {
            self.turn.bytes += entry.as_ref().map_or(0, String::len) as u64;
        }
        is_open
    }

    /// Closes a stream for good. Does nothing if it is closed.
    pub fn close_stream(&mut self, stream: &str) {
        self.streams.close(stream, matches!(self.phase, Phase::Live));
    }

    /// Returns the first event of the page that must be here before the code may run. To be asked after [`Engine::new`]
    /// and after each page, until it is `None`. Commands up to the next wait are checked without waiting for a page.
    #[must_use]
    pub fn needs_history(&self) -> Option<EventId> {
        match &self.phase {
            Phase::Replaying(queue) if !queue.reaches_next_wait() => Some(queue.next_page()),
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
            Phase::Replaying(queue) => queue.extend(page, complete)?,
            _ => return Ok(()),
        }
        self.replay_begin();
        Ok(())
    }

    /// Issues a command of the code. Returns its id.
    ///
    /// # Errors
    ///
    /// [`Fault`] if history holds something else here, or a limit is reached; the engine is broken from then on (E4).
    pub fn issue(&mut self, command: Command) -> Result<EventId, Fault> {
        let command = command.into_event(self.time_ms);
        let id = self.next_event_id;
        if let CommandEvent::OperationCancelled { scheduled } = command
            && matches!(self.phase, Phase::Live | Phase::Replaying(_))
            && self.operations.is_timer(scheduled)
            && !self.has_next(&command)
        {
            // Nothing outside the engine knows of the timer. An earlier release recorded its cancellation.
            self.operations.cancel(scheduled);
            return Ok(scheduled);
        }
        match &mut self.phase {
            Phase::Broken(fault) => return Err(fault.as_ref().clone()),
            Phase::Replaying(_) => return Ok(self.replay_command(&command)?),
            // A command after the end has no effect: the code can still run `finally` blocks.
            Phase::Ended(_) | Phase::Continued(_) | Phase::Terminated => return Ok(id),
            Phase::Live => {}
        }
        self.check_limits(Growth {
            is_activity: matches!(command, CommandEvent::ActivityScheduled { .. }),
            ..Growth::by_value(command.payload())
        })?;
        self.turn.commands = self.turn.commands.saturating_add(1);
        self.record(command.clone(), self.time_ms);
        self.apply_command(id, command);
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
            None => {
                if self.is_replaying() {
                    self.go_live();
                }
                Ok(self.live_next(now_ms)?)
            }
        }
    }

    /// Returns the next step as [`next`](Self::next) does, but from history alone; `None`: the code has been through
    /// all of it. A caller that only replays an execution stops there, before anything that is due would be delivered.
    /// It may [append](Self::extend_history) what was written since, and go on.
    ///
    /// # Errors
    ///
    /// [`Fault`] as in `next`.
    pub fn next_recorded(&mut self, waits: impl Into<Waits>) -> Result<Option<Step>, Fault> {
        self.wait(waits.into());
        self.has_waited = true;
        self.turn.stopped = StopReason::Waiting;
        match &self.phase {
            Phase::Broken(fault) => Err(fault.as_ref().clone()),
            Phase::Ended(_) | Phase::Continued(_) | Phase::Terminated => Ok(Some(Step::Wait)),
            Phase::Replaying(_) => Ok(self.replay_next()?),
            Phase::Live => Ok(None),
        }
    }

    /// Delivers a waiting request to cancel, or that of the time limit, although the code does not wait. Returns the
    /// delivery and the deterministic time from here on.
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
        let (end, ended) = match outcome {
            Outcome::Completed(output) => (
                EndEvent::ExecutionCompleted { output },
                Phase::Ended(Terminal::Completed),
            ),
            Outcome::Failed(error) => (EndEvent::ExecutionFailed { error }, Phase::Ended(Terminal::Failed)),
            Outcome::Cancelled(error) => (
                EndEvent::ExecutionCancelled { error },
                Phase::Ended(Terminal::Cancelled),
            ),
            Outcome::ContinuedAsNew { input, version } => self.continue_as_new(input, version),
        };
        match &mut self.phase {
            Phase::Broken(fault) => return Err(fault.as_ref().clone()),
            Phase::Ended(_) | Phase::Continued(_) | Phase::Terminated => return Ok(()),
            Phase::Replaying(_) => {
                if !self.replay_end(&end)? {
                    return Ok(());
                }
            }
            Phase::Live => {
                self.record(end, self.time_ms);
            }
        }
        for child in self.operations.cancel_all() {
            self.turn.cancel_child(child);
        }
        self.phase = ended;
        Ok(())
    }

    fn continue_as_new(&self, input: Payload, version: Option<String>) -> (EndEvent, Phase) {
        let version = version.unwrap_or_else(|| self.version.clone());
        let next = ExecutionStarted {
            name: self.name.clone(),
            version: version.clone(),
            input: input.clone(),
            seed: self.random.next_seed(),
            incarnation: self.incarnation,
            parent: self.parent.as_deref().cloned(),
            custom_status: self.custom_status.clone(),
            state: if is_planted(Bug::StateForgottenOnContinue) {
                StateValues::new()
            } else {
                self.state.values().clone()
            },
            closed_streams: self.streams.closed().clone(),
            time_limit: (self.deadline.as_deref())
                .filter(|_| !is_planted(Bug::LimitForgottenOnContinue))
                .map(Deadline::for_next),
            trace: self.trace().map(str::to_owned),
        };
        (
            EndEvent::ExecutionContinuedAsNew { input, version },
            Phase::Continued(Box::new(next)),
        )
    }

    /// Start of the next execution, if this one [continued as new](Terminal::ContinuedAsNew).
    #[must_use]
    pub fn next_execution(&self) -> Option<&ExecutionStarted> {
        match &self.phase {
            Phase::Continued(next) => Some(next),
            _ => None,
        }
    }

    fn go_live(&mut self) {
        self.phase = Phase::Live;
        self.durable_to = self.next_event_id;
        self.operations.go_live();
    }

    const fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live)
    }

    /// Returns `now_ms`, or the deterministic time if that is later. A clock that was set back must not make time run
    /// backwards inside an execution.
    fn monotonic(&self, now_ms: i64) -> i64 {
        now_ms.max(self.time_ms)
    }
}
