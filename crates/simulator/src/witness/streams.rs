//! The appends of activities: the entries of former runs that each later run replaces.

use perdure_provider::{ActivityAppend, InstanceKey, StreamReset};

use super::{Appended, Witness};

impl Appended {
    /// An activity has appended the entries before the index `next`.
    pub(super) fn add(&mut self, append: &ActivityAppend, next: u64) {
        let (stream, first) = (&append.append.stream, next - append.append.count);
        let step = (append.key, append.execution, append.scheduled);
        let new = StreamReset { from: first, at: first };
        let run = self.runs.entry((step, stream.clone())).or_insert(new);
        if append.begins {
            run.at = first;
        }
        let replaced = (run.from < run.at).then_some(*run);
        self.replaced.insert((append.key, stream.clone(), first), replaced);
    }
}

impl Witness {
    /// Returns the entries that a chunk replaces; `None`: its append was not seen.
    pub(crate) fn replaced(&self, key: InstanceKey, stream: &str, first: u64) -> Option<Option<StreamReset>> {
        let known = self.0.lock();
        let replaced = known.streams.replaced.get(&(key, stream.to_owned(), first))?;
        (!known.misses_answers).then_some(*replaced)
    }
}
