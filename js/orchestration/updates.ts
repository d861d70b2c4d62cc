// Updates: asks of an orchestration, with a name, types and maybe a schema of the input.

import type { Future } from '../driver/future.ts';
import { checkName, checkOptions, type OptionTable } from '../util/options.ts';
import { property, show } from '../util/show.ts';
import { checkSchema, type SchemaInput, type SchemaOutput, type StandardSchema } from '../values/schema.ts';

/**
 * An update with its name and types, as {@link defineUpdate} returns it: `I` is sent, the handler gets `P` and returns
 * `O`.
 */
export interface UpdateDefinition<I = any, O = any, P = I> {
  readonly kind: 'update';
  readonly name: string;
  /** Schema of the input, if there is one. */
  readonly input?: StandardSchema<I, P> | undefined;
  /** The type of the answer. The field is never there. */
  readonly answer?: O;
}

/** The handler of an update: a `function*` whose result is the answer. */
export type UpdateHandler<P, O> = (input: P) => Generator<Future<any>, O, any>;

/** Options of {@link OrchestrationContext.onUpdate}. */
export interface UpdateHandlerOptions<P = any> {
  /**
   * Looks at the input before the update is accepted. What it throws is the answer, and the update leaves no trace in
   * the history. It decides at once: it takes no steps, and must change nothing. Default: every update is accepted.
   */
  validate?: (input: P) => void;
  /**
   * Behaviour when the orchestration returns, throws or continues as new while the handler runs. `'wait'` (default):
   * the execution ends when the handler has ended. `'reject'`: the execution ends, and the answer is a
   * `CancelledError`.
   */
  onEnd?: 'wait' | 'reject';
}

const DEFINITION_OPTIONS: OptionTable = { input: checkSchema };

/**
 * Defines an update: a message to an instance that gets an answer. The orchestration handles it with `ctx.onUpdate`,
 * and `client.update` sends it and resolves with the answer.
 *
 * @param name - 1 to 256 characters
 * @param options - `input`: a Standard Schema (Zod, Valibot, ArkType …). `client.update` throws `PayloadError` for an
 *   input that does not fit it. The handler gets the schema's output. The schema runs again in every replay, so it must
 *   answer at once (no promise) and always alike
 * @throws TypeError when an argument is wrong
 *
 * @example
 * ```ts
 * const addItem = defineUpdate<Item, number>('addItem');
 * // in an orchestration:
 * ctx.onUpdate(addItem, function* (item) {
 *   yield* ctx.call(reserve, item);
 *   return items.push(item);
 * });
 * // anywhere:
 * const count = await client.update('cart-7', addItem, { sku: 'tea' });   // number
 * ```
 */
export function defineUpdate<S extends StandardSchema, O = unknown>(
  name: string,
  options: { input: S },
): UpdateDefinition<SchemaInput<S>, O, SchemaOutput<S>>;
export function defineUpdate<I = undefined, O = unknown>(
  name: string,
  options?: { input?: StandardSchema<I> },
): UpdateDefinition<I, O>;
export function defineUpdate(name: string, options?: { input?: StandardSchema }): UpdateDefinition {
  checkName(name, 'update name');
  const { input } = checkOptions(options, DEFINITION_OPTIONS, `update '${name}'`) ?? {};
  return Object.freeze(input === undefined ? { kind: 'update', name } : { kind: 'update', name, input });
}

/** An update that an argument stands for. */
export interface CheckedUpdate {
  readonly name: string;
  readonly input: StandardSchema | undefined;
}

/**
 * Returns the update that an argument stands for: a name, or a definition.
 *
 * @throws TypeError when the argument is neither
 */
export function updateOf(given: unknown): CheckedUpdate {
  if (typeof given === 'string') {
    checkName(given, 'update name');
    return { name: given, input: undefined };
  }
  const name = property(given, 'name');
  if (property(given, 'kind') !== 'update' || typeof name !== 'string')
    throw new TypeError(`the update must be a name or a result of defineUpdate, got ${show(given)}`);
  checkName(name, 'update name');
  const input = property(given, 'input');
  if (input !== undefined) checkSchema(input, `update '${name}': the schema`);
  return { name, input: input as StandardSchema | undefined };
}
