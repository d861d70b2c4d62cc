//! One execution: replayed from its history first, then live.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use crate::activity::ActivityOptions;
use crate::event::Role;
use crate::mismatch::{Attempt, difference};
use crate::random::Random;
use crate::replay::{Recorded, Tape};
use crate::turn::ActivityTask;
use crate::{
    Awaited, Command, Completion, Delivery, Effect, Event, EventId, EventKind, EventRecord, Mailbox, Message,
    MessageBody, MessageSeq, Mismatch, Outcome, Payload, RecordError, Step, Terminal, TurnOutput, Waiting,
};

/// How much one turn may do before others get theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Completions delivered in one turn while live.
    pub deliveries: u32,
    /// Completions delivered in one turn while replaying.
    pub replayed: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            deliveries: 256,
            replayed: 4_096,
        }
    }
}

/// What an engine starts from.
#[derive(Clone, Debug)]
pub struct Start {
    /// First page of the history, from `ExecutionStarted` on.
    pub history: Vec<EventRecord>,
    /// Whether that page is all of it.
    pub complete: bool,
    /// Whether no turn was committed yet: nothing after event 1 has run.
    pub fresh: bool,
    /// Budget of each turn.
    pub budget: Budget,
}

/// An operation that is not settled.
#[derive(Clone, Debug)]
enum Open {
    Activity {
        task: Arc<ActivityTask>,
        attempt: u32,
        not_before_ms: i64,
        handed_out: bool,
    },
    Timer {
        fire_at_ms: i64,
    },
}

#[derive(Clone, Debug)]
enum Phase {
    Replaying(Tape),
    Live,
    /// E4.
    Broken(Mismatch),
    Ended(Terminal),
}

/// The engine of one execution. See the crate's invariants.
#[derive(Clone, Debug)]
pub struct Engine {
    phase: Phase,
    budget: Budget,
    name: String,
    version: String,
    input: Payload,
    seed: u64,
    random: Random,
    /// Id of the next event: recorded when live, consumed when replaying.
    next_event_id: EventId,
    time_ms: i64,
    open: BTreeMap<EventId, Open>,
    open_activities: usize,
    custom_status: Payload,
    awaited: Awaited,
    ready: VecDeque<Completion>,
    mail: HashMap<Mailbox, VecDeque<(MessageSeq, Payload)>>,
    cancels: VecDeque<(MessageSeq, Payload)>,
    turn: Turn,
}

/// What the turn in progress has done so far.
#[derive(Clone, Debug, Default)]
struct Turn {
    events: Vec<EventRecord>,
    consumed: Vec<MessageSeq>,
    custom_status: Option<Payload>,
    /// Activities that got something to do, in order of schedule or retry.
    to_start: Vec<EventId>,
    aborts: Vec<EventId>,
    deliveries: u32,
    replayed: u32,
    stopped: Stopped,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stopped {
    #[default]
    Waiting,
    Budget,
    NeedHistory,
}

impl Engine {
    /// An engine at the beginning of an execution.
    ///
    /// # Errors
    ///
    /// [`RecordError`] when the history cannot be read or does not begin with `ExecutionStarted`.
    pub fn new(start: Start) -> Result<Self, RecordError> {
        let mut tape = Tape::default();
        tape.extend(start.history, start.complete)?;
        let no_start = |kind| RecordError {
            event_id: EventId::FIRST,
            kind,
            problem: "the history does not begin with ExecutionStarted".into(),
        };
        let first = tape.pop().ok_or_else(|| no_start(EventKind::ExecutionStarted))?;
        let Event::ExecutionStarted {
            name,
            version,
            input,
            seed,
            ..
        } = first.event
        else {
            return Err(no_start(EventRecord::new(first.id, first.time_ms, first.event).kind));
        };
        Ok(Self {
            phase: if start.fresh {
                Phase::Live
            } else {
                Phase::Replaying(tape)
            },
            budget: start.budget,
            name,
            version,
            input,
            seed,
            random: Random::new(seed),
            next_event_id: EventId::FIRST.next(),
            time_ms: first.time_ms,
            open: BTreeMap::new(),
            open_activities: 0,
            custom_status: None,
            awaited: Awaited::default(),
            ready: VecDeque::new(),
            mail: HashMap::new(),
            cancels: VecDeque::new(),
            turn: Turn::default(),
        })
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
    pub fn input(&self) -> &Payload {
        &self.input
    }

    /// Deterministic time, ms since 1970: that of the last event delivered.
    #[must_use]
    pub fn time_ms(&self) -> i64 {
        self.time_ms
    }

    /// Id that the next event will get, or that the replay has come to.
    #[must_use]
    pub fn next_event_id(&self) -> EventId {
        self.next_event_id
    }

    /// Whether the code is being taken through what it did before (E3).
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        matches!(self.phase, Phase::Replaying(_))
    }

