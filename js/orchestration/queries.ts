// Queries: questions to the variables of an orchestration, with a name, types and maybe a schema of the input.

import { asyncRefusal } from '../driver/generator.ts';
import type { QueryCall } from '../driver/queries.ts';
import { func } from '../util/options.ts';
import { parseSync, type SchemaInput, type SchemaOutput, type StandardSchema } from '../values/schema.ts';
import { type CheckedHandled, defineHandled, handledOf } from './handled.ts';

/**
 * A query with its name and types, as {@link defineQuery} returns it: `I` is sent, the handler gets `P` and returns
 * `O`.
 */
export interface QueryDefinition<I = any, O = any, P = I> {
  readonly kind: 'query';
  readonly name: string;
  /** Schema of the input, if there is one. */
  readonly input?: StandardSchema<I, P> | undefined;
  /** The type of the answer. The field is never there. */
  readonly answer?: O;
}

/** The handler of a query: returns the answer at once, takes no steps and changes nothing. */
export type QueryHandler<P, O> = (input: P) => O;

/**
 * Defines a query: a question to the variables of an orchestration. The orchestration answers it with `ctx.onQuery`,
 * and `client.query` asks it. It writes nothing.
 *
 * @param name - 1 to 256 characters
 * @param options - `input`: a Standard Schema (Zod, Valibot, ArkType …). `client.query` throws `PayloadError` for an
 *   input that does not fit it. The handler gets the schema's output. The schema must answer at once (no promise)
 * @throws TypeError when an argument is wrong
 *
 * @example
 * ```ts
 * const count = defineQuery<undefined, number>('count');
 * // in an orchestration:
 * ctx.onQuery(count, () => items.length);
 * // anywhere:
 * await client.query('cart-7', count);   // number
 * ```
 */
export function defineQuery<S extends StandardSchema, O = unknown>(
  name: string,
  options: { input: S },
): QueryDefinition<SchemaInput<S>, O, SchemaOutput<S>>;
export function defineQuery<I = undefined, O = unknown>(
  name: string,
  options?: { input?: StandardSchema<I> },
): QueryDefinition<I, O>;
export function defineQuery(name: string, options?: { input?: StandardSchema }): QueryDefinition {
  return defineHandled('query', name, options);
}

/**
 * Returns the query that an argument stands for.
 *
 * @throws TypeError when it stands for none
 */
export const queryOf = (given: unknown): CheckedHandled => handledOf('query', given, 'defineQuery');

/**
 * Returns the handler that the arguments of `ctx.onQuery` stand for.
 *
 * @throws TypeError when it is no function, or an async one
 */
export function queryHandler({ name, input: schema }: CheckedHandled, handler: unknown): QueryCall {
  const where = `query '${name}': the handler`;
  func(handler, where);
  if (asyncRefusal(handler as QueryCall) !== undefined)
    throw new TypeError(`${where} answers at once, and this one is an async function`);
  const answer = handler as QueryCall;
  return (input) => answer(schema === undefined ? input : parseSync(schema, input, 'input', `query '${name}'`));
}
