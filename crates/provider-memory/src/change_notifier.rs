//! The changes that the writes of one handle mean for the users of another one.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use perdure_provider::{AfterTurn, Change, ChangeListener, Outcome, Receiving, TurnCommit, WorkerId, Write};

use crate::callbacks::Callbacks;

/// A handle as the other handles of its store know it.
pub(crate) struct ChangeNotifier {
    /// Workers of this handle. Their process knows of its own writes by itself.
    local: Mutex<BTreeSet<Arc<str>>>,
    listeners: Mutex<Vec<Arc<ChangeListener>>>,
    /// The queue in which listeners are told.
    callbacks: Arc<Callbacks>,
}

impl ChangeNotifier {
    pub(crate) fn new(callbacks: Arc<Callbacks>) -> Arc<Self> {
        Arc::new(Self {
            local: Mutex::default(),
            listeners: Mutex::default(),
            callbacks,
        })
    }

    pub(crate) fn add_listener(&self, listener: ChangeListener) {
        self.listeners.lock().push(Arc::new(listener));
    }

    pub(crate) fn add_worker(&self, worker: &WorkerId) {
        self.local.lock().insert(Arc::clone(&worker.0));
    }

    pub(crate) fn remove_worker(&self, worker: &WorkerId) {
        self.local.lock().remove(&worker.0);
    }

    /// Tells the listeners of a write by another handle. Listeners that are added later are not told of it.
    pub(crate) fn hear(&self, change: &Change) {
        for listener in &*self.listeners.lock() {
            let (listener, change) = (Arc::clone(listener), change.clone());
            self.callbacks.push(move || listener(&change));
        }
    }

    /// Returns the change that a batch of this handle means for others.
    pub(crate) fn change_of(&self, writes: &[Write], outcomes: &[Outcome]) -> Change {
        let mut change = Change::default();
        for (write, outcome) in writes.iter().zip(outcomes) {
            self.add(&mut change, write, outcome);
        }
        change
    }

    fn add(&self, change: &mut Change, write: &Write, outcome: &Outcome) {
        if let Some(terminated) = outcome.terminated() {
            self.add_terminated(change, terminated);
        }
        if let Some(Outcome::Delivered { owner, .. }) = outcome.terminated() {
            self.receives(change, owner.as_ref());
        }
        match (outcome, write) {
            (Outcome::Started { claimed: None, .. }, _) => change.work = true,
            (Outcome::Joined { .. }, Write::KeyedStart(keyed)) => change.work |= keyed.rule.moves_due_time(),
            (
                Outcome::Started {
                    turn: Some(outcome), ..
                },
                Write::Start(instance),
            ) => {
                if let Some(turn) = &instance.first_turn {
                    self.add_turn(change, turn, outcome);
                }
            }
            (Outcome::Committed { .. }, Write::Turn(turn)) => self.add_turn(change, turn, outcome),
            (Outcome::Delivered { owner, .. }, _) => self.receives(change, owner.as_ref()),
            (Outcome::TaskDone { receivers, freed }, _) => {
                change.tasks |= freed;
                self.all_receive(change, receivers);
            }
            (Outcome::Terminated { .. }, _) => self.add_terminated(change, outcome),
            (Outcome::Suspended { owner, .. }, _) => {
                change.statuses = true;
                self.loses(change, owner.as_ref());
            }
            (Outcome::Deleted, _) => change.statuses = true,
            (Outcome::Appended { .. }, _) => change.streams = true,
            (Outcome::Noted, Write::ReleaseInstance(_)) => change.work = true,
            (Outcome::Noted, Write::ReleaseTask(_)) => change.tasks = true,
            (Outcome::Resumed, _) => {
                change.work = true;
                change.statuses = true;
            }
            _ => {}
        }
    }

    fn add_turn(&self, change: &mut Change, turn: &TurnCommit, outcome: &Outcome) {
        change.statuses |= turn.changes_status();
        change.streams |= !turn.appends.is_empty();
        change.work |= matches!(&turn.after, AfterTurn::ContinueAsNew(next) if !next.hold);
        change.tasks |= turn
            .cross_instance
            .as_ref()
            .is_some_and(|others| !others.offers.is_empty());
        if let Outcome::Committed {
            others: Some(others), ..
        } = outcome
        {
            let is_new = |started: &Outcome| matches!(started, Outcome::Started { .. });
            change.work |= others.started.iter().any(is_new);
            change.tasks |= !others.stopped.is_empty();
            change.statuses |= others.ended;
            self.all_receive(change, &others.receivers);
            for terminated in others.terminated() {
                self.add_terminated(change, terminated);
            }
        }
    }

    fn add_terminated(&self, change: &mut Change, outcome: &Outcome) {
        if let Outcome::Terminated {
            owner,
            receivers,
            stopped,
            ..
        } = outcome
        {
            change.statuses = true;
            change.tasks |= !stopped.is_empty();
            self.all_receive(change, receivers);
            self.loses(change, owner.as_ref());
        }
    }

    fn all_receive(&self, change: &mut Change, receivers: &[Option<WorkerId>]) {
        for receiver in receivers {
            self.receives(change, receiver.as_ref());
        }
    }

    /// Notes that the owner finds in its inbox that the instance was taken from it (P15).
    fn loses(&self, change: &mut Change, owner: Option<&WorkerId>) {
        if owner.is_some() {
            self.receives(change, owner);
        }
    }

    fn receives(&self, change: &mut Change, owner: Option<&WorkerId>) {
        let Some(owner) = owner else {
            change.work = true;
            return;
        };
        if self.local.lock().contains(&owner.0) {
            return;
        }
        match &mut change.messages {
            Receiving::Any => {}
            Receiving::These(workers) if workers.contains(owner) => {}
            Receiving::These(workers) => workers.push(owner.clone()),
            nobody @ Receiving::None => *nobody = Receiving::These(vec![owner.clone()]),
        }
    }
}