    /// The mismatch that broke this engine, if one did.
    #[must_use]
    pub fn mismatch(&self) -> Option<&Mismatch> {
        match &self.phase {
            Phase::Broken(mismatch) => Some(mismatch),
            _ => None,
        }
    }

    /// A deterministic number in 0..1.
    pub fn random(&mut self) -> f64 {
        self.random.unit()
    }

    /// A deterministic version 4 UUID.
    pub fn random_uuid(&mut self) -> String {
        self.random.uuid()
    }

    /// The custom status as the code sees it here.
    #[must_use]
    pub fn custom_status(&self) -> &Payload {
        &self.custom_status
    }

    /// Set or reset the custom status; stored with the turn unless this is a replay.
    pub fn set_custom_status(&mut self, value: Payload) {
        if self.custom_status == value {
            return;
        }
        if matches!(self.phase, Phase::Live) {
            self.turn.custom_status = Some(value.clone());
        }
        self.custom_status = value;
    }

    /// Append a page of history, after [`Step::NeedHistory`].
    ///
    /// # Errors
    ///
    /// [`RecordError`] when the page cannot be read or does not follow the one before.
    pub fn extend_history(&mut self, page: Vec<EventRecord>, complete: bool) -> Result<(), RecordError> {
        match &mut self.phase {
            Phase::Replaying(tape) => tape.extend(page, complete),
            _ => Ok(()),
        }
    }

    /// Take in something that happened outside; it is delivered when its turn comes.
    pub fn offer(&mut self, completion: Completion) {
        match completion {
            Completion::Message(Message {
                seq,
                body: MessageBody::Mail { mailbox, payload },
            }) => {
                self.mail.entry(mailbox).or_default().push_back((seq, payload));
            }
            Completion::Message(Message {
                seq,
                body: MessageBody::Cancel { reason },
            }) => self.cancels.push_back((seq, reason)),
            other => self.ready.push_back(other),
        }
    }

    /// Whether a turn would have anything to do at `now_ms`.
    #[must_use]
    pub fn is_runnable(&self, now_ms: i64) -> bool {
        match &self.phase {
            Phase::Broken(_) | Phase::Ended(_) => false,
            Phase::Replaying(_) => true,
            Phase::Live => {
                !self.ready.is_empty()
                    || !self.cancels.is_empty()
                    || self.oldest_mail().is_some()
                    || self.due_timer(now_ms).is_some()
            }
        }
    }

    /// Whether a fiber waits on a mailbox.
    #[must_use]
    pub fn awaits_message(&self) -> bool {
        !self.awaited.mailboxes.is_empty()
    }

    /// The code asks for something.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] when history holds something else here; the engine is broken from then on (E4).
    pub fn issue(&mut self, command: Command) -> Result<EventId, Mismatch> {
        let event = command.into_event(self.time_ms);
        self.skip_bookkeeping();
        match &mut self.phase {
            Phase::Broken(mismatch) => return Err(mismatch.clone()),
            Phase::Replaying(tape) => {
                let fits = tape.front().is_some_and(|recorded| {
                    std::mem::discriminant(&recorded.event) == std::mem::discriminant(&event)
                        && difference(&recorded.event, &event).is_none()
                });
                if !fits {
                    return Err(self.break_at(Attempt::Command(&event)));
                }
                let recorded = tape.pop().expect("its front was just compared");
                return Ok(self.consume(recorded, |engine, id, event| engine.apply_command(id, event)));
            }
            // What is issued after the end has no effect: the code can still run `finally` blocks.
            Phase::Ended(_) => return Ok(self.next_event_id),
            Phase::Live => {}
        }
        let id = self.record(event.clone());
        self.apply_command(id, event);
        Ok(id)
    }

