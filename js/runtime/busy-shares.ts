// How much of its time each thread of a runtime works, for the row of its worker.

import type { EventLoopUtilityFunction, EventLoopUtilization } from 'node:perf_hooks';

/** A thread, as it is measured from the first one. */
export interface Measured {
  readonly eventLoopUtilization: EventLoopUtilityFunction;
}

/** Measures the threads of the lanes again and again, until it is stopped. It keeps no process alive. */
export class BusyShares {
  private readonly timer: NodeJS.Timeout;
  private last = new Map<Measured, EventLoopUtilization>();

  /**
   * @param threads - those that there are, by their lanes
   * @param note - is told of each lane how much of the last interval its thread has worked, 0 to 1
   */
  constructor(
    intervalMs: number,
    threads: () => readonly (Measured | undefined)[],
    note: (shares: readonly number[]) => void,
  ) {
    const look = (): void => {
      const now = new Map<Measured, EventLoopUtilization>();
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
