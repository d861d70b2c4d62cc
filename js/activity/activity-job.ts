// One attempt of an activity as the runtime passes it, and the reasons that end it early.

import type { TraceContext } from '../tracing/telemetry-hooks.ts';

/** Reason for which the addon aborts an attempt. */
export type AbortReason = 'cancelled' | 'shutdown' | 'leaseLost';

/** The timeout that an attempt has exceeded. */
export type TimeoutReason = 'timeout' | 'totalTimeout' | 'scheduleToStartTimeout' | 'heartbeatTimeout';

/** One attempt to run, as the runtime passes it. */
export interface ActivityJob {
  readonly token: number;
  readonly name: string;
  readonly input: string | null;
  readonly attempt: number;
  /** Longest time of the attempt, ms; `Infinity`: any. */
  readonly timeoutMs: number;
  readonly instanceId: string;
  readonly executionId: number;
  readonly orchestrationName: string;
  readonly operation: number;
  /**
   * The incarnation of the instance: a number of 64 bits, drawn when its id was started, as two signed numbers of 32
   * bits, which are read without an allocation. Both are 0 when the instance's history is older than incarnations.
   */
  readonly incarnationHigh: number;
  readonly incarnationLow: number;
  /** True if no attempt of the activity has ever begun: the turn that scheduled it hands it out. */
  readonly isUntried: boolean;
  readonly version: string;
  /** JSON of the tags that the instance was started with; `null` if there are none. */
  readonly tags: string | null;
  /** `null` for most attempts. */
  readonly extras: AttemptExtras | null;
}

/** Fields that only some attempts have. */
export interface AttemptExtras {
  /** Longest time of all attempts and the waits between them, ms. */
  readonly totalTimeoutMs?: number;
  /** The rest of the total timeout, ms. If it is not positive, the attempt does not run. */
  readonly totalLeftMs?: number;
  /** Longest time for which the attempt might wait to begin, ms, if it has waited for longer. It does not run then. */
  readonly scheduleToStartTimeoutMs?: number;
  /** Longest time between two heartbeats, ms. */
  readonly heartbeatTimeoutMs?: number;
  /** Codec text of the last heartbeat details of an earlier attempt. */
  readonly lastHeartbeat?: string;
  /** The instance whose code holds the function, for an inline activity. */
  readonly inline?: number;
  /** Trace context in which the activity was scheduled. */
  readonly trace?: TraceContext;
  /** The session of the activity. */
  readonly session?: string;
  /** For a traced attempt: the instance that scheduled it, if this worker owns that instance. */
  readonly owner?: number;
  /** The queue that the activity was scheduled in, if it is not the default one. */
  readonly queue?: string;
}
