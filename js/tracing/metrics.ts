// What a runtime counts and measures.

/** How long something took, by how often: counts in buckets that are the same for all histograms and never change. */
export interface DurationHistogram {
  /** Upper ends of the buckets, ms: 0.1, 0.25, 0.5, 1 and so on to 60 000. */
  readonly boundsMs: readonly number[];
  /** How many took at most as long as each bound and longer than the one before; in one more, those that took longer than the last. */
  readonly counts: readonly number[];
  /** How many there are. */
  readonly count: number;
  /** All of them together, ms. */
  readonly sumMs: number;
}

/** What one JavaScript thread of a runtime has to do, and did since it was started. */
export interface LaneMetrics {
  /** Jobs that wait for this thread, which alone can run them. */
  readonly pinnedJobs: number;
  /** Jobs that it has taken and not begun; other threads may take them away. */
  readonly takenJobs: number;
  /** How often it took jobs away from another thread. */
  readonly steals: number;
  /** How often it found nothing to do. */
  readonly parks: number;
  /** How much of its time it has worked, 0 to 1. */
  readonly busyShare: number;
}

/**
 * What {@link Runtime.metrics} returns: counters and histograms since the runtime was started last, and what it holds now. All of it is counted
 * without a lock, so that sums may differ by what is under way.
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
  /** Turns that were not stored because the instance was another worker's by then. */
  readonly fenced: number;
  /** Instances that were made again from their history. */
  readonly replays: number;
  /** Events that were read for that. */
  readonly replayedEvents: number;
  /** Instances that slept in the store, and whose generator was still in memory when they woke. All others that went on were replayed. */
  readonly cacheHits: number;
  /** Attempts of activities that were begun. */
  readonly attempts: number;
  /** Attempts that returned. */
  readonly attemptsCompleted: number;
  /** Attempts that threw or ran out of time, whether another one follows or not. */
  readonly attemptsFailed: number;
  /** Dead workers that this one took over from. */
  readonly takeovers: number;
  /** From when an attempt could begin until a thread began it: how long it waited for a slot (`activityConcurrency`) or a thread. */
  readonly queueAge: DurationHistogram;
  /**
   * From when an attempt could begin, because its schedule was durable or the delay before it over, until its result was handed in. That
   * result is recorded with the next turn; see `commitLatency`.
   */
  readonly stepLatency: DurationHistogram;
  /** Instances that it owns. */
  readonly ownedInstances: number;
  /** Generators in memory. */
  readonly cachedInstances: number;
  /** Attempts that have a slot. */
  readonly runningActivities: number;
  /** Attempts known here, with those that wait for a slot or for their time. */
  readonly openActivities: number;
  /** Turns and attempts that wait for a thread. */
  readonly queuedJobs: number;
  /** Turns whose code runs. */
  readonly turnsInProgress: number;
  /** Batches that were written, by all that use the same provider object. */
  readonly commitBatches: number;
  /** Turns, starts and messages in them. */
  readonly commitWrites: number;
  /** Batches that the store refused and that were tried again. */
  readonly commitRetries: number;
  /** From when a batch was handed to the store until it was durable. */
  readonly commitLatency: DurationHistogram;
  /** Of each thread, the main one first. */
  readonly lanes: readonly LaneMetrics[];
}
