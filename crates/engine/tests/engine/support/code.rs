//! The interpreter of a script's program. It stands for the driver and the user's generator.

use std::collections::HashMap;

use perdure_engine::{
    ActivityOptions, Awaited, Command, Delivery, Engine, EventId, Fault, InstanceStart, Mailbox, Outcome, Payload,
    StartConflict, Waits,
};

use super::script::{Call, End, Operation, Program, Step, Target, Value};
use super::{START_MS, since_start};

/// One action of the program or one delivery to it, and the engine's answer if this is a replay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) replaying: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Ready,
    Waiting(Vec<Target>),
    Ended,
}

#[derive(Clone, Debug)]
pub(crate) struct Code<'a> {
    program: &'a Program,
    place: usize,
    state: State,
    pub(crate) vars: HashMap<String, EventId>,
    settled: HashMap<EventId, (Payload, bool)>,
    /// The target that ended the last wait.
    winner: String,
    failed: bool,
    it: Payload,
    rounds: Vec<u32>,
    was_cancelled: bool,
    /// The operation whose success was announced as next in history.
    succeeds_next: Option<EventId>,
    /// The waits that were last reported to the engine.
    reported: Awaited,
}

fn without(all: &Awaited, others: &Awaited) -> Awaited {
    let mailboxes = all
        .mailboxes
        .iter()
        .filter(|mailbox| !others.mailboxes.contains(mailbox));
    let timers = all.timers.iter().filter(|timer| !others.timers.contains(timer));
    Awaited {
        mailboxes: mailboxes.cloned().collect(),
        timers: timers.copied().collect(),
    }
}

pub(crate) fn shown(payload: &Payload) -> &str {
    payload.as_deref().unwrap_or("none")
}

pub(crate) fn mailbox_name(mailbox: &Mailbox) -> String {
    match mailbox {
        Mailbox::Event(name) => format!("event {name}"),
        Mailbox::Queue(name) => format!("queue {name}"),
    }
}

impl Target {
    fn name(&self) -> String {
        match self {
            Target::Operation(var) => var.clone(),
            Target::Mailbox(mailbox) => mailbox_name(mailbox),
        }
    }
}

