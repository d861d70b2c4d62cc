//! A turn, from the job to its commit (architecture, section 2). Everything here but the commit's answer runs on the
//! lane's thread.

use std::sync::Arc;

use parking_lot::MutexGuard;
use perdure_engine::{
    Bug, Command, Delivery, Effect, Engine, EventId, EventRecord, ExecutionStarted, Fault, Outcome as End, Step,
    Terminal, TurnOutput, Waiting, Waits, is_planted,
};
use perdure_provider::{
    AfterTurn, NextExecution, Outcome, ProviderError, ProviderErrorKind, Status, StatusChange, TurnCommit, Write,
};
use perdure_scheduler::{LaneId, NextAction, Process, State};

use crate::activity::tasks;
use crate::commit::committer::{Patience, WriteDone};
use crate::error::RuntimeError;
use crate::instance::instances::Instances;
use crate::log::{Level, LogRecord};
use crate::report::Report;
use crate::state::alarm::Alarm;
use crate::state::attempt::AbortReason;
use crate::state::{Core, Instance};
use crate::turn::cross_instance::{self, Claimed};
use crate::turn::in_progress::Turn;

/// The next delivery to the code of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    /// The delivery.
    pub delivery: Delivery,
    /// The deterministic time from here on, ms since 1970.
    pub time_ms: i64,
}

/// The next state of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The turn goes on with this delivery.
    Delivered(Delivered),
    /// The turn is over, and on its way to the store.
    Over {
        /// True if the instance is released with the turn, and sleeps in the store from then on.
        sleeps: bool,
    },
}

/// An operation that the code has issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The operation's id.
    pub id: EventId,
    /// See [`Engine::succeeds_next`].
    pub succeeds_next: bool,
}

const NO_TURN: RuntimeError =
    RuntimeError::State("the instance has no turn in progress: its methods work only while its code runs");

impl Turn {
    pub(crate) fn with_engine<T>(&self, f: impl FnOnce(&mut Engine) -> T) -> Result<T, RuntimeError> {
        let mut core = self.instance.lock();
        match &mut core.engine {
            // This holds also when the session has ended: the code goes on to its next wait, and nothing of that is
            // stored.
            Some(engine) => Ok(f(engine)),
            None => Err(NO_TURN),
        }
    }
}

/// Returns the turn of a token, or the error that says that there is none.
pub(crate) fn in_progress(turn: Option<Turn>) -> Result<Turn, RuntimeError> {
    turn.ok_or(NO_TURN)
}

/// Begins a queued turn that has come to the front. `None`: the instance is gone or another's meanwhile, or needs
/// something before its turn.
pub(crate) fn begin(instances: Arc<Instances>, instance: Arc<Instance>, lane: LaneId) -> Option<Turn> {
    {
        let mut table = instances.table.lock();
        let mut core = instance.lock();
        let then = instance.begin(&mut core, &instances.services, lane);
        drop(core);
        match then {
            NextAction::Rest => return None,
            NextAction::Step => {}
            NextAction::Needs(needs) => {
                drop(table);
                instances.provide(instance, needs);
                return None;
            }
        }
        instances.touch(&mut table, &instance);
        instances.trim(&mut table);
    }
    let began_ms = instances.now_ms();
    Some(Turn {
        instances,
        instance,
        lane,
        began_ms,
    })
}

pub(crate) fn issue(turn: &Turn, command: Command) -> Result<Issued, RuntimeError> {
    let issued = turn.with_engine(|engine| {
        let id = engine.issue(command)?;
        let succeeds_next = engine.succeeds_next(id);
        Ok(Issued { id, succeeds_next })
    })?;
    issued.map_err(|fault: Fault| fault.into())
}

/// Returns the next delivery, if any: the turn goes on when there is one. A turn that has gone on for long ends here,
/// so that the lane does other things before the instance goes on.
pub(crate) fn step(turn: &Turn, waits: Waits) -> Result<Option<Delivered>, RuntimeError> {
    let now = turn.instances.now_ms();
    let mut core = turn.instance.lock();
    core.take_in();
    let engine = core.engine.as_mut().ok_or(NO_TURN)?;
    if now.saturating_sub(turn.began_ms) >= turn.instances.shared.options.turn_slice_ms() {
        engine.end_turn_soon();
    }
    match engine.next(waits, now) {
        Ok(Step::Deliver { delivery, time_ms }) => Ok(Some(Delivered { delivery, time_ms })),
        Ok(Step::Wait | Step::Budget | Step::NeedHistory) => Ok(None),
        Err(refusal) => Err(refusal.into()),
    }
}

