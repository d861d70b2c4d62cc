//! One lane: the jobs that only its thread may run, the jobs that it has taken for itself, and its parked flag.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::deque::{LocalDeque, StealHandle};
use crate::sync::{AtomicBool, AtomicU64, Mutex, fence};

/// Id of a lane: its place among the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub usize);

/// Priority class of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Steps of work under way, and messages for the thread.
    First,
    /// Jobs that such steps asked for.
    Later,
    /// New work. It begins when no work under way has anything to do, so that work ends before more is begun, but no
    /// later than after `PASSED_OVER_MAX` other jobs.
    New,
}

/// Number of jobs that may go before new work that waits.
pub(crate) const PASSED_OVER_MAX: u64 = if cfg!(loom) { 1 } else { 64 };

/// Counters and queue lengths of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneStats {
    /// Jobs that only this lane may run and that wait.
    pub pinned: u64,
    /// Jobs that the lane has taken for itself and that others may steal.
    pub taken: u64,
    /// Number of times that the lane stole from another lane.
    pub steals: u64,
    /// Number of times that the lane was parked.
    pub parks: u64,
}

/// Function that wakes the thread of a lane.
pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

pub(crate) struct Lane<J> {
    pub(crate) pinned: Mutex<Pinned<J>>,
    /// Own deques for the classes `First` and `Later`. Only the thread of the lane takes jobs from this side.
    pub(crate) own: Mutex<[LocalDeque<J>; 2]>,
    pub(crate) others: [StealHandle<J>; 2],
    parked: AtomicBool,
    wake: Mutex<Option<Wake>>,
    /// Jobs in a row that went before new work.
    pub(crate) passed_over: AtomicU64,
    /// Jobs that the lane has taken.
    pub(crate) taken: AtomicU64,
    pub(crate) steals: AtomicU64,
    parks: AtomicU64,
}

/// Jobs by class.
pub(crate) struct Pinned<J>([VecDeque<J>; 3]);

impl<J> Pinned<J> {
    pub(crate) fn push(&mut self, class: Class, job: J) {
        self.0[class as usize].push_back(job);
    }

    pub(crate) fn pop(&mut self, class: Class) -> Option<J> {
        self.0[class as usize].pop_front()
    }

    pub(crate) fn has(&self, class: Class) -> bool {
        !self.0[class as usize].is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(VecDeque::len).sum()
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = J> {
        self.0.iter_mut().flat_map(|jobs| jobs.drain(..))
    }
}

impl<J> Default for Lane<J> {
    fn default() -> Self {
        let own = [LocalDeque::default(), LocalDeque::default()];
        Self {
            pinned: Mutex::new(Pinned([VecDeque::new(), VecDeque::new(), VecDeque::new()])),
            others: [own[0].others(), own[1].others()],
            own: Mutex::new(own),
            // No thread looks for jobs before one is attached.
            parked: AtomicBool::new(true),
            wake: Mutex::new(None),
            passed_over: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            steals: AtomicU64::new(0),
            parks: AtomicU64::new(0),
        }
    }
}

impl<J> Lane<J> {
    /// Parks the lane: from here on a push wakes it. The caller must look for work once more after this: between this
    /// and a push one of the two sides sees the other.
    pub(crate) fn park(&self) {
        self.parks.fetch_add(1, Relaxed);
        self.parked.store(true, SeqCst);
        fence(SeqCst);
    }

    /// Ends the parking. `true`: the lane was parked, and no other caller has received this answer.
    pub(crate) fn unpark(&self) -> bool {
        fence(SeqCst);
        self.parked.load(SeqCst) && self.parked.swap(false, SeqCst)
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.parked.load(SeqCst)
    }

    pub(crate) fn wake(&self) {
        if let Some(wake) = &*self.wake.lock() {
            wake();
        }
    }

    pub(crate) fn attach(&self, wake: Option<Wake>) {
        *self.wake.lock() = wake;
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.wake.lock().is_some()
    }

    pub(crate) fn stats(&self) -> LaneStats {
        LaneStats {
            pinned: self.pinned.lock().len() as u64,
            taken: self.others.iter().map(|others| others.len() as u64).sum(),
            steals: self.steals.load(Relaxed),
            parks: self.parks.load(Relaxed),
        }
    }
}
