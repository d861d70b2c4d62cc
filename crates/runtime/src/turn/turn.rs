//! A turn, from the job to its commit. Everything here but the commit's answer runs on the
//! lane's thread.

use std::sync::Arc;

use perdure_engine::{Command, Delivery, Engine, EventId, Fault, Outcome as End, Step, Waits};
use perdure_scheduler::{LaneId, NextAction, Process};

use crate::error::RuntimeError;
use crate::instance::instances::Instances;
use crate::report::Report;
use crate::state::Instance;
use crate::turn::in_progress::Turn;

/// The next delivery to the code of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivered {
    /// The delivery.
    pub delivery: Delivery,
    /// The deterministic time from here on, ms since 1970.
    pub time_ms: i64,
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
        // Those of a turn that came to nothing.
        core.lines.clear();
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
pub(crate) fn next(turn: &Turn, waits: Waits) -> Result<Option<Delivered>, RuntimeError> {
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
            (_, Some(report)) => Report::of_host(report, source),
            (Some(Fault::Limit(limit)), None) => Report::of_limit(*limit),
            (None, None) => Report::of_problem(source),
        }
    };
    turn.instances.suspend(&turn.instance, report);
}
