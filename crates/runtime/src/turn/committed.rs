//! The answer to the commit of a turn, and the work that follows once the turn is durable.

use std::sync::Arc;

use parking_lot::MutexGuard;
use perdure_engine::{AnsweredAsk, Effect, Engine, EventId, TurnOutput, Waiting};
use perdure_provider::{
    AfterTurn, AskName, AskState, CrossInstanceOutcome, InstanceStatus, Outcome, ProviderError, ProviderErrorKind,
    StreamName,
};
use perdure_scheduler::{NextAction, Process, State};

use crate::client::pending_wake::{Done, WakeEnd};
use crate::commit::committer::WriteDone;
use crate::instance::instances::Instances;
use crate::instance::places::ReservedPlaces;
use crate::log::{Level, LogRecord};
use crate::options::TIMER_KEPT_MS;
use crate::report::Report;
use crate::state::alarm::Alarm;
use crate::state::attempt::AbortReason;
use crate::state::{Core, Instance};
use crate::turn::cross_instance::{self, Claimed};
use crate::turn::failures::Failures;

/// The parts of a turn that are needed when its commit is answered.
pub(super) struct AfterCommit {
    pub(super) turn: AfterTurn,
    pub(super) effects: Vec<Effect>,
    pub(super) waiting: Waiting,
    pub(super) next_event_id: EventId,
    /// True if clients may wait for a change that the turn makes.
    pub(super) changes_status: bool,
    /// The asks that the turn answers.
    pub(super) answers: Vec<AnsweredAsk>,
    /// Streams that the turn has appended to.
    pub(super) streams: Vec<String>,
    /// The instances that the turn started and claimed.
    pub(super) claimed: Claimed,
    /// The places of these instances. They are free again when this is dropped, after the instances have come.
    pub(super) places: Option<ReservedPlaces>,
    /// True if the turn has offered attempts to other workers.
    pub(super) has_offered: bool,
    /// True if the turn has withdrawn attempts, which may have had slots of queues.
    pub(super) has_withdrawn: bool,
    /// The failures that the turn records.
    pub(super) failures: Failures,
}

impl AfterCommit {
    pub(super) fn of(output: &mut TurnOutput, after: AfterTurn) -> Self {
        Self {
            effects: std::mem::take(&mut output.effects),
            waiting: output.waiting.clone(),
            next_event_id: EventId(output.next_event_id.0 + output.events.len() as u64),
            changes_status: output.custom_status.is_some()
                || !output.state.is_empty()
                || matches!(after, AfterTurn::End { .. }),
            turn: after,
            answers: output.answers.clone(),
            streams: output.appends.iter().map(|append| append.stream.clone()).collect(),
            claimed: Claimed::new(),
            places: None,
            has_offered: false,
            has_withdrawn: false,
            failures: Failures::of(output),
        }
    }
}

/// Handles the answer to a start with its first turn.
pub(super) fn first_turn_answered(
    instances: &Arc<Instances>,
    instance: &Arc<Instance>,
    after: AfterCommit,
    logs: Vec<LogRecord>,
    done: WriteDone,
    answer: Result<Outcome, ProviderError>,
) {
    match instances.started(instance, logs, done, answer) {
        (true, Some(committed)) => answered(instances, instance, after, Ok(committed)),
        // The instances that the turn started and claimed are this worker's, although the instance itself is not.
        (
            false,
            Some(Outcome::Committed {
                others: Some(others), ..
            }),
        ) => {
            cross_instance::written(instances, after.claimed, *others);
            instances.worker.draining.tell();
        }
        _ => {}
    }
}

/// Handles the answer to a turn that wakes its instance.
pub(super) fn wake_answered(
    instances: &Arc<Instances>,
    instance: &Arc<Instance>,
    after: AfterCommit,
    (done, logs): (Done, Vec<LogRecord>),
    answer: Result<Outcome, ProviderError>,
) {
    let end = instances.woken(instance, logs, &answer);
    if let WakeEnd::Written = end {
        answered(instances, instance, after, answer);
    } else {
        instances.worker.draining.tell();
    }
    // This comes last: the next message of the sender then finds the instance asleep, if it is.
    done(end);
}

