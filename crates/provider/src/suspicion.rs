//! Suspicion against instances that may be poison pills: their workers were lost while they owned them, or in the
//! middle of their turns (P14).

use crate::{Epoch, InstanceKey, TaskName, WorkerId};

/// The suspicion against an instance. A turn that appends events takes it back to nothing, and so does a resume.
///
/// The first steps say little: a dead worker leaves one on each instance that it owned, and most of these had nothing
/// to do with its death. From [`SUSPECT`](Self::SUSPECT) on an instance is tried, which is announced with a
/// [`Probation`]. A worker that dies meanwhile makes each of the instances that it tried together
/// [`ISOLATED`](Self::ISOLATED), and these are tried alone. Each step beyond that is evidence: the worker died while it
/// tried this instance alone, or a turn of the instance held up the worker's thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suspicion(pub u32);

impl Suspicion {
    /// The highest value for an instance that is not tried.
    pub const SUSPECT: Self = Self(2);
    /// The highest value without evidence.
    pub const ISOLATED: Self = Self(3);
    /// The value at which an instance is suspended.
    pub const MAX: Self = Self(6);
    /// Number of pieces of evidence that suspend an instance: of workers that died or were blocked while it was
    /// running.
    pub const EVIDENCE_MAX: u32 = Self::MAX.0 - Self::ISOLATED.0;

    /// Returns true if the instance is to be tried.
    #[must_use]
    pub fn is_suspect(self) -> bool {
        self >= Self::SUSPECT
    }

    /// Returns true if the instance is to be tried alone.
    #[must_use]
    pub fn needs_isolation(self) -> bool {
        self >= Self::ISOLATED
    }

    /// Returns the suspicion after the death of the instance's worker. `probation` is the last step that the worker had
    /// announced of a probation.
    #[must_use]
    pub fn after_death(self, probation: ProbationStep) -> Self {
        match probation {
            ProbationStep::Alone => self.after_stall(),
            _ if !self.is_suspect() => Self(self.0 + 1),
            ProbationStep::WithOthers => self.max(Self::ISOLATED),
            ProbationStep::End => self,
        }
    }

    /// Returns the suspicion after a turn of the instance that has held up its worker's thread.
    #[must_use]
    pub fn after_stall(self) -> Self {
        Self(self.max(Self::ISOLATED).0 + 1)
    }

    /// Returns the suspicion after a probation that ended without incident: an accusation without evidence is
    /// forgotten.
    #[must_use]
    pub fn after_probation(self) -> Self {
        if self == Self::ISOLATED { Self::SUSPECT } else { self }
    }

    /// Returns true if the instance is to be suspended.
    #[must_use]
    pub fn is_enough(self) -> bool {
        self >= Self::MAX
    }

    /// Returns the time that the instance rests before it is due again, so that others get on meanwhile, ms.
    #[must_use]
    pub fn rest_ms(self) -> i64 {
        i64::from(self.0.saturating_sub(Self::ISOLATED.0)) * REST_MS
    }
}

/// Rest for each piece of evidence, ms.
pub const REST_MS: i64 = 500;

/// The probation of a suspect: if its worker dies during the probation, that adds to the suspicion. A probation ends
/// when its end is announced, with a turn that appends events, and with every change of the owner.
#[derive(Clone, Debug)]
pub struct Probation {
    /// The step that is announced.
    pub step: ProbationStep,
    /// The instance.
    pub key: InstanceKey,
    /// Fence: its owner.
    pub worker: WorkerId,
    /// Fence: its epoch.
    pub epoch: Epoch,
}

/// A step of a probation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbationStep {
    /// The probation is over, without incident.
    #[default]
    End,
    /// The probation begins, and other instances of the worker may be tried at the same time.
    WithOthers,
    /// The probation begins, and no other instance is tried until it is over.
    Alone,
}

impl ProbationStep {
    /// Returns the number that stores keep.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            ProbationStep::End => 0,
            ProbationStep::WithOthers => 1,
            ProbationStep::Alone => 2,
        }
    }
}

/// An instance that was suspended because there was too much suspicion against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoisonPill {
    /// The user's name of the instance.
    pub id: String,
    /// Name of its orchestration.
    pub name: String,
    /// Version of its orchestration.
    pub version: String,
    /// Its execution.
    pub execution: u64,
}

/// The result of a takeover of dead workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// The workers that were registered until now.
    pub workers: Vec<WorkerId>,
    /// The instances that were suspended by the takeover.
    pub poison_pills: Vec<PoisonPill>,
}

/// A request to release what a worker owns and runs while its thread does not answer. The worker stays registered.
#[derive(Clone, Debug)]
pub struct ReleaseMost {
    /// The worker.
    pub worker: WorkerId,
    /// The instance whose turn holds the thread, and the epoch in which it was acquired. This is evidence against it.
    pub stalled: Option<(InstanceKey, Epoch)>,
    /// Instances that the worker keeps.
    pub kept: Vec<InstanceKey>,
    /// Tasks that the worker keeps.
    pub kept_tasks: Vec<TaskName>,
    /// The reason of the suspension of the stalled instance, if it is suspended.
    pub report: String,
}

/// The result of a [`ReleaseMost`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleasedMost {
    /// Instances that the worker no longer owns, and their epochs.
    pub instances: Vec<(InstanceKey, Epoch)>,
    /// The stalled instance, if it was suspended by that. It is also in `instances`.
    pub poison_pill: Option<PoisonPill>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_outside_of_trials_do_not_convict() {
        let dies = |so_far: Suspicion, _| so_far.after_death(ProbationStep::End);
        assert_eq!((0..100).fold(Suspicion::default(), dies), Suspicion::SUSPECT);
        let dies = |so_far: Suspicion, _| so_far.after_death(ProbationStep::WithOthers);
        assert_eq!((0..100).fold(Suspicion::default(), dies), Suspicion::ISOLATED);
    }

    #[test]
    fn three_pieces_of_evidence_are_enough() {
        for first in [Suspicion::default(), Suspicion::SUSPECT, Suspicion::ISOLATED] {
            let twice = first.after_stall().after_death(ProbationStep::Alone);
            assert!(!twice.is_enough());
            assert!(twice.after_stall().is_enough());
            assert!(twice.after_probation().after_death(ProbationStep::Alone).is_enough());
        }
    }
}
