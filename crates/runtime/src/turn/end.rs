//! The end of a turn: a plan of what becomes of the instance, and the commit.
//!
//! [`plan_end`] is a pure function. Code before it collects the facts, code after it carries the plan out.

use std::sync::Arc;

use parking_lot::MutexGuard;
use perdure_engine::{Bug, Effect, EventId, EventRecord, ExecutionStarted, Terminal, TurnOutput, Waiting, is_planted};
use perdure_provider::{AfterTurn, NextExecution, Status, StatusChange, TurnCommit, Write};
use perdure_scheduler::NextAction;

use crate::activity::tasks::{self, TaskChanges};
use crate::client::pending_wake::{PendingWake, WakeCause};
use crate::commit::committer::Patience;
use crate::instance::instances::Instances;
use crate::state::pending_start::PendingStart;
use crate::state::{Core, Instance};
use crate::turn::committed::{AfterCommit, answered, first_turn_answered, go_on, tell_answers, wake_answered};
use crate::turn::cross_instance;
use crate::turn::in_progress::Turn;

/// The work of a turn that has ended.
struct TurnEnd {
    output: TurnOutput,
    /// The part of the output that concerns other workers.
    tasks: TaskChanges,
    /// The execution that follows if this one continued as new.
    next: Option<NextExecution>,
    /// True if the instance has more to do at once.
    is_runnable: bool,
}

/// The facts on which the end of a turn depends.
struct EndFacts {
    waiting: Waiting,
    next: Option<NextExecution>,
    /// The number of open activities that other workers run.
    remote: usize,
    is_runnable: bool,
    /// A timer that is due later than this lets the instance sleep, ms since 1970.
    hold_until_ms: i64,
    /// True if the turn has nothing to commit.
    is_empty: bool,
}

/// The continuation of an instance at the end of a turn.
#[derive(Debug, PartialEq)]
enum EndPlan {
    /// The replay goes on when the page of history that begins with this event is read.
    ReadHistory(EventId),
    /// The instance stays, and nothing is committed.
    Stay,
    /// The turn is committed.
    Commit(AfterTurn),
}

/// Decides the continuation of an instance at the end of a turn.
fn plan_end(facts: EndFacts) -> EndPlan {
    let after = match facts.waiting {
        Waiting::History { from } => {
            debug_assert!(facts.is_empty, "a replay stores nothing");
            return EndPlan::ReadHistory(from);
        }
        Waiting::Ended(terminal) => match (status_of(terminal), facts.next) {
            (Some(status), _) => AfterTurn::End { status },
            (None, next) => AfterTurn::ContinueAsNew(Box::new(next.expect("it continued as new"))),
        },
        // Other workers run these activities and report their ends.
        Waiting::Outside {
            open_activities,
            timer_at_ms,
        } if open_activities == facts.remote
            && timer_at_ms.is_none_or(|at| at > facts.hold_until_ms)
            && !facts.is_runnable =>
        {
            AfterTurn::Release {
                wake_at_ms: timer_at_ms,
            }
        }
        Waiting::More | Waiting::Outside { .. } => AfterTurn::Hold,
    };
    if after == AfterTurn::Hold && facts.is_empty {
        EndPlan::Stay
    } else {
        EndPlan::Commit(after)
    }
}

