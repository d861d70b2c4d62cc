//! Counters of a runtime. They are written on hot paths: each counter is a separate atomic. Only the end of an instance
//! or an attempt takes a lock, to be counted by name.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use perdure_engine::AttemptResult;
use perdure_provider::Status;
use perdure_scheduler::LaneStats;

use outcomes::{OutcomeCount, Outcomes, error_class};

pub(crate) mod outcomes;

/// Upper ends of the buckets of every [`Histogram`], µs. One more bucket holds longer durations.
pub const BUCKETS_US: [u64; 17] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 60_000_000,
];

/// Counts of durations, by bucket.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    counts: [AtomicU64; BUCKETS_US.len() + 1],
    sum_us: AtomicU64,
}

/// The contents of a histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Number of durations in each bucket, in the order of [`BUCKETS_US`].
    pub counts: Vec<u64>,
    /// Sum of all durations, µs.
    pub sum_us: u64,
}

impl Histogram {
    pub(crate) fn note(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_US.partition_point(|end| *end < us);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Durations {
        Durations {
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters since the runtime was made.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) turns: Counter,
    pub(crate) started: Counter,
    pub(crate) completed: Counter,
    pub(crate) failed: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) continued_as_new: Counter,
    pub(crate) suspended: Counter,
    pub(crate) fenced: Counter,
    pub(crate) replays: Counter,
    pub(crate) replayed_events: Counter,
    pub(crate) cache_hits: Counter,
    pub(crate) attempts: Counter,
    pub(crate) attempts_completed: Counter,
    pub(crate) attempts_failed: Counter,
    pub(crate) takeovers: Counter,
    pub(crate) queue_age: Histogram,
    pub(crate) step_latency: Histogram,
    /// Ends and suspensions of instances.
    pub(crate) orchestrations: Outcomes,
    /// Ends of attempts.
    pub(crate) activities: Outcomes,
}

/// Counts of the work that a runtime has done, and of the things that it holds now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Turns committed.
    pub turns: u64,
    /// Instances whose first turn was committed here.
    pub started: u64,
    /// Instances that ended here.
    pub ended: u64,
    /// Ended instances that returned.
    pub completed: u64,
    /// Ended instances that threw.
    pub failed: u64,
    /// Ended instances that were cancelled.
    pub cancelled: u64,
    /// Executions that were followed by the next one of their instance.
    pub continued_as_new: u64,
    /// Instances suspended here.
    pub suspended: u64,
    /// Turns that were fenced off.
    pub fenced: u64,
    /// Instances that were rebuilt from their history.
    pub replays: u64,
    /// Events that were read for replays.
    pub replayed_events: u64,
    /// Released instances that came back while their generator was still here.
    pub cache_hits: u64,
    /// Attempts of activities started.
    pub attempts: u64,
    /// Attempts that returned.
    pub attempts_completed: u64,
    /// Attempts that threw or ran out of time.
    pub attempts_failed: u64,
    /// Dead workers whose instances this worker released.
    pub takeovers: u64,
    /// Time from when an attempt could begin until a thread began it. The attempt waits for a slot or for a thread.
    pub queue_age: Durations,
    /// Time from when an attempt could begin, because its schedule was durable or its delay over, until its end was
    /// reported.
    pub step_latency: Durations,
    /// Instances that ended or were suspended here, by orchestration, status and class of error.
    pub orchestrations: Vec<OutcomeCount>,
    /// Attempts that ended here, by activity, result and class of error.
    pub activities: Vec<OutcomeCount>,
    /// Instances owned now.
    pub owned_instances: u64,
    /// Generators held now.
    pub cached_instances: u64,
    /// Activities that have a slot now.
    pub running_activities: u64,
    /// Activities known now, including those that wait for a slot or a retry.
    pub open_activities: u64,
    /// Jobs that wait now, in one lane's queue or for any lane.
    pub queued_jobs: u64,
    /// Statistics of each lane.
    pub lanes: Vec<LaneStats>,
    /// Turns in progress now.
    pub turns_in_progress: u64,
    /// Batches written to the store by this process.
    pub commit_batches: u64,
    /// Writes in these batches.
    pub commit_writes: u64,
    /// Batches that failed and were tried again.
    pub commit_retries: u64,
    /// Time from when a batch was handed to the store until it was durable.
    pub commit_latency: Durations,
}

impl Counters {
    /// Counts an instance of an orchestration that has ended or was suspended. `error` is that of a failed one.
    pub(crate) fn ended(&self, name: &str, status: Status, error: Option<&str>) {
        let class = if status == Status::Failed {
            error_class(error)
        } else {
            String::new()
        };
        self.orchestrations.add(name, status.as_str(), class);
        match status {
            Status::Completed => self.completed.add(1),
            Status::Failed => self.failed.add(1),
            Status::Cancelled => self.cancelled.add(1),
            Status::Suspended => self.suspended.add(1),
            // A runtime does not bring these statuses about.
            Status::Pending | Status::Running | Status::Terminated => {}
        }
    }

    /// Counts an attempt of an activity that has ended.
    pub(crate) fn attempt_ended(&self, name: &str, result: &AttemptResult) {
        match result {
            AttemptResult::Completed(_) => {
                self.attempts_completed.add(1);
                self.activities.add(name, "completed", String::new());
            }
            AttemptResult::Failed { error, .. } => {
                self.attempts_failed.add(1);
                self.activities.add(name, "failed", error_class(error.as_deref()));
            }
        }
    }

    /// Returns the counters. The caller fills in the numbers of the things that are held now.
    pub(crate) fn read(&self) -> Metrics {
        let [completed, failed, cancelled] = [&self.completed, &self.failed, &self.cancelled].map(Counter::get);
        Metrics {
            turns: self.turns.get(),
            started: self.started.get(),
            ended: completed + failed + cancelled,
            completed,
            failed,
            cancelled,
            continued_as_new: self.continued_as_new.get(),
            suspended: self.suspended.get(),
            fenced: self.fenced.get(),
            replays: self.replays.get(),
            replayed_events: self.replayed_events.get(),
            cache_hits: self.cache_hits.get(),
            attempts: self.attempts.get(),
            attempts_completed: self.attempts_completed.get(),
            attempts_failed: self.attempts_failed.get(),
            takeovers: self.takeovers.get(),
            queue_age: self.queue_age.read(),
            step_latency: self.step_latency.read(),
            orchestrations: self.orchestrations.read(),
            activities: self.activities.read(),
            ..Metrics::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_bucket_that_ends_with_it_or_above() {
        let histogram = Histogram::default();
        for us in [0, 100, 101, 60_000_000, 60_000_001] {
            histogram.note(Duration::from_micros(us));
        }
        let Durations { counts, sum_us } = histogram.read();
        assert_eq!(counts.len(), BUCKETS_US.len() + 1);
        assert_eq!((counts[0], counts[1], counts[16], counts[17]), (2, 1, 1, 1));
        assert_eq!((counts.iter().sum::<u64>(), sum_us), (5, 120_000_202));
    }
}
