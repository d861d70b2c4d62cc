//! A turn, from the job to its commit (architecture, section 2). Everything here but the commit's answer runs on the lane's thread.

use std::sync::Arc;

use perdure_engine::{
    Awaited, Command, Delivery, Effect, EventId, Outcome as End, Step, Terminal, TurnOutput, Waiting,
};
use perdure_provider::{AfterTurn, Outcome, ProviderError, ProviderErrorKind, Status, StatusChange, TurnCommit, Write};
use perdure_scheduler::Class;

use crate::activities::AbortReason;
use crate::committer::Patience;
use crate::error::RuntimeError;
use crate::instance::{Core, Instance};
use crate::job::{Level, Queued};
use crate::maps::Turn;
use crate::options::HOLD_TIMER_MS;
use crate::report::Report;
use crate::session::{Alarm, Session};

/// What the code of a turn is handed next.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    /// What it is.
    pub delivery: Delivery,
    /// The deterministic time from here on, ms since 1970.
    pub time_ms: i64,
}

const NO_TURN: RuntimeError =
    RuntimeError::State("the instance has no turn in progress: its methods work only while its code runs");

impl Turn {
    pub(crate) fn with_engine<T>(&self, f: impl FnOnce(&mut perdure_engine::Engine) -> T) -> Result<T, RuntimeError> {
        let mut core = self.instance.lock();
        match &mut core.engine {
            Some(engine) if !self.session.has_ended() => Ok(f(engine)),
            _ => Err(NO_TURN),
        }
    }
}

/// The turn of a token, or the error that says that there is none.
pub(crate) fn in_progress(turn: Option<Turn>) -> Result<Turn, RuntimeError> {
    turn.ok_or(NO_TURN)
}

/// A queued turn has come to the front. `None`: its instance is gone or another's meanwhile.
pub(crate) fn begin(session: Arc<Session>, instance: Arc<Instance>) -> Option<Turn> {
    {
        let mut core = instance.lock();
        if !core.process.begin() {
            return None;
        }
        core.hot = true;
    }
    session.touch(&instance);
    Some(Turn { session, instance })
}

pub(crate) fn issue(turn: &Turn, command: Command) -> Result<EventId, RuntimeError> {
    turn.with_engine(|engine| engine.issue(command))?
        .map_err(RuntimeError::Nondeterminism)
}

/// What is next, if anything; the turn goes on when there is.
pub(crate) fn step(turn: &Turn, awaited: Awaited) -> Result<Option<Delivered>, RuntimeError> {
    let now = turn.session.now_ms();
    let mut core = turn.instance.lock();
    core.take_in();
    let engine = core.engine.as_mut().ok_or(NO_TURN)?;
    match engine.next(awaited, now) {
        Ok(Step::Deliver { delivery, time_ms }) => Ok(Some(Delivered { delivery, time_ms })),
        Ok(Step::Wait | Step::Budget | Step::NeedHistory) => Ok(None),
        Err(mismatch) => Err(RuntimeError::Nondeterminism(mismatch)),
    }
}

pub(crate) fn finish(turn: &Turn, end: End) -> Result<(), RuntimeError> {
    turn.with_engine(|engine| engine.finish(end))?
        .map_err(RuntimeError::Nondeterminism)
}

/// All fibers wait, or the code has ended: commit what the turn did.
pub(crate) fn end(turn: Turn) {
    let Turn { session, instance } = turn;
    let now = session.now_ms();
    let mut core = instance.lock();
    core.take_in();
    let Some(engine) = &mut core.engine else { return };
    let output = engine.end_turn();
    let after = match output.waiting {
        Waiting::History { from } => {
            debug_assert!(output.is_empty(), "a replay stores nothing");
            if core.process.block() {
                drop(core);
                session.load(instance, from);
            }
            return;
        }
        Waiting::Ended(terminal) => AfterTurn::End {
            status: status_of(terminal),
        },
        Waiting::Outside {
            open_activities: 0,
            timer_at_ms,
        } if timer_at_ms.is_none_or(|at| at > now + HOLD_TIMER_MS) && !engine.is_runnable(now) => AfterTurn::Release {
            wake_at_ms: timer_at_ms,
        },
        Waiting::More | Waiting::Outside { .. } => AfterTurn::Hold,
    };
    if after == AfterTurn::Hold && output.is_empty() {
        let (effects, waiting) = (output.effects, output.waiting);
        drop(core);
        session.carry_out(&instance, effects);
        return go_on(&session, &instance, &waiting);
    }
    if core.process.block() {
        let (write, kept) = commit_of(&session, &instance, &core, output, after, now);
        drop(core);
        let store = Arc::clone(&session.shared.store);
        store.committer.submit(
            write,
            Patience::Endless,
            Box::new(move |answer| answered(&session, &instance, kept, answer)),
        );
    }
}

