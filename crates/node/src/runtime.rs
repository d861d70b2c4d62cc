//! `NativeRuntime`: a runtime, for the thread that made it.

use std::sync::Arc;
use std::time::Duration;

use napi::bindgen_prelude::Function;
use napi_derive::napi;
use perdure_runtime::{BUCKETS_US, Durations, LaneId, LaneStats, OutcomeCount, Runtime};
use serde_json::json;

use crate::errors::{argument, thrown};
use crate::host::ThisThread;
use crate::job::MapSizes;
use crate::options;
use crate::process;
use crate::replies::{Answer, Replies};
use crate::store::Store;

/// A runtime.
#[napi]
pub struct NativeRuntime {
    pub(crate) inner: Arc<Runtime>,
    replies: Replies,
    number: u32,
    warns: bool,
}

#[napi]
impl NativeRuntime {
    /// Creates a runtime on a store; `options` is JSON.
    #[napi(constructor)]
    pub fn new(store: &Store, options: String) -> napi::Result<Self> {
        let parsed = options::parse(&options).map_err(|e| thrown(&e))?;
        let inner = Arc::new(Runtime::new(Arc::clone(&store.inner), parsed));
        Ok(Self {
            number: process::RUNTIMES.number(&inner),
            inner,
            replies: store.replies.clone(),
            warns: options::warns(&options),
        })
    }

    /// Registers an `orchestration` or an `activity` that this thread can run; `code` is the fingerprint of an
    /// orchestration's code.
    #[napi]
    pub fn register(&self, kind: String, name: String, version: String, code: String) -> napi::Result<()> {
        match kind.as_str() {
            "orchestration" => self.inner.register(name, version, code).map_err(|e| thrown(&e)),
            "activity" => {
                self.inner.register_activity(name);
                Ok(())
            }
            other => Err(argument(format!(
                "only 'orchestration' or 'activity' can be registered, not '{other}'"
            ))),
        }
    }

    /// Number of the runtime, by which other threads of this process find it.
    #[napi]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Notes that every thread has a registered `orchestration` or `activity`.
    #[napi]
    pub fn share(&self, kind: String, name: String, version: String) {
        if kind == "activity" {
            self.inner.share_activity(name);
        } else {
            self.inner.share(name, version);
        }
    }

    /// Notes that the thread of a lane is gone.
    #[napi]
    pub fn lose(&self, lane: u32) {
        self.inner.detach(LaneId(lane as usize));
    }

    /// Starts the runtime. The reply holds the worker's id.
    #[napi]
    pub fn start(&self, request: f64, wake: Function<'_, (), ()>) -> napi::Result<()> {
        let host = Arc::new(ThisThread::new(&wake, self.warns)?);
        let (inner, replies) = (Arc::clone(&self.inner), self.replies.clone());
        self.inner.tokio().spawn(async move {
            let result = inner
                .start(host)
                .await
                .map(|id| Some(json!({ "workerId": id }).to_string()));
            replies.push(Answer { request, result });
        });
        Ok(())
    }

    /// Shuts the runtime down. The reply comes when the runtime is drained or the timeout has passed.
    #[napi]
    pub fn shutdown(&self, request: f64, timeout_ms: f64) -> napi::Result<()> {
        let timeout =
            Duration::try_from_secs_f64(timeout_ms / 1_000.0).map_err(|e| argument(format!("timeout: {e}")))?;
        let (inner, replies) = (Arc::clone(&self.inner), self.replies.clone());
        let begun = inner.begin_shutdown();
        self.inner.tokio().spawn(async move {
            let result = match begun {
                Ok(()) => {
                    inner.finish_shutdown(timeout).await;
                    Ok(None)
                }
                Err(error) => Err(error),
            };
            replies.push(Answer { request, result });
        });
        Ok(())
    }

    /// Turns jobs that report ended instances on or off.
    #[napi]
    pub fn report_ends(&self, wanted: bool) {
        self.inner.report_ends(wanted);
    }

    /// Notes the share of its time, 0 to 1, that the thread of each lane has worked lately.
    #[napi]
    pub fn note_busy(&self, shares: Vec<f64>) {
        self.inner.note_busy(&shares);
    }

    /// Counters and gauges, as JSON.
    #[napi]
    pub fn metrics(&self) -> String {
        let m = self.inner.metrics();
        json!({
            "turns": m.turns,
            "started": m.started,
            "ended": m.ended,
            "completed": m.completed,
            "failed": m.failed,
            "cancelled": m.cancelled,
            "continuedAsNew": m.continued_as_new,
            "suspended": m.suspended,
            "fenced": m.fenced,
            "replays": m.replays,
            "replayedEvents": m.replayed_events,
            "cacheHits": m.cache_hits,
            "attempts": m.attempts,
            "attemptsCompleted": m.attempts_completed,
            "attemptsFailed": m.attempts_failed,
            "queueAge": histogram(&m.queue_age),
            "stepLatency": histogram(&m.step_latency),
            "orchestrations": m.orchestrations.iter().map(|one| outcome(one, "status")).collect::<Vec<_>>(),
            "activities": m.activities.iter().map(|one| outcome(one, "result")).collect::<Vec<_>>(),
            "takeovers": m.takeovers,
            "ownedInstances": m.owned_instances,
            "cachedInstances": m.cached_instances,
            "runningActivities": m.running_activities,
            "openActivities": m.open_activities,
            "queuedJobs": m.queued_jobs,
            "turnsInProgress": m.turns_in_progress,
            "commitBatches": m.commit_batches,
            "commitWrites": m.commit_writes,
            "commitRetries": m.commit_retries,
            "commitLatency": histogram(&m.commit_latency),
            "lanes": m.lanes.iter().map(lane).collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// Sizes of the maps keyed by instance.
    #[napi]
    pub fn map_sizes(&self) -> MapSizes {
        let sizes = self.inner.map_sizes();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        MapSizes {
            instances: count(sizes.instances),
            turns: count(sizes.turns),
            activities: count(sizes.activities),
        }
    }
}

/// Returns a histogram as the `DurationHistogram` of `js/tracing/metrics.ts`.
fn histogram(durations: &Durations) -> serde_json::Value {
    json!({
        "boundsMs": BUCKETS_US.map(|us| us as f64 / 1_000.0),
        "counts": durations.counts,
        "count": durations.counts.iter().sum::<u64>(),
        "sumMs": durations.sum_us as f64 / 1_000.0,
    })
}

/// Returns a count of ends. The name of its result is `result`.
fn outcome(one: &OutcomeCount, result: &str) -> serde_json::Value {
    json!({ "name": one.name, result: one.result, "error": one.error, "count": one.count })
}

fn lane(stats: &LaneStats) -> serde_json::Value {
    json!({
        "pinnedJobs": stats.pinned,
        "takenJobs": stats.taken,
        "steals": stats.steals,
        "parks": stats.parks,
    })
}
