// The determinism guard of the clock, of randomness, and of functions that start work outside of an orchestration's
// history.
//
// While a fiber of a guarded runtime runs, the clock and randomness are those of its instance, and a call that could
// not be repeated throws. The globals are replaced once per thread, when the first guarded runtime starts, by functions
// that look at the current-fiber slot (current.ts) and otherwise call the function that was there before.
//
// Invariants:
//
//   D1. Outside of a guarded fiber a replacement does what the original does: one look at the slot is all that it adds.
//   D2. The guard is installed while at least one guarded runtime is started. It is restored with the last one: the
//       same property descriptors.
//   D3. A function that other code (fake timers) has put over a replacement meanwhile stays. If that code puts our
//       replacement back later, the replacement passes every call on, and the next install takes it up again in place
//       of wrapping it twice.
//   D4. Fibers of a runtime with `determinism: 'off'` are outside, no matter what else is installed.
//
// Code that took a function out of its object before the install (`const { now } = Date`) keeps the original. lane.ts
// does so on purpose.

import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers';

import { currentFiber } from '../driver/current.ts';
import { currentScheduler } from '../driver/current-scheduler.ts';
import type { FiberScheduler } from '../driver/scheduler.ts';
import { DeterminismError, RuntimeStateError } from '../errors/errors.ts';
import type { OrchestrationFunction, RunnableOrchestration } from './definition.ts';
import { OF_CRYPTO, OF_GLOBAL, OF_PROCESS, OF_SCHEDULER, OF_TEMPORAL, OF_TIMERS } from './nondeterministic.ts';

/** A function of any kind, called with any `this`. */
type AnyFunction = (this: unknown, ...args: unknown[]) => unknown;

/** One property that is replaced. */
interface Patch {
  readonly target: object;
  readonly key: string;
  readonly original: PropertyDescriptor;
  readonly mine: unknown;
  /** The patch without which this one is not restored. */
  readonly follows?: Patch;
}

/** A property to be replaced, and its replacement. */
interface Point {
  readonly target: object;
  readonly key: string;
  guard(original: AnyFunction): AnyFunction;
}

/** The number of started runtimes that want the guard. */
let users = 0;
/** The installed patches, in order. */
let patches: Patch[] = [];
/** Replacements that could not be restored, because something else was in their place. */
let orphans: Patch[] = [];

/** The schedulers of runtimes with `determinism: 'off'`. */
const exempt = new WeakSet<FiberScheduler>();
/** The origin of `performance.now()` for the instances that have asked: the deterministic time of the first call. */
const origins = new WeakMap<FiberScheduler, number>();

/**
 * Acquires the guard for a guarded runtime that starts. Each call must be met by one of {@link releaseGuard}.
 *
 * @throws RuntimeStateError when a global is frozen; nothing is replaced then
 */
export function acquireGuard(): void {
  if (users === 0) install();
  users += 1;
}

/** Releases the guard of a guarded runtime that has stopped. */
export function releaseGuard(): void {
  users -= 1;
  if (users === 0) restore();
}

/** Returns an orchestration that is not guarded, no matter what other runtimes of this thread want. */
export function withoutGuard({ fn, ...rest }: RunnableOrchestration): RunnableOrchestration {
  const unguarded: OrchestrationFunction = (ctx, input) => {
    // The main fiber calls this function when it begins.
    const scheduler = currentScheduler();
    if (scheduler !== null) exempt.add(scheduler);
    return fn(ctx, input);
  };
  return { ...rest, fn: unguarded };
}

/** Returns the scheduler of the running guarded fiber; `null` if none is running. */
function guarded(): FiberScheduler | null {
  const scheduler = currentScheduler();
  return scheduler === null || exempt.has(scheduler) ? null : scheduler;
}

/** A forbidden function: the object, the key, the name in a message, and the remedy. */
type Forbidden = [target: object, key: string, name: string, instead: string];

/**
 * Returns the other forbidden functions, as far as they exist here: the object, the key, the name in a message, and the
 * remedy.
 */
