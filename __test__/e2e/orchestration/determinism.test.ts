// The guard. Inside an orchestration the clock and randomness are deterministic, and calls that start work throw.
// Outside, everything is unchanged.

import { execFileSync } from 'node:child_process';
import nodeCrypto, { randomBytes as bytesOfModule, randomUUID as uuidOfModule } from 'node:crypto';
import { nextTick as tickOfModule } from 'node:process';
import { Writable } from 'node:stream';
import nodeTimers, { setImmediate as immediateOfModule, setTimeout as timeoutOfModule } from 'node:timers';
import { setTimeout as timeoutOfPromises } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client, DeterminismError, type OrchestrationFunction, type Runtime } from 'perdure';
import type * as Polyfill from 'temporal-polyfill';
// Older versions of Node have no global `Temporal` of their own.
import 'temporal-polyfill/global';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { acquireGuard, releaseGuard } from '../../../js/orchestration/determinism.ts';
import { nextTick } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

/**
 * Stops Vitest from touching `process`. Whenever Vitest reports something, it replaces `process.nextTick` by its own
 * copy for a moment, and puts the previous value back a tick later. That would undo a guard that was installed or
 * removed meanwhile.
 */
const timersOfVitest = Object.getOwnPropertySymbols(globalThis).find(
  ({ description }) => description === 'vitest:SAFE_TIMERS',
);
delete (globalThis as unknown as Record<symbol, { nextTick?: unknown }>)[timersOfVitest as symbol]!.nextTick;

/** Returns the descriptors of everything that the guard replaces. */
function descriptors(): Record<string, PropertyDescriptor | undefined> {
  const found: Record<string, PropertyDescriptor | undefined> = {
    constructor: Object.getOwnPropertyDescriptor(Date.prototype, 'constructor'),
    random: Object.getOwnPropertyDescriptor(Math, 'random'),
    now: Object.getOwnPropertyDescriptor(Object.getPrototypeOf(performance), 'now'),
    webUuid: Object.getOwnPropertyDescriptor(Object.getPrototypeOf(globalThis.crypto), 'randomUUID'),
    nodeUuid: Object.getOwnPropertyDescriptor(nodeCrypto, 'randomUUID'),
  };
  for (const key of ['Date', 'setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask', 'fetch']) {
    found[key] = Object.getOwnPropertyDescriptor(globalThis, key);
    found[`timers.${key}`] = Object.getOwnPropertyDescriptor(nodeTimers, key);
  }
  for (const key of ['randomBytes', 'randomInt', 'randomFill', 'randomFillSync', 'pseudoRandomBytes', 'prng', 'rng'])
    found[`crypto.${key}`] = Object.getOwnPropertyDescriptor(nodeCrypto, key);
  for (const key of ['nextTick', 'hrtime']) found[`process.${key}`] = Object.getOwnPropertyDescriptor(process, key);
  for (const key of ['setTimeout', 'setInterval', 'setImmediate'])
    found[`promises.${key}`] = Object.getOwnPropertyDescriptor(nodeTimers.promises, key);
  found.webRandom = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(globalThis.crypto), 'getRandomValues');
  return found;
}

const untouched = descriptors();

