// Batches: orchestrations that get the inputs of many starts in one instance. See docs/internals/admission.md.

import { type Duration, parseDuration } from '../util/duration.ts';
import { checkName, duration, nested, whole } from '../util/options.ts';
import { property, show } from '../util/show.ts';
import { batchQueueOf } from '../values/batch.ts';
import { parseSync, type StandardSchema } from '../values/schema.ts';
import type { OrchestrationFunction } from './definition.ts';
import type { OrchestrationContext } from './orchestration-context.ts';

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

/**
 * Returns the function of the orchestration: it collects the inputs of its batch, and calls the function of the
 * definition with them. An instance that was started in any other way has one input, its own.
 */
export function batchCode(
  fn: (ctx: OrchestrationContext, inputs: any[]) => ReturnType<OrchestrationFunction>,
  { max }: Batches,
  schema: StandardSchema | undefined,
): OrchestrationFunction {
  return function* batch(ctx, input) {
    const key = property(input, 'batch');
    const inputs = typeof key === 'string' ? yield* ctx.drainQueue(inputsOf(ctx, key, schema), max) : [];
    if (inputs.length > 0) return yield* fn(ctx, inputs);
    const only = schema === undefined ? input : parseSync(schema, input, 'input', `orchestration '${ctx.name}'`);
    return yield* fn(ctx, [only]);
  };
}

/** Returns the queue of the inputs. */
function inputsOf(ctx: OrchestrationContext, key: string, schema: StandardSchema | undefined) {
  return { kind: 'queue', name: batchQueueOf({ orchestration: ctx.name, key }), schema } as const;
}
