// A warning for clients that wait while no runtime runs on their store, of any process.

import { isLogged, type Logger, type LogLevel } from '../logging/logger.ts';
import type { StorePort } from '../store/providers.ts';
import { NODE_TIMERS, type Timer } from '../util/timers.ts';
import { readWorkers } from './description.ts';

/** Time after which a client that waits looks for a runtime, ms. */
const FIRST_LOOK_MS = 1_000;
/** Interval of further looks while a client waits, ms. */
const LOOK_MS = 30_000;

/** Watches for workers while clients of one store wait. */
export class WorkerWatch {
  private static readonly ofPort = new WeakMap<StorePort, WorkerWatch>();

  private readonly port: StorePort;
  private readonly logger: Logger | undefined;
  private waits = 0;
  /** True if no client has waited at some time since the timer began. */
  private wasIdle = false;
  private timer: Timer | undefined;
  private hasWarned = false;

  private constructor(port: StorePort, logger: Logger | undefined) {
    this.port = port;
    this.logger = logger;
  }

  /** Returns the watch that all clients of a store share. The first client gives it its logger. */
  static of(port: StorePort, logger: Logger, logLevel: LogLevel): WorkerWatch {
    const known = WorkerWatch.ofPort.get(port);
    if (known !== undefined) return known;
    // A test says by itself that nothing can go on.
    const isWanted = port.testDoubles === null && isLogged('warn', logLevel);
    const watch = new WorkerWatch(port, isWanted ? logger : undefined);
    WorkerWatch.ofPort.set(port, watch);
    return watch;
  }

  /** Begins a wait. Returns the function that ends it. */
  begin(): () => void {
    this.waits += 1;
    if (this.timer === undefined && this.logger !== undefined) this.lookAfter(FIRST_LOOK_MS);
    return () => {
      this.waits -= 1;
      this.wasIdle ||= this.waits === 0;
    };
  }

  private lookAfter(ms: number): void {
    this.wasIdle = false;
    this.timer = NODE_TIMERS.after(ms, () => void this.look(), false);
  }

  private async look(): Promise<void> {
    if (this.waits > 0 && !this.wasIdle && !this.port.hasRuntime) await this.warn();
    if (this.waits === 0) this.timer = undefined;
    else this.lookAfter(this.wasIdle ? FIRST_LOOK_MS : LOOK_MS);
  }

  private async warn(): Promise<void> {
    try {
      const isServed = (await readWorkers(this.port)).some(({ isAlive }) => isAlive);
      if (!isServed && !this.hasWarned) {
        const message =
          'a client waits for an instance, but no runtime runs on its store: ' +
          'start one with `await runtime.start()`, in this or another process';
        this.logger?.warn({ waits: this.waits }, message);
      }
      this.hasWarned = !isServed;
    } catch {
      // The store is closed, or cannot be read now: the waits themselves say so.
    }
  }
}
