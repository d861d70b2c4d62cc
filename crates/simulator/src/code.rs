//! The code of one execution: a program, interpreted as the driver runs a generator.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use perdure_engine::{
    ActivityOptions, Answer, Awaited, Command, Delivery, EventId, InstanceStart, Mailbox, Outcome as End, Payload,
    Refusal, RetryPolicy, StartConflict, StateChange,
};

use perdure_runtime::RuntimeError;

use crate::entries::stream_of;
use crate::fibers::{AskRules, Calls, Fibers, Outcome, Rules, Stop, refused};
use crate::program::{
    ALL_FAILED, Block, CHILD_FAILED, FATAL, Guard, Kind, Op, PlannedMessage, Program, RACE, STEP, TIMEOUT, Work,
};
use crate::terms::Terms;

/// The edition of the programs that a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Edition {
    /// Before the patches.
    Old,
    /// With the patches.
    New,
    /// With the patches and with mistakes.
    Wrong,
}

/// Version of every program.
pub(crate) const VERSION: &str = "1.0.0";
/// Queue of those activities that not every worker runs.
pub(crate) const QUEUE: &str = "special";
/// Name of every activity that is not inline.
pub(crate) const ACTIVITY: &str = "work";
/// Name of every inline activity.
pub(crate) const INLINE: &str = "inline";
/// The patch of an execution whose fibers have the scoped rules.
pub(crate) const SCOPES: &str = "perdure.scopes";
/// The time that an attempt which may hang gets on top of its own, ms.
const TIMEOUT_MS: u64 = 700;
/// The longest silence of an attempt that sends heartbeats, ms.
const HEARTBEAT_MS: u64 = 5_000;
/// The number of times that a message is sent to an instance that does not exist.
const SENDS_MAX: u32 = 300;

/// The error of an ask that is refused.
pub(crate) const REFUSED: &str = "refused";

/// True if every program refuses an ask.
pub(crate) const fn is_refused(ask: i64) -> bool {
    ask % 3 == 0
}

/// The facts about an execution.
#[derive(Clone, Debug)]
pub(crate) struct ExecutionFacts {
    pub(crate) instance: String,
    pub(crate) programs: Arc<Vec<Program>>,
    pub(crate) program: usize,
    pub(crate) edition: Edition,
    /// The sum of the earlier executions.
    pub(crate) so_far: i64,
    /// Number of the execution.
    pub(crate) round: u32,
}

/// The name that a program is registered with.
pub(crate) fn name_of(program: usize) -> String {
    format!("program-{program}")
}

/// The program of a name.
pub(crate) fn program_of(name: &str) -> usize {
    let number = name.strip_prefix("program-").and_then(|number| number.parse().ok());
    number.expect("every orchestration here has such a name")
}

/// The id of a program's instance that is no child.
pub(crate) fn instance_of(program: usize) -> String {
    format!("instance-{program}")
}

pub(crate) fn mailbox_of(feed: &PlannedMessage) -> Mailbox {
    let name = feed.mailbox.to_owned();
    if feed.is_event {
        Mailbox::Event(name)
    } else {
        Mailbox::Queue(name)
    }
}

/// An execution that runs.
pub(crate) struct Code {
    fibers: Fibers,
    facts: Rc<ExecutionFacts>,
    calls: Rc<dyn Calls>,
    /// Number of asks that the execution has accepted.
    accepted: Cell<u32>,
}

#[derive(Clone)]
struct Context {
    facts: Rc<ExecutionFacts>,
    calls: Rc<dyn Calls>,
    fibers: Fibers,
}

impl Drop for Code {
    fn drop(&mut self) {
        self.fibers.clear();
    }
}

impl Code {
    pub(crate) fn new(facts: ExecutionFacts, calls: Rc<dyn Calls>) -> Self {
        let facts = Rc::new(facts);
        let fibers = fibers_of(&facts, &calls);
        let context = Context {
            facts: Rc::clone(&facts),
            calls: Rc::clone(&calls),
            fibers: fibers.clone(),
        };
        fibers.spawn(context.program());
        Self {
            fibers,
            facts,
            calls,
            accepted: Cell::new(0),
        }
    }