/// Returns a request to cancel, which is delivered although the code does not wait.
pub(crate) fn interrupt(turn: &Turn) -> Result<Option<Delivered>, RuntimeError> {
    let now = turn.instances.now_ms();
    let mut core = turn.instance.lock();
    core.take_in();
    let engine = core.engine.as_mut().ok_or(NO_TURN)?;
    let delivered = engine.interrupt(now);
    Ok(delivered.map(|(delivery, time_ms)| Delivered { delivery, time_ms }))
}

pub(crate) fn finish(turn: &Turn, end: End) -> Result<(), RuntimeError> {
    turn.with_engine(|engine| engine.finish(end))?
        .map_err(RuntimeError::from)
}

/// Commits the work of a turn after all fibers wait, or after the code has ended. Returns `true` if the instance is
/// released with the turn.
pub(crate) fn end(turn: Turn) -> bool {
    let Turn {
        instances, instance, ..
    } = turn;
    let now = instances.now_ms();
    let mut core = instance.lock();
    core.take_in();
    let Some(engine) = &mut core.engine else { return false };
    let mut output = engine.end_turn();
    let is_live = !engine.is_replaying();
    let next = engine
        .next_execution()
        .map(|started| next_execution(&instances, started, now));
    core.settle_held();
    let is_runnable = core.next(now) != NextAction::Rest;
    if core.reloaded && is_live {
        // The engine names every open activity once it is past its history. Activities that run here already must not
        // be started again. An activity that has ended was taken in above, or is still there: both change under the
        // lock of the core.
        let activities = instances.activities.attempts.lock();
        let runs = |effect: &Effect| matches!(effect, Effect::StartActivity { task, .. } if activities.has(instance.key(), instance.execution, task.scheduled));
        output.effects.retain(|effect| !runs(effect));
        core.reloaded = false;
    }
    let division = tasks::divide(&instances.activities, &mut core.lent, &mut output);
    let offered = core.lent.offered();
    let hold_ms = i64::try_from(instances.shared.options.hold_timer.as_millis()).unwrap_or(i64::MAX);
    let hold_until_ms = now.saturating_add(hold_ms);
    let after = match output.waiting {
        Waiting::History { from } => {
            debug_assert!(output.is_empty(), "a replay stores nothing");
            if core.control.block() {
                drop(core);
                instances.load(instance, from);
            }
            return false;
        }
        Waiting::Ended(terminal) => match (status_of(terminal), next) {
            (Some(status), _) => AfterTurn::End { status },
            (None, next) => AfterTurn::ContinueAsNew(Box::new(next.expect("it continued as new"))),
        },
        // Other workers run these activities and report their ends.
        Waiting::Outside {
            open_activities,
            timer_at_ms,
        } if open_activities == offered && timer_at_ms.is_none_or(|at| at > hold_until_ms) && !is_runnable => {
            AfterTurn::Release {
                wake_at_ms: timer_at_ms,
            }
        }
        Waiting::More | Waiting::Outside { .. } => AfterTurn::Hold,
    };
    if after == AfterTurn::Hold && output.is_empty() && division.offers.is_empty() && core.start.is_none() {
        let kept = Kept::of(&mut output, after);
        go_on(&instances, &instance, core, kept);
        instances.turn_done(&instance);
        return false;
    }
    let sleeps = matches!(after, AfterTurn::Release { .. });
    if core.control.block() {
        let mut kept = Kept::of(&mut output, after);
        if is_planted(Bug::EffectsBeforeCommit) {
            instances
                .activities
                .carry_out(&instance, &core.heartbeats, kept.effects.clone());
        }
        let cross_instance = output.cross_instance.take();
        let ends = matches!(kept.after, AfterTurn::End { .. } | AfterTurn::ContinueAsNew(_));
        let mut heartbeats_over = core.heartbeats.over(&output.events, ends, &instances.services.alarms);
        heartbeats_over.extend(division.over);
        if ends {
            heartbeats_over.extend(core.lent.end_all());
        }
        let mut commit = commit_of(&instances, &instance, &core, output, &kept, now);
        commit.heartbeats_over = heartbeats_over;
        let start = core.start.take();
        drop(core);
        kept.has_offered = !division.offers.is_empty();
        if cross_instance.is_some() || kept.has_offered || !division.withdrawn.is_empty() {
            let (mut cross_instance, claimed) =
                cross_instance::prepare(&instances, &instance, *cross_instance.unwrap_or_default(), now);
            (cross_instance.offers, cross_instance.withdrawn) = (division.offers, division.withdrawn);
            commit.cross_instance = Some(cross_instance);
            kept.claimed = claimed;
        }
        let store = Arc::clone(&instances.shared.store);
        let Some(start) = start else {
            let claim = kept
                .claimed
                .iter()
                .any(Option::is_some)
                .then(|| instances.worker.claim());
            let done = Box::new(move |answer| {
                instances.worker.carry(|| answered(&instances, &instance, kept, answer));
                drop(claim);
            });
            store
                .committer
                .submit(Write::Turn(Box::new(commit)), Patience::Endless, done);
            return sleeps;
        };
        let (mut new, done, logs) = start.take();
        let claim = instances.worker.claim();
        new.first_turn = Some(Box::new(commit));
        let done = Box::new(move |answer| {
            instances
                .worker
                .carry(|| first_turn_answered(&instances, &instance, kept, logs, done, answer));
            drop(claim);
        });
        store.committer.submit(Write::Start(new), Patience::Limited, done);
    }
    sleeps
}