/// Handles the answer to a commit. The provider's answer calls this.
pub(super) fn answered(
    instances: &Arc<Instances>,
    instance: &Arc<Instance>,
    after: AfterCommit,
    answer: Result<Outcome, ProviderError>,
) {
    match answer {
        Ok(Outcome::Committed {
            wake_at_ms,
            status,
            others,
        }) => committed(instances, instance, after, wake_at_ms, status, others),
        // The instance was terminated or suspended in this process, or the session is over.
        Ok(Outcome::Fenced) if instance.lock().control.state() == State::Complete => {
            instances.shared.metrics.fenced.add(1)
        }
        Ok(Outcome::Fenced) => fenced(instances, instance),
        Err(error) if error.kind == ProviderErrorKind::Closed => instances.forget(instance, AbortReason::LeaseLost),
        // Another try would not help: the store refuses the work of the turn, and would refuse it again.
        Err(error) => unstorable(instances, instance, &error.to_string()),
        Ok(other) => unstorable(instances, instance, &format!("the store answered {other:?}")),
    }
    instances.continue_probation(instance);
    instances.worker.draining.tell();
}

/// Follows up on a durable turn. `status` is the new status of the instance if the commit carries it.
fn committed(
    instances: &Arc<Instances>,
    instance: &Arc<Instance>,
    mut after: AfterCommit,
    wake_at_ms: Option<i64>,
    mut status: Option<Box<InstanceStatus>>,
    cross_instance: Option<Box<CrossInstanceOutcome>>,
) {
    let (store, changes_status) = (&instances.shared.store, after.changes_status);
    tell_clients(instances, instance, &mut after);
    if let Some(outcome) = cross_instance {
        instance.lock().rereads |= outcome.refused;
        cross_instance::written(instances, std::mem::take(&mut after.claimed), *outcome);
    }
    if after.has_offered {
        store.look_at_tasks();
    }
    let error = std::mem::take(&mut after.failures).log(&instances.shared, instance);
    let mut core = instance.lock();
    core.committed(after.next_event_id);
    if std::mem::take(&mut core.is_new) {
        instances.shared.metrics.started.add(1);
    }
    match after.turn {
        AfterTurn::Hold => go_on(instances, instance, core, after),
        AfterTurn::Release { .. } => {
            // The turn starts nothing here. But the operations that it gave up are told by nothing else,
            // because a kept instance is not forgotten.
            instances
                .activities
                .carry_out(instance, &core.heartbeats, std::mem::take(&mut after.effects));
            drop(core);
            released(instances, instance, wake_at_ms);
            if let Some(at) = wake_at_ms {
                instances.worker.due_at(at);
            }
        }
        AfterTurn::End { status: end } => {
            drop(core);
            // This comes before the waits for the end can be told.
            instances.shared.ended(instance, end, error.as_deref());
            // This comes before the instance is forgotten, which makes those waits look that were not told.
            if let Some(status) = status.take() {
                store.watch.changed(&instance.id, *status);
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
            instances.begin_next_execution(instance, *next);
            if let Some(at) = wake_at_ms {
                instances.worker.due_at(at);
            }
        }
        AfterTurn::Suspend { .. } => unreachable!("a suspension is committed by Session::suspend"),
    }
    instances.shared.metrics.turns.add(1);
    match status {
        Some(status) => store.watch.changed(&instance.id, *status),
        None if changes_status => store.watch.mark_changed(&instance.id),
        None => {}
    }
}

/// Tells the clients of this process about the asks and the streams that the turn has changed, and the workers about an
/// end, also of an attempt. A release is told, too: a queue may count the instances that a worker owns.
fn tell_clients(instances: &Instances, instance: &Instance, after: &mut AfterCommit) {
    if after.has_withdrawn || matches!(after.turn, AfterTurn::End { .. } | AfterTurn::Release { .. }) {
        instances.shared.store.slot_may_be_free();
    }
    tell_answers(instances, instance, after);
    tell_readers(instances, instance, after);
}

/// Tells the clients of this process the answers to their asks, or that these have ended with the instance.
pub(super) fn tell_answers(instances: &Instances, instance: &Instance, after: &mut AfterCommit) {
    let asks = &instances.shared.store.asks;
    for AnsweredAsk { ask, answer } in std::mem::take(&mut after.answers) {
        let instance = instance.id.clone();
        asks.changed(&AskName { instance, ask }, AskState::Answered(answer));
    }
    if matches!(after.turn, AfterTurn::End { .. }) {
        asks.mark_asks_of(&instance.id);
    }
}

/// Tells the readers of this process that the turn has appended to streams, or that these have ended with the instance.
fn tell_readers(instances: &Instances, instance: &Instance, after: &mut AfterCommit) {
    let streams = &instances.shared.store.streams;
    for stream in std::mem::take(&mut after.streams) {
        let instance = instance.id.clone();
        streams.mark_changed(&StreamName { instance, stream });
    }
    if matches!(after.turn, AfterTurn::End { .. }) {
        streams.mark_streams_of(&instance.id);
    }
}

/// Forgets an instance whose turn was refused, because it belongs to another worker.
fn fenced(instances: &Arc<Instances>, instance: &Arc<Instance>) {
    let message = format!(
        "a turn of instance '{}' was not stored: another worker owns the instance now",
        instance.id
    );
    instances.shared.log_for(&**instance, Level::Warn, message);
    instances.shared.metrics.fenced.add(1);
    let epoch = instance.lock().epoch;
    instances.forget(instance, AbortReason::LeaseLost);
    instances.worker.release_instance(instance.key(), epoch);
}

fn unstorable(instances: &Arc<Instances>, instance: &Arc<Instance>, why: &str) {
    instances.suspend(
        instance,
        Report::of_problem(&format!("a turn could not be stored: {why}")),
    );
}

/// Goes on with an instance that stays and whose turn is durable: starts the operations that the turn issued, then lets
/// the instance wait, or have its next turn.
pub(super) fn go_on(
    instances: &Arc<Instances>,
    instance: &Arc<Instance>,
    mut core: MutexGuard<'_, Core>,
    after: AfterCommit,
) {
    if core.control.state() == State::Complete {
        // The instance was forgotten meanwhile: nothing waits for its operations.
        return;
    }
    instances
        .activities
        .carry_out(instance, &core.heartbeats, after.effects);
    if let Waiting::Outside { timer_at_ms, .. } = after.waiting
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
    let then = instance.rest(&mut core, &instances.services, after.waiting == Waiting::More);
    drop(core);
    if then == NextAction::Rest {
        instances.trim(&mut instances.table.lock());
        instances.worker.draining.tell();
    }
    instances.follow(instance, then);
}

/// Releases an instance that sleeps in the store now. Its generator is kept for as long as the cache has room, if the
/// instance waits for a message, for an activity that was offered to other workers, or for a timer that is due soon.
fn released(instances: &Arc<Instances>, instance: &Arc<Instance>, wake_at_ms: Option<i64>) {
    let is_soon = wake_at_ms.is_some_and(|at_ms| at_ms <= instances.now_ms() + TIMER_KEPT_MS);
    let is_kept = {
        let mut table = instances.table.lock();
        let mut core = instance.lock();
        let is_owned = table.owns(instance);
        let awaits = core.remote_activities.offered() > 0 || core.engine.as_ref().is_some_and(Engine::awaits_message);
        let is_kept = is_owned && (awaits || is_soon) && instances.shared.options.cached_instances_max > 0;
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
    if is_kept {
        instances.places.freed();
    } else {
        instances.forget(instance, AbortReason::Cancelled);
    }
}
