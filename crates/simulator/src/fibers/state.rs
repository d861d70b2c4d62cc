//! The state of the fibers, and the rules 2 and 4 of a cancellation.
//!
//! | fiber | on | to |
//! |---|---|---|
//! | runs | the fiber, or one that owns it, is cancelled | told and interrupted |
//! | told and interrupted | the told fibers that it waits for have settled | told: its error is taken; it cleans up |
//! | runs | its function ends | settled |
//! | told | its function ends | ended, and settled once every told fiber below it has settled |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;

use perdure_engine::{Awaited, Bug, EventId, Mailbox, Payload, is_planted};

use super::{Outcome, Rules};

pub(super) struct Fiber {
    pub(super) future: Option<Pin<Box<dyn Future<Output = Outcome>>>>,
    /// The outcome of the function, once it has ended.
    pub(super) ended: Option<Outcome>,
    /// The same outcome, once the fiber has settled.
    pub(super) outcome: Option<Outcome>,
    pub(super) owner: Option<usize>,
    /// The number of cancellations by the flat rules. A wait that began before the last one is given up.
    pub(super) cancels: u32,
    /// True if the fiber was told to cancel.
    pub(super) is_told: bool,
    /// True if the fiber was told and has not got its error yet.
    pub(super) is_interrupted: bool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) fibers: Vec<Fiber>,
    /// The fiber that is polled.
    pub(super) current: usize,
    /// True if any fiber has got on since the flag was reset.
    pub(super) progress: bool,
    pub(super) settled: BTreeMap<EventId, Result<Payload, String>>,
    pub(super) mail: VecDeque<(Mailbox, Payload)>,
    /// The polled mailboxes that held no message.
    pub(super) empty: BTreeSet<Mailbox>,
    pub(super) awaited: Awaited,
    /// The awaited operations and mailboxes, each with its fiber.
    pub(super) pending: Vec<(usize, String)>,
    /// The rules, unless they have made no difference so far.
    pub(super) rules: Option<Rules>,
}

impl State {
    /// Rule 2: tells a fiber and all that it owns.
    pub(super) fn tell(&mut self, at: usize) {
        let fiber = &mut self.fibers[at];
        if fiber.is_told {
            // To interrupt its cleanup is the bug.
            fiber.is_interrupted |= is_planted(Bug::CleanupInterrupted) && fiber.ended.is_none();
            return;
        }
        if fiber.outcome.is_none() {
            fiber.is_told = true;
            fiber.is_interrupted = fiber.ended.is_none();
        }
        for below in at + 1..self.fibers.len() {
            if self.fibers[below].owner == Some(at) {
                self.tell(below);
            }
        }
        self.progress = true;
    }

    /// Rule 4: settles a fiber, unless a told fiber below it is open.
    pub(super) fn settle(&mut self, at: usize) {
        let fiber = &self.fibers[at];
        let Some(ended) = fiber.ended.clone().filter(|_| fiber.outcome.is_none()) else {
            return;
        };
        let is_dropped = at == 0 && is_planted(Bug::CleanupDropped);
        if fiber.is_told && self.has_told_below(at) && !is_dropped {
            return;
        }
        self.fibers[at].outcome = Some(ended);
        self.progress = true;
    }

    fn has_told_below(&self, at: usize) -> bool {
        let owner_of = |below: &usize| self.fibers[*below].owner;
        let is_below = |below: usize| std::iter::successors(Some(below), owner_of).any(|above| above == at);
        let mut below = at + 1..self.fibers.len();
        below.any(|below| self.is_told_and_open(below) && is_below(below))
    }

    pub(super) fn is_told_and_open(&self, at: usize) -> bool {
        self.fibers[at].is_told && self.fibers[at].outcome.is_none()
    }
}