describe('outside of orchestrations, while it is installed', () => {
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  function installed(test: () => void | Promise<void>): () => Promise<void> {
    return async () => {
      acquireGuard();
      try {
        expect(Date).not.toBe(untouched.Date?.value);
        await test();
      } finally {
        releaseGuard();
      }
      expect(descriptors()).toEqual(untouched);
    };
  }

  it(
    'Date is a Date',
    installed(() => {
      const Original = untouched.Date?.value as DateConstructor;
      const date = new Date();
      expect(Math.abs(date.getTime() - Original.now())).toBeLessThan(1_000);
      expect(date).toBeInstanceOf(Date);
      expect(date).toBeInstanceOf(Original);
      expect(new Original(0)).toBeInstanceOf(Date);
      expect(date.constructor).toBe(Date);
      expect(Date.prototype.constructor).toBe(Date);
      expect([Date.name, Date.length, typeof Date]).toEqual(['Date', 7, 'function']);
      expect(Object.getOwnPropertyDescriptors(Date)).toEqual({
        ...Object.getOwnPropertyDescriptors(Original),
        now: expect.objectContaining({ writable: true, enumerable: false, configurable: true }),
      });
      expect(Reflect.ownKeys(Date).sort()).toEqual(Reflect.ownKeys(Original).sort());
      expect([Date.UTC, Date.parse]).toEqual([Original.UTC, Original.parse]);
      expect(Date.now()).toBeGreaterThan(1e12);
      expect(structuredClone(date)).toEqual(date);
      expect(Object.prototype.toString.call(date)).toBe('[object Date]');
      // Called as a function, `Date` returns text for any argument.
      expect(typeof Date()).toBe('string');
      expect(Number.isNaN(Date.parse((Date as unknown as (n: number) => string)(5)))).toBe(false);
    }),
  );

  it.each<[string, unknown[]]>([
    ['a time', [5]],
    ['text', ['2020-02-30T00:00:00Z']],
    ['a date', [new Date(7)]],
    ['undefined', [undefined]],
    ['null', [null]],
    ['year and month', [2020, 1]],
    ['seven parts', [2020, 1, 2, 3, 4, 5, 6]],
    ['eight parts', [2020, 1, 2, 3, 4, 5, 6, 7]],
  ])('new Date takes %s as ever', (_, args) => {
    const expected = Reflect.construct(Date, args) as Date;
    return installed(() => {
      expect(Reflect.construct(Date, args)).toEqual(expected);
      expect(new (Date as unknown as new (...all: unknown[]) => Date)(...args)).toEqual(expected);
    })();
  });

  it('subclasses of Date work, of before and of now', async () => {
    class Before extends Date {
      next(): number {
        return this.getTime() + 1;
      }
    }
    await installed(() => {
      class Now extends Date {
        override getTime(): number {
          return super.getTime() * 2;
        }
      }
      expect(new Now(5).getTime()).toBe(10);
      expect(new Now()).toBeInstanceOf(Now);
      expect(new Now()).toBeInstanceOf(Date);
      expect(new Before(5).next()).toBe(6);
      expect(new Before()).toBeInstanceOf(Date);
    })();
  });

  it(
    'everything else does as ever',
    installed(async () => {
      expect(Math.random()).toBeLessThan(1);
      const before = performance.now();
      expect(performance.now()).toBeGreaterThanOrEqual(before);
      expect(() => performance.now.call({} as typeof performance)).toThrow(TypeError);
      expect(crypto.randomUUID()).toMatch(/^[0-9a-f-]{36}$/);
      expect(uuidOfModule({ disableEntropyCache: true })).toMatch(/^[0-9a-f-]{36}$/);
      expect(() => crypto.randomUUID.call({} as typeof crypto)).toThrow(TypeError);
      expect(setTimeout).toBe(nodeTimers.setTimeout);
      expect(setTimeout).toHaveLength((untouched.setTimeout?.value as () => void).length);
      expect(await new Promise((resolve) => setTimeout((a: number, b: number) => resolve([a, b]), 1, 2, 3))).toEqual([
        2, 3,
      ]);
      expect(await promisify(setTimeout)(1, 'value')).toBe('value');
      expect(await promisify(setImmediate)('value')).toBe('value');
      await new Promise<void>((resolve) => queueMicrotask(resolve));
      const interval = setInterval(() => {}, 1_000);
      expect(interval.hasRef()).toBe(true);
      clearInterval(interval);
      expect(await (await fetch('data:,hello')).text()).toBe('hello');
    }),
  );

  it('counts its users', () => {
    acquireGuard();
    acquireGuard();
    releaseGuard();
    expect(Date).not.toBe(untouched.Date?.value);
    releaseGuard();
    expect(descriptors()).toEqual(untouched);
  });

  it('leaves later fake timers in place, and continues when they are removed', () => {
    acquireGuard();
    const guarded = { Date, setTimeout };
    vi.useFakeTimers({ now: 1_000 });
    const fake = { Date, setTimeout };
    expect(fake.Date).not.toBe(guarded.Date);
    releaseGuard();
    expect({ Date, setTimeout }).toEqual(fake);
    expect(Date.now()).toBe(1_000);
    expect(Math.random).toBe(untouched.random?.value);
    vi.useRealTimers();
    // The guarded functions pass every call on.
    expect(Date).toBe(guarded.Date);
    expect(Date.now()).toBeGreaterThan(1e12);
    expect(new Date().constructor).toBe(Date);
    acquireGuard();
    expect(Date).toBe(guarded.Date);
    releaseGuard();
    expect(descriptors()).toEqual(untouched);
  });

  it('stands over fake timers that came before it', () => {
    vi.useFakeTimers({ now: 1_000 });
    const fake = Date;
    acquireGuard();
    expect(Date).not.toBe(fake);
    expect([Date.now(), new Date().getTime(), new Date(5).getTime()]).toEqual([1_000, 1_000, 5]);
    releaseGuard();
    expect(Date).toBe(fake);
    vi.useRealTimers();
    expect(descriptors()).toEqual(untouched);
  });

  it('leaves a mock in place', () => {
    acquireGuard();
    Math.random = () => 0.5;
    releaseGuard();
    expect(Math.random()).toBe(0.5);
    Object.defineProperty(Math, 'random', untouched.random as PropertyDescriptor);
    expect(descriptors()).toEqual(untouched);
  });

  it('works without missing globals', () => {
    const fetchThere = untouched.fetch as PropertyDescriptor;
    Reflect.deleteProperty(globalThis, 'fetch');
    acquireGuard();
    expect('fetch' in globalThis).toBe(false);
    releaseGuard();
    Object.defineProperty(globalThis, 'fetch', fetchThere);
    expect(descriptors()).toEqual(untouched);
  });

  it('says so where the globals are frozen, and works without it', () => {
    const program = `
      const { Runtime, SqliteProvider } = await import('perdure');
      const provider = await SqliteProvider.inMemory();
      const failed = await new Runtime(provider).start().catch((error) => error.code + ': ' + error.message);
      const runtime = new Runtime(provider, { determinism: 'off' });
      await runtime.start();
      await runtime.shutdown();
      await provider.close();
      console.log(failed);
    `;
    const printed = execFileSync(process.execPath, ['--input-type=module', '-e', `Object.freeze(Math);${program}`], {
      cwd: new URL('../../..', import.meta.url),
      encoding: 'utf8',
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    expect(printed).toMatch(/^RUNTIME_STATE: .*random is frozen/);
  });

  it('puts an accessor back as an accessor', () => {
    const there = untouched.fetch as PropertyDescriptor;
    const accessor = { get: () => there.value as unknown, enumerable: false, configurable: true };
    Object.defineProperty(globalThis, 'fetch', accessor);
    acquireGuard();
    expect(Object.getOwnPropertyDescriptor(globalThis, 'fetch')?.get).toBeUndefined();
    releaseGuard();
    expect(Object.getOwnPropertyDescriptor(globalThis, 'fetch')).toEqual({ ...accessor, set: undefined });
    Object.defineProperty(globalThis, 'fetch', there);
  });
});

/** Returns every value that comes from the clock or from randomness. */
function look(): Record<string, unknown> {
  class Day extends Date {}
  return {
    now: Date.now(),
    date: new Date().getTime(),
    text: Date(),
    day: new Day().getTime(),
    ofDay: new Day() instanceof Day,
    given: [new Date(5).getTime(), new Date(2020, 1).getFullYear()],
    performance: performance.now(),
    random: [Math.random(), Math.random()],
    uuids: [crypto.randomUUID(), uuidOfModule(), nodeCrypto.randomUUID()],
  };
}

const FORBIDDEN: [string, () => unknown, RegExp][] = [
  ['setTimeout', () => setTimeout(() => {}, 1), /ctx\.scheduleTimer/],
  ['setTimeout', () => timeoutOfModule(() => {}, 1), /ctx\.scheduleTimer/],
  ['setInterval', () => setInterval(() => {}, 1), /ctx\.scheduleTimer/],
  ['setInterval', () => nodeTimers.setInterval(() => {}, 1), /ctx\.scheduleTimer/],
  ['setImmediate', () => setImmediate(() => {}), /ctx\.spawn/],
  ['setImmediate', () => immediateOfModule(() => {}), /ctx\.spawn/],
  ['queueMicrotask', () => queueMicrotask(() => {}), /ctx\.spawn/],
  ['fetch', () => fetch('data:,'), /activity/],
  ['setTimeout of node:timers/promises', () => timeoutOfPromises(1), /ctx\.scheduleTimer/],
  ['setImmediate of node:timers/promises', () => nodeTimers.promises.setImmediate(), /ctx\.scheduleTimer/],
  ['setInterval of node:timers/promises', () => nodeTimers.promises.setInterval(1), /ctx\.scheduleTimer/],
  ['scheduler.wait', () => nodeTimers.promises.scheduler.wait(1), /ctx\.scheduleTimer/],
  ['scheduler.yield', () => nodeTimers.promises.scheduler.yield(), /ctx\.scheduleTimer/],
  ['process.nextTick', () => process.nextTick(() => {}), /ctx\.spawn/],
  ['process.nextTick', () => tickOfModule(() => {}), /ctx\.spawn/],
  ['process.hrtime', () => process.hrtime(), /Date\.now/],
  ['process.hrtime.bigint', () => process.hrtime.bigint(), /Date\.now/],
  ['crypto.getRandomValues', () => crypto.getRandomValues(new Uint8Array(1)), /ctx\.random/],
  ['crypto.getRandomValues', () => nodeCrypto.webcrypto.getRandomValues(new Uint8Array(1)), /ctx\.random/],
  ['crypto.randomBytes', () => bytesOfModule(1), /ctx\.random/],
  ['crypto.randomInt', () => nodeCrypto.randomInt(9), /ctx\.random/],
  ['crypto.randomFill', () => nodeCrypto.randomFill(new Uint8Array(1), () => {}), /ctx\.random/],
  ['crypto.randomFillSync', () => nodeCrypto.randomFillSync(new Uint8Array(1)), /ctx\.random/],
  ['crypto.pseudoRandomBytes', () => nodeCrypto.pseudoRandomBytes(1), /ctx\.random/],
  ['crypto.prng', () => (nodeCrypto as unknown as { prng: typeof bytesOfModule }).prng(1), /ctx\.random/],
  ['crypto.rng', () => (nodeCrypto as unknown as { rng: typeof bytesOfModule }).rng(1), /ctx\.random/],
];

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  async function run(runtime: Runtime, name: string, fn: OrchestrationFunction, client = store.client): Promise<any> {
    runtime.registerOrchestration(name, fn);
    const id = store.id();
    await client.startOrchestration(id, name);
    const { output, error } = await client.waitForOrchestration(id, SOON);
    if (error !== undefined) throw error;
    return output;
  }

  it('Node itself may use forbidden functions, such as to write a line', async () => {
    const runtime = await store.start(() => {});
    const written: string[] = [];
    const stream = new Writable({ write: (chunk, _encoding, done) => void (written.push(String(chunk)), done()) });
    await run(runtime, 'writes', function* () {
      stream.write('a line');
    });
    expect(written).toContain('a line');
  });

  it('Temporal.Now is forbidden', async () => {
    const runtime = await store.start(() => {});
    const asks: OrchestrationFunction = function* () {
      return (globalThis as unknown as typeof Polyfill).Temporal.Now.instant().epochMilliseconds;
    };
    await expect(run(runtime, 'asks Temporal', asks)).rejects.toThrow(/^Temporal\.Now\.instant was called/);
  });

  it('an instance sees its own clock and randomness, the same in a replay', async () => {
    const passes: unknown[][] = [];
    const runtime = await store.start((r) => r.registerActivity('real', () => Date.now()), { cachedInstancesMax: 0 });
    const { seen, real } = await run(runtime, 'looks', function* (ctx) {
      const seen: unknown[] = [];
      passes.push(seen);
      seen.push(look());
      const real = yield ctx.scheduleActivity('real');
      yield ctx.scheduleTimer(60);
      seen.push(look());
      yield ctx.scheduleTimer(1);
      seen.push(look(), { ctx: ctx.now() });
      const branch = yield ctx.spawn(function* () {
        return [look()];
      });
      return { seen: [...seen, branch], real };
    });
    // Each wait except for local work causes a replay from the beginning.
    expect(passes.length).toBeGreaterThan(1);
    for (const pass of passes) expect(pass).toEqual(seen.slice(0, pass.length));
    const [first, second, third, context] = seen;
    for (const { now, date, day, text, ofDay, given } of [first, second, third]) {
      expect([date, day, ofDay, given]).toEqual([now, now, true, [5, 2020]]);
      expect(text).toBe(new Date(now).toString());
    }
    expect(third.now).toBe(context.ctx);
    expect([first.performance, second.performance]).toEqual([0, second.now - first.now]);
    expect(second.performance).toBeGreaterThanOrEqual(60);
    expect(Math.abs(real - first.now)).toBeLessThan(20_000);
    const numbers = [first, second, third].flatMap(({ random }) => random);
    expect(new Set(numbers).size).toBe(6);
    const uuids = [first, second, third].flatMap(({ uuids }) => uuids);
    expect(new Set(uuids).size).toBe(9);
    for (const uuid of uuids)
      expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });

  it.each(FORBIDDEN)('%s throws, and names a replacement', async (name, call, instead) => {
    const runtime = await store.start(() => {});
    const error = await run(runtime, 'forbidden', function* () {
      try {
        call();
      } catch (thrown) {
        return thrown;
      }
    });
    expect(error).toBeInstanceOf(DeterminismError);
    expect(error).toMatchObject({ code: 'DETERMINISM', called: name });
    expect(error.instead).toMatch(instead);
    expect(error.message).toContain(name);
    // The first line of the stack is the line of the call.
    expect(error.stack.split('\n')[1]).toContain('determinism.test.ts');
    await expect(
      run(runtime, 'uncaught', function* () {
        call();
      }),
    ).rejects.toMatchObject({ code: 'DETERMINISM' });
  });

  it('activities and code between turns are not affected', async () => {
    const between: unknown[] = [];
    const runtime = await store.start((r) =>
      r.registerActivity('free', async () => {
        await new Promise((resolve) => setTimeout(resolve, 1));
        await new Promise<void>((resolve) => queueMicrotask(resolve));
        return [Math.abs(Date.now() - new Date().getTime()) < 1_000, Math.random(), (await fetch('data:,a')).ok];
      }),
    );
    const later = async (): Promise<void> => {
      await null;
      between.push(await new Promise((resolve) => setImmediate(() => resolve(Date.now()))));
    };
    const free = await run(runtime, 'calls', function* (ctx) {
      // No orchestration should do this. The code that it starts runs between turns and is not part of a turn.
      void later();
      return [yield ctx.scheduleActivity('free'), yield ctx.scheduleActivity('free')];
    });
    expect(free).toEqual([
      [true, expect.any(Number), true],
      [true, expect.any(Number), true],
    ]);
    expect(free[0][1]).not.toBe(free[1][1]);
    await nextTick();
    expect(between.length).toBeGreaterThan(0);
    expect(Math.abs((between[0] as number) - Date.now())).toBeLessThan(20_000);
  });

  it('is there from the first start to the last shutdown, for those runtimes alone that want it', async () => {
    const provider = kind.isShared ? await store.open() : undefined;
    const off = await store.start(() => {}, { determinism: 'off' });
    expect(descriptors()).toEqual(untouched);
    const freely: OrchestrationFunction = function* (ctx) {
      clearTimeout(setTimeout(() => {}, 1));
      yield ctx.scheduleTimer(1);
      clearImmediate(setImmediate(() => {}));
      const inFiber = yield ctx.spawn(function* () {
        clearTimeout(setTimeout(() => {}, 1));
        return 'too';
      });
      return ['free', inFiber];
    };
    expect(await run(off, 'before', freely)).toEqual(['free', 'too']);
    if (provider !== undefined) {
      // A runtime of another store would do as well. Here it must not serve the orchestrations of the other runtime.
      const client = new Client(provider);
      const one = store.runtime({}, provider);
      const two = store.runtime({}, provider);
      await one.start();
      await two.start();
      expect(Date).not.toBe(untouched.Date?.value);
      expect(await run(off, 'beside', freely)).toEqual(['free', 'too']);
      await one.shutdown();
      await expect(run(two, 'guarded', freely, client)).rejects.toMatchObject({ called: 'setTimeout' });
      await two.shutdown();
      expect(descriptors()).toEqual(untouched);
      await one.start();
      await expect(run(one, 'again', freely, client)).rejects.toMatchObject({ called: 'setTimeout' });
      await one.shutdown();
    }
    expect(descriptors()).toEqual(untouched);
  });

  it('is taken away when a start fails', async () => {
    const provider = await store.open();
    const runtime = store.runtime({}, provider);
    await provider.close();
    await expect(runtime.start()).rejects.toThrow();
    expect(descriptors()).toEqual(untouched);
  });

  it('is an option with two values', () => {
    expect(() => store.runtime({ determinism: 'on' })).not.toThrow();
    expect(() => store.runtime({ determinism: 'of' as 'off' })).toThrow(
      /determinism must be one of 'on', 'off'.*did you mean 'o/,
    );
  });
});