    /// All fibers wait, `awaited` besides open activities: what is next?
    ///
    /// # Errors
    ///
    /// [`Mismatch`] when history went on differently here; the engine is broken from then on (E4).
    pub fn next(&mut self, awaited: Awaited, now_ms: i64) -> Result<Step, Mismatch> {
        self.awaited = awaited;
        self.turn.stopped = Stopped::Waiting;
        self.skip_bookkeeping();
        match &self.phase {
            Phase::Broken(mismatch) => return Err(mismatch.clone()),
            Phase::Ended(_) => return Ok(Step::Wait),
            Phase::Live => {}
            Phase::Replaying(tape) => match tape.front() {
                None if tape.is_complete() => self.phase = Phase::Live,
                None => return Ok(self.stop(Stopped::NeedHistory)),
                Some(recorded) if recorded.event.role() == Role::Delivery => {
                    if !tape.may_deliver() {
                        return Ok(self.stop(Stopped::NeedHistory));
                    }
                    if self.turn.replayed >= self.budget.replayed {
                        return Ok(self.stop(Stopped::Budget));
                    }
                    return self.replay_delivery();
                }
                Some(_) => return Err(self.break_at(Attempt::Wait)),
            },
        }
        if self.turn.deliveries >= self.budget.deliveries && self.is_runnable(now_ms) {
            return Ok(self.stop(Stopped::Budget));
        }
        // Monotonic: a clock that was set back must not make time run backwards inside an execution.
        let now_ms = now_ms.max(self.time_ms);
        while let Some(event) = self.take_deliverable(now_ms) {
            let id = self.record_at(event.clone(), now_ms);
            if let Some(delivery) = self.apply_delivery(event) {
                debug_assert!(id < self.next_event_id);
                self.turn.deliveries += 1;
                self.time_ms = now_ms;
                return Ok(Step::Deliver {
                    delivery,
                    time_ms: now_ms,
                });
            }
        }
        Ok(Step::Wait)
    }

    /// The code returned or threw.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] when history goes on here; the engine is broken from then on (E4).
    pub fn finish(&mut self, outcome: Outcome) -> Result<(), Mismatch> {
        let (event, terminal) = match outcome {
            Outcome::Completed(output) => (Event::ExecutionCompleted { output }, Terminal::Completed),
            Outcome::Failed(error) => (Event::ExecutionFailed { error }, Terminal::Failed),
            Outcome::Cancelled(error) => (Event::ExecutionCancelled { error }, Terminal::Cancelled),
        };
        self.skip_bookkeeping();
        match &mut self.phase {
            Phase::Broken(mismatch) => return Err(mismatch.clone()),
            Phase::Ended(_) => return Ok(()),
            Phase::Replaying(tape) => {
                let fits = tape.front().is_some_and(|recorded| {
                    std::mem::discriminant(&recorded.event) == std::mem::discriminant(&event)
                        && difference(&recorded.event, &event).is_none()
                });
                if !fits {
                    return Err(self.break_at(Attempt::End(&event)));
                }
            }
            Phase::Live => {
                self.record(event);
            }
        }
        for (id, open) in std::mem::take(&mut self.open) {
            if matches!(open, Open::Activity { handed_out: true, .. }) {
                self.turn.aborts.push(id);
            }
        }
        self.open_activities = 0;
        self.phase = Phase::Ended(terminal);
        Ok(())
    }

    /// End the turn and take what it did.
    pub fn end_turn(&mut self) -> TurnOutput {
        let turn = std::mem::take(&mut self.turn);
        let waiting = match (&self.phase, turn.stopped) {
            (Phase::Ended(terminal), _) => Waiting::Ended(*terminal),
            (_, Stopped::Budget) => Waiting::More,
            (Phase::Replaying(tape), Stopped::NeedHistory) => Waiting::History { from: tape.next_page() },
            _ => Waiting::Outside {
                open_activities: self.open_activities,
                timer_at_ms: self.next_timer(),
            },
        };
        let mut effects: Vec<Effect> = turn
            .aborts
            .into_iter()
            .map(|scheduled| Effect::AbortActivity { scheduled })
            .collect();
        // Activities found open in a replay start only when the replay has shown that the code still fits.
        if matches!(self.phase, Phase::Live) {
            for id in turn.to_start {
                if let Some(Open::Activity {
                    task,
                    attempt,
                    not_before_ms,
                    handed_out,
                }) = self.open.get_mut(&id)
                {
                    *handed_out = true;
                    effects.push(Effect::StartActivity {
                        task: Arc::clone(task),
                        attempt: *attempt,
                        not_before_ms: *not_before_ms,
                    });
                }
            }
        } else {
            self.turn.to_start = turn.to_start;
        }
        let next_event_id = turn.events.first().map_or(self.next_event_id, |e| e.event_id);
        TurnOutput {
            next_event_id,
            events: turn.events,
            consumed: turn.consumed,
            custom_status: turn.custom_status,
            effects,
            waiting,
        }
    }

    fn stop(&mut self, stopped: Stopped) -> Step {
        self.turn.stopped = stopped;
        match stopped {
            Stopped::Waiting => Step::Wait,
            Stopped::Budget => Step::Budget,
            Stopped::NeedHistory => Step::NeedHistory,
        }
    }