function forbiddenElsewhere(): Forbidden[] {
  const crypto = process.getBuiltinModule('node:crypto');
  const { Temporal } = globalThis as { Temporal?: { Now?: object } };
  const clocks = Object.getOwnPropertyNames(Temporal?.Now ?? {}).filter((key) => key !== 'timeZoneId');
  const timersPromises = process.getBuiltinModule('node:timers/promises');
  return [
    ...entries(OF_CRYPTO, (key) => [
      // The function of the module calls the method of the global.
      key === 'getRandomValues' ? ownerOf(globalThis.crypto, key) : crypto,
      key,
      `crypto.${key}`,
    ]),
    ...entries(OF_TIMERS, (key) => [timersPromises, key, `${key} of node:timers/promises`]),
    ...entries(OF_SCHEDULER, (key) => [ownerOf(timersPromises.scheduler, key), key, `scheduler.${key}`]),
    ...clocks.map((key): Forbidden => [Temporal?.Now as object, key, `Temporal.Now.${key}`, OF_TEMPORAL]),
  ];
}

function entries(
  remedies: Readonly<Record<string, string>>,
  of: (key: string) => [target: object, key: string, name: string],
): Forbidden[] {
  return Object.entries(remedies).map(([key, instead]) => [...of(key), instead]);
}

function points(): Point[] {
  const found: Point[] = [
    { target: ownerOf(performance, 'now'), key: 'now', guard: guardPerformanceNow },
    { target: Math, key: 'random', guard: guardRandom },
  ];
  // The module's function and the method of the global are not the same.
  const crypto = process.getBuiltinModule('node:crypto');
  for (const target of [crypto, ownerOf(globalThis.crypto, 'randomUUID')])
    found.push({ target, key: 'randomUUID', guard: guardRandomUuid });
  for (const [key, instead] of Object.entries(OF_GLOBAL)) {
    // Once per function, which node:timers shares with the globals: functions that were equal stay equal.
    const made = new Map<AnyFunction, AnyFunction>();
    const guard = (original: AnyFunction): AnyFunction => {
      const replacement = made.get(original) ?? forbid(original, key, instead);
      made.set(original, replacement);
      return replacement;
    };
    found.push({ target: globalThis, key, guard });
    if (key in timers) found.push({ target: timers, key, guard });
  }
  for (const [target, key, name, instead] of forbiddenElsewhere())
    found.push({ target, key, guard: (original) => forbid(original, name, instead) });
  for (const [key, instead] of Object.entries(OF_PROCESS))
    found.push({ target: process, key, guard: (original) => forbid(original, `process.${key}`, instead, true) });
  return found;
}

function install(): void {
  try {
    const date = patch({ target: globalThis, key: 'Date', guard: guardDate });
    if (date !== undefined)
      patch({ target: Date.prototype, key: 'constructor', guard: () => date.mine as AnyFunction }, date);
    for (const point of points()) patch(point);
  } catch (error) {
    restore();
    throw error;
  }
  syncBuiltinESMExports();
}

/** Replaces one property. Does nothing where there is no function. */
function patch({ target, key, guard }: Point, follows?: Patch): Patch | undefined {
  const descriptor = Object.getOwnPropertyDescriptor(target, key);
  const value: unknown = (target as Record<string, unknown>)[key];
  if (descriptor === undefined || typeof value !== 'function') return undefined;
  const orphan = orphans.find((one) => one.target === target && one.key === key && one.mine === value);
  if (orphan !== undefined) {
    orphans = orphans.filter((one) => one !== orphan);
    patches.push(orphan);
    return orphan;
  }
  if (descriptor.configurable !== true && descriptor.writable !== true) {
    throw new RuntimeStateError(
      `the determinism guard cannot be installed: ${key} is frozen. ` +
        "To run without the guard, use new Runtime(…, { determinism: 'off' })",
    );
  }
  const mine = guard(value as AnyFunction);
  const isData = 'value' in descriptor;
  Object.defineProperty(target, key, {
    value: mine,
    writable: isData ? descriptor.writable === true : true,
    enumerable: descriptor.enumerable === true,
    configurable: descriptor.configurable === true,
  });
  const made: Patch = { target, key, original: descriptor, mine, ...(follows === undefined ? {} : { follows }) };
  patches.push(made);
  return made;
}

function restore(): void {
  const kept = new Set<Patch>();
  for (const one of patches) {
    const { target, key, original, mine, follows } = one;
    const isMine = Object.getOwnPropertyDescriptor(target, key)?.value === mine;
    if (isMine && (follows === undefined || !kept.has(follows))) Object.defineProperty(target, key, original);
    else kept.add(one);
  }
  orphans = [...orphans, ...kept];
  patches = [];
  syncBuiltinESMExports();
}

/** Returns the object that holds a property: `object` itself, or the object that it inherits the property from. */
function ownerOf(object: object, key: string): object {
  for (let at: object | null = object; at !== null; at = Object.getPrototypeOf(at) as object | null) {
    if (Object.hasOwn(at, key)) return at;
  }
  return object;
}

