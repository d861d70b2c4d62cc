//! The invariants of liveness, for the time when no more faults come: L2, L4, S27, C1 of the runtime's places and P15
//! of the providers. (L1 is the end of a run, L6 that of its processes.)

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use perdure_provider::{Provider, WorkerId};
use perdure_runtime::{LaneId, Token};
use tokio::time::Instant;

use crate::plan::FEW_PLACES_MAX;
use crate::process::{Pid, Process};
use crate::program::Kind;
use crate::witness::{InstanceState, KnownInstance, Witness};
use crate::world::{BlockedThread, World};

/// The longest time that work may be due while workers are idle, with the calls that take it, ms.
pub(super) const CLAIMED_MS: u64 = 1_000 + 50;
/// The longest time until an owner hears that an instance was taken from it: time to make up for a lost notification,
/// and for some calls.
const HEARD: Duration = Duration::from_secs(5);
/// The time, besides a lease, until only the workers that stay are left after the faults end.
const SETTLING: Duration = Duration::from_secs(5);
/// The longest time that the look at the owned instances and the calls of the comparison may take, besides two
/// renewals.
const COMPARED: Duration = Duration::from_secs(2);
/// The time within which everything follows that waited for a call which got stuck before the faults ended.
const UNSTUCK: Duration = Duration::from_secs(2);

