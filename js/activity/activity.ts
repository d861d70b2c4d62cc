// Activities: definition and input schema.

import { PayloadError } from '../errors/errors.ts';
import { checkName, checkOptions, type OptionTable } from '../util/options.ts';
import { isDefined } from '../util/show.ts';
import { checkSchema, parse, type SchemaInput, type SchemaOutput, type StandardSchema } from '../values/schema.ts';
import type { ActivityContext } from './activity-context.ts';
import { ACTIVITY_OPTIONS, type ActivityKey, type ActivityOptions, checkKeyed } from './activity-options.ts';

/** The function of an activity. Unlike an orchestration, it may be `async` and use IO, clocks and randomness. */
export type ActivityFunction<I = any, O = any> = (ctx: ActivityContext, input: I) => O | PromiseLike<O>;

/** An activity with its name, as {@link defineActivity} returns it. */
export interface ActivityDefinition<I = any, O = any> {
  readonly kind: 'activity';
  readonly name: string;
  readonly fn: ActivityFunction<I, O>;
  readonly options: ActivityOptions<ActivityKey> | undefined;
  /** Schema of the input, if there is one. */
  readonly input?: StandardSchema | undefined;
}

/**
 * Defines an activity: register it with `runtime.register`, call it with `ctx.call`.
 *
 * @param name - 1 to 256 characters. Histories record it, so it must stay the same over versions
 * @param fn - runs at least once per call, and its result is recorded once
 * @param options - defaults for all calls, and `input`: a Standard Schema (Zod, Valibot, ArkType …). `ctx.call` throws
 *   `PayloadError` for an input that does not fit it. The attempt throws it, too, and is then not retried. `fn` gets
 *   the output of the schema. If the schema answers with a promise, only calls by name (`scheduleActivity`) are
 *   possible
 * @throws TypeError when an argument is wrong
 *
 * @example
 * ```ts
 * const charge = defineActivity(
 *   'charge',
 *   async (ctx, order: Order): Promise<Receipt> => pay(order, { signal: ctx.signal }),
 *   { retry: { maxAttempts: 5 } },
 * );
 * runtime.register(charge);
 * // in an orchestration:
 * const receipt = yield* ctx.call(charge, order);   // Receipt
 * ```
 */
export function defineActivity<S extends StandardSchema, O = unknown>(
  name: string,
  fn: (ctx: ActivityContext, input: SchemaOutput<S>) => O | PromiseLike<O>,
  options: ActivityOptions<ActivityKey<SchemaInput<S>>> & { input: S },
): ActivityDefinition<SchemaInput<S>, O>;
export function defineActivity<I = undefined, O = unknown>(
  name: string,
  fn: (ctx: ActivityContext, input: I) => O | PromiseLike<O>,
  options?: ActivityOptions<ActivityKey<NoInfer<I>>>,
): ActivityDefinition<I, O>;
export function defineActivity(
  name: string,
  fn: ActivityFunction,
  options?: ActivityOptions<ActivityKey> & { input?: StandardSchema | undefined },
): ActivityDefinition {
  checkName(name, 'activity name');
  if (typeof fn !== 'function') throw new TypeError(`defineActivity '${name}': the second argument must be a function`);
  const given = checkOptions(options, DEFINITION_OPTIONS, `activity '${name}'`);
  checkKeyed(given?.queue, given?.key, `activity '${name}'`);
  const { input: schema, ...others } = given ?? {};
  const own = given === undefined ? given : others;
  if (schema === undefined) return Object.freeze({ kind: 'activity', name, fn, options: own });
  return Object.freeze({ kind: 'activity', name, fn: checked(fn, schema), options: own, input: schema });
}

const DEFINITION_OPTIONS: OptionTable = { ...ACTIVITY_OPTIONS, input: checkSchema };

/** True if `value` was returned by {@link defineActivity}, of this or another copy of this package. */
export function isActivity(value: unknown): value is ActivityDefinition {
  return isDefined(value, 'activity');
}

/**
 * Errors that no attempt follows. Most are of attempts whose input was refused before the function was called: the next
 * attempt would get the same input.
 */
const refusals = new WeakSet<object>();

/** True if no attempt may follow one that failed with the error. */
export function isRefusal(error: unknown): boolean {
  return typeof error === 'object' && error !== null && refusals.has(error);
}

/** Marks an error: no attempt follows one that fails with it. Returns the error. */
export function neverRetry<E extends object>(error: E): E {
  refusals.add(error);
  return error;
}

/** Functions whose attempts end when they settle, also after a timeout. */
const settlingLate = new WeakSet<ActivityFunction>();

/**
 * Marks the function of an activity: an attempt that is out of time aborts its signal, and is reported when the
 * function settles. If the total timeout is over before an attempt begins, the function is called with an aborted
 * signal. Returns the function.
 */
export function settleLate<F extends ActivityFunction>(fn: F): F {
  settlingLate.add(fn);
  return fn;
}

/** True for a function of {@link settleLate}. */
export function settlesLate(fn: ActivityFunction): boolean {
  return settlingLate.has(fn);
}

/** Wraps an activity's function: the input is checked by the schema first. */
function checked(fn: ActivityFunction, schema: StandardSchema): ActivityFunction {
  const refuse = (error: unknown): never => {
    throw error instanceof PayloadError ? neverRetry(error) : error;
  };
  const whole: ActivityFunction = (ctx, input) => {
    let value: unknown;
    try {
      value = parse(schema, input, 'input');
    } catch (error) {
      return refuse(error);
    }
    return value instanceof Promise ? value.catch(refuse).then((parsed) => fn(ctx, parsed)) : fn(ctx, value);
  };
  return settlesLate(fn) ? settleLate(whole) : whole;
}