/// Handles the answer to a start with its first turn.
fn first_turn_answered(
    instances: &Arc<Instances>,
    instance: &Arc<Instance>,
    kept: Kept,
    logs: Vec<LogRecord>,
    done: WriteDone,
    answer: Result<Outcome, ProviderError>,
) {
    match instances.started(instance, logs, done, answer) {
        (true, Some(committed)) => answered(instances, instance, kept, Ok(committed)),
        // The instances that the turn started and claimed are this worker's, although the instance itself is not.
        (
            false,
            Some(Outcome::Committed {
                others: Some(others), ..
            }),
        ) => {
            cross_instance::written(instances, kept.claimed, *others);
            instances.worker.draining.tell();
        }
        _ => {}
    }
}

/// Suspends an instance whose code does not fit its history, or cannot be run. The report names the place in the code
/// where that showed.
pub(crate) fn suspend(turn: Turn, source: &str, report: Option<&str>) {
    let report = {
        let core = turn.instance.lock();
        match (core.engine.as_ref().and_then(Engine::fault), report) {
            (Some(Fault::Mismatch(mismatch)), _) if turn.instances.shared.store.provider.info().hides_values => {
                Report::of_mismatch(&mismatch.without_values(), source)
            }
            (Some(Fault::Mismatch(mismatch)), _) => Report::of_mismatch(mismatch, source),
            (_, Some(report)) => Report::told(report, source),
            (Some(Fault::Limit(limit)), None) => Report::of_limit(*limit),
            (None, None) => Report::of_problem(source),
        }
    };
    turn.instances.suspend(&turn.instance, report);
}

/// Returns the status of an instance after the end of an execution; `None`: the instance goes on.
const fn status_of(terminal: Terminal) -> Option<Status> {
    match terminal {
        Terminal::Completed => Some(Status::Completed),
        Terminal::Failed => Some(Status::Failed),
        Terminal::Cancelled => Some(Status::Cancelled),
        Terminal::ContinuedAsNew => None,
    }
}

/// Returns the execution that begins with this start. The execution stays here if this worker can run its version and is
/// not shutting down.
fn next_execution(instances: &Instances, started: &ExecutionStarted, now: i64) -> NextExecution {
    let ExecutionStarted { name, version, .. } = started;
    NextExecution {
        version: version.clone(),
        hold: !instances.worker.draining.has_begun() && instances.shared.registry.lock().has(name, version),
        first_event: EventRecord::new(EventId::FIRST, now, started.clone()),
    }
}

