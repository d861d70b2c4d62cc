// Activities of a test runtime: their replacements, the attempts that fail or hang, and a record of the calls.

import type { ActivityFunction } from '../activity/activity.ts';
import type { ActivityContext } from '../activity/activity-context.ts';
import type { ActivityJob } from '../activity/activity-job.ts';
import { isThenable } from '../util/thenable.ts';

/** An attempt of an activity that a test runtime has called. */
export interface ActivityCall<I = any, O = any> {
  /** Name of the activity, also of an inline one. */
  readonly activity: string;
  readonly instanceId: string;
  readonly executionId: number;
  /** From 1. */
  readonly attempt: number;
  /** The input before the schema of the activity, if it has one; `undefined` for an activity of `ctx.run`. */
  readonly input: I;
  /** Time of the call, by the clock of the test. */
  readonly time: Date;
  /**
   * State of the attempt so far. `'lost'`: its result is no longer awaited, because it was cancelled, took too long, or
   * its worker crashed.
   */
  readonly outcome: 'running' | 'hanging' | 'completed' | 'failed' | 'lost';
  /** The output of a completed attempt. */
  readonly output?: O;
  /** The error of a failed attempt. */
  readonly error?: unknown;
}

type Recorded = { -readonly [K in keyof ActivityCall]: ActivityCall[K] };

/** An attempt that hangs, and its function. */
interface HangingAttempt {
  readonly run: () => unknown;
  settle(work: () => unknown): void;
}

/**
 * The result of `test.hang`. It holds the attempts that are called from then on, until it is told how they end. Later
 * attempts are called as usual.
 *
 * @example
 * ```ts
 * const bank = test.hang(charge);
 * const handle = await test.start(order, { total: 12 });
 * await test.advance('1h');
 * bank.return({ id: 'r1' });
 * ```
 */
export class Hang<O = any> {
  readonly #hanging = new Set<HangingAttempt>();
  readonly #over: () => void;

  /** @internal */
  constructor(over: () => void) {
    this.#over = over;
  }

  /** Number of attempts that hang. */
  get attempts(): number {
    return this.#hanging.size;
  }

  /** Ends the hanging attempts with this output. */
  return(output: O): void {
    this.#end(() => output);
  }

  /** Fails the hanging attempts with this error. */
  throw(error: unknown): void {
    this.#end(() => {
      throw error;
    });
  }

  /** Lets the hanging attempts run now as they would have. */
  release(): void {
    this.#end();
  }

  /** @internal */
  hold(context: ActivityContext, run: () => unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const hanging: HangingAttempt = {
        run,
        settle(work) {
          try {
            resolve(work());
          } catch (error) {
            reject(error);
          }
        },
      };
      this.#hanging.add(hanging);
      context.signal.addEventListener('abort', () => {
        this.#hanging.delete(hanging);
        reject(context.signal.reason as Error);
      });
    });
  }

  #end(work?: () => unknown): void {
    this.#over();
    const all = [...this.#hanging];
    this.#hanging.clear();
    for (const hanging of all) hanging.settle(work ?? hanging.run);
  }
}

export class TestActivities {
  readonly calls: ActivityCall[] = [];
  private readonly nowMs: () => number;
  private readonly replaced = new Map<string, ActivityFunction>();
  private readonly failures = new Map<string, unknown[]>();
  private readonly hangs = new Map<string, Hang>();
  /** The activity, and the number of its attempts that still end until the result of one is lost with its worker. */
  private fatal: { readonly name: string; left: number } | null = null;
  /** Attempts that have not ended, by the tokens of their jobs. */
  private readonly open = new Map<number, { readonly call: Recorded; readonly context: ActivityContext }>();

  constructor(nowMs: () => number) {
    this.nowMs = nowMs;
  }

  replace(name: string, fn: ActivityFunction): void {
    this.replaced.set(name, fn);
  }

  failNext(name: string, error: unknown, times: number): void {
    const failures = this.failures.get(name) ?? [];
    this.failures.set(name, failures);
    for (let i = 0; i < times; i += 1) failures.push(error);
  }

  hang(name: string): Hang {
    const hang = new Hang(() => {
      if (this.hangs.get(name) === hang) this.hangs.delete(name);
    });
    this.hangs.set(name, hang);
    return hang;
  }

  /** Returns the attempts that neither hang nor wait for an instance themselves: they may take their time. */
  atWork(isWaiting: (context: ActivityContext) => boolean): ActivityCall[] {
    return [...this.open.values()]
      .filter(({ call, context }) => call.outcome === 'running' && !isWaiting(context))
      .map(({ call }) => call);
  }

  /** Returns the function to call for a job in place of `own`. */
  functionFor(job: ActivityJob, own: ActivityFunction | undefined): ActivityFunction | undefined {
    const fn = this.replaced.get(job.name) ?? own;
    // The lane refuses an activity that is registered nowhere.
    return fn && ((context, input) => this.call(job, context, input, fn));
  }

  /** Makes the result of an attempt get lost: the `nth` of an activity to end from now on. */
  loseResult(name: string, nth: number): void {
    this.fatal = { name, left: nth };
  }

  /** True while a result is still to be lost. */
  get losesResult(): boolean {
    return this.fatal !== null;
  }

  /** Notes the end of an attempt. Returns true if its result is to be lost. */
  ended(token: number): boolean {
    const { fatal } = this;
    const isFatal = fatal !== null && this.open.get(token)?.call.activity === fatal.name && --fatal.left === 0;
    if (isFatal) this.fatal = null;
    this.over(token);
    return isFatal;
  }

  /** Notes that an attempt is no longer awaited. */
  over(token: number): void {
    const call = this.open.get(token)?.call;
    this.open.delete(token);
    if (call !== undefined && isOpen(call)) call.outcome = 'lost';
  }

  private call(job: ActivityJob, context: ActivityContext, input: unknown, fn: ActivityFunction): unknown {
    const { name: activity, instanceId, executionId, attempt } = job;
    const call: Recorded = {
      activity,
      instanceId,
      executionId,
      attempt,
      input,
      time: new Date(this.nowMs()),
      outcome: 'running',
    };
    this.calls.push(call);
    this.open.set(job.token, { call, context });
    const run = (): unknown => {
      if (call.outcome === 'hanging') call.outcome = 'running';
      return fn(context, input);
    };
    const failures = this.failures.get(activity) ?? [];
    const hang = this.hangs.get(activity);
    if (failures.length > 0) return settled(call, () => Promise.reject(failures.shift()));
    if (hang === undefined) return settled(call, run);
    call.outcome = 'hanging';
    return settled(call, () => hang.hold(context, run));
  }
}

function isOpen({ outcome }: ActivityCall): boolean {
  return outcome === 'running' || outcome === 'hanging';
}

/** Returns the result of `run`, and records the outcome in `call`. */
function settled(call: Recorded, run: () => unknown): unknown {
  const complete = (output: unknown): unknown => {
    if (isOpen(call)) Object.assign(call, { outcome: 'completed', output });
    return output;
  };
  const fail = (error: unknown): never => {
    if (isOpen(call)) Object.assign(call, { outcome: 'failed', error });
    throw error;
  };
  let result: unknown;
  try {
    result = run();
  } catch (error) {
    return fail(error);
  }
  return isThenable(result) ? Promise.resolve(result).then(complete, fail) : complete(result);
}
