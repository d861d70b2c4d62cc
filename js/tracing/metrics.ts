// The counters, histograms and gauges of a runtime.

/** A histogram of durations. Its buckets are the same for all histograms and never change. */
export interface DurationHistogram {
  /** Upper ends of the buckets, ms: 0.1, 0.25, 0.5, 1 and so on to 60 000. */
  readonly boundsMs: readonly number[];
  /**
   * Number of durations per bucket: above the previous bound and at most this one. One more bucket, at the end, counts
   * the durations above the last bound.
   */
  readonly counts: readonly number[];
  /** Number of durations. */
  readonly count: number;
  /** Sum of the durations, ms. */
  readonly sumMs: number;
}

/** Instances of one orchestration that ended, or were suspended, in the same way. */
export interface OrchestrationOutcomes {
  /** Name of the orchestration; `other` beyond the limit. */
  readonly name: string;
  readonly status: 'Completed' | 'Failed' | 'Cancelled' | 'Suspended';
  /** Name of the error, when Failed: `RangeError`. `other` beyond the limit or if a codec hides it; else empty. */
  readonly error: string;
  readonly count: number;
}

/** Attempts of one activity that ended in the same way. */
export interface ActivityOutcomes {
  /** Name of the activity; `other` beyond the limit. */
  readonly name: string;
  readonly result: 'completed' | 'failed';
  /** Name of the error of a failed attempt, as in {@link OrchestrationOutcomes}; else empty. */
  readonly error: string;
  readonly count: number;
}

/** Work of one JavaScript thread of a runtime: its backlog, and counters since the runtime was started. */
export interface LaneMetrics {
  /** Jobs that wait for this thread, the only one that can run them. */
  readonly pinnedJobs: number;
  /** Jobs that this thread has taken and not begun; other threads may take them away. */
  readonly takenJobs: number;
  /** Times that this thread took jobs away from another thread. */
  readonly steals: number;
  /** Times that this thread found nothing to do. */
  readonly parks: number;
  /** Share of its time that this thread has worked, 0 to 1. */
  readonly busyShare: number;
}

/**
 * The result of {@link Runtime.metrics}: counters and histograms since the runtime was last started, and current
 * gauges. All of it is counted without a lock, so sums may differ by work in progress.
 */
export interface RuntimeMetrics {
  /** Turns that are durable. */
  readonly turns: number;
  /** Instances whose first turn was here. */
  readonly started: number;
  /** Instances that ended here: `completed`, `failed` and `cancelled` together. */
  readonly ended: number;
  /** Instances that returned. */
  readonly completed: number;
  /** Instances that threw. */
  readonly failed: number;
  /** Instances that ended by a cancellation. */
  readonly cancelled: number;
  /** Executions that were followed by the next one of their instance. */
  readonly continuedAsNew: number;
  /** Instances that were suspended here. */
  readonly suspended: number;
  /** Turns that were fenced: not stored because the instance belonged to another worker by then. */
  readonly fenced: number;
  /** Instances that were rebuilt from their history. */
  readonly replays: number;
  /** Events that were read for replays. */
  readonly replayedEvents: number;
  /**
   * Instances that slept in the store and whose generator was still in memory when they woke. All others that went on
   * were replayed.
   */
  readonly cacheHits: number;
  /** Attempts of activities that were begun. */
  readonly attempts: number;
  /** Attempts that returned. */
  readonly attemptsCompleted: number;
  /** Attempts that threw or ran out of time, whether another one follows or not. */
  readonly attemptsFailed: number;
  /** Dead workers that this one took over from. */
  readonly takeovers: number;
  /**
   * Time from when an attempt could begin until a thread began it: its wait for a slot (`activityConcurrency`) or a
   * thread.
   */
  readonly queueAge: DurationHistogram;
  /**
   * Time from when an attempt could begin, because its schedule was durable or the delay before it was over, until its
   * result was handed in. That result is recorded with the next turn; see `commitLatency`.
   */
  readonly stepLatency: DurationHistogram;
  /**
   * Instances that ended or were suspended here, by orchestration, status and error. At most 1 000 combinations are
   * counted apart; later ones are counted under the name `other`.
   */
  readonly orchestrations: readonly OrchestrationOutcomes[];
  /** Attempts that ended here, by activity, result and error, limited in the same way. */
  readonly activities: readonly ActivityOutcomes[];
  /** Instances that the runtime owns. */
  readonly ownedInstances: number;
  /** Generators in memory. */
  readonly cachedInstances: number;
  /** Attempts that have a slot. */
  readonly runningActivities: number;
  /** Attempts known here, including those that wait for a slot or for their time. */
  readonly openActivities: number;
  /** Turns and attempts that wait for a thread. */
  readonly queuedJobs: number;
  /** Turns whose code runs. */
  readonly turnsInProgress: number;
  /** Batches that were written, by all users of the same provider object. */
  readonly commitBatches: number;
  /** Turns, starts and messages in those batches. */
  readonly commitWrites: number;
  /** Batches that the store refused and that were tried again. */
  readonly commitRetries: number;
  /** Time from when a batch was handed to the store until it was durable. */
  readonly commitLatency: DurationHistogram;
  /** Metrics of each thread, the main one first. */
  readonly lanes: readonly LaneMetrics[];
}
