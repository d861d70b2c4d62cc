//! Wakes of instances that sleep in the store and whose generators this worker has kept.
//!
//! The message is handed to the generator, and its turn is run before anything is written. The commit of the turn
//! acquires the instance (P20). Until it is answered, the instance is among the worker's own, but the store does not
//! know that:
//!
//! | the commit | the instance | the message |
//! |---|---|---|
//! | is written | is this worker's, as after any turn | is consumed |
//! | is fenced off | is forgotten | goes through the store |
//! | fails | is forgotten | its sender is told |
//!
//! A wake whose turn does not come about (its thread is held up or gone, the code does not fit its history, the session
//! ends) is given up, and its message goes through the store. Nothing of such a turn leaves the process.

use std::sync::Arc;

use perdure_engine::Mailbox;
use perdure_provider::{CommitOutcome, Outcome, ProviderError};
use perdure_scheduler::{Class, NextAction, Process, State};

use crate::client::pending_wake::{PendingWake, WakeEnd};
use crate::instance::instances::Instances;
use crate::instance::table::Table;
use crate::lane::job::Queued;
use crate::log::LogRecord;
use crate::platform::retry::is_final;
use crate::state::Instance;
use crate::state::attempt::AbortReason;

impl Instances {
    /// Returns true if a message for a mailbox may be handed to an instance that sleeps in the store.
    pub(crate) fn can_wake(&self, id: &str, mailbox: &Mailbox) -> bool {
        let table = self.table.lock();
        self.sleeper(&table, id, mailbox).is_some()
    }

    /// Returns the instance if it can be woken by a message for a mailbox.
    fn sleeper(&self, table: &Table, id: &str, mailbox: &Mailbox) -> Option<Arc<Instance>> {
        let sleeper = table.sleeper(id)?;
        let can_wake = sleeper.lock().can_wake(mailbox)
            && self.shared.registry.lock().has(&sleeper.name, &sleeper.version)
            && !self.worker.has_ended();
        can_wake.then(|| Arc::clone(sleeper))
    }

    /// Hands a message to a sleeping instance, whose turn follows.
    pub(crate) fn wake_here(self: &Arc<Self>, id: &str, wake: PendingWake) {
        // The place is reserved until the instance is in the table.
        let Some(place) = self.reserve_for_starts(1) else {
            return;
        };
        let mut wake = Some(wake);
        let woken = {
            let mut table = self.table.lock();
            let sleeper = wake.as_ref().and_then(|wake| self.sleeper(&table, id, &wake.mailbox));
            sleeper.and_then(|instance| {
                let epoch = table.take_sleeper(&instance)?;
                table.insert(Arc::clone(&instance));
                let mut core = instance.lock();
                core.take_wake(wake.take()?, epoch);
                let then = instance.start(&mut core);
                debug_assert!(then == NextAction::Step, "all of it is here");
                drop(core);
                Some(instance)
            })
        };
        drop(place);
        // The table is not locked here: a wake that is given up goes to the store.
        drop(wake);
        if let Some(instance) = woken {
            self.shared.metrics.cache_hits.add(1);
            self.shared.push(Class::First, Queued::Turn(instance));
        }
    }

    /// Handles the answer to a wake. Returns its end. If that is [`Written`](WakeEnd::Written), the turn is durable and
    /// the instance is this worker's, and otherwise it is forgotten.
    pub(crate) fn woken(
        self: &Arc<Self>,
        instance: &Arc<Instance>,
        logs: Vec<LogRecord>,
        answer: &Result<Outcome, ProviderError>,
    ) -> WakeEnd {
        instance.lock().is_waking = false;
        if let Ok(Outcome::Committed { .. }) = answer {
            self.tell(logs);
            return WakeEnd::Written;
        }
        self.give_up_wake(instance);
        match answer {
            Err(error) if error.outcome == CommitOutcome::Unknown || !is_final(error) => WakeEnd::Failed(error.clone()),
            // The store refuses the work of the turn, or another worker was faster.
            _ => WakeEnd::GivenUp,
        }
    }

    /// Gives up the wake of an instance, which is forgotten.
    pub(crate) fn give_up_wake(self: &Arc<Self>, instance: &Arc<Instance>) {
        // It may have been forgotten before, and acquired again since.
        if self.table.lock().owns(instance) {
            self.forget(instance, AbortReason::LeaseLost);
        }
    }

    /// Gives up the wakes that wait for their turns, because the thread does not come to run these turns.
    pub(crate) fn release_wakes(self: &Arc<Self>) {
        let waiting: Vec<Arc<Instance>> = {
            let table = self.table.lock();
            let waits = |instance: &&Arc<Instance>| {
                let core = instance.lock();
                core.wake.is_some() && core.control.state() == State::Ready
            };
            table.owned().filter(waits).cloned().collect()
        };
        for instance in waiting {
            self.give_up_wake(&instance);
        }
    }
}