    /// Runs until all fibers wait, or the code has ended. Returns the end.
    pub(crate) fn run(&self) -> Result<Option<End>, Stop> {
        let ExecutionFacts {
            programs,
            program,
            round,
            so_far,
            ..
        } = &*self.facts;
        let Program { rounds, kind, .. } = &programs[*program];
        Ok(match self.fibers.run() {
            None => None,
            Some(Err(refused @ Stop::Refused(_))) => return Err(refused),
            Some(Err(Stop::Cancelled)) => Some(End::Cancelled(None)),
            Some(Err(Stop::Failed(error))) => Some(End::Failed(Some(error))),
            Some(Ok(_)) if round == rounds && *kind == Kind::Throws => Some(End::Failed(Some("thrown".into()))),
            Some(Ok(sum)) if round == rounds => Some(End::Completed(Some((so_far + sum).to_string()))),
            Some(Ok(sum)) => Some(End::ContinuedAsNew {
                input: Some((so_far + sum).to_string()),
                version: None,
            }),
        })
    }

    /// The operations that the code waits for, for a report.
    pub(crate) fn pending(&self) -> String {
        format!("{} waits for {:?}", self.facts.instance, self.fibers.pending())
    }

    pub(crate) fn awaited(&self) -> Awaited {
        self.fibers.awaited()
    }

    pub(crate) fn deliver(&self, delivery: Delivery) -> Result<(), Stop> {
        match delivery {
            Delivery::Asked { payload } => self.asked(number_in(payload)).map_err(refused),
            Delivery::Message { mailbox, payload } if mailbox.holds_asks() => {
                self.answer(number_in(payload)).map_err(refused)
            }
            delivery => self.fibers.deliver(delivery),
        }
    }

    /// Accepts an ask, and answers it, or refuses it.
    fn asked(&self, ask: i64) -> Result<(), RuntimeError> {
        if is_refused(ask) {
            return self.calls.refuse_ask(ask.to_string(), Some(REFUSED.into()));
        }
        self.calls.accept_ask()?;
        self.answer(ask)
    }

    /// Answers an accepted ask. The answer depends on the asks before it, so that it is another one if it is given a
    /// second time in another order.
    fn answer(&self, ask: i64) -> Result<(), RuntimeError> {
        self.accepted.set(self.accepted.get() + 1);
        let answer = format!("{ask} is {} of {}", self.accepted.get(), self.facts.round);
        self.calls.answer_ask(ask.to_string(), Answer::Value(Some(answer)))
    }

    /// The rules of its fibers, unless they have made no difference.
    pub(crate) fn rules(&self) -> Option<Rules> {
        self.fibers.known_rules()
    }
}

/// The old edition does not apply the patch of the scoped rules. It still follows a history that has the patch, because
/// an execution may move between editions.
fn fibers_of(facts: &Rc<ExecutionFacts>, calls: &Rc<dyn Calls>) -> Fibers {
    let is_before = !facts.programs[facts.program].is_scoped;
    let (facts, calls) = (Rc::clone(facts), Rc::clone(calls));
    let ask: AskRules = Box::new(move || {
        let asks = facts.edition > Edition::Old || calls.is_replaying()?;
        let has_it = asks && calls.patched(SCOPES)?;
        Ok(if has_it { Rules::Scoped } else { Rules::Flat })
    });
    Fibers::new(is_before.then_some(Rules::Flat), ask)
}

impl Context {
    async fn program(self) -> Outcome {
        let program = &self.facts.programs[self.facts.program];
        let outcome = self.clone().block(Arc::clone(&program.body)).await;
        if outcome == Err(Stop::Cancelled) && program.cleans_up {
            let work = Work {
                tag: 0,
                ms: 5,
                ..Work::default()
            };
            self.activity(work, None).await?;
        }
        outcome
    }

    async fn block(self, block: Block) -> Outcome {
        let mut sum = 0;
        let mut beside = Vec::new();
        for op in &*block {
            match op {
                Op::Fiber(block) => beside.push(self.spawn(block)),
                op => sum += Box::pin(self.op(op)).await?,
            }
        }
        Ok(sum + self.fibers.all(&beside).await?)
    }

    fn spawn(&self, block: &Block) -> crate::fibers::FiberId {
        self.fibers.spawn(Box::pin(self.clone().block(Arc::clone(block))))
    }

