//! Suspicion against instances that may be poison pills: their workers were lost while they owned them, or in the
//! middle of their turns (P14).

use crate::{Epoch, InstanceKey, TaskName, WorkerId};

/// The suspicion against an instance. A turn that appends events takes it back to nothing, and so does a resume.
///
/// The first steps say little: a dead worker leaves one on each instance that it owned, and most of these had nothing
/// to do with its death. From [`SUSPECT`](Self::SUSPECT) on an instance is tried, which is announced with a
/// [`Probation`]. A worker that dies meanwhile makes each of the instances that it tried together
/// [`ISOLATED`](Self::ISOLATED), and these are tried alone. Each loss beyond that is evidence. Evidence is *firm* if
/// the turn of the instance was running: the worker died in that turn, or the turn held up the worker's thread. It is
/// *slight* if the worker died when that turn was over and the activities of the instance were running. Slight
/// evidence is forgotten after a probation without incident.
///
/// The last decimal digit is the step, with one for each piece of firm evidence. The tens count the slight evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suspicion(pub u32);

impl Suspicion {
    /// The step from which on an instance is tried.
    pub const SUSPECT: Self = Self(2);
    /// The step from which on an instance is tried alone: the highest one without evidence.
    pub const ISOLATED: Self = Self(3);
    /// One piece of slight evidence.
    pub const SLIGHT: u32 = 10;
    /// Number of pieces of evidence that suspend an instance: of workers that died or were blocked while it was
    /// running.
    pub const EVIDENCE_MAX: u32 = 3;

    const fn step(self) -> u32 {
        self.0 % Self::SLIGHT
    }

    /// Returns the number of pieces of evidence.
    #[must_use]
    pub const fn evidence(self) -> u32 {
        self.step().saturating_sub(Self::ISOLATED.0) + self.0 / Self::SLIGHT
    }

    /// Returns true if the instance is to be tried.
    #[must_use]
    pub fn is_suspect(self) -> bool {
        self.step() >= Self::SUSPECT.0
    }

    /// Returns true if the instance is to be tried alone.
    #[must_use]
    pub fn needs_isolation(self) -> bool {
        self.step() >= Self::ISOLATED.0
    }

    /// Returns the suspicion after the death of the instance's worker. `probation` is the last step that the worker had
    /// announced of a probation.
    #[must_use]
    pub fn after_death(self, probation: ProbationStep) -> Self {
        match probation {
            ProbationStep::Alone => self.after_stall(),
            ProbationStep::Activities => Self(self.isolated().0 + Self::SLIGHT),
            _ if !self.is_suspect() => Self(self.0 + 1),
            ProbationStep::WithOthers => self.isolated(),
            ProbationStep::End => self,
        }
    }

    fn isolated(self) -> Self {
        Self(self.0 - self.step() + self.step().max(Self::ISOLATED.0))
    }

    /// Returns the suspicion after a turn of the instance that has held up its worker's thread.
    #[must_use]
    pub fn after_stall(self) -> Self {
        Self(self.isolated().0 + 1)
    }

    /// Returns the suspicion after a probation that ended without incident: an accusation without evidence is
    /// forgotten, and so is slight evidence.
    #[must_use]
    pub fn after_probation(self) -> Self {
        match Self(self.step()) {
            Self::ISOLATED => Self::SUSPECT,
            step => step,
        }
    }

    /// Returns true if the instance is to be suspended.
    #[must_use]
    pub fn is_enough(self) -> bool {
        self.evidence() >= Self::EVIDENCE_MAX
    }

    /// Returns the time that the instance rests before it is due again, so that others get on meanwhile, ms.
    #[must_use]
    pub fn rest_ms(self) -> i64 {
        i64::from(self.evidence()) * REST_MS
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
    /// The turn of the instance that is tried alone is over, and its activities run.
    Activities,
}

impl ProbationStep {
    /// Returns the number that stores keep.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            ProbationStep::End => 0,
            ProbationStep::WithOthers => 1,
            ProbationStep::Alone => 2,
            ProbationStep::Activities => 3,
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
            assert!(twice.after_death(ProbationStep::Activities).is_enough());
        }
    }

    #[test]
    fn deaths_beside_running_activities_are_enough_only_in_a_row() {
        let dies = |so_far: Suspicion, _| so_far.after_death(ProbationStep::Activities);
        let twice = (0..2).fold(Suspicion::SUSPECT, dies);
        assert!(twice.needs_isolation() && !twice.is_enough());
        assert!(dies(twice, 0).is_enough());
        assert_eq!(twice.after_probation(), Suspicion::SUSPECT);
        let firm = Suspicion::SUSPECT.after_stall();
        assert_eq!(dies(firm, 0).after_probation(), firm);
        assert_eq!(dies(firm, 0).rest_ms(), 2 * REST_MS);
    }
}
