//! The surroundings of the engine: the store, the activities, the clock, and the runtime that gives it turns.

use std::collections::{BTreeMap, HashMap};

use perdure_engine::{
    Awaited, Budget, Completion, Effect, Engine, EventId, EventKind, EventRecord, ExecutionId, ExecutionStarted, Fault,
    Incarnation, Limits, Message, MessageBody, MessageSeq, Payload, Start, StateValues, Step, TurnOutput, Waiting,
};

use super::START_MS;
use super::code::{Code, Line};
use super::script::{Outside, Script, What, resolve};

/// Attempts that were started outside and are not over: the number of each, and its earliest start.
type Attempts = BTreeMap<EventId, (u32, i64)>;

/// All state that outlives a turn. Another worker finds a clone of it.
#[derive(Clone, Debug)]
pub(crate) struct World<'a> {
    script: &'a Script,
    budget: Budget,
    pub(crate) limits: Limits,
    pub(crate) now_ms: i64,
    /// Next place in the script's list of events from outside.
    next: usize,
    pub(crate) history: Vec<EventRecord>,
    pub(crate) status: Payload,
    pub(crate) messages: Vec<Message>,
    last_seq: u64,
    last: Option<Completion>,
    /// Settled activities that no event records yet, because the budget of a turn was used up.
    unrecorded: Vec<Completion>,
    pub(crate) attempts: Attempts,
    /// True if an attempt ended that was not running. No runtime reports that, so the attempts that then run outside
    /// are unknown.
    pub(crate) has_unknown_attempts: bool,
    pub(crate) vars: HashMap<String, EventId>,
    pub(crate) waiting: Waiting,
    /// True if the execution waits and can already go on: an operation that it sent is durable now.
    pub(crate) is_ready: bool,
}

/// A turn that was stored.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) now_ms: i64,
    pub(crate) lines: Vec<Line>,
    pub(crate) output: TurnOutput,
}

/// An engine and the code that it drives.
#[derive(Clone, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) engine: Engine,
    pub(crate) code: Code<'a>,
}

/// Parameters with which an engine is brought back from its history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// Events in a page.
    pub(crate) page: usize,
    /// Deliveries in a turn of the replay.
    pub(crate) replayed: u32,
    /// True if the next event from outside comes during the replay.
    pub(crate) early: bool,
    /// True if the activities went down with the former worker.
    pub(crate) crashed: bool,
}

/// The whole history at once.
pub(crate) const WHOLE: Way = Way {
    page: usize::MAX,
    replayed: u32::MAX,
    early: false,
    crashed: true,
};

impl<'a> World<'a> {
    pub(crate) fn new(script: &'a Script, budget: Budget) -> Self {
        let start = ExecutionStarted {
            name: "order".into(),
            version: "1.0.0".into(),
            input: Some("{\"total\":12}".into()),
            seed: 7,
            incarnation: Some(Incarnation(0xA5)),
            parent: None,
            custom_status: None,
            state: StateValues::new(),
            closed_streams: Default::default(),
            time_limit: script.time_limit.clone(),
            trace: None,
        };
        Self {
            script,
            budget,
            limits: Limits::default(),
            now_ms: START_MS,
            next: 0,
            history: vec![EventRecord::new(EventId::FIRST, START_MS, start)],
            status: None,
            messages: Vec::new(),
            last_seq: 0,
            last: None,
            unrecorded: Vec::new(),
            attempts: Attempts::new(),
            has_unknown_attempts: false,
            vars: HashMap::new(),
            waiting: Waiting::More,
            is_ready: false,
        }
    }

    /// Deploys other code.
    pub(crate) fn replace_script(&mut self, script: &'a Script) {
        self.script = script;
    }