// One function for each and not one for all: V8 keeps what it learns of a call per function, so each is made as fast as
// the original.

function guardRandom(original: AnyFunction): AnyFunction {
  return dressAs(original, () => {
    const scheduler = currentFiber() === null ? null : guarded();
    return scheduler === null ? original() : scheduler.port.random();
  });
}

function guardDateNow(original: AnyFunction): AnyFunction {
  return dressAs(original, () => {
    const scheduler = currentFiber() === null ? null : guarded();
    return scheduler === null ? original() : scheduler.now;
  });
}

function guardPerformanceNow(original: AnyFunction): AnyFunction {
  return dressAs(original, function (this: unknown) {
    const scheduler = currentFiber() === null ? null : guarded();
    return scheduler === null ? original.call(this) : sinceOrigin(scheduler);
  });
}

function sinceOrigin(scheduler: FiberScheduler): number {
  const origin = origins.get(scheduler);
  if (origin !== undefined) return scheduler.now - origin;
  origins.set(scheduler, scheduler.now);
  return 0;
}

function guardRandomUuid(original: AnyFunction): AnyFunction {
  return dressAs(original, function (this: unknown, ...args: unknown[]) {
    const scheduler = currentFiber() === null ? null : guarded();
    return scheduler === null ? original.apply(this, args) : scheduler.port.randomUuid();
  });
}

/**
 * Returns a replacement that throws in a guarded fiber. With `isNodes`, Node itself may call the function even then.
 */
function forbid(original: AnyFunction, name: string, instead: string, isNodes = false): AnyFunction {
  const replacement = function (this: unknown, ...args: unknown[]): unknown {
    if (currentFiber() !== null && guarded() !== null && !(isNodes && isCalledByNode(replacement))) {
      const error = new DeterminismError(
        `${name} was called in an orchestration, but its result would differ in a replay: use ${instead}`,
        { called: name, instead },
      );
      // The reader looks for the line of the call.
      Error.captureStackTrace(error, replacement);
      throw error;
    }
    return original.apply(this, args);
  };
  dressAs(original, replacement);
  // `process.hrtime.bigint` is a property of `process.hrtime`, and is as much of a clock.
  const bigint: unknown = Object.getOwnPropertyDescriptor(original, 'bigint')?.value;
  if (typeof bigint === 'function')
    Object.defineProperty(replacement, 'bigint', {
      value: forbid(bigint as AnyFunction, `${name}.bigint`, instead, isNodes),
    });
  return replacement;
}

/** True if the caller of a function is one of Node's own modules. */
function isCalledByNode(below: AnyFunction): boolean {
  const { stackTraceLimit } = Error;
  const at: { stack?: unknown } = {};
  Error.stackTraceLimit = 1;
  Error.captureStackTrace(at, below);
  Error.stackTraceLimit = stackTraceLimit;
  return /\bnode:/.test(String(at.stack));
}

/** Returns the replacement of `Date`. Its instances are those of the original: both have one prototype. */
function guardDate(original: AnyFunction): AnyFunction {
  const Original = original as unknown as DateConstructor;
  const Guarded = function (...args: unknown[]): unknown {
    // An argument is a time of its own: the clock is asked only without one.
    const scheduler = currentFiber() === null || (new.target !== undefined && args.length > 0) ? null : guarded();
    if (new.target === undefined) return scheduler === null ? Original() : new Original(scheduler.now).toString();
    if (scheduler !== null) return Reflect.construct(Original, [scheduler.now], new.target) as Date;
    // `Reflect.construct` would do for all cases. The most frequent cases go without it, which is several times as
    // fast.
    if (new.target !== (Guarded as unknown)) return Reflect.construct(Original, args, new.target) as Date;
    if (args.length === 0) return new Original();
    return args.length === 1 ? new Original(args[0] as number) : new Original(...(args as [number, number]));
  };
  dressAs(original, Guarded);
  const now = guardDateNow(Original.now as AnyFunction);
  Object.defineProperty(Guarded, 'now', { ...Object.getOwnPropertyDescriptor(Original, 'now'), value: now });
  return Guarded;
}

/** Gives a replacement the name, the length and all other own properties of the original. */
function dressAs(original: AnyFunction, replacement: AnyFunction): AnyFunction {
  Object.defineProperties(replacement, Object.getOwnPropertyDescriptors(original));
  return replacement;
}
