//! Wakes of instances that sleep in the store and whose generators this worker has kept.
//!
//! A message of this process is handed to the generator. Of an instance that is due, the messages are read from the
//! store. The turn is run before anything is written, and its commit acquires the instance (P20). Until it is answered,
//! the instance is among the worker's own, but the store does not know that:
//!
//! | the commit | the instance | a message that was handed over |
//! |---|---|---|
//! | is written | is this worker's, as after any turn | is consumed |
//! | is fenced off | is forgotten | goes through the store |
//! | fails | is forgotten | its sender is told |
//!
//! A wake whose turn does not come about (its thread is held up or gone, the code does not fit its history, the session
//! ends) is given up. Its message goes through the store, and an instance that is due is acquired. Nothing of such a
//! turn leaves the process.

use std::sync::Arc;

use parking_lot::MutexGuard;
use perdure_engine::{Mailbox, Message};
use perdure_provider::{AcquiredInstance, CommitOutcome, DueInstance, Outcome, ProviderError};
use perdure_scheduler::{NextAction, Process, State};

use crate::client::pending_wake::{Done, PendingWake, WakeCause, WakeEnd};
use crate::instance::instances::Instances;
use crate::instance::table::Table;
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
        let can_wake = sleeper.lock().can_wake(mailbox) && self.serves(sleeper);
        can_wake.then(|| Arc::clone(sleeper))
    }

    /// Returns true if the worker may run a turn of an instance.
    fn serves(&self, instance: &Instance) -> bool {
        self.shared.registry.lock().has(&instance.name, &instance.version) && !self.worker.has_ended()
    }

    /// Hands a message to a sleeping instance, whose turn follows.
    pub(crate) fn wake_here(self: &Arc<Self>, id: &str, wake: PendingWake) {
        // The place is reserved until the instance is in the table.
        let Some(place) = self.reserve_for_starts(1) else {
            return;
        };
        let table = self.table.lock();
        let sleeper = match &wake.cause {
            WakeCause::Message { mailbox, .. } => self.sleeper(&table, id, mailbox),
            WakeCause::Due => None,
        };
        match sleeper {
            Some(instance) => self.wake_kept(table, &instance, wake, Vec::new()),
            None => {
                drop(table);
                // The table is not locked here: a wake that is given up goes to the store.
                drop(wake);
            }
        }
        drop(place);
    }

    /// Returns true if a generator was kept of an instance that sleeps.
    pub(crate) fn keeps_any(&self) -> bool {
        self.table.lock().keeps_any()
    }

    /// Wakes an instance that is due, if its generator was kept and it has a turn to run. Returns false if it is to be
    /// acquired first. The caller has reserved a place.
    pub(crate) fn wake_due(self: &Arc<Self>, due: DueInstance, done: Done) -> bool {
        let Some(messages) = due.messages else { return false };
        let table = self.table.lock();
        let kept = table.kept(due.key, due.epoch, due.next_event_id);
        let kept =
            kept.filter(|instance| instance.lock().can_wake_due(&messages, self.now_ms()) && self.serves(instance));
        let Some(instance) = kept.cloned() else { return false };
        self.wake_kept(table, &instance, PendingWake::new(WakeCause::Due, None, done), messages);
        true
    }

    /// Wakes a sleeping instance whose generator was kept. Its turn follows.
    fn wake_kept(
        self: &Arc<Self>,
        mut table: MutexGuard<'_, Table>,
        instance: &Arc<Instance>,
        wake: PendingWake,
        messages: Vec<Message>,
    ) {
        let epoch = table.take_sleeper(instance).expect("it is kept");
        // Messages that came since the look fence off the turn.
        let _ = table.insert(Arc::clone(instance));
        let then = {
            let mut core = instance.lock();
            core.take_wake(wake, messages, epoch);
            instance.start(&mut core)
        };
        drop(table);
        if then == NextAction::Rest {
            return self.give_up_wake(instance);
        }
        self.shared.metrics.cache_hits.add(1);
        self.follow(instance, then);
    }

    /// Makes an instance this worker's that was acquired while the turn of its wake runs. That turn takes long, and is
    /// an ordinary one from here on. Returns false if there is no such instance.
    pub(crate) fn adopt_woken(self: &Arc<Self>, acquired: &AcquiredInstance) -> bool {
        let wake = {
            let table = self.table.lock();
            let Some(instance) = table.get(acquired.key) else {
                return false;
            };
            let mut core = instance.lock();
            if core.epoch != acquired.epoch || !core.is_waking {
                return false;
            }
            let Some(wake) = core.wake.take_if(|wake| matches!(wake.cause, WakeCause::Due)) else {
                return false;
            };
            core.is_waking = false;
            wake
        };
        let (done, logs) = wake.take();
        self.tell(logs);
        done(WakeEnd::Written);
        // Messages may have come between the look and the acquisition.
        self.reread(acquired.key);
        true
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
