//! Counters of a runtime.

use std::sync::atomic::{AtomicU64, Ordering};

use perdure_scheduler::LaneStats;

/// Counters since the runtime was made.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    turns: AtomicU64,
    ended: AtomicU64,
    fenced: AtomicU64,
    attempts: AtomicU64,
    takeovers: AtomicU64,
}

/// What a runtime has done and what it holds now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Turns committed.
    pub turns: u64,
    /// Instances that ended here.
    pub ended: u64,
    /// Turns that were fenced off.
    pub fenced: u64,
    /// Attempts of activities started.
    pub attempts: u64,
    /// Dead workers whose instances this one released.
    pub takeovers: u64,
    /// Instances owned now.
    pub owned_instances: u64,
    /// Generators held now.
    pub cached_instances: u64,
    /// Activities that have a slot now.
    pub running_activities: u64,
    /// Activities known now, with those that wait for a slot or a retry.
    pub open_activities: u64,
    /// Jobs that wait in the lanes and for any of them now.
    pub queued_jobs: u64,
    /// Of each lane.
    pub lanes: Vec<LaneStats>,
    /// Turns in progress now.
    pub turns_in_progress: u64,
    /// Batches written to the store by this process.
    pub commit_batches: u64,
    /// Writes in them.
    pub commit_writes: u64,
    /// Batches that failed and were tried again.
    pub commit_retries: u64,
}

impl Counters {
    pub(crate) fn turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn fenced(&self) {
        self.fenced.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn attempt(&self) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn takeover(&self) {
        self.takeovers.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters; what is held now is the caller's to fill in.
    pub(crate) fn read(&self) -> Metrics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Metrics {
            turns: get(&self.turns),
            ended: get(&self.ended),
            fenced: get(&self.fenced),
            attempts: get(&self.attempts),
            takeovers: get(&self.takeovers),
            ..Metrics::default()
        }
    }
}
