//! What speaks against an instance: workers that were lost while they had it, or in the middle of its turns (P14).

use crate::{Epoch, InstanceKey, TaskName, WorkerId};

/// How much speaks against an instance. A turn that appends events, and a resume, take it back to nothing.
///
/// The first steps say little: a dead worker leaves one on all that it owned, most of which had nothing to do with that. From
/// [`SUSPECT`](Self::SUSPECT) on an instance is tried, which is announced with a [`Trial`]; a worker that dies meanwhile makes each of those
/// that it tried together [`ACCUSED`](Self::ACCUSED), which are tried alone. Beyond that is evidence: the worker died while it tried this
/// instance alone, or a turn of it held up the worker's thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suspicion(pub u32);

impl Suspicion {
    /// As far as it goes while the instance is not tried.
    pub const SUSPECT: Self = Self(2);
    /// As far as it goes without evidence.
    pub const ACCUSED: Self = Self(3);
    /// With so much against it an instance is suspended.
    pub const MAX: Self = Self(6);

    /// Whether it is to be tried.
    #[must_use]
    pub fn is_suspect(self) -> bool {
        self >= Self::SUSPECT
    }

    /// Whether it is to be tried alone.
    #[must_use]
    pub fn is_accused(self) -> bool {
        self >= Self::ACCUSED
    }

    /// Its worker has died, and had said this last of a trial of it.
    #[must_use]
    pub fn after_death(self, trial: TrialStep) -> Self {
        match trial {
            TrialStep::Alone => self.after_stall(),
            _ if !self.is_suspect() => Self(self.0 + 1),
            TrialStep::WithOthers => self.max(Self::ACCUSED),
            TrialStep::End => self,
        }
    }

    /// A turn of it has held up its worker's thread.
    #[must_use]
    pub fn after_stall(self) -> Self {
        Self(self.max(Self::ACCUSED).0 + 1)
    }

    /// A trial is over, and nothing has happened: what was not evidence is forgotten.
    #[must_use]
    pub fn after_acquittal(self) -> Self {
        if self == Self::ACCUSED { Self::SUSPECT } else { self }
    }

    /// Whether it is to be suspended.
    #[must_use]
    pub fn is_enough(self) -> bool {
        self >= Self::MAX
    }

    /// How long the instance is to rest before it is due again, so that others get on meanwhile, ms.
    #[must_use]
    pub fn rest_ms(self) -> i64 {
        i64::from(self.0.saturating_sub(Self::ACCUSED.0)) * REST_MS
    }
}

/// Rest for each piece of evidence, ms.
pub const REST_MS: i64 = 500;

/// A suspect is tried: if its worker dies from here on, that speaks against it. A trial is over when that is said, with a turn that
/// appends events, and with every change of the owner.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What is said of it.
    pub step: TrialStep,
    /// The instance.
    pub key: InstanceKey,
    /// Fence: its owner.
    pub worker: WorkerId,
    /// Fence: its epoch.
    pub epoch: Epoch,
}

/// What is said of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrialStep {
    /// It is over, and nothing has happened.
    #[default]
    End,
    /// It begins, and others of the worker's may be tried at the same time.
    WithOthers,
    /// It begins, and no other is tried until it is over.
    Alone,
}

impl TrialStep {
    /// The number that stores keep.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            TrialStep::End => 0,
            TrialStep::WithOthers => 1,
            TrialStep::Alone => 2,
        }
    }
}

/// An instance that was suspended because too much speaks against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convict {
    /// The user's name of it.
    pub id: String,
    /// Name of its orchestration.
    pub name: String,
    /// Version of its orchestration.
    pub version: String,
    /// Its execution.
    pub execution: u64,
}

/// Dead workers whose place others take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Those that were registered until now.
    pub workers: Vec<WorkerId>,
    /// What was suspended by that.
    pub convicts: Vec<Convict>,
}

/// A worker whose thread does not answer gives back what it owns and runs. It stays registered.
#[derive(Clone, Debug)]
pub struct GiveBack {
    /// The worker.
    pub worker: WorkerId,
    /// The instance whose turn holds the thread, and the epoch in which it was acquired: evidence against it.
    pub stalled: Option<(InstanceKey, Epoch)>,
    /// Instances that it keeps.
    pub kept: Vec<InstanceKey>,
    /// Tasks that it keeps.
    pub kept_tasks: Vec<TaskName>,
    /// Why the stalled instance is suspended, if it is.
    pub report: String,
}

/// What was given back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenBack {
    /// No longer the worker's, and their epochs.
    pub instances: Vec<(InstanceKey, Epoch)>,
    /// The stalled one, if it was suspended by that. It is among the instances, too.
    pub convict: Option<Convict>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_outside_of_trials_do_not_convict() {
        let dies = |so_far: Suspicion, _| so_far.after_death(TrialStep::End);
        assert_eq!((0..100).fold(Suspicion::default(), dies), Suspicion::SUSPECT);
        let dies = |so_far: Suspicion, _| so_far.after_death(TrialStep::WithOthers);
        assert_eq!((0..100).fold(Suspicion::default(), dies), Suspicion::ACCUSED);
    }

    #[test]
    fn three_pieces_of_evidence_are_enough() {
        for first in [Suspicion::default(), Suspicion::SUSPECT, Suspicion::ACCUSED] {
            let twice = first.after_stall().after_death(TrialStep::Alone);
            assert!(!twice.is_enough());
            assert!(twice.after_stall().is_enough());
            assert!(twice.after_acquittal().after_death(TrialStep::Alone).is_enough());
        }
    }
}
