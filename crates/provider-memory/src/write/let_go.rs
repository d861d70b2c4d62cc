//! The release of an instance that its worker does not run: it is due, for any worker.

use perdure_provider::{LetGo, Outcome};

use crate::revocation;
use crate::tables::Tables;

pub(super) fn let_go(tables: &mut Tables, let_go: &LetGo) -> Outcome {
    revocation::forget(tables, let_go);
    let row = tables.instance(let_go.key);
    if !row.is_some_and(|row| row.is_owned(&let_go.worker, let_go.epoch)) {
        return Outcome::Fenced;
    }
    let now_ms = tables.now_ms;
    tables.edit(let_go.key, |row| row.disown(Some(now_ms)));
    Outcome::Noted
}
