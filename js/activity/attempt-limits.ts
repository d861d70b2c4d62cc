// The time limits of an attempt.

import type { Timer, Timers } from '../util/timers.ts';
import type { ActivityJob, TimeoutReason } from './activity-job.ts';

/**
 * The timeouts of an attempt. An attempt that has not settled in time fails; its slot is free from then on, and its
 * later result is ignored.
 */
export class AttemptLimits {
  private readonly timer: Timer | undefined;
  private readonly silence: Timer | undefined;

  private constructor(job: ActivityJob, timers: Timers, onTimeout: (reason: TimeoutReason) => void) {
    const { timeoutMs, extras } = job;
    // Started runtimes keep the process alive. A timer that outlives them must not.
    const limit = (ms: number, reason: TimeoutReason): Timer => timers.after(ms, () => onTimeout(reason), false);
    const totalLeftMs = extras?.totalLeftMs ?? Number.POSITIVE_INFINITY;
    if (timeoutMs < totalLeftMs) this.timer = limit(timeoutMs, 'timeout');
    else if (extras?.totalLeftMs !== undefined) this.timer = limit(totalLeftMs, 'totalTimeout');
    if (extras?.heartbeatTimeoutMs !== undefined) this.silence = limit(extras.heartbeatTimeoutMs, 'heartbeatTimeout');
  }

  /** Returns `null` when the attempt has no time limit. */
  static of(job: ActivityJob, timers: Timers, onTimeout: (reason: TimeoutReason) => void): AttemptLimits | null {
    const { timeoutMs, extras } = job;
    const hasNone =
      timeoutMs === Number.POSITIVE_INFINITY &&
      extras?.totalLeftMs === undefined &&
      extras?.heartbeatTimeoutMs === undefined;
    return hasNone ? null : new AttemptLimits(job, timers, onTimeout);
  }

  /** Restarts the heartbeat timeout. */
  beat(): void {
    this.silence?.refresh();
  }

  clear(): void {
    this.timer?.clear();
    this.silence?.clear();
  }
}
