// Values that no argument is made for, and the check of the errors that they cause.

import { inspect } from 'node:util';
import { PerdureError } from 'perdure';

/** A part of texts that must not be shown: a payload, a password. */
export const CANARY = 'c4naryS3cret';

/** Thrown by user values when they are inspected. */
export class Boom extends Error {}

function boom(): never {
  throw new Boom(`boom ${CANARY}`);
}

class Custom {
  secret = CANARY;
}

const throwing: ProxyHandler<object> = Object.fromEntries(
  [
    'get',
    'has',
    'ownKeys',
    'getOwnPropertyDescriptor',
    'getPrototypeOf',
    'set',
    'defineProperty',
    'apply',
    'construct',
  ].map((trap) => [trap, boom]),
);

function cyclic(): object {
  const list: unknown[] = [CANARY];
  const object = { secret: CANARY, list };
  list.push(object);
  return object;
}

function rejected(): Promise<never> {
  const promise = Promise.reject(new Boom(CANARY));
  promise.catch(() => {});
  return promise;
}

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

/** Each value is made anew for each call. */
export const WRONG_VALUES: readonly (readonly [what: string, make: () => unknown])[] = [
  ['undefined', () => undefined],
  ['null', () => null],
  ['true', () => true],
  ['NaN', () => Number.NaN],
  ['-1', () => -1],
  ['-0', () => -0],
  ['1.5', () => 1.5],
  ['1e400', () => 1e400],
  ['2 ** 53', () => 2 ** 53],
  ['1e308', () => 1e308],
  ["''", () => ''],
  ['a long text', () => 'x'.repeat(1_000_000)],
  ['a lone surrogate', () => '\ud800'],
  ['NUL', () => 'a\0b'],
  ['__proto__', () => '__proto__'],
  ['{}', () => ({})],
  ['an object', () => ({ secret: CANARY })],
  ['a __proto__ key', () => JSON.parse(`{"__proto__":{"secret":"${CANARY}"}}`) as unknown],
  ['[]', () => []],
  ['a list', () => [[CANARY]]],
  ['a sparse list', () => new Array(5)],
  ['a function', () => () => CANARY],
  ['an async function', () => async () => CANARY],
  ['a class', () => Custom],
  ['a symbol', () => Symbol(CANARY)],
  ['1n', () => 1n],
  ['a proxy that throws', () => new Proxy({}, throwing)],
  ['a function behind a proxy that throws', () => new Proxy(() => {}, throwing)],
  ['a revoked proxy', revoked],
  ['a getter that throws', () => Object.defineProperty({}, 'secret', { get: boom, enumerable: true })],
  [
    'getters of known names that throw',
    () =>
      Object.defineProperties(
        {},
        Object.fromEntries(
          ['kind', 'then', 'id', 'name', 'limits', 'timeout', 'version', 'limit', 'keep', 'signal', 'tags'].map(
            (name) => [name, { get: boom, enumerable: true }],
          ),
        ),
      ),
  ],
  [
    'a toString that throws',
    () => ({ toString: boom, valueOf: boom, toJSON: boom, [Symbol.toPrimitive]: boom, [inspect.custom]: boom }),
  ],
  ['an object without prototype', () => Object.assign(Object.create(null) as object, { secret: CANARY })],
  ['a frozen object', () => Object.freeze({ secret: CANARY })],
  ['a cycle', cyclic],
  ['an invalid Date', () => new Date(Number.NaN)],
  ['a Date', () => new Date(8.64e15)],
  ['an aborted signal', () => AbortSignal.abort(new TypeError('the caller has left'))],
  ['an instance of a class', () => new Custom()],
  ['a promise that is rejected', rejected],
  ['a thenable that throws', () => Object.defineProperty({}, 'then', { get: boom })],
  ['a map', () => new Map([[CANARY, CANARY]])],
  ['an activity that is none', () => ({ kind: 'activity', secret: CANARY })],
  ['an orchestration that is none', () => ({ kind: 'orchestration', fn: () => {}, secret: CANARY })],
  ['a generator', () => (function* () {})()],
  ['an error', () => new Boom(CANARY)],
  ['a regular expression', () => /x/g],
];

/** Messages of V8 and napi about code that was handed a value it did not expect. */
const INNARDS = [
  /Failed to convert|napi|panicked|unwrap|Cannot (read|set|destructure|convert|mix|create)/i,
  /is not (a function|iterable|a constructor|defined|an object|callable)|called on (null|undefined)/i,
  /circular|Do not know how|Invalid (array length|time value|count)|Maximum call stack|reduce of/i,
  /private member|reading '|has been revoked/i,
];

/** Returns the fault of an error that a call ended with, or `undefined` if there is none. */
export function badError(error: unknown): string | undefined {
  const { name, message, stack } = (error ?? {}) as Partial<Error>;
  const shown = `${name}: ${message?.slice(0, 300)}`;
  if (!(error instanceof TypeError || error instanceof PerdureError)) return `not typed: ${shown}`;
  if (INNARDS.some((pattern) => pattern.test(error.message))) return `of the innards: ${shown}`;
  if (`${message} ${stack}`.includes(CANARY)) return `shows a payload: ${shown}`;
  if (error.message.length > 2_000) return `${error.message.length} characters long: ${shown}`;
  if (error.message.length < 10) return `says nothing: ${shown}`;
  return undefined;
}
