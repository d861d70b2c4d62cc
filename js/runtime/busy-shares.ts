// The share of its time that each thread of a runtime works, for the row of its worker.

import type { EventLoopUtilityFunction, EventLoopUtilization } from 'node:perf_hooks';

/** A thread that can be measured from the first thread. */
export interface MeasuredThread {
  readonly eventLoopUtilization: EventLoopUtilityFunction;
}

/** Measures the threads of the lanes at an interval, until it is stopped. It does not keep the process alive. */
export class BusyShares {
  private readonly timer: NodeJS.Timeout;
  private last = new Map<MeasuredThread, EventLoopUtilization>();

  /**
   * @param threads - returns the present threads, by lane
   * @param note - receives, for each lane, the share of the last interval that its thread has worked, 0 to 1
   */
  constructor(
    intervalMs: number,
    threads: () => readonly (MeasuredThread | undefined)[],
    note: (shares: readonly number[]) => void,
  ) {
    const look = (): void => {
      const now = new Map<MeasuredThread, EventLoopUtilization>();
      const shares = threads().map((thread) => {
        if (thread === undefined) return 0;
        const used = thread.eventLoopUtilization();
        const before = this.last.get(thread);
        now.set(thread, used);
        return before === undefined ? 0 : thread.eventLoopUtilization(used, before).utilization;
      });
      this.last = now;
      note(shares);
    };
    look();
    this.timer = setInterval(look, intervalMs).unref();
  }

  stop(): void {
    clearInterval(this.timer);
  }
}