/// The parts of a turn that are needed when its commit is answered.
struct Kept {
    after: AfterTurn,
    effects: Vec<Effect>,
    waiting: Waiting,
    next_event_id: EventId,
    /// True if clients may wait for a change that the turn makes.
    changes_status: bool,
    /// The instances that the turn started and claimed.
    claimed: Claimed,
    /// True if the turn has offered attempts to other workers.
    has_offered: bool,
}

impl Kept {
    fn of(output: &mut TurnOutput, after: AfterTurn) -> Self {
        Self {
            effects: std::mem::take(&mut output.effects),
            waiting: output.waiting.clone(),
            next_event_id: EventId(output.next_event_id.0 + output.events.len() as u64),
            changes_status: output.custom_status.is_some() || matches!(after, AfterTurn::End { .. }),
            after,
            claimed: Claimed::new(),
            has_offered: false,
        }
    }
}

fn commit_of(
    instances: &Instances,
    instance: &Instance,
    core: &Core,
    output: TurnOutput,
    kept: &Kept,
    now: i64,
) -> TurnCommit {
    TurnCommit {
        key: instance.key(),
        worker: instances.worker.id.clone(),
        epoch: core.epoch,
        execution: instance.execution,
        next_event_id: output.next_event_id,
        events: output.events,
        consumed: output.consumed,
        seen: core.seen,
        heartbeats_over: Vec::new(),
        custom_status: output.custom_status.map(|value| StatusChange { value }),
        cross_instance: None,
        // A client that started the instance here waits for its end, or is about to.
        tell_status: kept.changes_status
            && (instances.shared.store.watch.awaits(&instance.id)
                || core.was_started_here && matches!(kept.after, AfterTurn::End { .. })),
        after: kept.after.clone(),
        time_ms: now,
    }
}

/// Handles the answer to a commit. The provider's answer calls this.
fn answered(
    instances: &Arc<Instances>,
    instance: &Arc<Instance>,
    mut kept: Kept,
    answer: Result<Outcome, ProviderError>,
) {
    let store = &instances.shared.store;
    match answer {
        Ok(Outcome::Committed {
            wake_at_ms,
            mut status,
            others,
        }) => {
            let changes_status = kept.changes_status;
            if let Some(others) = others {
                instance.lock().rereads |= others.refused;
                cross_instance::written(instances, std::mem::take(&mut kept.claimed), *others);
            }
            if kept.has_offered {
                store.look_at_tasks();
            }
            let mut core = instance.lock();
            core.committed(kept.next_event_id);
            if std::mem::take(&mut core.is_new) {
                instances.shared.metrics.started.add(1);
            }
            match kept.after {
                AfterTurn::Hold => go_on(instances, instance, core, kept),
                AfterTurn::Release { .. } => {
                    // The turn starts nothing here. But the operations that it gave up are told by nothing else,
                    // because a kept instance is not forgotten.
                    instances
                        .activities
                        .carry_out(instance, &core.heartbeats, std::mem::take(&mut kept.effects));
                    drop(core);
                    released(instances, instance);
                    if let Some(at) = wake_at_ms {
                        instances.worker.due_at(at);
                    }
                }
                AfterTurn::End { status: end } => {
                    drop(core);
                    // This comes before the waits for the end can be told.
                    instances.shared.ended(instance, end);
                    // This comes before the instance is forgotten, which makes those waits look that were not told.
                    if let Some(status) = status.take() {
                        store.watch.changed(*status);
                    }
                    instances.forget(instance, AbortReason::Cancelled);
                }
                // The instance was forgotten meanwhile. Its next execution is another worker's, or this worker's by a
                // later acquisition.
                AfterTurn::ContinueAsNew(_) if core.control.state() == State::Complete => {
                    drop(core);
                    instances.forget(instance, AbortReason::LeaseLost);
                }
                AfterTurn::ContinueAsNew(next) => {
                    drop(core);
                    instances.shared.metrics.continued_as_new.add(1);
                    instances.succeed(instance, *next);
                    if let Some(at) = wake_at_ms {
                        instances.worker.due_at(at);
                    }
                }
                AfterTurn::Suspend { .. } => unreachable!("a suspension is committed by Session::suspend"),
            }
            instances.shared.metrics.turns.add(1);
            match status {
                Some(status) => store.watch.changed(*status),
                None if changes_status => store.watch.look(&instance.id),
                None => {}
            }
        }
        // The instance was terminated or suspended in this process, or the session is over.
        Ok(Outcome::Fenced) if instance.lock().control.state() == State::Complete => {
            instances.shared.metrics.fenced.add(1)
        }
        Ok(Outcome::Fenced) => {
            instances.shared.log_about(
                &**instance,
                Level::Warn,
                format!(
                    "a turn of instance '{}' was not stored: it belongs to another worker by now",
                    instance.id
                ),
            );
            instances.shared.metrics.fenced.add(1);
            let epoch = instance.lock().epoch;
            instances.forget(instance, AbortReason::LeaseLost);
            instances.worker.let_go(instance.key(), epoch);
        }
        Err(error) if error.kind == ProviderErrorKind::Closed => instances.forget(instance, AbortReason::LeaseLost),
        // Another try would not help: the store refuses the work of the turn, and would refuse it again.
        Err(error) => unstorable(instances, instance, &error.to_string()),
        Ok(other) => unstorable(instances, instance, &format!("the store answered {other:?}")),
    }
    instances.turn_done(instance);
    instances.worker.draining.tell();
}

