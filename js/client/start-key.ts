// The options of starts that depend on the start before them: singletons, throttled and debounced starts, and batches.

import type { KeyedStartRequest } from '../binding/store.ts';
import type { AdmissionOptions, Maybe } from '../orchestration/admission.ts';
import { type Batches, batchKeyOf } from '../orchestration/batch.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import { duration, named, nested, type OptionTable, oneOf } from '../util/options.ts';

/** Options of a start that depends on the one before it under the same key. At most one of them is given. */
export interface KeyedStartOptions {
  /**
   * At most one instance of the orchestration and the `key` runs at once. `'skip'`: while it runs, nothing is started.
   * `'cancel'`: it is asked to cancel, and the new one is started, which does not wait for its cleanup.
   */
  singleton?: 'skip' | 'cancel';
  /** At most one instance of the orchestration and the key is started in a time. A start before that is skipped. */
  throttle?: Throttle;
  /** The instance is started when no other start came for a time. It has the input of the last one. */
  debounce?: Debounce;
}

/** A limit of how often something is started. */
export interface Throttle {
  /** Key that the time is counted for, 1 to 256 characters. Default: the option `key`, or all of the orchestration. */
  key?: string;
  /** Time after a start in which nothing is started. */
  per: Duration;
}

/** The time for which a start waits for another one. */
export interface Debounce {
  /** Key that the time is counted for, 1 to 256 characters. Default: the option `key`, or all of the orchestration. */
  key?: string;
  /** Time without another start after which the instance runs. */
  delay: Duration;
  /** Most time from the first start until the instance runs. Default: no limit. */
  maxDelay?: Duration;
}

/** The checks of {@link KeyedStartOptions}. */
export const KEYED_START_OPTIONS = {
  singleton: oneOf('skip', 'cancel'),
  throttle: nested({ key: named, per: duration(1) }),
  debounce: nested({ key: named, delay: duration(1), maxDelay: duration(1) }),
} satisfies OptionTable;

/** The key of a start, and its rule. An empty key stands for all starts of the orchestration. */
export type StartKey = Pick<KeyedStartRequest, 'key' | 'rule'>;

type Options = Maybe<KeyedStartOptions & AdmissionOptions>;

/**
 * Returns the key and the rule that checked options name; `undefined` if the start depends on no other.
 *
 * @param where - the begin of the error
 * @throws TypeError when the options do not fit together
 */
export function startKeyOf(options: Options, where: string): StartKey | undefined {
  const { singleton, throttle, debounce, key = '' } = options;
  const given = Object.entries({ singleton, throttle, debounce }).filter(([, value]) => value !== undefined);
  const [first, second] = given.map(([name]) => name);
  if (second !== undefined) throw new TypeError(`${where}: takes one of the options ${first} and ${second}, not both`);
  if (singleton !== undefined) return { key, rule: { kind: singleton } };
  if (throttle !== undefined) {
    const perMs = parseDuration(throttle.per, `${where}: throttle.per`);
    return { key: throttle.key ?? key, rule: { kind: 'throttle', perMs } };
  }
  if (debounce === undefined) return undefined;
  const other = options.delay === undefined ? 'startAt' : 'delay';
  if (options[other] !== undefined)
    throw new TypeError(`${where}: takes one of the options debounce and ${other}, not both`);
  const delayMs = parseDuration(debounce.delay, `${where}: debounce.delay`);
  const maxMs =
    debounce.maxDelay === undefined ? null : parseDuration(debounce.maxDelay, `${where}: debounce.maxDelay`);
  if (maxMs !== null && maxMs < delayMs)
    throw new TypeError(`${where}: debounce.maxDelay must not be shorter than debounce.delay`);
  return { key: debounce.key ?? key, rule: { kind: 'debounce', delayMs, maxMs } };
}

/**
 * Returns the key and the rule of a start that is one input of a batch.
 *
 * @param where - the begin of the error
 * @throws TypeError when the options do not fit to a batch, or its definition returns no key
 */
export function batchStartKeyOf(batch: Batches, input: unknown, options: Options, where: string): StartKey {
  for (const name of ['singleton', 'throttle', 'debounce', 'delay', 'startAt'] as const) {
    if (options[name] !== undefined)
      throw new TypeError(`${where}: its starts are inputs of batches, and take no option ${name}`);
  }
  const { max, withinMs } = batch;
  return { key: batchKeyOf(batch, input, where), rule: { kind: 'batch', withinMs, max } };
}

/** Returns the options of the start itself. The key of a queue stays. */
export function ownOptions<T extends Options>(options: T): T {
  const { singleton: _s, throttle: _t, debounce: _d, key, ...others } = options;
  return (others.queue === undefined || key === undefined ? others : { ...others, key }) as T;
}