    /// Begins with the first worker.
    pub(crate) fn begin(&self) -> Run<'a> {
        let start = Start {
            execution: ExecutionId::FIRST,
            history: self.history.clone(),
            complete: true,
            fresh: true,
            budget: self.budget,
        };
        Run {
            engine: Engine::new(start)
                .expect("a new history is sound")
                .with_limits(self.limits),
            code: Code::new(&self.script.program),
        }
    }

    /// Begins with another worker, which loads the state of the store.
    pub(crate) fn load(&mut self, way: Way) -> Run<'a> {
        let history: Vec<EventRecord> = self.history.iter().take(way.page).cloned().collect();
        let complete = history.len() < way.page;
        let budget = Budget {
            replayed: way.replayed,
            ..self.budget
        };
        let engine = Engine::new(Start {
            execution: ExecutionId::FIRST,
            history,
            complete,
            fresh: false,
            budget,
        })
        .expect("a stored history is sound")
        .with_limits(self.limits);
        let mut run = Run {
            engine,
            code: Code::new(&self.script.program),
        };
        self.feed(&mut run.engine, way.page);
        for message in &self.messages {
            run.engine.offer(Completion::Message(message.clone()));
        }
        for completion in &self.unrecorded {
            run.engine.offer(completion.clone());
        }
        if way.crashed {
            self.attempts.clear();
        }
        if way.early {
            self.offer_next(&mut run.engine);
        }
        run
    }

    /// Loads pages for as long as the engine asks for them, as the runtime does.
    fn feed(&self, engine: &mut Engine, page: usize) {
        while let Some(from) = engine.needs_history() {
            let begin = usize::try_from(from.0).expect("a small number") - 1;
            let events: Vec<EventRecord> = self.history[begin..].iter().take(page).cloned().collect();
            let complete = events.len() < page;
            engine
                .extend_history(events, complete)
                .expect("a stored history is sound");
        }
    }

    /// Runs one turn, and all further turns into which a replay is cut.
    pub(crate) fn turn(&mut self, run: &mut Run<'a>, page: usize) -> Result<Turn, Fault> {
        let mut lines = Vec::new();
        loop {
            run.drive(self.now_ms, &mut lines)?;
            let was_replaying = run.engine.is_replaying();
            let output = run.engine.end_turn();
            if !was_replaying || run.code.has_ended() {
                self.store(run, &output);
                return Ok(Turn {
                    now_ms: self.now_ms,
                    lines,
                    output,
                });
            }
            assert!(
                output.is_empty() && output.effects.is_empty(),
                "a replay stores nothing and starts nothing: {output:?}"
            );
            match output.waiting {
                Waiting::More => {}
                Waiting::History { .. } => self.feed(&mut run.engine, page),
                other => panic!("a replay cannot stop with {other:?}"),
            }
        }
    }

    /// True if the execution has ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.waiting, Waiting::Ended(_))
    }

    /// Replays until no step is left, without storing anything. Returns the waits of the code at the end.
    pub(crate) fn replay(&self, run: &mut Run<'a>, page: usize) -> Result<Awaited, Fault> {
        loop {
            match run.replay_turn(self.now_ms)? {
                Waiting::More => {}
                Waiting::History { .. } => self.feed(&mut run.engine, page),
                Waiting::Outside { .. } | Waiting::Ended(_) => return Ok(run.code.awaited()),
            }
        }
    }

    /// Commits a turn and carries out its effects.
    fn store(&mut self, run: &Run<'a>, output: &TurnOutput) {
        assert_eq!(
            output.next_event_id.0,
            self.history.len() as u64 + 1,
            "event ids have no gap (E1)"
        );
        for (record, id) in output.events.iter().zip(output.next_event_id.0..) {
            assert_eq!(record.event_id.0, id, "event ids have no gap (E1)");
            if matches!(
                record.kind,
                EventKind::ActivityCompleted | EventKind::ActivityFailed | EventKind::ActivityAttemptFailed
            ) {
                let place = self.unrecorded.iter().position(|c| scheduled(c) == record.ref_id);
                // The result of an attempt on another worker comes as a message, which is consumed.
                match place {
                    Some(place) => drop(self.unrecorded.remove(place)),
                    None => assert!(!output.consumed.is_empty(), "what is recorded was offered"),
                }
                record.ref_id.map(|id| self.attempts.remove(&id));
            }
            self.history.push(record.clone());
        }
        for seq in &output.consumed {
            let place = self.messages.iter().position(|m| m.seq == *seq);
            self.messages.remove(place.expect("what is consumed was offered, once"));
        }
        if let Some(status) = &output.custom_status {
            self.status = status.clone();
        }
        for effect in &output.effects {
            self.carry_out(effect);
        }
        if output.waiting != Waiting::More {
            // The engine has taken all completions; the ones that are left came for closed operations (E5).
            self.unrecorded.clear();
        }
        self.vars.clone_from(&run.code.vars);
        self.waiting = output.waiting.clone();
        self.is_ready = run.engine.is_runnable(self.now_ms);
        match self.waiting {
            Waiting::Outside { open_activities, .. } => {
                assert_eq!(open_activities, self.attempts.len(), "open activities run")
            }
            Waiting::Ended(_) => assert!(self.attempts.is_empty(), "no activity outlives its execution"),
            Waiting::More | Waiting::History { .. } => {}
        }
        if !matches!(self.waiting, Waiting::Ended(_)) {
            assert_eq!(
                run.engine.custom_status(),
                &self.status,
                "the status is stored with the turn"
            );
        }
    }

    fn carry_out(&mut self, effect: &Effect) {
        match effect {
            Effect::StartActivity {
                task,
                attempt,
                not_before_ms,
                ..
            } => {
                let known = self.attempts.insert(task.scheduled, (*attempt, *not_before_ms));
                assert!(
                    known.is_none_or(|known| known == (*attempt, *not_before_ms)),
                    "one attempt at a time"
                );
            }
            // The attempt may be unknown here: it is over by now, or its worker went down.
            Effect::AbortActivity { scheduled } => {
                self.attempts.remove(scheduled);
            }
        }
    }

    /// Lets time pass until the engine has something to do. `false`: nothing happens any more.
    pub(crate) fn wait(&mut self, run: &mut Run<'a>) -> bool {
        loop {
            match self.waiting {
                Waiting::Outside { .. } if self.is_ready => return true,
                Waiting::More => return true,
                Waiting::Ended(_) | Waiting::History { .. } => return false,
                Waiting::Outside { timer_at_ms, .. } => {
                    let next = self.next_at_ms();
                    match (timer_at_ms, next) {
                        (None, None) => return false,
                        (Some(timer), next) if next.is_none_or(|next| timer <= next) => {
                            self.now_ms = timer;
                            assert!(run.engine.is_runnable(self.now_ms), "an awaited timer is due");
                            return true;
                        }
                        _ => self.offer_next(&mut run.engine),
                    }
                }
            }
            if run.engine.is_runnable(self.now_ms) {
                return true;
            }
            let mut probe = run.clone();
            let step = probe
                .engine
                .next(run.code.awaited(), self.now_ms)
                .expect("no history is left to differ from");
            assert_eq!(step, Step::Wait, "an engine that is not runnable has nothing to do");
            assert!(
                probe.engine.end_turn().is_empty(),
                "an engine that is not runnable has nothing to do"
            );
        }
    }

    /// Returns true if the next event is one of the script's events from outside.
    pub(crate) fn is_next_outside(&self) -> bool {
        match (&self.waiting, self.next_at_ms()) {
            (Waiting::Outside { timer_at_ms, .. }, Some(next)) if !self.is_ready => {
                timer_at_ms.is_none_or(|timer| next < timer)
            }
            _ => false,
        }
    }

    fn next_at_ms(&self) -> Option<i64> {
        self.script
            .outside
            .get(self.next)
            .map(|outside| START_MS + outside.at_ms)
    }

    /// Offers the events of a time that have not happened yet, and skips earlier ones.
    pub(crate) fn offer_all_at(&mut self, at_ms: i64, engine: &mut Engine) {
        let next = self.script.outside.iter().position(|outside| outside.at_ms == at_ms);
        self.next = next.expect("something happens then");
        self.offer_next(engine);
    }

    fn offer_next(&mut self, engine: &mut Engine) {
        let Some(first) = self.script.outside.get(self.next) else {
            return;
        };
        self.now_ms = START_MS + first.at_ms;
        while let Some(outside) = self.script.outside.get(self.next).filter(|o| o.at_ms == first.at_ms) {
            self.next += 1;
            if let Some(completion) = self.completion(outside) {
                self.take_in(&completion);
                engine.offer(completion);
            }
        }
    }

    fn completion(&mut self, outside: &Outside) -> Option<Completion> {
        let completion = match &outside.what {
            What::Complete { activity, output } => Completion::ActivityCompleted {
                scheduled: resolve(&self.vars, activity),
                output: output.clone(),
            },
            What::Fail {
                activity,
                error,
                codes,
                fatal,
                after_ms,
            } => Completion::AttemptFailed {
                scheduled: resolve(&self.vars, activity),
                error: Some(format!("\"{error}\"")),
                error_name: error.clone(),
                error_codes: codes.clone(),
                non_retryable: *fatal,
                retry_after_ms: *after_ms,
            },
            What::Mail { mailbox, payload } => {
                let (mailbox, payload) = (mailbox.clone(), payload.clone());
                self.message(MessageBody::Mail { mailbox, payload })
            }
            What::Settled {
                scheduled,
                execution,
                settlement,
            } => self.message(MessageBody::Settled {
                execution: *execution,
                scheduled: resolve(&self.vars, scheduled),
                settlement: settlement.clone(),
            }),
            What::Cancel { reason } => self.message(MessageBody::Cancel { reason: reason.clone() }),
            What::Again => self.last.clone()?,
            What::Look => return None,
        };
        self.last = Some(completion.clone());
        Some(completion)
    }

    fn message(&mut self, body: MessageBody) -> Completion {
        self.last_seq += 1;
        Completion::Message(Message {
            seq: MessageSeq(self.last_seq),
            body,
        })
    }

    fn take_in(&mut self, completion: &Completion) {
        match completion {
            Completion::Message(message) => {
                if self.messages.iter().all(|m| m.seq != message.seq) {
                    self.messages.push(message.clone());
                }
            }
            activity => {
                let id = scheduled(activity).expect("it belongs to a schedule");
                self.has_unknown_attempts |= self.attempts.remove(&id).is_none();
                self.unrecorded.push(activity.clone());
            }
        }
    }
}

fn scheduled(completion: &Completion) -> Option<EventId> {
    match completion {
        Completion::ActivityCompleted { scheduled, .. } | Completion::AttemptFailed { scheduled, .. } => {
            Some(*scheduled)
        }
        Completion::Message(_) => None,
    }
}

impl Run<'_> {
    /// Runs one turn, without storing it.
    pub(crate) fn replay_turn(&mut self, now_ms: i64) -> Result<Waiting, Fault> {
        self.drive(now_ms, &mut Vec::new())?;
        Ok(self.engine.end_turn().waiting)
    }

    /// Drives the code in a turn, as the driver does.
    fn drive(&mut self, now_ms: i64, lines: &mut Vec<Line>) -> Result<(), Fault> {
        loop {
            self.code.run(&mut self.engine, lines)?;
            if self.code.has_ended() {
                return Ok(());
            }
            match self.engine.next(self.code.waits(), now_ms)? {
                Step::Deliver { delivery, time_ms } => {
                    assert_eq!(time_ms, self.engine.time_ms());
                    self.code.deliver(&mut self.engine, delivery, lines)?;
                }
                Step::Wait | Step::Budget | Step::NeedHistory => return Ok(()),
            }
        }
    }
}
