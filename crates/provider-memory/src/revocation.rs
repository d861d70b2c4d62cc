//! Instances that terminations and suspensions take from their owners (P15).

use std::ops::RangeInclusive;
use std::sync::Arc;

use perdure_provider::{Epoch, InstanceKey, ReleaseInstance, Revoked, WorkerId};

use crate::tables::Tables;

/// Notes that an instance is taken from its owner, if it has one.
pub(crate) fn note(tables: &mut Tables, owner: Option<&WorkerId>, key: InstanceKey, epoch: Epoch) {
    if let Some(owner) = owner {
        tables.revocations.insert((Arc::clone(&owner.0), key), epoch);
    }
}

pub(crate) fn of_worker(tables: &Tables, worker: &WorkerId) -> Vec<Revoked> {
    let noted = tables.revocations.range(all_of(worker));
    noted
        .map(|((_, key), epoch)| Revoked {
            key: *key,
            epoch: *epoch,
        })
        .collect()
}

/// Forgets the revocation of an instance, because the worker knows it.
pub(crate) fn forget(tables: &mut Tables, release: &ReleaseInstance) {
    let place = (Arc::clone(&release.worker.0), release.key);
    if tables
        .revocations
        .get(&place)
        .is_some_and(|epoch| *epoch <= release.epoch)
    {
        tables.revocations.remove(&place);
    }
}

/// Forgets all revocations of a worker, because the worker is gone.
pub(crate) fn forget_all(tables: &mut Tables, worker: &WorkerId) {
    tables.revocations.remove_range(all_of(worker));
}

fn all_of(worker: &WorkerId) -> RangeInclusive<(Arc<str>, InstanceKey)> {
    let of = |key| (Arc::clone(&worker.0), InstanceKey(key));
    of(i64::MIN)..=of(i64::MAX)
}