    async fn op(&self, op: &Op) -> Outcome {
        match op {
            Op::Activity(work) => or(FATAL, self.activity(*work, None).await),
            Op::Hurried(work) => or(STEP, self.activity(*work, None).await.map(|_| STEP)),
            Op::Draw(work) => self.draw(*work).await,
            Op::Timer(delay_ms) => {
                self.clone().sleep(*delay_ms).await?;
                Ok(STEP)
            }
            Op::Event(name) => self.mail(Mailbox::Event((*name).into())).await,
            Op::Dequeue(name) => self.poll_or_wait(Mailbox::Queue((*name).into())).await,
            Op::Child { program, tag } => {
                let id = format!("{}.{}.{tag}", self.facts.instance, self.facts.round);
                let id = self.issue(Command::StartChild(self.start(*program, id)))?;
                or(CHILD_FAILED, self.operation(id).await)
            }
            Op::Detached { program } => self.start_detached(*program, instance_of(*program)).await,
            Op::Taken => {
                let instance = self.facts.instance.clone();
                self.start_detached(self.facts.program, instance).await
            }
            Op::Send(feed) => {
                self.send(feed).await?;
                Ok(STEP)
            }
            Op::All(blocks) => {
                let fibers: Vec<_> = blocks.iter().map(|block| self.spawn(block)).collect();
                self.fibers.all(&fibers).await
            }
            Op::AllFails(blocks) => {
                let mut fibers = vec![self.fibers.spawn(Box::pin(self.clone().fail()))];
                fibers.extend(blocks.iter().map(|block| self.spawn(block)));
                or(ALL_FAILED, self.fibers.all(&fibers).await)
            }
            Op::Race {
                branches,
                cancel_losers,
            } => self.race(branches, *cancel_losers).await,
            Op::Timeout(delay_ms, block) => self.timeout(*delay_ms, block).await,
            Op::Cancel(work, delay_ms) => {
                let id = self.schedule(*work, None)?;
                self.clone().sleep(*delay_ms).await?;
                self.fibers.give_up(&*self.calls, id)?;
                Ok(STEP)
            }
            Op::Status(number) => {
                let status = format!("{} {number}", self.facts.instance);
                self.calls.set_status(Some(status)).map(|()| 0).map_err(refused)
            }
            Op::State(number) => {
                let change = self.change_of(*number);
                self.calls.change_state(&change).map(|()| 0).map_err(refused)
            }
            Op::Stream(number) => self.write_entry(*number),
            Op::Trace(number) => {
                let line = format!("{} {number}", self.facts.instance);
                self.calls.trace(line).map(|()| 0).map_err(refused)
            }
            Op::Patch { id, old, new } => {
                let is_new =
                    self.facts.edition > Edition::Old && self.calls.patched(&id.to_string()).map_err(refused)?;
                self.clone().block(Arc::clone(if is_new { new } else { old })).await?;
                Ok(0)
            }
            Op::Slip(work) => self.diverge(*work).await,
            Op::Guarded(guard) => self.guarded(guard).await,
            Op::Fiber(_) => unreachable!("a block starts its fibers itself"),
        }
    }

    /// Writes an entry to a stream.
    fn write_entry(&self, number: u32) -> Outcome {
        let entry = format!("{} {} {number}", self.facts.instance, self.facts.round);
        let is_open = self.calls.write_stream(&stream_of(number), &Some(entry));
        assert!(is_open.map_err(refused)?, "no program closes a stream");
        Ok(0)
    }

    /// Hands random numbers and the time to an activity.
    async fn draw(&self, work: Work) -> Outcome {
        let (random, uuid) = (
            self.calls.random().map_err(refused)?,
            self.calls.random_uuid().map_err(refused)?,
        );
        let drawn = format!("{random} {uuid} {}", self.calls.time_ms());
        or(FATAL, self.activity(work, Some(drawn)).await)
    }

    async fn race(&self, branches: &[Block], cancel_losers: bool) -> Outcome {
        let fibers: Vec<_> = branches.iter().map(|block| self.spawn(block)).collect();
        let winner = self.fibers.race(&fibers).await?;
        let losers = fibers.iter().copied().enumerate();
        let losers = losers.filter(|(place, _)| cancel_losers && *place != winner);
        let losers: Vec<_> = losers.map(|(_, fiber)| fiber).collect();
        self.fibers.cancel_losers(&losers).await?;
        Ok(RACE)
    }

