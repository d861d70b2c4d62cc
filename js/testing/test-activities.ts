// Activities of a test runtime: what is called in place of them, which attempts fail or hang, and what was called.

import type { ActivityFunction } from '../activity/activity.ts';
import type { ActivityContext, ActivityJob } from '../activity/activity-context.ts';

/** An attempt of an activity that a test runtime has called. */
export interface ActivityCall<I = any, O = any> {
  /** Name of the activity, also of an inline one. */
  readonly activity: string;
  readonly instanceId: string;
  readonly executionId: number;
  /** From 1. */
  readonly attempt: number;
  /** What it was given, as it was before the schema of the activity, if that has one; `undefined` for an inline activity. */
  readonly input: I;
  /** When it was called, by the clock of the test. */
  readonly time: Date;
  /** What has become of it so far. `'lost'`: nobody waits for it any more: it was cancelled, took too long, or its worker has crashed. */
  readonly outcome: 'running' | 'hanging' | 'completed' | 'failed' | 'lost';
  /** What it returned, if it is completed. */
  readonly output?: O;
  /** What it threw, if it has failed. */
  readonly error?: unknown;
}

type Recorded = { -readonly [K in keyof ActivityCall]: ActivityCall[K] };

/** An attempt that hangs, and what it would have done. */
interface Hanging {
  readonly run: () => unknown;
  settle(work: () => unknown): void;
}

/**
 * What `test.hang` returns: it holds the attempts that are called from then on, until it is told how they end. Later attempts are called as
 * ever.
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
  readonly #hanging = new Set<Hanging>();
  readonly #over: () => void;

  /** @internal */
  constructor(over: () => void) {
    this.#over = over;
  }

  /** How many attempts hang. */
  get attempts(): number {
    return this.#hanging.size;
  }

  /** Those that hang return this. */
  return(output: O): void {
    this.#end(() => output);
  }

  /** Those that hang fail with this. */
  throw(error: unknown): void {
    this.#end(() => {
      throw error;
    });
  }

  /** Those that hang do now what they would have done. */
  release(): void {
    this.#end();
  }

  /** @internal */
  hold(context: ActivityContext, run: () => unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const hanging: Hanging = {
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
  /** Of which activity the result of how manieth attempt from now on is lost, with its worker. */
  private fatal: { readonly name: string; left: number } | null = null;
  /** By the tokens of their jobs. */
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

  /** Attempts that nobody holds and that do not wait for an instance themselves: they may take their time. */
  atWork(isWaiting: (context: ActivityContext) => boolean): ActivityCall[] {
    return [...this.open.values()]
      .filter(({ call, context }) => call.outcome === 'running' && !isWaiting(context))
      .map(({ call }) => call);
  }

  /** What is called for a job in place of `own`. */
  played(job: ActivityJob, own: ActivityFunction | undefined): ActivityFunction | undefined {
    const fn = this.replaced.get(job.name) ?? own;
    // What is registered nowhere is for the lane to refuse.
    return fn && ((context, input) => this.call(job, context, input, fn));
  }

  /** Have the result of an attempt lost: the `nth` of an activity to end from now on. */
  loseResult(name: string, nth: number): void {
    this.fatal = { name, left: nth };
  }

  /** Whether that is still to come. */
  get losesResult(): boolean {
    return this.fatal !== null;
  }

  /** An attempt has ended. True: its result is to be lost. */
  ended(token: number): boolean {
    const { fatal } = this;
    const isFatal = fatal !== null && this.open.get(token)?.call.activity === fatal.name && --fatal.left === 0;
    if (isFatal) this.fatal = null;
    this.over(token);
    return isFatal;
  }

  /** Nobody waits for an attempt any more. */
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

/** What `run` returns, and a note of what became of it. */
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
  const isPromise = typeof result === 'object' && result !== null && 'then' in result;
  return isPromise ? Promise.resolve(result).then(complete, fail) : complete(result);
}