impl World<'_> {
    pub(super) fn is_settled(&self) -> bool {
        let settles = Duration::from_millis(self.plan.lease_ms) + SETTLING;
        self.is_quiet && self.quiet_since.elapsed() > settles && self.faults.stuck_until().elapsed() > UNSTUCK
    }

    /// P15: each owner hears which instances were taken from it.
    pub(crate) fn check_revocations(&self) {
        if !self.is_settled() {
            return;
        }
        for process in self
            .workers(None)
            .into_iter()
            .map(|pid| &self.processes[pid as usize].name)
        {
            for key in self.witness.unheard(process, HEARD) {
                self.witness.report(format!(
                    "P15: {process} has not heard that it has lost instance {}",
                    key.0
                ));
            }
        }
    }

    /// S27: a worker knows within two renewals of each instance that it owns in the store.
    pub(crate) fn check_ownership(&mut self) {
        let calm = self.quiet_since.max(self.faults.stuck_until());
        let renewals = Duration::from_millis(2 * self.plan.lease_ms / 3) + COMPARED;
        let mut unknown = BTreeMap::new();
        for (key, KnownInstance { id, epoch, owner, .. }) in self.witness.instances() {
            let Some(process) = owner.as_ref().and_then(|owner| self.witness.process_of(owner)) else {
                continue;
            };
            let mut workers = self.workers(None).into_iter().map(|pid| &self.processes[pid as usize]);
            if workers.all(|worker| worker.name != process || worker.runtime.knows(key)) {
                continue;
            }
            let since = self.unknown.get(&(key, epoch)).copied().unwrap_or_else(Instant::now);
            unknown.insert((key, epoch), since);
            let waits = since.max(calm).elapsed();
            if self.is_quiet && waits > renewals {
                let ms = waits.as_millis();
                self.witness
                    .report(format!("S27: {process} owns {id} and has not known it for {ms} ms"));
            }
        }
        self.unknown = unknown;
    }

    /// A suspended instance ends with its parent, by a write that does not name it, and so does one that no worker has
    /// acquired. So the store itself is asked.
    pub(crate) fn find_ended_instances(&self) {
        let instances = self.witness.instances().into_iter();
        let held = instances.filter(|(_, seen)| seen.state == InstanceState::Suspended);
        let ids: Vec<String> = held.map(|(_, seen)| seen.id).chain(self.witness.waiting()).collect();
        if ids.is_empty() {
            return;
        }
        let (store, witness) = (Arc::clone(&self.observer.provider), Arc::clone(&self.witness));
        tokio::spawn(async move {
            let statuses = store.statuses(ids).await.expect("the store answers");
            let ended = statuses
                .into_iter()
                .flatten()
                .filter(|status| status.status.is_terminal());
            ended.for_each(|status| witness.has_ended(status.key));
        });
    }

    /// C1 of the runtime's places: a worker owns no more instances than it has places. While faults come, the store may
    /// list others, whose answers were lost.
    pub(crate) fn check_places(&self) {
        if !self.is_settled() {
            return;
        }
        let mut owned: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for owner in self.witness.instances().into_iter().filter_map(|(_, seen)| seen.owner) {
            *owned.entry(owner.0).or_default() += 1;
        }
        for Process { name, slot, .. } in self.workers(None).into_iter().map(|pid| &self.processes[pid as usize]) {
            let places = self.plan.slots[*slot].orchestration_concurrency;
            let is_its_own =
                |owner: &Arc<str>| self.witness.process_of(&WorkerId(Arc::clone(owner))).as_ref() == Some(name);
            for (_, count) in owned
                .iter()
                .filter(|(owner, count)| **count > places && is_its_own(owner))
            {
                self.witness
                    .report(format!("C1: {name} owns {count} instances and has {places} places"));
            }
        }
    }

    /// L2: no instance stays due while workers are there and nothing holds them up. The store itself is asked. A worker
    /// with few places may leave work to others.
    pub(crate) fn check_due_work(&self) {
        if self.has_idle_worker() {
            let (store, witness) = (Arc::clone(&self.observer.provider), Arc::clone(&self.witness));
            tokio::spawn(async move { claimed(&*store, &witness).await });
        }
    }

    /// True if a worker is there for all work, and nothing holds it up.
    pub(super) fn has_idle_worker(&self) -> bool {
        let programs = &self.plan.programs.all;
        let is_fair = programs
            .iter()
            .all(|program| !matches!(program.kind, Kind::Poison | Kind::Blocking));
        let slot_of = |pid: Pid| &self.plan.slots[self.processes[pid as usize].slot];
        let has_places = |pid: Pid| slot_of(pid).orchestration_concurrency > FEW_PLACES_MAX;
        self.is_settled() && is_fair && self.workers(None).into_iter().any(has_places)
    }

    /// A turn is about to hold up its thread for longer than it may.
    pub(crate) fn note_held_thread(&mut self, pid: Pid, lane: LaneId, token: Token) {
        let facts = self.processes[pid as usize].runtime.describe(token);
        let seen = facts.ok().and_then(|facts| self.witness.find(&facts.instance_id));
        let others = self.workers(Some(pid));
        let is_calm = self.is_settled() && !others.is_empty();
        if let Some((_, KnownInstance { id, epoch, .. })) = seen.filter(|_| is_calm) {
            let hold = BlockedThread {
                instance: id,
                epoch,
                others,
            };
            self.held_threads.insert((pid, lane), hold);
        }
    }

    /// L4: by now, well past the deadline, the instance was given back.
    pub(crate) fn check_held_thread(&mut self, pid: Pid, lane: LaneId) {
        let Some(hold) = self.held_threads.remove(&(pid, lane)) else {
            return;
        };
        let workers = self.workers(Some(pid));
        let Some((_, seen)) = self.witness.find(&hold.instance) else {
            return;
        };
        if seen.owner.is_some() && seen.epoch == hold.epoch && hold.others.iter().any(|other| workers.contains(other)) {
            let deadline_ms = self.plan.turn_deadline_ms;
            self.witness.report(format!(
                "L4: {} is still owned in epoch {} after a turn of {} ms; the deadline is {deadline_ms} ms",
                hold.instance,
                hold.epoch.0,
                2 * deadline_ms
            ));
        }
    }
}

async fn claimed(store: &dyn Provider, witness: &Witness) {
    let stats = store.stats().await.expect("the store answers");
    let due = stats.oldest_due_ms.filter(|_| stats.workers > 0);
    if let Some(due_ms) = due.filter(|due_ms| *due_ms > CLAIMED_MS) {
        witness.report(format!(
            "L2: work has been due for {due_ms} ms, {} workers are there",
            stats.workers
        ));
    }
}
