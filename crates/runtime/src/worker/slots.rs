//! Slots of queues that instances or tasks wait for, which other instances and tasks have until they end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use perdure_engine::{Bug, is_planted};

use crate::options::{CLAIMED_QUEUES_MAX, CLAIMS};

/// Tells when a look for work may find a slot that was taken before. A store tells nobody that a slot is free: it is
/// counted when somebody asks.
#[derive(Default)]
pub(crate) struct Slots {
    /// Number of ends that this process has heard of.
    ends: AtomicU64,
    /// True if the last look left instances or tasks behind that wait for a slot.
    wanted: AtomicBool,
    /// The claims of each queue.
    claims: Mutex<HashMap<String, Claims>>,
}

/// The starts of a queue that this process claims. A claim that gets no slot has run the first turn of its instance for
/// nothing. So each of those allows one claim at once less, until only few are left, and each claim that gets a slot
/// allows one more.
#[derive(Clone, Copy)]
struct Claims {
    open: u32,
    most: u32,
}

impl Default for Claims {
    fn default() -> Self {
        Self {
            open: 0,
            most: *CLAIMS.end(),
        }
    }
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

    /// Returns true if a start of a queue may be claimed: it has a chance to get a slot at once.
    pub(crate) fn may_claim(&self, queue: &str) -> bool {
        let claims = self.claims.lock().get(queue).copied().unwrap_or_default();
        !self.wanted.load(Ordering::SeqCst) && claims.open < claims.most
    }

    /// Notes that a start of a queue is on its way with a claim.
    pub(crate) fn claims(&self, queue: &str) {
        let mut claims = self.claims.lock();
        if claims.len() >= CLAIMED_QUEUES_MAX {
            claims.retain(|_, claims| claims.open > 0);
        }
        claims.entry(queue.to_owned()).or_default().open += 1;
    }

    /// Notes the answer to such a start. `has_slot` is `None` if it tells nothing about the queue.
    pub(crate) fn answered(&self, queue: &str, has_slot: Option<bool>) {
        let mut claims = self.claims.lock();
        let Some(claims) = claims.get_mut(queue) else { return };
        claims.open = claims.open.saturating_sub(1);
        claims.most = match has_slot {
            Some(true) => claims.most + 1,
            Some(false) => claims.most - 1,
            None => claims.most,
        }
        .clamp(*CLAIMS.start(), *CLAIMS.end());
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
    fn claims_without_slots_allow_fewer_claims_and_slots_allow_more() {
        let (slots, (least, most)) = (Slots::default(), (*CLAIMS.start(), *CLAIMS.end()));
        let burst = |granted: u32| {
            let mut claimed = 0;
            while slots.may_claim("q") {
                slots.claims("q");
                claimed += 1;
            }
            for n in 0..claimed {
                slots.answered("q", Some(n < granted));
            }
            claimed
        };
        assert_eq!(burst(most), most);
        assert_eq!(burst(most - 100), most);
        assert_eq!(burst(0), most - 100);
        assert_eq!(burst(least), least);
        assert_eq!(burst(0), 2 * least);
        assert!(slots.may_claim("other"));
        slots.wanted(true, slots.ends());
        assert!(!slots.may_claim("other"));
    }

    #[test]
    fn queues_without_claims_on_their_way_are_forgotten_when_they_are_many() {
        let slots = Slots::default();
        slots.claims("open");
        for n in 0..2 * CLAIMED_QUEUES_MAX {
            let queue = n.to_string();
            slots.claims(&queue);
            slots.answered(&queue, None);
        }
        let claims = slots.claims.lock();
        assert!(claims.len() <= CLAIMED_QUEUES_MAX);
        assert_eq!(claims["open"].open, 1);
    }

    #[test]
    fn an_end_during_a_look_leads_to_another_look() {
        let slots = Slots::default();
        let before = slots.ends();
        assert!(!slots.ended());
        assert!(slots.wanted(true, before));
    }
}
