//! Signs of life of a lane's thread, and what it is doing: written by that thread, read by the [watchdog](crate::poison::watchdog).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use perdure_scheduler::{LaneId, Lanes};
use tokio::sync::Notify;

use crate::activity::attempt::ActivityToken;
use crate::instance::Instance;

/// What the thread is in.
#[derive(Clone)]
pub(crate) enum Doing {
    /// A turn.
    Turn(Arc<Instance>),
    /// The function of an activity, from its call to its return. What an asynchronous one does after that belongs to the next.
    Activity(ActivityToken),
    /// Anything else, which nobody here knows of.
    Else,
}

/// Nobody has found it held up.
const NEVER: u64 = u64::MAX;

pub(crate) struct Pulse {
    /// How often the thread has come by.
    beats: AtomicU64,
    /// The beat after which it was found to be held up.
    held_up_at: AtomicU64,
    doing: Mutex<Doing>,
    /// Nobody looks until the lane is no longer parked.
    is_unwatched: AtomicBool,
    stirred: Notify,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            beats: AtomicU64::new(0),
            held_up_at: AtomicU64::new(NEVER),
            doing: Mutex::new(Doing::Else),
            is_unwatched: AtomicBool::new(false),
            stirred: Notify::new(),
        }
    }
}

impl Pulse {
    // ---- the thread ----

    /// It takes the next job, or lets its event loop in before that.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::AcqRel);
        self.leave();
        self.stir();
    }

    /// It begins something.
    pub(crate) fn enter(&self, doing: Doing) {
        *self.doing.lock() = doing;
    }

    /// That is over.
    pub(crate) fn leave(&self) {
        *self.doing.lock() = Doing::Else;
    }

    /// The lane is no longer parked: the thread owes a beat. From any thread.
    pub(crate) fn stir(&self) {
        if self.is_unwatched.load(Ordering::SeqCst) && self.is_unwatched.swap(false, Ordering::SeqCst) {
            self.stirred.notify_one();
        }
    }

    // ---- the watchdog ----

    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Acquire)
    }

    pub(crate) fn doing(&self) -> Doing {
        self.doing.lock().clone()
    }

    /// It has not come by for long since this beat.
    pub(crate) fn hold_up(&self, beat: u64) {
        self.held_up_at.store(beat, Ordering::Release);
    }

    /// Whether it was found to be held up and has not come by since.
    pub(crate) fn is_held_up(&self) -> bool {
        self.held_up_at.load(Ordering::Acquire) == self.beats()
    }

    /// Until the lane is not parked. Whoever unparks it does that before [`stir`](Self::stir), and this looks after it has said that nobody does; so
    /// one of the two sees the other.
    pub(crate) async fn while_parked<J>(&self, lanes: &Lanes<J>, lane: LaneId) {
        loop {
            self.is_unwatched.store(true, Ordering::SeqCst);
            if !lanes.is_parked(lane) {
                self.is_unwatched.store(false, Ordering::Release);
                return;
            }
            self.stirred.notified().await;
        }
    }
}