impl<'a> Code<'a> {
    pub(crate) fn new(program: &'a Program) -> Self {
        Self {
            program,
            place: 0,
            state: State::Ready,
            vars: HashMap::new(),
            settled: HashMap::new(),
            winner: String::new(),
            failed: false,
            it: None,
            rounds: Vec::new(),
            was_cancelled: false,
            succeeds_next: None,
            reported: Awaited::default(),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Returns the waits of the program, as the driver reports them.
    pub(crate) fn awaited(&self) -> Awaited {
        let mut awaited = Awaited::default();
        if let State::Waiting(targets) = &self.state {
            for target in targets {
                match target {
                    Target::Mailbox(mailbox) => awaited.mailboxes.push(mailbox.clone()),
                    // The driver knows which of its futures are delivered on demand.
                    Target::Operation(var) if self.is_on_demand(var) => awaited.timers.extend(self.vars.get(var)),
                    Target::Operation(_) => {}
                }
            }
        }
        awaited
    }

    /// Returns the changes of the waits since the last report.
    pub(crate) fn waits(&mut self) -> Waits {
        let awaited = self.awaited();
        let reported = std::mem::replace(&mut self.reported, awaited.clone());
        Waits::Changed {
            more: without(&awaited, &reported),
            no_longer: without(&reported, &awaited),
        }
    }

    fn is_on_demand(&self, var: &str) -> bool {
        self.program.steps.iter().any(|step| match step {
            Step::Operation { var: v, operation } => {
                v == var
                    && !matches!(
                        **operation,
                        Operation::Activity { .. } | Operation::Start { is_child: true, .. }
                    )
            }
            _ => false,
        })
    }

    /// Runs the program until it waits or has ended.
    pub(crate) fn run(&mut self, engine: &mut Engine, log: &mut Vec<Line>) -> Result<(), Fault> {
        while self.state == State::Ready {
            let replaying = engine.is_replaying();
            let step = &self.program.steps[self.place];
            self.place += 1;
            if let Some(text) = self.step(step, engine)? {
                log.push(Line { text, replaying });
            }
        }
        Ok(())
    }

    /// Takes a step of the program. Returns the line that says so.
    fn step(&mut self, step: &Step, engine: &mut Engine) -> Result<Option<String>, Fault> {
        match step {
            Step::Operation { var, operation } => return self.operation(engine, var, operation).map(Some),
            Step::Call(call) => return Ok(Some(self.call(engine, call))),
            Step::End(end) => return self.return_or_throw(engine, end).map(Some),
            Step::Await(targets) => return Ok(self.wait(targets)),
            Step::Cancel(var) => {
                let scheduled = self.vars[var];
                // The driver gives up only pending operations.
                if self.settled.contains_key(&scheduled) {
                    return Ok(None);
                }
                self.settled.insert(scheduled, (Some("given up".into()), true));
                let id = engine.issue(Command::CancelOperation { scheduled })?;
                return Ok(Some(format!("#{id} cancel #{scheduled}")));
            }
            Step::If { what, otherwise } => {
                if *what != self.winner && !(what == "failed" && self.failed) {
                    self.place = *otherwise;
                }
            }
            Step::Goto(place) => self.place = *place,
            Step::Repeat { times } => self.rounds.push(*times),
            Step::EndRepeat { body } => {
                let left = self.rounds.last_mut().expect("a repeat is open");
                *left = left.saturating_sub(1);
                if *left > 0 {
                    self.place = *body;
                } else {
                    self.rounds.pop();
                }
            }
        }
        Ok(None)
    }

    fn operation(&mut self, engine: &mut Engine, var: &str, operation: &Operation) -> Result<String, Fault> {
        let (text, command) = match operation {
            Operation::Activity { name, input, options } => {
                let input = self.value(input);
                return self.activity(engine, var, name, input, options);
            }
            Operation::Grace { delay_ms } => {
                let Some(id) = engine.grace_timer(*delay_ms)? else {
                    return Ok("no grace timer".into());
                };
                self.vars.insert(var.to_owned(), id);
                return Ok(format!("#{id} grace timer"));
            }
            Operation::Timer { delay_ms } => (
                format!("timer of {delay_ms} ms"),
                Command::CreateTimer { delay_ms: *delay_ms },
            ),
            Operation::TimerAt { at_ms } => {
                let fire_at_ms = START_MS + at_ms;
                (format!("timer at +{at_ms}"), Command::CreateTimerAt { fire_at_ms })
            }
            Operation::Start {
                is_child,
                name,
                id,
                input,
            } => {
                let start = self.start_of(name, id, input);
                let what = if *is_child { "child" } else { "start" };
                let text = format!("{what} {name} {id} {}", shown(&start.input));
                let command = if *is_child {
                    Command::StartChild(start)
                } else {
                    Command::StartInstance(start)
                };
                (text, command)
            }
            Operation::Send {
                instance,
                mailbox,
                payload,
            } => {
                let payload = self.value(payload);
                let text = format!("send {instance} {} {}", mailbox_name(mailbox), shown(&payload));
                let command = Command::SendMessage {
                    instance: instance.clone(),
                    mailbox: mailbox.clone(),
                    payload,
                };
                (text, command)
            }
        };
        let id = self.issue(engine, var, command)?;
        Ok(format!("#{id} {text}"))
    }

    fn activity(
        &mut self,
        engine: &mut Engine,
        var: &str,
        name: &str,
        input: Payload,
        options: &ActivityOptions,
    ) -> Result<String, Fault> {
        let text = format!("activity {name} {}", shown(&input));
        let recorded = engine.recorded_payload();
        let next = engine.next_command_id();
        let expected = input.clone().filter(|_| engine.is_replaying());
        let command = Command::ScheduleActivity {
            name: name.to_owned(),
            input,
            options: options.clone(),
        };
        let id = self.issue(engine, var, command)?;
        let was_terminated = engine.is_replaying() && engine.next_event_id() == id;
        assert!(
            was_terminated || next == id,
            "event {next} was to be the next command, and it is #{id}"
        );
        assert!(
            was_terminated || recorded == expected,
            "#{id} has {expected:?}, recorded is {recorded:?}"
        );
        Ok(format!("#{id} {text}"))
    }

    fn start_of(&self, name: &str, id: &str, input: &Value) -> InstanceStart {
        InstanceStart {
            on_conflict: StartConflict::default(),
            admission: None,
            id: id.to_owned(),
            name: name.to_owned(),
            version: "1.0.0".into(),
            input: self.value(input),
            tags: None,
            priority: 0,
            trace: None,
        }
    }

    fn call(&mut self, engine: &mut Engine, call: &Call) -> String {
        match call {
            Call::Status(value) => {
                engine.set_custom_status(value.clone());
                format!("status {}", shown(value))
            }
            Call::ReadStatus => format!("status is {}", shown(engine.custom_status())),
            Call::Patched(patch) => {
                let answer = engine.patched(patch);
                self.winner = if answer { "patched" } else { "unpatched" }.into();
                format!("patched {patch}: {answer}")
            }
            Call::Drawn(text) => format!("drawn {:?}", engine.drawn("key/", || text.clone())),
            Call::Random => format!("random {}", engine.random()),
            Call::Uuid => format!("uuid {}", engine.random_uuid()),
            Call::Now => format!("now {}", since_start(engine.time_ms())),
        }
    }

    fn return_or_throw(&mut self, engine: &mut Engine, end: &End) -> Result<String, Fault> {
        let (text, outcome) = match end {
            End::Return(value) => {
                let output = self.value(value);
                (format!("return {}", shown(&output)), Outcome::Completed(output))
            }
            End::Throw(value) => {
                let error = self.value(value);
                (format!("throw {}", shown(&error)), Outcome::Failed(error))
            }
            End::Continue { input, version } => {
                let input = self.value(input);
                let text = format!("continue as new with {}", shown(&input));
                let version = version.clone();
                (text, Outcome::ContinuedAsNew { input, version })
            }
        };
        self.end(engine, outcome)?;
        Ok(text)
    }

    fn issue(&mut self, engine: &mut Engine, var: &str, command: Command) -> Result<EventId, Fault> {
        let id = engine.issue(command)?;
        assert_eq!(self.succeeds_next, None, "a command was taken in place of that");
        self.succeeds_next = engine.succeeds_next(id).then_some(id);
        self.vars.insert(var.to_owned(), id);
        Ok(id)
    }

    fn end(&mut self, engine: &mut Engine, outcome: Outcome) -> Result<(), Fault> {
        self.state = State::Ended;
        engine.finish(outcome)
    }

    fn value(&self, value: &Value) -> Payload {
        match value {
            Value::It => self.it.clone(),
            Value::Is(payload) => payload.clone(),
        }
    }

    /// Waits, unless one of the targets has settled. Returns the line that says so.
    fn wait(&mut self, targets: &[Target]) -> Option<String> {
        for target in targets {
            if let Target::Operation(var) = target
                && let Some((value, failed)) = self.vars.get(var).and_then(|id| self.settled.get(id)).cloned()
            {
                self.won(target, value, failed);
                return None;
            }
        }
        self.state = State::Waiting(targets.to_vec());
        let names: Vec<String> = targets.iter().map(Target::name).collect();
        Some(format!("wait for {}", names.join(" or ")))
    }

    fn won(&mut self, target: &Target, value: Payload, failed: bool) {
        self.winner = target.name();
        self.it = value;
        self.failed = failed;
        self.state = State::Ready;
    }

    /// Takes a delivery in. Returns the line that says so.
    pub(crate) fn deliver(
        &mut self,
        engine: &mut Engine,
        delivery: Delivery,
        log: &mut Vec<Line>,
    ) -> Result<(), Fault> {
        let replaying = engine.is_replaying();
        if let Some(id) = self.succeeds_next.take() {
            assert!(matches!(&delivery, Delivery::Succeeded { operation, .. } if *operation == id));
        }
        let now = since_start(engine.time_ms());
        let waiting = match &self.state {
            State::Waiting(targets) => targets.clone(),
            other => panic!("a delivery came while the code was {other:?}"),
        };
        let (text, target, value, failed) = match delivery {
            Delivery::Succeeded { operation, value } => (
                format!("#{operation} gives {}", shown(&value)),
                self.settle(operation, &value, false),
                value,
                false,
            ),
            Delivery::Failed {
                operation,
                error,
                attempt,
            } => {
                let text = format!("#{operation} fails for good: {} (attempt {attempt})", shown(&error));
                (text, self.settle(operation, &error, true), error, true)
            }
            Delivery::ChildFailed {
                operation,
                failure,
                error,
            } => {
                let text = format!("#{operation} ends as {failure:?}: {}", shown(&error));
                (text, self.settle(operation, &error, true), error, true)
            }
            Delivery::Refused { operation, refusal } => {
                let error = Some(refusal.text().into_owned());
                let text = format!("#{operation} is refused: {}", shown(&error));
                (text, self.settle(operation, &error, true), error, true)
            }
            Delivery::Message { mailbox, payload } => {
                let text = format!("{} gives {}", mailbox_name(&mailbox), shown(&payload));
                (text, Some(Target::Mailbox(mailbox)), payload, false)
            }
            Delivery::Asked { .. } => panic!("no script takes asks"),
            Delivery::MailboxEmpty { mailbox } => panic!("no script polls {}", mailbox_name(&mailbox)),
            Delivery::Cancel { reason, timeout_ms } => {
                let timed_out = timeout_ms.map(|ms| format!("timed out after {ms} ms"));
                log.push(Line {
                    text: format!(
                        "cancelled: {} {now}",
                        timed_out.as_deref().unwrap_or_else(|| shown(&reason))
                    ),
                    replaying,
                });
                return self.cancelled(engine, reason);
            }
        };
        log.push(Line {
            text: format!("{text} {now}"),
            replaying,
        });
        if let Some(target) = target.filter(|target| waiting.contains(target)) {
            self.won(&target, value, failed);
        }
        Ok(())
    }

    fn settle(&mut self, operation: EventId, value: &Payload, failed: bool) -> Option<Target> {
        let before = self.settled.insert(operation, (value.clone(), failed));
        assert!(before.is_none(), "#{operation} settled twice (E5)");
        let var = self.vars.iter().find(|(_, id)| **id == operation)?.0;
        Some(Target::Operation(var.clone()))
    }

    fn cancelled(&mut self, engine: &mut Engine, reason: Payload) -> Result<(), Fault> {
        match self.program.on_cancel {
            Some(place) if !self.was_cancelled => {
                self.was_cancelled = true;
                self.place = place;
                self.rounds.clear();
                self.winner = "cancel".into();
                self.it = reason;
                self.state = State::Ready;
                Ok(())
            }
            _ => self.end(engine, Outcome::Cancelled(reason)),
        }
    }
}
