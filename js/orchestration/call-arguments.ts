// Checks of the arguments that user code passes to the methods of a context.

import { types } from 'node:util';
import { isActivity } from '../activity/activity.ts';
import { RetryPolicy } from '../activity/retry-policy.ts';
import { idOfAttempt } from '../driver/child-retry.ts';
import { BaseFuture } from '../driver/future.ts';
import { claim, describeValue, functionRefusal, isGenerator } from '../driver/generator.ts';
import type { MapCall } from '../driver/map.ts';
import { bool, checkOptions, func, ISO_TIME, type OptionTable, whole } from '../util/options.ts';
import { isInstance, property } from '../util/show.ts';
import { GATHERED_MAX, MAP_CONCURRENCY } from '../values/limits.ts';
import { parseSync } from '../values/schema.ts';
import { CHILD_OPTIONS, type ChildOptions } from './call-options.ts';
import { isOrchestration, type OrchestrationDefinition } from './definition.ts';

/** Returns the kind of a function, in JavaScript's words; a proxy may not tell. */
function tagOf(fn: unknown): string {
  try {
    return Object.prototype.toString.call(fn);
  } catch {
    return '';
  }
}

/** Checks the block that a method was given to run as a fiber, and claims it if it is a generator. */
export function checkBlock(body: unknown, method: string): void {
  if (typeof body !== 'function' && isGenerator(body)) return claim(body, `ctx.${method}: the block`);
  const refusal = functionRefusal(body);
  if (refusal !== undefined)
    throw new TypeError(`ctx.${method} takes a function*, or the result of a call of one, not ${refusal}`);
}

/** Checks a function that a method calls for the block to run. */
export function checkBody(body: unknown, method: string): void {
  const refusal = functionRefusal(body);
  if (refusal !== undefined) throw new TypeError(`ctx.${method} takes a function*, not ${refusal}`);
}

/** Checks the number of messages that a method is to take. */
export function checkGathered(max: unknown, path: string): void {
  whole(1, GATHERED_MAX)(max, path);
}

const MAP_OPTIONS: OptionTable = { concurrency: whole(1), key: func, stopOnError: bool };

/** Checks the arguments of `ctx.map`. */
export function checkMap(items: unknown, fn: unknown, options: unknown): MapCall {
  const isIterable = typeof items === 'object' && typeof property(items, Symbol.iterator) === 'function';
  if (!isIterable || isFuture(items)) throw new TypeError(`ctx.map takes a list of items, not ${describeValue(items)}`);
  const refusal = functionRefusal(fn);
  if (refusal !== undefined)
    throw new TypeError(`ctx.map takes a function*, or a function that returns a future, not ${refusal}`);
  const checked = checkOptions(options as Partial<MapCall> | undefined, MAP_OPTIONS, 'ctx.map') ?? {};
  const { concurrency = MAP_CONCURRENCY, key, stopOnError = true } = checked;
  return { items: items as Iterable<unknown>, fn: fn as MapCall['fn'], concurrency, key, stopOnError };
}

/** Longest id of an instance, in characters. */
const ID_MAX = 256;

/** Checked options of a child, with its retry policy, if it has one, and the longest id that it may have. */
interface CheckedChild extends Omit<ChildOptions, 'retry'> {
  readonly policy: RetryPolicy | undefined;
  readonly idMax: number;
}

/** Checks the options of a child. */
export function checkChild(given: ChildOptions | undefined, name: string): CheckedChild {
  const where = `orchestration '${name}'`;
  const { retry, ...options } = checkOptions(given, CHILD_OPTIONS, where) ?? {};
  const policy = retry === undefined ? undefined : new RetryPolicy(retry);
  const suffix = idOfAttempt('', policy?.maxAttempts ?? 1);
  const [idMax, length] = [ID_MAX - suffix.length, options.id?.length ?? 0];
  if (length > idMax) {
    throw new TypeError(
      `${where}: id must have at most ${idMax} characters, got ${length}: ` +
        `the last of its ${policy?.maxAttempts} attempts has this id and '${suffix}'`,
    );
  }
  return { ...options, policy, idMax };
}

function isFuture(value: unknown): boolean {
  return isInstance(value, BaseFuture);
}

export function checkInlineFunction(fn: unknown, name: string): void {
  if (typeof fn === 'function' && !tagOf(fn).endsWith('GeneratorFunction]')) return;
  const got = typeof fn === 'function' ? 'a function*: an inline activity is recorded as one step' : describeValue(fn);
  throw new TypeError(`inline activity '${name}' must be a function, often an async one, got ${got}`);
}

/**
 * Checks the definition of an instance to be started, and the input by the schema of the definition.
 *
 * @throws PayloadError when the input does not fit the schema
 * @throws TypeError when `given` is no definition
 */
export function checkStarted(given: unknown, input: unknown, method: string): OrchestrationDefinition {
  if (!isOrchestration(given)) {
    const hint = isActivity(given) ? ', which ctx.call takes' : '';
    throw new TypeError(
      `${method} takes a definition that defineOrchestration returned, not ${describeValue(given)}${hint}`,
    );
  }
  if (given.input !== undefined) parseSync(given.input, input, 'input', `orchestration '${given.name}'`);
  return given;
}

/** Returns the time that `due` names, in ms since 1970; `undefined` when `due` is a duration (or neither). */
export function timeOf(due: unknown, method: string): number | undefined {
  let at: number;
  if (types.isDate(due)) at = due.getTime();
  else if (typeof due === 'string' && ISO_TIME.test(due)) at = Date.parse(due);
  else return undefined;
  if (Number.isNaN(at))
    throw new TypeError(`ctx.${method}: ${typeof due === 'string' ? `'${due}'` : 'the Date'} is not a valid time`);
  return at;
}