/// Ends a turn after all fibers wait, or after the code has ended. `fibers` is JSON that says what the fibers wait for.
/// Returns `true` if the instance is released with the turn.
pub(crate) fn end(turn: Turn, fibers: Option<&str>) -> bool {
    let Turn {
        instances, instance, ..
    } = turn;
    let now = instances.now_ms();
    let mut core = instance.lock();
    let Some(mut end) = collect(&instances, &instance, &mut core, now) else {
        return false;
    };
    if core
        .wake
        .as_ref()
        .is_some_and(|wake| !wake.fits(end.output.consumed.len()))
    {
        drop(core);
        instances.give_up_wake(&instance);
        return false;
    }
    let hold_ms = match instances.places.are_wanted() {
        true => 0,
        false => i64::try_from(instances.shared.options.hold_timer.as_millis()).unwrap_or(i64::MAX),
    };
    let plan = plan_end(EndFacts {
        waiting: end.output.waiting.clone(),
        next: end.next.take(),
        remote: core.remote_activities.offered(),
        is_runnable: end.is_runnable,
        hold_until_ms: now.saturating_add(hold_ms),
        is_empty: end.output.is_empty() && end.tasks.offers.is_empty() && core.start.is_none() && core.lines.is_empty(),
    });
    match plan {
        EndPlan::ReadHistory(from) => {
            if core.control.block() {
                drop(core);
                instances.load(instance, from);
            }
            false
        }
        EndPlan::Stay if core.wake.is_some() => {
            // There is nothing to write that would acquire the instance.
            drop(core);
            instances.give_up_wake(&instance);
            false
        }
        EndPlan::Stay => {
            let after = AfterCommit::of(&mut end.output, AfterTurn::Hold);
            go_on(&instances, &instance, core, after);
            instances.continue_probation(&instance);
            false
        }
        EndPlan::Commit(after) => {
            let sleeps = matches!(after, AfterTurn::Release { .. });
            if core.control.block() {
                let commit = prepare(&instances, &instance, core, end, Ending { after, fibers, now });
                submit(instances, instance, commit);
            }
            sleeps
        }
    }
}

/// Takes the work of a turn out of the engine. `None`: the instance has no engine any more.
fn collect(instances: &Instances, instance: &Instance, core: &mut Core, now: i64) -> Option<TurnEnd> {
    core.take_in();
    let engine = core.engine.as_mut()?;
    let mut output = engine.end_turn();
    let is_live = !engine.is_replaying();
    let next = engine
        .next_execution()
        .map(|started| next_execution(instances, started, now));
    core.settle_held();
    let is_runnable = core.next(now) != NextAction::Rest;
    if core.reloaded && is_live {
        // The engine names every open activity once it is past its history. Activities that run here already must not
        // be started again. An activity that has ended was taken in above, or is still there: both change under the
        // lock of the core.
        let attempts = instances.activities.attempts.lock();
        output.effects.retain(|effect| match effect {
            Effect::StartActivity { task, .. } => !attempts.has(instance.key(), instance.execution, task.scheduled),
            Effect::AbortActivity { .. } => true,
        });
        core.reloaded = false;
    }
    let tasks = tasks::split_tasks(&instances.activities, &mut core.remote_activities, &mut output);
    Some(TurnEnd {
        output,
        tasks,
        next,
        is_runnable,
    })
}

/// The facts about a commit that are not the work of its turn.
struct Ending<'t> {
    /// State of the instance after the turn.
    after: AfterTurn,
    /// JSON that says what the fibers wait for.
    fibers: Option<&'t str>,
    /// Now, ms since 1970.
    now: i64,
}

/// A turn that is ready to be committed.
struct Prepared {
    commit: TurnCommit,
    /// The start of the instance, if it is written with the turn.
    start: Option<PendingStart>,
    /// The wake, if the turn acquires its instance.
    wake: Option<PendingWake>,
    after: AfterCommit,
}

