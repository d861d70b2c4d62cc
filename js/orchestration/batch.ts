// The options of batches: orchestrations that get the inputs of many starts in one instance.

import { type Duration, parseDuration } from '../util/duration.ts';
import { checkName, duration, nested, whole } from '../util/options.ts';
import { show } from '../util/show.ts';

/** Most inputs of a batch. */
const BATCH_MAX = 1_000;

/** The batches of an orchestration: the option `batch` of `defineOrchestration`. */
export interface BatchOptions<I = any> {
  /** Most inputs of a batch, 1 to 1 000. A full batch runs at once. */
  max: number;
  /** Time from the first input of a batch until it runs, however many inputs it has. */
  within: Duration;
  /**
   * Returns the key of an input, at most 256 characters: only inputs of the same key share a batch. It is called where
   * the instance is started. Default: all inputs have the same key.
   */
  key?: (input: I) => string;
}

/** The batches of an orchestration, checked. */
export interface Batches {
  readonly max: number;
  readonly withinMs: number;
  readonly key?: ((input: any) => string) | undefined;
}

/** The input of the instance of a batch. Part of the format. */
export interface BatchInput {
  /** The key of the batch. */
  readonly batch: string;
}

/** Checks the option `batch`. */
export const checkBatchOptions = nested({
  max: whole(1, BATCH_MAX),
  within: duration(1),
  key: (value, path) => {
    if (typeof value !== 'function') throw new TypeError(`${path} must be a function, got ${show(value)}`);
  },
});

/**
 * Returns the batches that checked options describe.
 *
 * @param where - the begin of the error
 * @throws TypeError when `max` or `within` is missing
 */
export function batchesOf(options: Partial<BatchOptions>, where: string): Batches {
  const { max, within, key } = options;
  if (max === undefined || within === undefined)
    throw new TypeError(`${where}: batch must have 'max' and 'within', got ${show(options)}`);
  return Object.freeze({ max, withinMs: parseDuration(within, `${where}: batch.within`), key });
}

/**
 * Returns the key of an input.
 *
 * @param where - the begin of the error
 * @throws TypeError when the function of the definition returns no key. An error of the function is passed on
 */
export function batchKeyOf({ key }: Batches, input: unknown, where: string): string {
  if (key === undefined) return '';
  const value: unknown = key(input);
  if (value !== '') checkName(value, `key that batch.key of ${where} returns`);
  return value as string;
}
