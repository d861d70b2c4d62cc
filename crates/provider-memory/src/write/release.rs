//! The release of an instance that its worker does not run: it is due, for any worker.

use perdure_provider::{Outcome, ReleaseInstance};

use crate::revocation;
use crate::tables::Tables;

pub(super) fn release(tables: &mut Tables, release: &ReleaseInstance) -> Outcome {
    revocation::forget(tables, release);
    let row = tables.instance(release.key);
    if !row.is_some_and(|row| row.is_owned(&release.worker, release.epoch)) {
        return Outcome::Fenced;
    }
    let now_ms = tables.now_ms;
    tables.edit(release.key, |row| row.disown(Some(now_ms)));
    Outcome::Noted
}