    async fn timeout(&self, delay_ms: i64, block: &Block) -> Outcome {
        let fibers = [
            self.spawn(block),
            self.fibers.spawn(Box::pin(self.clone().sleep(delay_ms))),
        ];
        let winner = self.fibers.race(&fibers).await?;
        self.fibers.cancel_losers(&[fibers[1 - winner]]).await?;
        Ok(TIMEOUT)
    }

    /// Does more than its edition did, in a replay. If this got into a history, no code but the wrong one would ever
    /// fit.
    async fn diverge(&self, work: Work) -> Outcome {
        if self.facts.edition == Edition::Wrong && self.calls.is_replaying().map_err(refused)? {
            self.activity(work, None).await?;
        }
        Ok(0)
    }

    /// Runs a block, and its cleanup if it is cancelled. The block is over when its last step, which closes it, has a
    /// result.
    async fn guarded(&self, guard: &Guard) -> Outcome {
        let outcome = match self.guarded_body(guard).await {
            // The cancellation may come to that step, too.
            Ok(sum) => self.activity(guard.close, None).await.map(|closed| sum + closed),
            stopped => stopped,
        };
        if outcome == Err(Stop::Cancelled) {
            self.activity(guard.undo, None).await?;
            self.clone().block(Arc::clone(&guard.cleanup)).await?;
            self.activity(guard.close, None).await?;
        }
        outcome
    }

    async fn guarded_body(&self, guard: &Guard) -> Outcome {
        let entered = self.activity(guard.enter, None).await?;
        Ok(entered + self.clone().block(Arc::clone(&guard.body)).await?)
    }

    /// Returns the change of the state that a number stands for.
    fn change_of(&self, number: u32) -> StateChange {
        let name = format!("v{}", number % 3);
        if number.is_multiple_of(4) {
            return StateChange::Deleted { name };
        }
        let value = Some(format!("{} {number}", self.facts.instance));
        StateChange::Set { name, value }
    }

    fn issue(&self, command: Command) -> Result<EventId, Stop> {
        self.calls.issue(command).map_err(refused)
    }

    async fn operation(&self, id: EventId) -> Outcome {
        let value = self.fibers.operation(&*self.calls, id, false).await?;
        Ok(value.and_then(|value| value.parse().ok()).unwrap_or(0))
    }

    async fn on_demand(&self, id: EventId) -> Result<(), Stop> {
        self.fibers.operation(&*self.calls, id, true).await.map(drop)
    }

    async fn mail(&self, mailbox: Mailbox) -> Outcome {
        Ok(number_in(self.fibers.mail(&*self.calls, mailbox).await?))
    }

    /// Takes a message that is there, or else waits for one.
    async fn poll_or_wait(&self, mailbox: Mailbox) -> Outcome {
        match self.fibers.poll_mail(&*self.calls, mailbox.clone()).await? {
            Some(payload) => Ok(number_in(payload)),
            None => self.mail(mailbox).await,
        }
    }

    async fn sleep(self, delay_ms: i64) -> Outcome {
        let id = self.issue(Command::CreateTimer { delay_ms })?;
        self.on_demand(id).await?;
        Ok(0)
    }

    async fn fail(self) -> Outcome {
        let work = Work {
            tag: 0,
            ms: 20,
            is_fatal: true,
            ..Work::default()
        };
        self.activity(work, None).await
    }

    /// Sends a message again until the receiver exists. A receiver that has ended needs no message.
    async fn send(&self, feed: &PlannedMessage) -> Outcome {
        for _ in 0..SENDS_MAX {
            let id = self.issue(Command::SendMessage {
                instance: instance_of(feed.to),
                mailbox: mailbox_of(feed),
                payload: Some(feed.number.to_string()),
            })?;
            match self.on_demand(id).await {
                Err(Stop::Failed(why)) if why == Refusal::InstanceNotFound.text() => self.clone().sleep(1_000).await?,
                outcome => return or(STEP, outcome.map(|()| STEP)),
            };
        }
        Ok(STEP)
    }