/// Makes the commit of a turn. Its instance is blocked.
fn prepare(
    instances: &Instances,
    instance: &Arc<Instance>,
    mut core: MutexGuard<'_, Core>,
    end: TurnEnd,
    Ending { after, fibers, now }: Ending<'_>,
) -> Prepared {
    let TurnEnd { mut output, tasks, .. } = end;
    let mut after = AfterCommit::of(&mut output, after);
    if is_planted(Bug::EffectsBeforeCommit) {
        let effects = after.effects.clone();
        instances.activities.carry_out(instance, &core.heartbeats, effects);
    }
    if is_planted(Bug::AnswerToldEarly) {
        tell_answers(instances, instance, &mut after);
    }
    let cross_instance = output.cross_instance.take();
    let ends = matches!(after.turn, AfterTurn::End { .. } | AfterTurn::ContinueAsNew(_));
    let mut heartbeats_over = core.heartbeats.over(&output.events, ends, &instances.services.alarms);
    heartbeats_over.extend(tasks.over);
    if ends {
        heartbeats_over.extend(core.remote_activities.end_all());
    }
    let mut commit = commit_of(instances, instance, &core, output, &after, now);
    commit.heartbeats_over = heartbeats_over;
    commit.open_work = core.engine.as_ref().and_then(|engine| engine.open_work(fibers));
    let keep = instances.shared.options.keep_logs.as_ref();
    commit.logs = keep.and_then(|keep| core.lines.take(keep));
    let start = core.start.take();
    let mut wake = core.wake.take();
    if let Some(wake) = &mut wake {
        commit.wakes = true;
        if matches!(wake.cause, WakeCause::Message { .. }) {
            commit.consumed = Vec::new();
        }
        commit.asked = wake.ask.take();
    }
    drop(core);
    (after.has_offered, after.has_withdrawn) = (!tasks.offers.is_empty(), !tasks.withdrawn.is_empty());
    if cross_instance.is_some() || after.has_offered || after.has_withdrawn {
        let effects = *cross_instance.unwrap_or_default();
        after.places = instances.reserve_for_starts(effects.starts.len());
        let places = after.places.as_ref().map_or(0, |places| places.count);
        let (mut effects, claimed) = cross_instance::prepare(instances, instance, effects, places, now);
        (effects.offers, effects.withdrawn) = (tasks.offers, tasks.withdrawn);
        commit.cross_instance = Some(effects);
        after.claimed = claimed;
    }
    Prepared {
        commit,
        start,
        wake,
        after,
    }
}

/// Hands a turn to the committer, with the start of its instance if that is not written yet.
fn submit(instances: Arc<Instances>, instance: Arc<Instance>, prepared: Prepared) {
    let Prepared {
        commit,
        start,
        wake,
        after,
    } = prepared;
    let store = Arc::clone(&instances.shared.store);
    if let Some(wake) = wake {
        let (wake_done, logs) = wake.take();
        let claim = instances.worker.claim();
        let done = Box::new(move |answer| {
            let answered = || wake_answered(&instances, &instance, after, (wake_done, logs), answer);
            instances.worker.run_answer(answered);
            drop(claim);
        });
        return store
            .committer
            .submit(Write::Turn(Box::new(commit)), Patience::Limited, done);
    }
    let Some(start) = start else {
        let claims = after.claimed.iter().any(Option::is_some);
        let claim = claims.then(|| instances.worker.claim());
        let done = Box::new(move |answer| {
            let answered = || answered(&instances, &instance, after, answer);
            instances.worker.run_answer(answered);
            drop(claim);
        });
        let write = Write::Turn(Box::new(commit));
        return store.committer.submit(write, Patience::Endless, done);
    };
    let (mut new, done, logs) = start.take();
    let claim = instances.worker.claim();
    new.first_turn = Some(Box::new(commit));
    let done = Box::new(move |answer| {
        let answered = || first_turn_answered(&instances, &instance, after, logs, done, answer);
        instances.worker.run_answer(answered);
        drop(claim);
    });
    store.committer.submit(Write::Start(new), Patience::Limited, done);
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

/// Returns the execution that begins with this start. The execution stays here if this worker can run its version, is
/// not shutting down, and no due instance waits for its place (C2).
fn next_execution(instances: &Instances, started: &ExecutionStarted, now: i64) -> NextExecution {
    let ExecutionStarted { name, version, .. } = started;
    NextExecution {
        version: version.clone(),
        hold: !instances.worker.draining.has_begun()
            && !instances.places.are_wanted()
            && instances.shared.registry.lock().has(name, version),
        first_event: EventRecord::new(EventId::FIRST, now, started.clone()),
    }
}

fn commit_of(
    instances: &Instances,
    instance: &Instance,
    core: &Core,
    output: TurnOutput,
    after: &AfterCommit,
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
        state: output.state,
        answers: output.answers,
        appends: output.appends,
        open_work: None,
        logs: None,
        cross_instance: None,
        wakes: false,
        asked: None,
        // A client that started the instance here waits for its end, or is about to.
        tell_status: after.changes_status
            && (instances.shared.store.watch.awaits(&instance.id)
                || core.was_started_here && matches!(after.turn, AfterTurn::End { .. })),
        after: after.turn.clone(),
        time_ms: now,
    }
}

