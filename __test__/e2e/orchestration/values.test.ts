// Every kind of value on every way through the store: it comes back as it was, or is refused by a typed error where it
// was handed over, before anything is stored.

import { inspect } from 'node:util';
import {
  ActivityError,
  CancelledError,
  type OrchestrationFunction,
  type OrchestrationGenerator,
  PayloadError,
} from 'perdure';
import { beforeEach, describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

/** JSON.parse makes `__proto__` a key like any other, which a literal does not. */
const json = (text: string): unknown => JSON.parse(text);

const cyclic: Record<string, unknown> = { list: [1] };
cyclic.self = cyclic;
(cyclic.list as unknown[]).push(cyclic);
const shared = { a: 1 };

const KEPT: readonly (readonly [string, unknown])[] = [
  ['undefined', undefined],
  ['null', null],
  ['true and false', [true, false]],
  ['numbers', [0, -1.5, 1e21, 5e-324, Number.MAX_SAFE_INTEGER, 0.1 + 0.2]],
  ['NaN', Number.NaN],
  ['infinities', [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]],
  ['-0', -0],
  ['BigInt', -(2n ** 80n)],
  ['empty text', ''],
  ['text with NUL', 'a\0b'],
  ['lone surrogates', ['a\ud800b', '\udc00']],
  ['4-byte characters', '😀𝒳🇪🇺'],
  ['text that looks like the format', ['~', '~[1]', '"', '{"a":1}', '\\u0000']],
  ['text of 1 MiB', 'é'.repeat(512 * 1024)],
  ['object', { a: [1, { b: null }], ключ: 'c' }],
  ['undefined inside', { a: undefined, list: [undefined] }],
  ['holes', [1, , 3]],
  ['strange keys', { '': 1, '\0': 2, '\ud800': 3, '"': 4, constructor: 5, toString: 6, hasOwnProperty: 7, then: 8 }],
  ['__proto__ keys', json('{"__proto__":{"polluted":1},"a":{"__proto__":null}}')],
  ['__proto__ keys beside a Date', Object.assign(json('{"__proto__":{"polluted":1}}') as object, { at: new Date(0) })],
  ['object without prototype', Object.assign(Object.create(null) as object, { a: 1 })],
  ['Date', new Date(1_700_000_000_001)],
  ['invalid Date', new Date(Number.NaN)],
  [
    'Map',
    new Map<unknown, unknown>([
      ['a', 1],
      [{ k: 1 }, new Map([[Number.NaN, -0]])],
    ]),
  ],
  ['Set', new Set<unknown>([1, 'a', new Set([undefined])])],
  ['RegExp', /a\/b"<[\0]/giu],
  ['URL', new URL('https://example.org/ä?b=c#d')],
  ['URLSearchParams', new URLSearchParams('a=1&a=2')],
  [
    'typed arrays',
    [new Uint8Array([1, 255]), new Float64Array([Number.NaN, -0]), new BigInt64Array([-1n]), new Uint16Array()],
  ],
  ['ArrayBuffer and DataView', [new Uint8Array([1, 2]).buffer, new DataView(new Uint8Array([3]).buffer)]],
  ['Buffer', Buffer.from('perdure')],
  ['boxed primitives', [Object(1), Object('a'), Object(false), Object(1n)]],
  ['cycle', cyclic],
  ['shared part', [shared, shared, { shared }]],
  ['error', Object.assign(new TypeError('bad', { cause: new RangeError('why') }), { code: 'E_BAD', at: new Date(0) })],
  ['500 levels', Array.from({ length: 499 }).reduce<unknown>((inner) => [inner], [0])],
];

class Money {
  amount = 1;
}

const REFUSED: readonly (readonly [string, () => unknown, string, RegExp])[] = [
  ['function', () => ({ items: [0, () => 1] }), '.items[1]', /is a function/],
  ['symbol', () => ({ a: Symbol('s') }), '.a', /is a symbol/],
  ['symbol as a key', () => ({ [Symbol('s')]: 1 }), '', /symbol as a key/],
  ['promise', () => [Promise.resolve(1)], '[0]', /is a promise/],
  ['class instance', () => ({ 'the price': new Money() }), '["the price"]', /instance of Money/],
  ['subclass of Map', () => new (class Prices extends Map {})(), '', /instance of Prices/],
  ['WeakMap', () => ({ map: new Map([['k', new WeakMap()]]) }), '.map.get("k")', /instance of WeakMap/],
  ['generator', () => (function* () {})(), '', /is a generator, none of whose code has run/],
  ['property of a Date', () => Object.assign(new Date(0), { note: 1 }), '.note', /property of a Date/],
  ['shared memory', () => new SharedArrayBuffer(8), '', /shared memory/],
  ['over 2 MiB', () => ['é'.repeat(1024 * 1024)], '', /over the limit of 2097152 bytes/],
  [
    '501 levels',
    () => Array.from({ length: 501 }).reduce<unknown>((inner) => [inner], [0]),
    '',
    /deeper than 500 levels/,
  ],
  [
    'getter that throws',
    () => ({
      get a() {
        throw new Error('boom');
      },
    }),
    '',
    /reading it failed/,
  ],
];

/** Fails unless the two values are indistinguishable. */
function same(back: unknown, value: unknown): void {
  expect(back).toStrictEqual(value);
  expect(inspect(back, { depth: Infinity, showHidden: false })).toBe(inspect(value, { depth: Infinity }));
  expect(Object.prototype.toString.call(back)).toBe(Object.prototype.toString.call(value));
  expect(Buffer.isBuffer(back)).toBe(Buffer.isBuffer(value));
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
}

/** Sends one value on all ways: input, activity and back, event, message, status, error, output. */
const carrier: OrchestrationFunction = function* (ctx, input) {
  const seen: Record<string, unknown> = { input };
  ctx.setCustomStatus(input);
  seen.status = ctx.getCustomStatus();
  seen.activity = yield ctx.scheduleActivity('echo', input);
  seen.event = yield ctx.waitForEvent('value');
  seen.message = yield ctx.dequeueEvent('values');
  try {
    yield ctx.scheduleActivity('throws', input);
  } catch (error) {
    seen.caught = (error as ActivityError).cause;
  }
  carried.set(ctx.instanceId, seen);
  return input;
};
const carried = new Map<string, Record<string, unknown>>();

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  beforeEach(async () => {
    await store.start(
      (runtime) =>
        runtime
          .registerActivity('echo', (_, value) => value)
          .registerActivity(
            'throws',
            (_, value) => {
              throw Object.assign(new RangeError('no'), { value });
            },
            { retry: { maxAttempts: 1 } },
          )
          .registerOrchestration('carrier', carrier)
          .registerOrchestration('throws', function* (_, value) {
            throw value instanceof Error ? value : Object.assign(new Error('no'), { value });
          })
          .registerOrchestration('raw', function* (_, value) {
            throw value;
          }),
      // Everything is read from the store again.
      { cachedInstancesMax: 0 },
    );
  });

  describe('comes back as it was', () => {
    it.each(KEPT)('%s', async (_, value) => {
      const { client } = store;
      const id = store.id();
      await client.startOrchestration(id, 'carrier', value);
      await client.raiseEvent(id, 'value', value);
      await client.enqueueEvent(id, 'values', value);
      const { output, customStatus, status, error } = await client.waitForOrchestration(id, SOON);
      expect(error).toBeUndefined();
      expect(status).toBe('Completed');
      same(output, value);
      same(customStatus, value);
      const { caught, ...seen } = carried.get(id) as Record<string, unknown>;
      expect(Object.keys(seen)).toEqual(['input', 'status', 'activity', 'event', 'message']);
      for (const one of Object.values(seen)) same(one, value);
      expect(caught).toBeInstanceOf(RangeError);
      // A property of an error is kept up to 64 Ki characters, so that failures stay small.
      if (typeof value !== 'string' || value.length < 65_536) same((caught as { value: unknown }).value, value);
      const history = await client.getHistory(id);
      same(history[0]?.payload, value);

      const failed = store.id();
      await client.startOrchestration(failed, 'raw', value);
      const thrown = (await client.waitForOrchestration(failed, SOON)).error as Error;
      if (value instanceof Error) same(thrown, value);
      else if (typeof value !== 'string' || value.length < 65_536) same(thrown.cause, value);
    });

    it('a part that is shared or closes a cycle is one object', async () => {
      const id = store.id();
      await store.client.startOrchestration(id, 'carrier', { cyclic, list: [shared, shared] });
      await store.client.raiseEvent(id, 'value');
      await store.client.enqueueEvent(id, 'values');
      const { output } = await store.client.waitForOrchestration<any>(id, SOON);
      expect(output.cyclic.self).toBe(output.cyclic);
      expect(output.cyclic.list[1]).toBe(output.cyclic);
      expect(output.list[0]).toBe(output.list[1]);
    });

    it('an error of Perdure is one again, with its fields', async () => {
      const id = store.id();
      await store.client.startOrchestration(
        id,
        'throws',
        new ActivityError('no', { activityName: 'a', attempt: 2, cause: new Error('why', { cause: 5 }) }),
      );
      const { error } = await store.client.waitForOrchestration(id, SOON);
      expect(error).toBeInstanceOf(ActivityError);
      expect(error).toMatchObject({ name: 'ActivityError', code: 'ACTIVITY', activityName: 'a', attempt: 2 });
      expect((error?.cause as Error).cause).toBe(5);
    });
  });

  describe('is refused where it is handed over', () => {
    it.each(REFUSED)('%s', async (_, make, where, problem) => {
      const { client } = store;
      const value = make();
      const refused = (error: unknown, root: string): void => {
        expect(error).toBeInstanceOf(PayloadError);
        expect(error).toMatchObject({ code: 'PAYLOAD', message: expect.stringMatching(problem) as string });
        const { path, message } = error as PayloadError;
        // If a value is too deep, the path names only its beginning.
        if (where !== '' || !/deeper/.test(message)) expect(path).toBe(root + where);
        expect(path.startsWith(root)).toBe(true);
      };

      const never = store.id();
      refused(await rejection(client.startOrchestration(never, 'carrier', value)), 'input');
      expect(await client.getStatus(never)).toBeNull();

      const told: unknown[] = [];
      const name = store.id('hands over');
      await store.start((runtime) =>
        runtime
          .registerActivity(`${name} returns`, () => make(), { retry: { maxAttempts: 3 } })
          .registerActivity(
            `${name} throws`,
            () => {
              throw Object.assign(new Error('kept'), { value: make(), other: 1 });
            },
            { retry: { maxAttempts: 1 } },
          )
          .registerOrchestration(name, function* (ctx) {
            told.length = 0;
            const attempt = function* (step: () => unknown): OrchestrationGenerator<void> {
              try {
                yield step() as never;
                told.push('nothing was thrown');
              } catch (error) {
                told.push(error);
              }
            };
            ctx.setCustomStatus('before');
            yield* attempt(() => ctx.scheduleActivity('echo', make()));
            yield* attempt(() => ctx.setCustomStatus(make()));
            yield* attempt(() => ctx.scheduleActivity(`${name} returns`));
            yield* attempt(() => ctx.scheduleActivity(`${name} throws`));
            yield ctx.waitForEvent('end');
            return make();
          }),
      );
      const id = store.id();
      await client.startOrchestration(id, name);
      refused(await rejection(client.raiseEvent(id, 'end', value)), 'event');
      refused(await rejection(client.enqueueEvent(id, 'end', value)), 'event');
      await client.raiseEvent(id, 'end');
      const { status, error, customStatus } = await client.waitForOrchestration(id, SOON);
      expect([status, customStatus]).toEqual(['Failed', 'before']);
      refused(error, 'output');
      const [input, set, returned, thrown] = told as [Error, Error, ActivityError, ActivityError];
      refused(input, 'input');
      refused(set, 'status');
      // There is only one attempt: another would return the same.
      expect(returned).toMatchObject({ name: 'ActivityError', attempt: 1 });
      refused(returned.cause, 'output');
      // The error loses the property that cannot be stored, and nothing else.
      expect(thrown.cause).toMatchObject({ message: 'kept', other: 1 });
      expect(thrown.cause).not.toHaveProperty('value');
      // The refused values have left no trace.
      const scheduled = (await client.getHistory(id)).filter((event) => event.kind === 'ActivityScheduled');
      expect(scheduled.map((event) => event.name)).toEqual([`${name} returns`, `${name} throws`]);
    });
  });

  describe('ids and names', () => {
    const WRONG: readonly (readonly [string, unknown])[] = [
      ['empty', ''],
      ['of 257 characters', 'x'.repeat(257)],
      ['with NUL', 'a\0b'],
      ['with a lone surrogate', 'a\ud800'],
      ['no text', 5],
      ['missing', undefined],
      ['null', null],
    ];

    it.each(WRONG)('%s are refused', async (_, value) => {
      const wrong = value as string;
      const { client } = store;
      const existing = store.id();
      await client.startOrchestration(existing, 'nobody registers this');
      const refused = async (call: () => unknown): Promise<void> => {
        expect(await rejection((async () => call())())).toBeInstanceOf(TypeError);
      };
      const runtime = store.runtime();
      for (const call of [
        () => client.startOrchestration(wrong, 'carrier'),
        () => client.startOrchestration(store.id(), wrong),
        () => client.getStatus(wrong),
        () => client.waitForOrchestration(wrong, SOON),
        () => client.waitForStatusChange(wrong, 0),
        () => client.getHistory(wrong),
        () => client.raiseEvent(wrong, 'e'),
        () => client.raiseEvent(existing, wrong),
        () => client.enqueueEvent(wrong, 'q'),
        () => client.enqueueEvent(existing, wrong),
        () => client.cancelInstance(wrong),
        () => client.terminateInstance(wrong),
        () => client.resume(wrong),
        () => client.handle(wrong),
        () => runtime.registerActivity(wrong, () => 1),
        () => runtime.registerOrchestration(wrong, function* () {}),
      ]) {
        await refused(call);
      }
      if (value !== undefined) {
        await refused(() => client.startOrchestration(store.id(), 'carrier', 1, { version: wrong }));
        await refused(() => runtime.registerOrchestration('v', function* () {}, { version: wrong }));
      }
      const name = store.id('names');
      await store.start((r) =>
        r.registerOrchestration(name, function* (ctx) {
          const told: string[] = [];
          for (const call of [
            () => ctx.scheduleActivity(wrong),
            () => ctx.waitForEvent(wrong),
            () => ctx.dequeueEvent(wrong),
          ]) {
            try {
              call();
            } catch (error) {
              told.push((error as Error).name);
            }
          }
          return told;
        }),
      );
      const id = store.id();
      await client.startOrchestration(id, name);
      expect((await client.waitForOrchestration(id, SOON)).output).toEqual(['TypeError', 'TypeError', 'TypeError']);
    });

    it.each<[string, string]>([
      ['256 characters', 'x'.repeat(256)],
      ['128 4-byte characters', '😀'.repeat(128)],
      ['spaces, quotes and separators', ` a'b"c\\d/e%f\n\t;--~*?`],
      ['names of prototypes', '__proto__'],
      ['names of methods', 'toString'],
      ['composed and decomposed characters', 'e\u0301\u00e9'],
      ['one character', 'x'],
    ])('of %s are kept as they are', async (_, name) => {
      const { client } = store;
      await store.start((runtime) =>
        runtime
          .registerActivity(name, (ctx) => [ctx.activityName, ctx.instanceId, ctx.orchestrationName])
          .registerOrchestration(
            name,
            function* (ctx) {
              const facts = [ctx.instanceId, ctx.name, ctx.version];
              return [
                ...facts,
                ...(yield ctx.scheduleActivity(name)),
                yield ctx.waitForEvent(name),
                yield ctx.dequeueEvent(name),
              ];
            },
            { version: name },
          ),
      );
      await client.startOrchestration(name, name, undefined, { version: name, tags: { [name]: name } });
      await client.raiseEvent(name, name, 'event');
      await client.enqueueEvent(name, name, 'message');
      const status = await client.waitForOrchestration(name, SOON);
      expect(status.output).toEqual([name, name, name, name, name, name, 'event', 'message']);
      expect(status).toMatchObject({ id: name, name, version: name });
      expect(Object.entries(status.tags)).toEqual([[name, name]]);
      const names = (await client.getHistory(name)).flatMap((event) => event.name ?? []);
      expect(new Set(names)).toEqual(new Set([name]));
    });

    it('reasons and tags are kept, and checked', async () => {
      const { client } = store;
      const id = store.id();
      const reason = 'because \0 \ud800 😀 ~[1]';
      await client.startOrchestration(id, 'carrier', 1);
      await client.cancelInstance(id, reason);
      const { status, error } = await client.waitForOrchestration(id, SOON);
      expect(status).toBe('Cancelled');
      expect(error).toBeInstanceOf(CancelledError);
      expect((error as CancelledError).reason).toBe(reason);
      expect(await rejection(client.cancelInstance(id, 5 as unknown as string))).toBeInstanceOf(TypeError);
      expect(
        await rejection(client.startOrchestration(store.id(), 'carrier', 1, { tags: { a: 1 as unknown as string } })),
      ).toBeInstanceOf(TypeError);
    });
  });
});