    /// An id that is in use already makes no difference.
    async fn start_detached(&self, program: usize, id: String) -> Outcome {
        let id = self.issue(Command::StartInstance(self.start(program, id)))?;
        or(STEP, self.on_demand(id).await.map(|()| STEP))
    }

    fn start(&self, program: usize, id: String) -> InstanceStart {
        let Terms {
            admission, priority, ..
        } = self.facts.programs[program].terms.clone();
        InstanceStart {
            on_conflict: StartConflict::default(),
            admission: admission.map(Box::new),
            id,
            name: name_of(program),
            version: VERSION.into(),
            input: Some("0".into()),
            tags: None,
            priority,
            trace: None,
        }
    }

    async fn activity(&self, work: Work, drawn: Option<String>) -> Outcome {
        let id = self.schedule(work, drawn)?;
        self.operation(id).await
    }

    fn schedule(&self, work: Work, drawn: Option<String>) -> Result<EventId, Stop> {
        let input = input_of(work, drawn.as_deref());
        self.issue(Command::ScheduleActivity {
            name: if work.is_inline { INLINE } else { ACTIVITY }.into(),
            input: Some(input),
            options: options_of(work),
        })
    }
}

/// Returns the outcome, or `otherwise` if the step has failed.
fn or(otherwise: i64, outcome: Outcome) -> Outcome {
    match outcome {
        Err(Stop::Failed(_)) => Ok(otherwise),
        outcome => outcome,
    }
}

fn number_in(payload: Payload) -> i64 {
    let number = payload.and_then(|payload| payload.parse().ok());
    number.expect("every message here holds a number")
}

fn options_of(work: Work) -> ActivityOptions {
    ActivityOptions {
        retry: RetryPolicy {
            max_attempts: 1 + work.fails + work.hangs,
            max_interval_ms: 1_000.0,
            ..RetryPolicy::default()
        },
        timeout_ms: (work.hangs > 0).then_some(work.ms + TIMEOUT_MS),
        heartbeat_timeout_ms: work.sends_heartbeats.then_some(HEARTBEAT_MS),
        schedule_to_start_timeout_ms: (work.start_within_ms > 0).then_some(work.start_within_ms),
        queue: match work {
            Work { is_lost: true, .. } => Some(UNSERVED.into()),
            Work { is_queued: true, .. } => Some(QUEUE.into()),
            _ => None,
        },
        key: work
            .is_queued
            .then(|| ATTEMPT_KEYS[work.tag as usize % ATTEMPT_KEYS.len()].to_owned()),
        session: session_of(work),
        priority: work.priority,
        inline: work.is_inline,
        ..ActivityOptions::default()
    }
}

/// The queue that no worker serves.
pub(crate) const UNSERVED: &str = "unserved";

/// The keys of activities in their queue. The key follows from the tag, so that no random number is drawn for it.
const ATTEMPT_KEYS: [&str; 4] = ["a", "b", "a", ""];

/// Returns the session of an activity. Some activities of all programs share a few sessions. The session follows from
/// the tag, so that no random number is drawn for it.
fn session_of(work: Work) -> Option<String> {
    let has_session = !work.is_inline && work.tag % 6 == 5;
    has_session.then(|| format!("session-{}", work.tag / 6 % 3))
}

/// The input of an activity tells its attempts what to do.
fn input_of(work: Work, drawn: Option<&str>) -> String {
    let Work {
        tag,
        ms,
        fails,
        hangs,
        is_fatal,
        sends_heartbeats,
        writes_entries,
        ..
    } = work;
    format!(
        "{tag} {ms} {fails} {hangs} {} {} {} {}",
        u8::from(is_fatal),
        u8::from(sends_heartbeats),
        u8::from(writes_entries),
        drawn.unwrap_or("-")
    )
}

/// The work of an attempt, read from the input of its activity.
pub(crate) fn work_of(input: &str) -> Work {
    let mut fields = input.split(' ').map_while(|field| field.parse::<u64>().ok());
    let mut field = || {
        fields
            .next()
            .expect("the input of every activity here begins with seven numbers")
    };
    Work {
        tag: field() as u32,
        ms: field(),
        fails: field() as u32,
        hangs: field() as u32,
        is_fatal: field() == 1,
        sends_heartbeats: field() == 1,
        writes_entries: field() == 1,
        ..Work::default()
    }
}

#[cfg(test)]
mod tests;
