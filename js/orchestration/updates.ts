// Updates: asks of an orchestration, with a name, types and maybe a schema of the input.

import type { Future } from '../driver/future.ts';
import type { SchemaInput, SchemaOutput, StandardSchema } from '../values/schema.ts';
import { type CheckedHandled, defineHandled, handledOf } from './handled.ts';

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
  return defineHandled('update', name, options);
}

/**
 * Returns the update that an argument stands for.
 *
 * @throws TypeError when it stands for none
 */
export const updateOf = (given: unknown): CheckedHandled => handledOf('update', given, 'defineUpdate');