#[cfg(test)]
mod tests {
    use perdure_engine::StateValues;

    use super::*;

    const HOLD_UNTIL_MS: i64 = 1_000;

    fn outside(open_activities: usize, timer_at_ms: Option<i64>) -> Waiting {
        Waiting::Outside {
            open_activities,
            timer_at_ms,
        }
    }

    fn facts(waiting: Waiting, remote: usize, is_empty: bool) -> EndFacts {
        EndFacts {
            waiting,
            next: None,
            remote,
            is_runnable: false,
            hold_until_ms: HOLD_UNTIL_MS,
            is_empty,
        }
    }

    fn release(wake_at_ms: Option<i64>) -> EndPlan {
        EndPlan::Commit(AfterTurn::Release { wake_at_ms })
    }

    fn ended(status: Status) -> EndPlan {
        EndPlan::Commit(AfterTurn::End { status })
    }

    #[test]
    fn an_instance_stays_or_is_released_by_its_waits() {
        let hold = || EndPlan::Commit(AfterTurn::Hold);
        let late = Some(HOLD_UNTIL_MS + 1);
        let table = [
            // (waiting, activities that run elsewhere, nothing to commit, plan)
            (outside(0, None), 0, false, release(None)),
            (outside(0, None), 0, true, release(None)),
            (outside(0, late), 0, true, release(late)),
            (outside(0, Some(HOLD_UNTIL_MS)), 0, true, EndPlan::Stay),
            (outside(0, Some(HOLD_UNTIL_MS)), 0, false, hold()),
            (outside(1, None), 0, false, hold()),
            (outside(1, None), 0, true, EndPlan::Stay),
            (outside(1, None), 1, false, release(None)),
            (outside(2, late), 1, false, hold()),
            (Waiting::More, 0, false, hold()),
            (Waiting::More, 0, true, EndPlan::Stay),
            (
                Waiting::History { from: EventId(7) },
                0,
                true,
                EndPlan::ReadHistory(EventId(7)),
            ),
            (Waiting::Ended(Terminal::Completed), 0, false, ended(Status::Completed)),
            (Waiting::Ended(Terminal::Failed), 1, false, ended(Status::Failed)),
            (Waiting::Ended(Terminal::Cancelled), 0, false, ended(Status::Cancelled)),
        ];
        for (waiting, remote, is_empty, plan) in table {
            let told = format!("{waiting:?}, {remote} elsewhere, empty: {is_empty}");
            assert_eq!(plan_end(facts(waiting, remote, is_empty)), plan, "{told}");
        }
    }

    #[test]
    fn an_instance_with_more_to_do_is_not_released() {
        for (is_empty, plan) in [(true, EndPlan::Stay), (false, EndPlan::Commit(AfterTurn::Hold))] {
            let facts = EndFacts {
                is_runnable: true,
                ..facts(outside(0, None), 0, is_empty)
            };
            assert_eq!(plan_end(facts), plan);
        }
    }

    #[test]
    fn an_execution_that_continues_as_new_hands_over_to_the_next_one() {
        let started = ExecutionStarted {
            name: "main".into(),
            version: "2.0.0".into(),
            input: None,
            seed: 0,
            incarnation: None,
            parent: None,
            custom_status: None,
            state: StateValues::new(),
            closed_streams: Default::default(),
            time_limit: None,
            trace: None,
        };
        let next = NextExecution {
            version: "2.0.0".into(),
            first_event: EventRecord::new(EventId::FIRST, 0, started),
            hold: true,
        };
        let facts = EndFacts {
            next: Some(next.clone()),
            ..facts(Waiting::Ended(Terminal::ContinuedAsNew), 0, false)
        };
        assert_eq!(
            plan_end(facts),
            EndPlan::Commit(AfterTurn::ContinueAsNew(Box::new(next)))
        );
    }
}
