// Definitions of orchestrations: a function with its name, version and policies.

import type { ActivityDefinition } from '../activity/activity.ts';
import type { OnEnd } from '../driver/cancelling.ts';
import type { Future } from '../driver/future.ts';
import { functionRefusal } from '../driver/generator.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import { checkName, checkOptions, duration, named, type OptionTable, oneOf } from '../util/options.ts';
import { isDefined, property } from '../util/show.ts';
import { checkSchema, parseSync, type SchemaInput, type SchemaOutput, type StandardSchema } from '../values/schema.ts';
import { type Batches, type BatchOptions, batchesOf, checkBatchOptions } from './batch.ts';
import { batchCode } from './batch-code.ts';
import { fingerprintOf } from './fingerprint.ts';
import type { OrchestrationContext } from './orchestration-context.ts';

/** The generator that an orchestration function returns. */
export type OrchestrationGenerator<O = any> = Generator<Future<any>, O, any>;

/** The function of an orchestration: a `function*` that yields futures. */
export type OrchestrationFunction<I = any, O = any, S = unknown> = (
  ctx: OrchestrationContext<I, S>,
  input: I,
) => OrchestrationGenerator<O>;

/** Options of {@link defineOrchestration} and `runtime.registerOrchestration`. */
export interface OrchestrationOptions {
  /** Its version, such as `'1.2.0'`. Instances stay with the version that they were started with. Default `'1.0.0'`. */
  version?: string;
  /**
   * The time for which an instance may go on after it was asked to cancel. The instance then ends as Cancelled, no
   * matter what its code does, and cleanup that has not ended is dropped. The time counts from when the code hears of
   * the request, and is the one of the code that runs then. Default: no limit.
   */
  cancelGrace?: Duration;
  /**
   * The policy for fibers that have not ended when the function returns or throws. If the execution continued as new,
   * the policy applies before the next execution begins. `'drop'` (default): the fibers end where they are, without
   * their cleanup. `'cancel'`: they are cancelled, and the instance ends when they have cleaned up. `'join'`: the
   * instance ends when they have ended. With `'cancel'` and `'join'` the instance fails with the first error of such a
   * fiber, unless its function threw.
   */
  onEnd?: OnEnd;
}

/**
 * An orchestration with its name and version, as {@link defineOrchestration} makes it, and the types of its input, its
 * output and its custom status.
 */
export interface OrchestrationDefinition<I = any, O = any, S = unknown> {
  readonly kind: 'orchestration';
  readonly name: string;
  readonly version: string;
  readonly fn: OrchestrationFunction<I, O, S>;
  /**
   * The fingerprint of the text of the function that it was defined with. An instance that this code does not fit goes
   * on once the fingerprint is another.
   */
  readonly fingerprint: string;
  /** The time for which an instance may go on after it was asked to cancel, in ms; `undefined` for no limit. */
  readonly cancelGraceMs?: number | undefined;
  /** The policy for fibers that are left when the function has ended; `undefined` drops them. */
  readonly onEnd?: OnEnd | undefined;
  /** The schema that checks the input, if there is one. */
  readonly input?: StandardSchema | undefined;
  /** The batches, if an instance gets the inputs of many starts. */
  readonly batch?: Batches | undefined;
}

/**
 * The input type of a result of `defineActivity` or `defineOrchestration`. For a union of definitions it is the union
 * of their input types.
 *
 * @example
 * ```ts
 * const charge = defineActivity('charge', async (_ctx, order: Order) => order.total);
 * type Input = InputOf<typeof charge>;   // Order
 * ```
 */
export type InputOf<D> = D extends { readonly fn: (ctx: any, input: infer I) => unknown } ? I : never;

/** The output type of a result of `defineActivity` or `defineOrchestration`, otherwise the same as {@link InputOf}. */
export type OutputOf<D> =
  D extends ActivityDefinition<any, infer O> ? O : D extends OrchestrationDefinition<any, infer O, any> ? O : never;

/** The parts of a definition that running it needs. */
export type RunnableOrchestration = Pick<OrchestrationDefinition, 'fn' | 'cancelGraceMs' | 'onEnd'>;

/** The version of an orchestration that names none. */
export const DEFAULT_VERSION = '1.0.0';

/**
 * Defines an orchestration: register it with `runtime.register`, start it with `client.start`.
 *
 * @param name - 1 to 256 characters; it must not begin with `perdure.`
 * @param fn - a `function*`; it runs again from its start after a crash, with the recorded results, so it must do the
 *   same things again: no clock, randomness or IO of its own
 * @param options - its `version`, its `cancelGrace` and `onEnd`, `batch`, with which `fn` gets a list of the inputs of
 *   many starts, and `input`: a Standard Schema (Zod, Valibot, ArkType …). `client.start` throws `PayloadError` for an
 *   input that does not fit the schema. An execution that was started by name with such an input fails with that error.
 *   `fn` gets the schema's output for the input. The output is made anew in each replay, so the schema must answer at
 *   once (no promise) and always alike
 * @throws TypeError when an argument is wrong
 *
 * @example
 * ```ts
 * const order = defineOrchestration('order', function* (ctx, input: Order) {
 *   const receipt = yield* ctx.call(charge, input);
 *   return receipt.id;
 * }, { version: '1.2.0' });
 * runtime.register(charge, order);
 * const handle = await client.start(order, { total: 12 });
 * ```
 */
