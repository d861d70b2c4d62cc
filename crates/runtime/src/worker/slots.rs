//! Slots of queues that instances or tasks wait for, which other instances and tasks have until they end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use perdure_engine::{Bug, is_planted};

/// Tells when a look for work may find a slot that was taken before. A store tells nobody that a slot is free: it is
/// counted when somebody asks.
#[derive(Default)]
pub(crate) struct Slots {
    /// Number of ends that this process has heard of.
    ends: AtomicU64,
    /// True if the last look left instances or tasks behind that wait for a slot.
    wanted: AtomicBool,
}

impl Slots {
    /// Returns the number of ends until now, for [`wanted`](Self::wanted) after a look.
    pub(crate) fn ends(&self) -> u64 {
        self.ends.load(Ordering::SeqCst)
    }

    /// Notes the result of a look that began after `ends` ends. Returns true if another look is needed: something
    /// waits for a slot, and the look may have missed an end.
    pub(crate) fn wanted(&self, wanted: bool, ends: u64) -> bool {
        self.wanted.store(wanted, Ordering::SeqCst);
        wanted && self.ends() != ends
    }

    /// Notes that an instance or a task has ended. Returns true if a look for work is needed.
    pub(crate) fn ended(&self) -> bool {
        // The number first: a look that is under way sees it, or its result is seen here.
        self.ends.fetch_add(1, Ordering::SeqCst);
        self.wanted.load(Ordering::SeqCst) && !is_planted(Bug::EndUnnoticed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_leads_to_a_look_exactly_when_a_slot_is_wanted() {
        let slots = Slots::default();
        assert!(!slots.ended());
        let before = slots.ends();
        assert!(!slots.wanted(true, before));
        assert!(slots.ended());
        assert!(!slots.wanted(false, slots.ends()));
        assert!(!slots.ended());
    }

    #[test]
    fn an_end_during_a_look_leads_to_another_look() {
        let slots = Slots::default();
        let before = slots.ends();
        assert!(!slots.ended());
        assert!(slots.wanted(true, before));
    }
}
