// Generators that user code hands over to be run by a fiber, and values that it hands over in their place.

import { disregardPromises, property, show } from '../util/show.ts';
import { BaseFuture } from './future.ts';

const { isPrototypeOf } = Object.prototype;
/**
 * The prototype that all generators of this realm inherit from. Every evaluated `function*` puts a prototype of its own
 * between this one and its generators, so the first look at a property of a fiber's generator is slow. Calling the
 * methods of this prototype avoids that.
 */
export const GENERATOR = Object.getPrototypeOf(Object.getPrototypeOf((function* () {})())) as Generator;

/** True if an iterator is a generator of this realm, so that the methods of {@link GENERATOR} are its own. */
export function isPlain(iterator: object): boolean {
  return isPrototypeOf.call(GENERATOR, iterator);
}

/** True if a value is the result of calling a `function*`. */
export function isGenerator(value: unknown): value is Generator<unknown, unknown, any> {
  if (typeof value !== 'object' || value === null) return false;
  try {
    if (isPrototypeOf.call(GENERATOR, value)) return true;
  } catch {
    // The value is a proxy that does not tell its prototype.
    return false;
  }
  if (value instanceof BaseFuture) return false;
  // Generators of another realm, and those that a compiler made of something else.
  return ['next', 'throw', Symbol.iterator].every((key) => typeof property(value, key) === 'function');
}

/** Marks a generator that a fiber runs or has run. A property, because adding to a WeakSet takes ten times as long. */
const CLAIMED = Symbol('run by a fiber');

interface Claimable {
  [CLAIMED]?: boolean;
}

/**
 * Claims a generator for a fiber of its own.
 *
 * @param where - where the generator was handed over, for the error
 * @throws TypeError when another fiber runs or has run the generator: each would get only a part of its steps
 */
export function claim(generator: object, where: string): void {
  const claimable = generator as Claimable;
  if (claimable[CLAIMED] === true) {
    throw new TypeError(
      `${where} is a generator that a fiber already runs, or has run: call its function* again for a new one`,
    );
  }
  // A frozen generator has no place for the mark.
  if (Object.isExtensible(claimable)) claimable[CLAIMED] = true;
}

/** Releases the claim of a call that was refused: another call may claim the generator. */
export function unclaim(generator: object): void {
  // A frozen generator was not marked, and an assignment would throw.
  delete (generator as Claimable)[CLAIMED];
}

/**
 * The prototypes of this realm's async functions. Each `ctx.spawn` compares with them, because that is quicker than
 * reading the tag of the function.
 */
const ASYNC = [async () => {}, async function* () {}].map((fn) => Object.getPrototypeOf(fn) as object);

/** Returns the reason why calling a function makes no generator; `undefined` if it may make one. */
export function asyncRefusal(fn: object): string | undefined {
  let prototype: object | null = null;
  try {
    prototype = Object.getPrototypeOf(fn) as object | null;
  } catch {
    // The function is a proxy that does not tell its prototype.
  }
  const isAsync = prototype === ASYNC[0] || prototype === ASYNC[1];
  return isAsync ? 'an async function: its asynchronous work belongs in activities' : undefined;
}

/** Returns the reason why a value is no function that may make a generator; `undefined` if it may be one. */
export function functionRefusal(value: unknown): string | undefined {
  return typeof value === 'function' ? asyncRefusal(value) : describeValue(value);
}

/** Describes a refused value in an error message. */
export function describeValue(value: unknown): string {
  disregardPromises(value);
  // The string may be part of a payload.
  if (typeof value === 'string') return 'a string';
  if (typeof value === 'number' || typeof value === 'boolean') return `the ${typeof value} ${value}`;
  if (typeof value !== 'object' || value === null) return show(value);
  if (typeof property(value, 'then') === 'function') return 'a promise';
  if (typeof property(value, Symbol.asyncIterator) === 'function') return 'an async generator';
  if (isGenerator(value)) return 'a generator';
  return show(value);
}