    fn break_at(&mut self, attempt: Attempt<'_>) -> Mismatch {
        let recorded = match &self.phase {
            Phase::Replaying(tape) => tape.front().map(|r| &r.event),
            _ => None,
        };
        let mismatch = Mismatch::new(self.next_event_id, recorded, attempt);
        self.phase = Phase::Broken(mismatch.clone());
        mismatch
    }

    /// Append an event at the deterministic time.
    fn record(&mut self, event: Event) -> EventId {
        self.record_at(event, self.time_ms)
    }

    fn record_at(&mut self, event: Event, time_ms: i64) -> EventId {
        let id = self.next_event_id;
        self.turn.events.push(EventRecord::new(id, time_ms, event));
        self.next_event_id = id.next();
        id
    }

    /// Take a recorded event as passed.
    fn consume<T>(&mut self, recorded: Recorded, apply: impl FnOnce(&mut Self, EventId, Event) -> T) -> EventId {
        debug_assert_eq!(recorded.id, self.next_event_id);
        self.next_event_id = recorded.id.next();
        apply(self, recorded.id, recorded.event);
        recorded.id
    }

    fn skip_bookkeeping(&mut self) {
        while let Phase::Replaying(tape) = &mut self.phase
            && tape.front().is_some_and(|r| r.event.role() == Role::Bookkeeping)
        {
            let recorded = tape.pop().expect("its front was just looked at");
            self.consume(recorded, |engine, _, event| engine.apply_delivery(event));
        }
    }

    fn replay_delivery(&mut self) -> Result<Step, Mismatch> {
        let Phase::Replaying(tape) = &mut self.phase else {
            unreachable!("only called while replaying")
        };
        let front = &tape.front().expect("the caller looked at it").event;
        let awaited = match front {
            Event::MessageReceived { mailbox, .. } => self.awaited.mailboxes.contains(mailbox),
            Event::TimerFired { timer } => self.awaited.timers.contains(timer),
            Event::ActivityCompleted { scheduled, .. } | Event::ActivityFailed { scheduled, .. } => {
                matches!(self.open.get(scheduled), Some(Open::Activity { .. }))
            }
            _ => true,
        };
        if !awaited {
            return Err(self.break_at(Attempt::Wait));
        }
        let recorded = tape.pop().expect("its front was just looked at");
        let time_ms = recorded.time_ms;
        self.turn.replayed += 1;
        self.time_ms = time_ms;
        let mut delivery = None;
        self.consume(recorded, |engine, _, event| delivery = engine.apply_delivery(event));
        let delivery = delivery.expect("an event of role Delivery hands something over");
        Ok(Step::Deliver { delivery, time_ms })
    }

    /// What a command changes, live and in a replay alike.
    fn apply_command(&mut self, id: EventId, event: Event) {
        match event {
            Event::ActivityScheduled { name, input, options } => self.open_activity(id, name, input, options),
            Event::TimerCreated { fire_at_ms } => {
                self.open.insert(id, Open::Timer { fire_at_ms });
            }
            Event::OperationCancelled { scheduled } => {
                if let Some(Open::Activity { handed_out, .. }) = self.open.remove(&scheduled) {
                    self.open_activities -= 1;
                    if handed_out {
                        self.turn.aborts.push(scheduled);
                    }
                }
            }
            _ => unreachable!("only commands come here"),
        }
    }

    fn open_activity(&mut self, id: EventId, name: String, input: Payload, options: ActivityOptions) {
        let task = Arc::new(ActivityTask {
            scheduled: id,
            name,
            input,
            options,
        });
        self.open.insert(
            id,
            Open::Activity {
                task,
                attempt: 1,
                not_before_ms: 0,
                handed_out: false,
            },
        );
        self.open_activities += 1;
        self.turn.to_start.push(id);
    }

    fn close_activity(&mut self, id: EventId) {
        if self.open.remove(&id).is_some() {
            self.open_activities -= 1;
        }
    }

