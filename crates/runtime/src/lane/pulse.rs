//! Signs of life of a lane's thread, and its current work. The thread writes them, and the
//! [watchdog](crate::poison::watchdog) reads them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use perdure_scheduler::{LaneId, Lanes};
use tokio::sync::Notify;

use crate::state::Instance;
use crate::state::attempt::ActivityToken;

/// The work that the thread is in.
#[derive(Clone)]
pub(crate) enum CurrentWork {
    /// A turn.
    Turn(Arc<Instance>),
    /// The function of an activity, from its call to its return. The later work of an asynchronous function belongs to
    /// `Other`.
    Activity(ActivityToken),
    /// Anything else, of which the runtime does not know.
    Other,
}

/// Value of `held_up_at` while the thread was never found to be held up.
const NEVER: u64 = u64::MAX;

pub(crate) struct Pulse {
    /// Number of times that the thread has come by.
    beats: AtomicU64,
    /// The beat after which it was found to be held up.
    held_up_at: AtomicU64,
    work: Mutex<CurrentWork>,
    /// True while the watchdog does not check the thread, until the lane is no longer parked.
    is_unwatched: AtomicBool,
    unparked: Notify,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            beats: AtomicU64::new(0),
            held_up_at: AtomicU64::new(NEVER),
            work: Mutex::new(CurrentWork::Other),
            is_unwatched: AtomicBool::new(false),
            unparked: Notify::new(),
        }
    }
}

impl Pulse {
    // ---- the thread ----

    /// Notes that the thread takes the next job, or lets its event loop in before that.
    pub(crate) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::AcqRel);
        self.leave();
        self.note_unparked();
    }

    /// Notes that the thread begins work.
    pub(crate) fn enter(&self, work: CurrentWork) {
        *self.work.lock() = work;
    }

    /// Notes that this work is over.
    pub(crate) fn leave(&self) {
        *self.work.lock() = CurrentWork::Other;
    }

    /// Notes that the lane is no longer parked: the thread owes a beat. May be called from any thread.
    pub(crate) fn note_unparked(&self) {
        if self.is_unwatched.load(Ordering::SeqCst) && self.is_unwatched.swap(false, Ordering::SeqCst) {
            self.unparked.notify_one();
        }
    }

    // ---- the watchdog ----

    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Acquire)
    }

    pub(crate) fn work(&self) -> CurrentWork {
        self.work.lock().clone()
    }

    /// Notes that the thread has not come by for long since this beat.
    pub(crate) fn hold_up(&self, beat: u64) {
        self.held_up_at.store(beat, Ordering::Release);
    }

    /// Returns true if the thread was found to be held up and has not come by since.
    pub(crate) fn is_held_up(&self) -> bool {
        self.held_up_at.load(Ordering::Acquire) == self.beats()
    }

    /// Waits until the lane is not parked. A thread that unparks the lane does so before it calls
    /// [`note_unparked`](Self::note_unparked). This method sets `is_unwatched` before it looks at the lane. So one of
    /// the two sees the other.
    pub(crate) async fn while_parked<J>(&self, lanes: &Lanes<J>, lane: LaneId) {
        loop {
            self.is_unwatched.store(true, Ordering::SeqCst);
            if !lanes.is_parked(lane) {
                self.is_unwatched.store(false, Ordering::Release);
                return;
            }
            self.unparked.notified().await;
        }
    }
}
