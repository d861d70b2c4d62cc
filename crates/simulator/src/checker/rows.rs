//! The rows of the store, during a run and at its end.

use std::collections::BTreeSet;

use perdure_provider::{CheckRequest, EntryKey, Finding, InstanceKey, Provider, QueueDeletion, QueueInfo, WorkerId};
use perdure_provider_memory::{QueuePlaceRow, Snapshot};

use crate::witness::Witness;

/// Reports the findings of the store's own check, which hold even in the middle of the workers' writes: S3, S4, S7, S9
/// and S20 of each instance.
pub(crate) async fn rows(provider: &dyn Provider, witness: &Witness) {
    let mut after = None;
    loop {
        let request = CheckRequest { after, limit: 100 };
        let checked = provider.check(request).await.expect("the store answers");
        for Finding { rule, instance, detail } in checked.findings {
            let of = instance.unwrap_or_default();
            witness.report(format!(
                "S20: the check of the store finds {} of '{of}': {detail}",
                rule.as_str()
            ));
        }
        after = checked.next;
        if after.is_none() {
            return;
        }
    }
}

/// P24: nothing is in a queue when everything has ended. The queues are deleted, which shows the same.
pub(crate) async fn lines(provider: &dyn Provider, witness: &Witness) {
    for queue in provider.queues(None).await.expect("the store answers") {
        let QueueInfo {
            name,
            waiting,
            delayed,
            running,
            ..
        } = queue;
        let deleted = provider.delete_queue(name.clone()).await.expect("the store answers");
        if waiting + delayed + running > 0 || deleted != QueueDeletion::Deleted {
            witness.report(format!(
                "P24: {waiting} wait in {name}, {delayed} are delayed, {running} have a slot; {deleted:?}"
            ));
        }
    }
}

/// L6, S20: no rows are left of ended instances, and processes that have shut down hold nothing.
pub(crate) fn leftovers(witness: &Witness, snapshot: &Snapshot, left: &BTreeSet<String>) {
    let has_left = |worker: &WorkerId| {
        witness
            .process_of(worker)
            .is_some_and(|process| left.contains(&process))
    };
    for row in snapshot.workers.iter().filter(|row| has_left(&row.worker.id)) {
        witness.report(format!(
            "L6: worker {} is registered although its process has shut down",
            row.worker.id
        ));
    }
    for (worker, revoked) in &snapshot.revocations {
        if snapshot.workers.iter().all(|row| row.worker.id != *worker) {
            let key = revoked.key.0;
            witness.report(format!(
                "S20: {worker} is gone and still to hear that it has lost instance {key}"
            ));
        }
    }
    for row in &snapshot.instances {
        if let Some(owner) = row.owner.as_ref().filter(|owner| has_left(owner)) {
            witness.report(format!(
                "L6: worker {owner} owns {} although its process has shut down",
                row.id
            ));
        }
    }
    let ended = snapshot.instances.iter().filter(|row| row.status.is_terminal());
    let ended: BTreeSet<InstanceKey> = ended.map(|row| row.key).collect();
    let messages = snapshot.messages.iter().map(|row| ("message", row.key));
    let heartbeats = snapshot.heartbeats.iter().map(|row| ("heartbeat", row.key));
    let tasks = snapshot.tasks.iter().map(|row| ("task", row.task.key));
    let of_place = |(key, row): &(EntryKey, QueuePlaceRow)| row.task.map_or(InstanceKey(key.0), |task| task.key);
    let queued = snapshot
        .queue_places
        .iter()
        .map(|place| ("place in a queue", of_place(place)));
    for (what, key) in messages.chain(heartbeats).chain(tasks).chain(queued) {
        if ended.contains(&key) || snapshot.instances.iter().all(|row| row.key != key) {
            witness.report(format!("S20: a {what} is left of instance {}, which has ended", key.0));
        }
    }
}
