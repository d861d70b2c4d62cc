//! The places of a worker. It works on as many instances at the same time as it has places
//! ([`orchestration_concurrency`](crate::RuntimeOptions::orchestration_concurrency)); the others wait in the store.
//!
//! - **C1** An instance has a place while this worker owns it or is about to write its start. So has each instance that
//!   a request under way may bring: an acquisition, a start, a turn that starts others. An instance that waits for
//!   messages, children, later timers or remote activities is released in the commit of its turn, and has none.
//! - **C2** While due instances wait in the store for a place, they come first. A start and the next execution of an
//!   instance then take none, and wait in the store, too. An instance that waits for a timer is released, however soon
//!   the timer is due.
//! - **C3** A place that becomes free while an instance waits for one makes the worker look for work at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::instance::instances::Instances;
use crate::worker::Worker;

/// The part of a worker's places that no table shows.
pub(crate) struct Places {
    worker: Arc<Worker>,
    max: usize,
    /// Places for instances that requests under way may bring.
    reserved: AtomicUsize,
    /// Locked while places are counted and reserved.
    reserving: Mutex<()>,
    /// True if due instances wait in the store for a place, as far as this worker knows.
    wanted: AtomicBool,
}

/// Places for the instances that a request may bring. An instance that has come has a place by itself, and the reserved
/// ones are free again when this is dropped.
pub(crate) struct ReservedPlaces {
    of: Arc<Places>,
    /// The number of places, at least 1.
    pub(crate) count: usize,
}

impl Drop for ReservedPlaces {
    fn drop(&mut self) {
        self.of.reserved.fetch_sub(self.count, Ordering::AcqRel);
        self.of.freed();
    }
}

impl Places {
    pub(crate) fn new(worker: Arc<Worker>, max: usize) -> Arc<Self> {
        Arc::new(Self {
            worker,
            max,
            reserved: AtomicUsize::new(0),
            reserving: Mutex::new(()),
            wanted: AtomicBool::new(false),
        })
    }

    /// True if due instances wait in the store for a place (C2).
    pub(crate) fn are_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Notes that all due instances have come.
    pub(crate) fn not_wanted(&self) {
        self.wanted.store(false, Ordering::Release);
    }

    /// Notes that a place may be free (C3). The place is free for other threads already.
    pub(crate) fn freed(&self) {
        if self.are_wanted() {
            self.worker.acquire_wanted.notify_one();
        }
    }
}

impl Instances {
    /// Returns the number of free places, or 0 while the worker takes no work.
    fn free_places(&self) -> usize {
        if !self.worker.takes_work() {
            return 0;
        }
        let reserved = self.places.reserved.load(Ordering::Acquire);
        let taken = self.table.lock().len() + self.starting.lock().len() + reserved;
        self.places.max.saturating_sub(taken)
    }

    /// Returns true if there is a place for an instance that is due. If there is none, the next one that becomes free
    /// is announced (C3).
    pub(crate) fn has_place_for_due(&self) -> bool {
        if self.free_places() > 0 {
            return true;
        }
        self.places.wanted.store(true, Ordering::Release);
        // A place that became free before was not announced.
        self.free_places() > 0
    }

    /// Returns true if there is a place for an instance that is started, and no due one waits for it (C2).
    pub(crate) fn has_place_for_start(&self) -> bool {
        !self.places.are_wanted() && self.free_places() > 0
    }

    /// Reserves up to `most` places for due instances. `None`: there is none.
    pub(crate) fn reserve_for_due(&self, most: usize) -> Option<ReservedPlaces> {
        let reserving = self.places.reserving.lock();
        let count = self.free_places().min(most);
        self.places.reserved.fetch_add(count, Ordering::AcqRel);
        drop(reserving);
        let of = Arc::clone(&self.places);
        (count > 0).then(|| ReservedPlaces { of, count })
    }

    /// Reserves up to `most` places for instances that are started, unless due instances wait for them (C2). `None`:
    /// there is none.
    pub(crate) fn reserve_for_starts(&self, most: usize) -> Option<ReservedPlaces> {
        if most == 0 || self.places.are_wanted() {
            return None;
        }
        self.reserve_for_due(most)
    }
}