/// The code does not fit its history, or cannot be run: suspend the instance and tell where in the code that showed.
pub(crate) fn suspend(turn: Turn, source: &str) {
    let report = {
        let core = turn.instance.lock();
        match core.engine.as_ref().and_then(|engine| engine.mismatch()) {
            Some(mismatch) => Report::of_mismatch(mismatch, source),
            None => Report::of_problem(source),
        }
    };
    turn.session.suspend(&turn.instance, report);
}

const fn status_of(terminal: Terminal) -> Status {
    match terminal {
        Terminal::Completed => Status::Completed,
        Terminal::Failed => Status::Failed,
        Terminal::Cancelled => Status::Cancelled,
    }
}

/// What is needed of a turn when its commit is answered.
struct Kept {
    after: AfterTurn,
    effects: Vec<Effect>,
    waiting: Waiting,
    next_event_id: EventId,
    status_changed: bool,
}

fn commit_of(
    session: &Session,
    instance: &Instance,
    core: &Core,
    output: TurnOutput,
    after: AfterTurn,
    now: i64,
) -> (Write, Kept) {
    let next_event_id = EventId(output.next_event_id.0 + output.events.len() as u64);
    let kept = Kept {
        after: after.clone(),
        effects: output.effects,
        waiting: output.waiting,
        next_event_id,
        status_changed: output.custom_status.is_some(),
    };
    let commit = TurnCommit {
        key: instance.key,
        worker: session.worker.clone(),
        epoch: core.epoch,
        execution: instance.execution,
        next_event_id: output.next_event_id,
        events: output.events,
        consumed: output.consumed,
        seen: core.seen,
        custom_status: output.custom_status.map(|value| StatusChange { value }),
        after,
        time_ms: now,
    };
    (Write::Turn(Box::new(commit)), kept)
}

/// The commit was answered; called on a thread of the provider.
fn answered(session: &Arc<Session>, instance: &Arc<Instance>, kept: Kept, answer: Result<Outcome, ProviderError>) {
    let store = &session.shared.store;
    match answer {
        Ok(Outcome::Committed { wake_at_ms, .. }) => {
            instance.lock().next_event_id = kept.next_event_id;
            match kept.after {
                AfterTurn::Hold => {
                    session.carry_out(instance, kept.effects);
                    go_on(session, instance, &kept.waiting);
                }
                AfterTurn::Release { .. } => {
                    released(session, instance);
                    if let Some(at) = wake_at_ms {
                        session.due_at(at);
                    }
                }
                AfterTurn::End { .. } => {
                    session.forget(instance, AbortReason::Cancelled);
                    session.shared.metrics.ended();
                }
                AfterTurn::Suspend { .. } => unreachable!("a suspension is committed by Session::suspend"),
            }
            session.shared.metrics.turn();
            if kept.status_changed || matches!(kept.after, AfterTurn::End { .. }) {
                store.watch.changed(&instance.id);
            }
        }
        Ok(Outcome::Fenced) => {
            session.shared.log(
                Level::Warn,
                format!(
                    "a turn of instance '{}' was not stored: it belongs to another worker by now",
                    instance.id
                ),
            );
            session.shared.metrics.fenced();
            session.forget(instance, AbortReason::LeaseLost);
        }
        Ok(other) => unreachable!("a turn is committed or fenced off, not {other:?}"),
        Err(error) if error.kind == ProviderErrorKind::Closed => session.forget(instance, AbortReason::LeaseLost),
        // Not for want of trying: the store refuses what the turn did, and would refuse it again.
        Err(error) => session.suspend(
            instance,
            Report::of_problem(&format!("a turn could not be stored: {error}")),
        ),
    }
    session.tell_drained();
}

/// The instance stays: let it wait, or have its next turn.
fn go_on(session: &Arc<Session>, instance: &Arc<Instance>, waiting: &Waiting) {
    let ready = {
        let mut core = instance.lock();
        if let Waiting::Outside {
            timer_at_ms: Some(at), ..
        } = waiting
            && core.alarm_ms.replace(*at) != Some(*at)
        {
            session.alarms.set(*at, Alarm::Timer(Arc::downgrade(instance)));
        }
        let more = *waiting == Waiting::More || core.is_runnable(session.now_ms());
        core.process.end(more)
    };
    if ready {
        session
            .shared
            .lane
            .push(Class::First, Queued::Turn(Arc::clone(instance)));
    }
    session.trim();
    session.tell_drained();
}

/// The instance sleeps in the store. If it waits for a message its generator is kept for as long as the cache has room.
fn released(session: &Arc<Session>, instance: &Arc<Instance>) {
    let kept = {
        let mut table = session.table.lock();
        let mut core = instance.lock();
        core.process.complete();
        let awaits = core.engine.as_ref().is_some_and(perdure_engine::Engine::awaits_message);
        let keep = awaits && session.shared.options.cached_instances_max > 0;
        if keep {
            table.keep_released(Arc::clone(instance), core.epoch, core.next_event_id);
        }
        keep
    };
    if !kept {
        session.forget(instance, AbortReason::Cancelled);
    }
    session.trim();
}
