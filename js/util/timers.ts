// Timers, which limit how long something may take. A process has those of Node; a test has its own, which follow its
// clock.

import { TIMER_MAX_MS } from './duration.ts';

/** A timer that calls a function after a time. */
export interface Timer {
  /** Begins the time anew. */
  refresh(): void;
  /** Cancels the timer, unless it has fired. */
  clear(): void;
}

/** A source of timers. */
export interface Timers {
  /** @param keepsAlive - true if the timer keeps the process alive */
  after(ms: number, then: () => void, keepsAlive: boolean): Timer;
}

/** A timer that may last longer than those of Node, and is never early. */
class NodeTimer implements Timer {
  private readonly ms: number;
  private readonly then: () => void;
  private readonly keepsAlive: boolean;
  private deadline: number;
  private timer: NodeJS.Timeout;

  constructor(ms: number, then: () => void, keepsAlive: boolean) {
    this.ms = ms;
    this.then = then;
    this.keepsAlive = keepsAlive;
    this.deadline = performance.now() + ms;
    this.timer = this.start(ms);
  }

  refresh(): void {
    this.deadline = performance.now() + this.ms;
    this.timer.refresh();
  }

  clear(): void {
    clearTimeout(this.timer);
  }

  private start(ms: number): NodeJS.Timeout {
    const timer = setTimeout(this.expire, Math.min(ms, TIMER_MAX_MS));
    return this.keepsAlive ? timer : timer.unref();
  }

  private readonly expire = (): void => {
    const left = this.deadline - performance.now();
    if (left > 0) this.timer = this.start(left);
    else this.then();
  };
}

/** The timers of the process. */
export const NODE_TIMERS: Timers = {
  after: (ms, then, keepsAlive) => new NodeTimer(ms, then, keepsAlive),
};
