// Checks of the arguments that user code passes to the methods of a context.

import { types } from 'node:util';
import { asyncRefusal, claim, describeValue, isGenerator } from '../driver/generator.ts';
import { ISO_TIME } from '../util/options.ts';

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
  const refusal = typeof body === 'function' ? asyncRefusal(body) : describeValue(body);
  if (refusal !== undefined)
    throw new TypeError(`ctx.${method} takes a function*, or the result of a call of one, not ${refusal}`);
}

export function checkInlineFunction(fn: unknown, name: string): void {
  if (typeof fn === 'function' && !tagOf(fn).endsWith('GeneratorFunction]')) return;
  const got = typeof fn === 'function' ? 'a function*: an inline activity is recorded as one step' : describeValue(fn);
  throw new TypeError(`inline activity '${name}' must be a function, often an async one, got ${got}`);
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