fn unstorable(instances: &Arc<Instances>, instance: &Arc<Instance>, why: &str) {
    instances.suspend(
        instance,
        Report::of_problem(&format!("a turn could not be stored: {why}")),
    );
}

/// Goes on with an instance that stays and whose turn is durable: starts the operations that the turn issued, then lets
/// the instance wait, or have its next turn.
fn go_on(instances: &Arc<Instances>, instance: &Arc<Instance>, mut core: MutexGuard<'_, Core>, kept: Kept) {
    if core.control.state() == State::Complete {
        // The instance was forgotten meanwhile: nothing waits for its operations.
        return;
    }
    instances.activities.carry_out(instance, &core.heartbeats, kept.effects);
    if let Waiting::Outside { timer_at_ms, .. } = kept.waiting
        && core.alarm.map(|alarm| alarm.at_ms) != timer_at_ms
    {
        if let Some(old) = core.alarm.take() {
            instances.services.alarms.cancel(old);
        }
        core.alarm = timer_at_ms.map(|at| {
            instances
                .services
                .alarms
                .set(at, Alarm::Timer(Arc::downgrade(instance)))
        });
    }
    // A search of the store may follow: the messages that the turn consumed are gone from the store by now (B4).
    let then = instance.rest(&mut core, &instances.services, kept.waiting == Waiting::More);
    drop(core);
    if then == NextAction::Rest {
        instances.trim(&mut instances.table.lock());
        instances.worker.draining.tell();
    }
    instances.follow(instance, then);
}

/// Lets go of an instance that sleeps in the store now. If the instance waits for a message, or for an activity that
/// was offered to other workers, its generator is kept for as long as the cache has room.
fn released(instances: &Arc<Instances>, instance: &Arc<Instance>) {
    let is_kept = {
        let mut table = instances.table.lock();
        let mut core = instance.lock();
        let is_owned = table.owns(instance);
        let awaits = core.lent.offered() > 0 || core.engine.as_ref().is_some_and(Engine::awaits_message);
        let is_kept = is_owned && awaits && instances.shared.options.cached_instances_max > 0;
        core.control.complete();
        if is_kept {
            table.keep_released(Arc::clone(instance), core.epoch, core.next_event_id);
        } else if is_owned && core.has_pending_messages() {
            // The messages may be for the next owner of the instance. In the store, that may be this worker already.
            table.came_early(instance.key());
        }
        if !is_kept {
            // This happens under the same lock as the above: messages that come from here on are early, too.
            drop(core);
            table.remove(instance);
        } else {
            drop(core);
            instances.trim(&mut table);
        }
        is_kept
    };
    if !is_kept {
        instances.forget(instance, AbortReason::Cancelled);
    }
}