    /// What a delivery or a bookkeeping event changes, live and in a replay alike; the former are handed to the code.
    fn apply_delivery(&mut self, event: Event) -> Option<Delivery> {
        match event {
            Event::ActivityCompleted { scheduled, output } => {
                self.close_activity(scheduled);
                Some(Delivery::Succeeded {
                    operation: scheduled,
                    value: output,
                })
            }
            Event::ActivityFailed {
                scheduled,
                attempt,
                error,
            } => {
                self.close_activity(scheduled);
                Some(Delivery::Failed {
                    operation: scheduled,
                    error,
                    attempt,
                })
            }
            Event::ActivityAttemptFailed {
                scheduled,
                attempt: failed,
                retry_at_ms,
                ..
            } => {
                if let Some(Open::Activity {
                    attempt,
                    not_before_ms,
                    handed_out,
                    ..
                }) = self.open.get_mut(&scheduled)
                {
                    *attempt = failed + 1;
                    *not_before_ms = retry_at_ms;
                    if std::mem::take(handed_out) {
                        self.turn.to_start.push(scheduled);
                    }
                }
                None
            }
            Event::TimerFired { timer } => {
                self.open.remove(&timer);
                Some(Delivery::Succeeded {
                    operation: timer,
                    value: None,
                })
            }
            Event::MessageReceived { mailbox, payload } => Some(Delivery::Message { mailbox, payload }),
            Event::CancelRequested { reason } => Some(Delivery::Cancel { reason }),
            _ => unreachable!("only deliveries and bookkeeping come here"),
        }
    }

    /// The next thing that can be recorded as delivered (or as bookkeeping) now: cancellation first, then activities in order of arrival,
    /// then the oldest awaited message, then the earliest awaited timer.
    fn take_deliverable(&mut self, now_ms: i64) -> Option<Event> {
        if let Some((seq, reason)) = self.cancels.pop_front() {
            self.turn.consumed.push(seq);
            return Some(Event::CancelRequested { reason });
        }
        while let Some(completion) = self.ready.pop_front() {
            if let Some(event) = self.event_of(completion, now_ms) {
                return Some(event);
            }
        }
        if let Some(mailbox) = self.oldest_mail().cloned() {
            let queue = self.mail.get_mut(&mailbox).expect("the oldest mail is in it");
            let (seq, payload) = queue.pop_front().expect("the oldest mail is in it");
            if queue.is_empty() {
                self.mail.remove(&mailbox);
            }
            self.turn.consumed.push(seq);
            return Some(Event::MessageReceived { mailbox, payload });
        }
        self.due_timer(now_ms).map(|timer| Event::TimerFired { timer })
    }

    /// The event that records what an activity did; `None` when nobody waits for it any more (E5).
    fn event_of(&self, completion: Completion, now_ms: i64) -> Option<Event> {
        match completion {
            Completion::ActivityCompleted { scheduled, output } => {
                matches!(self.open.get(&scheduled), Some(Open::Activity { .. }))
                    .then_some(Event::ActivityCompleted { scheduled, output })
            }
            Completion::AttemptFailed {
                scheduled,
                error,
                error_name,
                non_retryable,
                retry_after_ms,
            } => {
                let Some(Open::Activity { task, attempt, .. }) = self.open.get(&scheduled) else {
                    return None;
                };
                let attempt = *attempt;
                let policy = &task.options.retry;
                let delay = if non_retryable || policy.non_retryable.contains(&error_name) {
                    None
                } else {
                    policy
                        .delay_after(attempt, self.seed, scheduled)
                        .map(|d| retry_after_ms.unwrap_or(d).max(0))
                };
                Some(match delay {
                    Some(delay) => Event::ActivityAttemptFailed {
                        scheduled,
                        attempt,
                        error,
                        retry_at_ms: now_ms.saturating_add(delay),
                    },
                    None => Event::ActivityFailed {
                        scheduled,
                        attempt,
                        error,
                    },
                })
            }
            Completion::Message(_) => unreachable!("messages are sorted into mailboxes when they are offered"),
        }
    }

    fn oldest_mail(&self) -> Option<&Mailbox> {
        if self.mail.is_empty() {
            return None;
        }
        let oldest = |mailbox: &&Mailbox| {
            self.mail
                .get(*mailbox)
                .and_then(|queue| queue.front())
                .map(|(seq, _)| *seq)
        };
        self.awaited
            .mailboxes
            .iter()
            .filter(|m| oldest(m).is_some())
            .min_by_key(oldest)
    }

    fn awaited_timers(&self) -> impl Iterator<Item = (i64, EventId)> {
        self.awaited.timers.iter().filter_map(|id| match self.open.get(id) {
            Some(Open::Timer { fire_at_ms }) => Some((*fire_at_ms, *id)),
            _ => None,
        })
    }

    fn due_timer(&self, now_ms: i64) -> Option<EventId> {
        self.awaited_timers()
            .filter(|(at, _)| *at <= now_ms)
            .min()
            .map(|(_, id)| id)
    }

    fn next_timer(&self) -> Option<i64> {
        self.awaited_timers().map(|(at, _)| at).min()
    }
}
