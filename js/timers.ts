// Timers: how long something may take. A process has those of Node; a test has its own, which go by its clock.

import { performance } from 'node:perf_hooks';

import { TIMER_MAX_MS } from './duration.ts';

/** Something that is to happen after a time. */
export interface Timer {
  /** The time begins anew. */
  refresh(): void;
  /** It does not happen, unless it has. */
  clear(): void;
}

/** Where timers are had. */
export interface Timers {
  /** @param keepsAlive - whether the process is kept alive by it */
  after(ms: number, then: () => void, keepsAlive: boolean): Timer;
}

// Taken now: what user code, a determinism guard or a test's fake timers do to them later must not reach these.
const now = performance.now.bind(performance);
const start = setTimeout;
const stop = clearTimeout;

/** One that may last longer than those of Node, and is never early. */
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
    this.deadline = now() + ms;
    this.timer = this.start(ms);
  }

  refresh(): void {
    this.deadline = now() + this.ms;
    this.timer.refresh();
  }

  clear(): void {
    stop(this.timer);
  }

  private start(ms: number): NodeJS.Timeout {
    const timer = start(this.expire, Math.min(ms, TIMER_MAX_MS));
    return this.keepsAlive ? timer : timer.unref();
  }

  private readonly expire = (): void => {
    const left = this.deadline - now();
    if (left > 0) this.timer = this.start(left);
    else this.then();
  };
}

/** Those of the process. */
export const NODE_TIMERS: Timers = {
  after: (ms, then, keepsAlive) => new NodeTimer(ms, then, keepsAlive),
};
