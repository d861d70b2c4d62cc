//! Changes that other processes made to a store, as far as its users in this process want to know them.

use crate::WorkerId;

/// The parts of a store that may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Instances may be due.
    pub work: bool,
    /// Tasks may have been offered or withdrawn.
    pub tasks: bool,
    /// The statuses that clients see may have changed.
    pub statuses: bool,
    /// Streams may have got entries, or may have been closed.
    pub streams: bool,
    /// Messages may have come for the instances of these workers.
    pub messages: Receiving,
    /// Workers of this process may have been released. The task that renews their leases is told.
    pub leases: bool,
}

/// Workers whose instances may have got messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Receiving {
    /// None.
    #[default]
    None,
    /// These.
    These(Vec<WorkerId>),
    /// Any.
    Any,
}

impl Change {
    /// Returns the change that covers everything other processes do.
    #[must_use]
    pub const fn anything() -> Self {
        Self {
            work: true,
            tasks: true,
            statuses: true,
            streams: true,
            messages: Receiving::Any,
            leases: false,
        }
    }

    /// Returns the change of tasks that were offered, taken or withdrawn.
    #[must_use]
    pub fn of_tasks() -> Self {
        Self {
            tasks: true,
            ..Self::default()
        }
    }

    /// Returns the change of a queue that may give slots now to instances and attempts that wait.
    #[must_use]
    pub fn of_queues() -> Self {
        Self {
            work: true,
            tasks: true,
            ..Self::default()
        }
    }

    /// Returns true if messages may have come for instances of a worker.
    #[must_use]
    pub fn is_for(&self, worker: &WorkerId) -> bool {
        match &self.messages {
            Receiving::None => false,
            Receiving::These(workers) => workers.contains(worker),
            Receiving::Any => true,
        }
    }
}