export function defineOrchestration<Schema extends StandardSchema, O = unknown, S = unknown>(
  name: string,
  fn: (ctx: OrchestrationContext<SchemaInput<Schema>, S>, inputs: SchemaOutput<Schema>[]) => OrchestrationGenerator<O>,
  options: OrchestrationOptions & { input: Schema; batch: BatchOptions<SchemaInput<Schema>> },
): OrchestrationDefinition<SchemaInput<Schema>, O, S>;
export function defineOrchestration<I = undefined, O = unknown, S = unknown>(
  name: string,
  fn: (ctx: OrchestrationContext<I, S>, inputs: I[]) => OrchestrationGenerator<O>,
  options: OrchestrationOptions & { batch: BatchOptions<I> },
): OrchestrationDefinition<I, O, S>;
export function defineOrchestration<Schema extends StandardSchema, O = unknown, S = unknown>(
  name: string,
  fn: (ctx: OrchestrationContext<SchemaInput<Schema>, S>, input: SchemaOutput<Schema>) => OrchestrationGenerator<O>,
  options: OrchestrationOptions & { input: Schema },
): OrchestrationDefinition<SchemaInput<Schema>, O, S>;
export function defineOrchestration<I = undefined, O = unknown, S = unknown>(
  name: string,
  fn: (ctx: OrchestrationContext<I, S>, input: I) => OrchestrationGenerator<O>,
  options?: OrchestrationOptions,
): OrchestrationDefinition<I, O, S>;
export function defineOrchestration(
  name: string,
  fn: OrchestrationFunction,
  options?: AllOptions,
): OrchestrationDefinition {
  checkName(name, 'orchestration name');
  if (isBuiltIn(name)) throw new TypeError(`the orchestration name must not begin with '${BUILT_IN}', got '${name}'`);
  return define(name, fn, options);
}

/** The begin of the names of Perdure's own orchestrations. Every runtime has them, and lists leave them out. */
export const BUILT_IN = 'perdure.';

/** True if the name of an orchestration is that of one of Perdure's own. */
export function isBuiltIn(name: string): boolean {
  return name.startsWith(BUILT_IN);
}

/** Defines one of Perdure's own orchestrations. */
export function defineBuiltIn<I, O>(
  name: `${typeof BUILT_IN}${string}`,
  fn: OrchestrationFunction<I, O>,
  version = DEFAULT_VERSION,
): OrchestrationDefinition<I, O> {
  return define(name, fn, { version });
}

type AllOptions = OrchestrationOptions & {
  input?: StandardSchema | undefined;
  batch?: Partial<BatchOptions> | undefined;
};

function define(name: string, fn: OrchestrationFunction, options?: AllOptions): OrchestrationDefinition {
  checkOrchestrationFunction(fn, name);
  const where = `orchestration '${name}'`;
  const {
    version = DEFAULT_VERSION,
    input: schema,
    cancelGrace,
    onEnd,
    batch: batchOptions,
  } = checkOptions(options, DEFINITION_OPTIONS, where) ?? {};
  const cancelGraceMs = cancelGrace === undefined ? undefined : parseDuration(cancelGrace, 'cancelGrace');
  const common = {
    kind: 'orchestration',
    name,
    version,
    fingerprint: fingerprintOf(fn),
    ...(cancelGraceMs === undefined ? {} : { cancelGraceMs }),
    ...(onEnd === undefined ? {} : { onEnd }),
  } as const;
  const input = schema === undefined ? {} : { input: schema };
  if (batchOptions !== undefined) {
    const batch = batchesOf(batchOptions, where);
    return Object.freeze({ ...common, ...input, fn: batchCode(fn, batch, schema), batch });
  }
  if (schema === undefined) return Object.freeze({ ...common, fn });
  const checked: OrchestrationFunction = (ctx, input) => fn(ctx, parseSync(schema, input, 'input', where));
  return Object.freeze({ ...common, ...input, fn: checked });
}

/** True if a value is a result of {@link defineOrchestration}, here or in another copy of this package. */
export function isOrchestration(value: unknown): value is OrchestrationDefinition {
  return (
    isDefined(value, 'orchestration') &&
    ['version', 'fingerprint'].every((key) => typeof property(value, key) === 'string')
  );
}

const DEFINITION_OPTIONS: OptionTable = {
  version: named,
  input: checkSchema,
  cancelGrace: duration(),
  onEnd: oneOf('drop', 'cancel', 'join'),
  batch: checkBatchOptions,
};

function checkOrchestrationFunction(fn: unknown, name: string): void {
  const refusal = functionRefusal(fn);
  if (refusal !== undefined) throw new TypeError(`orchestration '${name}' must be a function*, got ${refusal}`);
}
