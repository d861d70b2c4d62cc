import {
  ActivityError,
  CancelledError,
  defineActivity,
  defineOrchestration,
  NotRegisteredError,
  PayloadError,
  PerdureError,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { historyViolations } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

// Errors of user code, and their form on the other side of the store.

class CardError extends Error {
  override readonly name = 'CardError';
  readonly code = 'E_CARD';
  readonly details: object;

  constructor(message: string, details: object, cause: unknown) {
    super(message, { cause });
    this.details = details;
  }
}

const once = { retry: { maxAttempts: 1 } };

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe('an error', () => {
    function chargeCard(): never {
      const cause = new RangeError('over the limit', { cause: { limit: 100n } });
      throw new CardError('declined\0 \ud800 😀', { attempts: [1, 2], at: null }, cause);
    }

    function expectCardError(error: any): void {
      expect(error).toBeInstanceOf(Error);
      expect(error.name).toBe('CardError');
      expect(error.message).toBe('declined\0 \ud800 😀');
      expect(error.code).toBe('E_CARD');
      expect(error.details).toEqual({ attempts: [1, 2], at: null });
      expect(error.stack).toContain('chargeCard');
      expect(error.cause).toBeInstanceOf(RangeError);
      expect(error.cause.message).toBe('over the limit');
      expect(error.cause.stack).toContain('chargeCard');
      expect(error.cause.cause).toEqual({ limit: 100n });
    }

    it('of a failed instance is complete in the JSON of its status', async () => {
      const id = store.id();
      await store.start((runtime) =>
        runtime
          .registerActivity('charge for JSON', () => chargeCard(), once)
          .registerOrchestration('fails for JSON', function* (ctx, isOwn: boolean) {
            if (isOwn) throw new RangeError('too far', { cause: 'the map' });
            yield* ctx.scheduleActivity('charge for JSON');
          }),
      );
      await store.client.startOrchestration(id, 'fails for JSON');
      const status = await store.client.waitForOrchestration(id, SOON);
      expect(JSON.parse(JSON.stringify(status))).toMatchObject({
        status: 'Failed',
        error: {
          name: 'ActivityError',
          code: 'ACTIVITY',
          activityName: 'charge for JSON',
          attempt: 1,
          cause: { name: 'CardError', code: 'E_CARD', details: { attempts: [1, 2] }, cause: { name: 'RangeError' } },
        },
      });
      const own = store.id();
      await store.client.startOrchestration(own, 'fails for JSON', true);
      await store.client.waitForOrchestration(own, SOON);
      expect(JSON.parse(JSON.stringify(await store.client.getStatus(own)))).toMatchObject({
        error: { name: 'RangeError', message: 'too far', cause: 'the map' },
      });
    });

    it('of an activity becomes the complete cause of an ActivityError', async () => {
      let caught: any;
      await store.start((runtime) =>
        runtime
          .registerActivity('charge', () => chargeCard(), once)
          .registerOrchestration('catches', function* (ctx) {
            try {
              yield ctx.scheduleActivity('charge');
            } catch (error) {
              caught = error;
            }
            return 'caught';
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'catches');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toBe('caught');
      expect(caught).toBeInstanceOf(ActivityError);
      expect(caught).toBeInstanceOf(PerdureError);
      expect(caught).toMatchObject({ name: 'ActivityError', code: 'ACTIVITY', activityName: 'charge', attempt: 1 });
      expectCardError(caught.cause);
    });

    it('has a stack that ends with the line that scheduled the activity', async () => {
      let stack = '';
      const scheduling = function* (ctx: any): Generator<any, any, any> {
        return yield ctx.scheduleActivity('charge');
      };
      await store.start((runtime) =>
        runtime
          .registerActivity('charge', () => chargeCard(), once)
          .registerOrchestration('stack', function* outer(ctx) {
            try {
              yield* scheduling(ctx);
            } catch (error) {
              stack = (error as Error).stack ?? '';
            }
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'stack');
      await store.client.waitForOrchestration(id, SOON);
      const frames = stack.split('\n').filter((line) => line.startsWith('    at '));
      expect(frames[0]).toContain('chargeCard');
      expect(frames.at(-2)).toMatch(/scheduling.*failures\.test\.ts/);
      expect(frames.at(-1)).toMatch(/outer.*failures\.test\.ts/);
    });

    it('has that stack in a replay, too', async () => {
      const stacks: string[] = [];
      const begin = () =>
        store.start((runtime) =>
          runtime
            .registerActivity('charge', () => chargeCard(), once)
            .registerActivity('greet', () => 'hello')
            .registerOrchestration('replayed', function* greeting(ctx) {
              yield* ctx.scheduleActivity('greet');
              try {
                yield* ctx.scheduleActivity('charge');
              } catch (error) {
                stacks.push((error as Error).stack ?? '');
              }
              ctx.setCustomStatus('charged');
              yield* ctx.waitForEvent('go');
              yield* ctx.scheduleActivity('greet');
            }),
        );
      const id = store.id();
      const before = await begin();
      await store.client.startOrchestration(id, 'replayed');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      await before.shutdown();
      await begin();
      await store.client.raiseEvent(id, 'go');
      expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Completed');
      expect(stacks).toHaveLength(2);
      expect(stacks[0]).toMatch(/greeting.*failures\.test\.ts/);
      expect(stacks[1]).toBe(stacks[0]);
    });

    it('ends an orchestration that does not catch it as Failed, and rejects its handle', async () => {
      const fails = defineOrchestration('fails', function* (ctx) {
        yield ctx.scheduleActivity('charge');
      });
      await store.start((runtime) => runtime.register(fails).registerActivity('charge', () => chargeCard(), once));
      const handle = await store.client.start(fails);
      const error = await rejection(handle.result({ timeout: SOON }));
      expect(error).toBeInstanceOf(ActivityError);
      expect(error).toMatchObject({ activityName: 'charge', attempt: 1 });
      expectCardError(error.cause);
      const status = await handle.status();
      expect(status).toMatchObject({ status: 'Failed', completedAt: expect.any(Date) });
      expect(status).not.toHaveProperty('output');
      expectCardError(status?.error?.cause);
      expect(historyViolations(await store.client.getHistory(handle.id), 'Failed')).toEqual([]);
    });

    it('of the orchestration itself is kept unchanged', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('throws', function* () {
          chargeCard();
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'throws');
      const { status, error } = await store.client.waitForOrchestration(id, SOON);
      expect(status).toBe('Failed');
      expectCardError(error);
    });

    it.each([
      ['a string', 'just text'],
      ['undefined', undefined],
      ['an object', { reason: new Date(0) }],
    ])('may be %s', async (_, thrown) => {
      await store.start((runtime) =>
        runtime
          .registerActivity(
            'throws',
            () => {
              throw thrown;
            },
            once,
          )
          .registerOrchestration('non-errors', function* (ctx) {
            yield ctx.scheduleActivity('throws');
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'non-errors');
      const { status, error } = await store.client.waitForOrchestration(id, SOON);
      expect(status).toBe('Failed');
      expect(error).toMatchObject({ name: 'ActivityError', cause: expect.any(Error) });
      expect((error?.cause as Error).cause).toEqual(thrown);
    });

    it('names an unregistered activity and a similar name, and is not retried', async () => {
      await store.start((runtime) =>
        runtime
          .registerActivity('charge', () => 1)
          .registerOrchestration('typo', function* (ctx) {
            yield ctx.scheduleActivity('chrage');
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'typo');
      const { status, error } = await store.client.waitForOrchestration(id, SOON);
      expect(status).toBe('Failed');
      expect(error).toMatchObject({ name: 'ActivityError', attempt: 1 });
      expect(error?.cause).toBeInstanceOf(NotRegisteredError);
      expect(error?.cause).toMatchObject({
        kind: 'activity',
        missing: 'chrage',
        message: expect.stringContaining("'charge'"),
      });
    });

    it('of a fiber is seen only by the code that waits for the fiber', async () => {
      await store.start((runtime) =>
        runtime
          .registerActivity('ok', (_, n: number) => n)
          .registerOrchestration('fibers', function* (ctx) {
            const bad = ctx.spawn(function* () {
              yield ctx.scheduleActivity('ok', 1);
              throw new TypeError('in a fiber');
            });
            const value = yield ctx.scheduleActivity('ok', 2);
            yield ctx.scheduleActivity('ok', 3);
            try {
              yield bad;
            } catch (error) {
              return [value, (error as Error).message];
            }
            return 'not thrown';
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'fibers');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([2, 'in a fiber']);
    });
  });

  describe('a value that cannot be stored', () => {
    it('is refused where it is handed over, before anything is stored', async () => {
      const { client } = store;
      const id = store.id();
      const refused = await rejection(client.startOrchestration(id, 'any', { items: [1, { price: () => 1 }] }));
      expect(refused).toBeInstanceOf(PayloadError);
      expect(refused).toMatchObject({
        code: 'PAYLOAD',
        path: 'input.items[1].price',
        message: expect.stringContaining('function'),
      });
      expect(await client.getStatus(id)).toBeNull();

      await client.startOrchestration(id, 'nobody registers this');
      for (const send of [client.raiseEvent.bind(client), client.enqueueEvent.bind(client)]) {
        expect(await rejection(send(id, 'x', [Symbol('s')]))).toMatchObject({ name: 'PayloadError', path: 'event[0]' });
      }
      const large = await rejection(client.raiseEvent(id, 'x', 'x'.repeat(2 * 1024 * 1024)));
      expect(large).toMatchObject({ name: 'PayloadError', path: 'event', message: expect.stringContaining('2097152') });
    });

    it('throws at its line in an orchestration, which can continue', async () => {
      await store.start((runtime) =>
        runtime
          .registerActivity('echo', (_, value) => value)
          .registerOrchestration('refused', function* (ctx) {
            const paths: string[] = [];
            const tried = (act: () => void) => {
              try {
                act();
              } catch (error) {
                paths.push(`${(error as Error).name} ${(error as PayloadError).path}`);
              }
            };
            tried(() => ctx.scheduleActivity('echo', { deep: [function named() {}] }));
            tried(() => ctx.setCustomStatus(new (class Money {})()));
            return [paths, yield ctx.scheduleActivity('echo', 'goes on')];
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'refused');
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([
        ['PayloadError input.deep[0]', 'PayloadError status'],
        'goes on',
      ]);
      expect(await store.client.getStatus(id)).toMatchObject({ customStatusVersion: 0 });
    });

    it('fails the activity that returns it, once', async () => {
      let attempts = 0;
      await store.start((runtime) =>
        runtime
          .registerActivity('odd', async () => {
            attempts += 1;
            return { promise: Promise.resolve() };
          })
          .registerOrchestration('odd output', function* (ctx) {
            yield ctx.scheduleActivity('odd');
          }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'odd output');
      const { error } = await store.client.waitForOrchestration(id, SOON);
      expect(error).toMatchObject({ name: 'ActivityError', attempt: 1 });
      expect(error?.cause).toMatchObject({ name: 'PayloadError', path: 'output.promise' });
      expect(attempts).toBe(1);
    });

    it('fails the orchestration that returns it', async () => {
      await store.start((runtime) =>
        runtime.registerOrchestration('odd result', function* () {
          return { f: () => 1 };
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'odd result');
      const { status, error } = await store.client.waitForOrchestration(id, SOON);
      expect(status).toBe('Failed');
      expect(error).toBeInstanceOf(PayloadError);
      expect(error).toMatchObject({ path: 'output.f' });
    });
  });

  describe('a value', () => {
    const cyclic: Record<string, unknown> = { name: 'cycle' };
    cyclic.self = cyclic;

    it.each<[string, unknown]>([
      ['plain JSON', { a: [1, 'b', null, true, { c: -1.5e300 }] }],
      ['undefined', undefined],
      ['null', null],
      ['strange text', 'NUL \0, lone \ud800 and \udc00, 😀, \u2028'],
      ['a __proto__ key', JSON.parse('{"__proto__":{"polluted":true}}')],
      [
        'rich values',
        [new Date(5), new Map([[{ k: 1 }, new Set([1n])]]), -0, Number.NaN, undefined, /x/g, new URL('http://a/?b')],
      ],
      ['bytes', new Uint8Array([0, 255])],
      ['a cycle', cyclic],
      ['a megabyte', 'x'.repeat(1_000_000)],
    ])('goes through input, activity, event, queue, status and output: %s', async (_, value) => {
      const echo = defineActivity('echo', async (_ctx, given: unknown) => {
        expect(given).toStrictEqual(value);
        return given;
      });
      await store.start((runtime) =>
        runtime.register(echo).registerOrchestration('round trip', function* (ctx, input) {
          const output = yield* ctx.call(echo, input);
          ctx.setCustomStatus(output);
          const event = yield ctx.waitForEvent('e');
          const message = yield ctx.dequeueEvent('q');
          expect([output, event, message]).toStrictEqual([value, value, value]);
          return message;
        }),
      );
      const id = store.id();
      await store.client.startOrchestration(id, 'round trip', value);
      await store.client.raiseEvent(id, 'e', value);
      await store.client.enqueueEvent(id, 'q', value);
      const { status, error, output, customStatus } = await store.client.waitForOrchestration(id, SOON);
      expect(error).toBeUndefined();
      expect(status).toBe('Completed');
      expect(output).toStrictEqual(value);
      expect(customStatus).toStrictEqual(value);
      expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
    });
  });

  it('keeps the classes of its own errors across the store', async () => {
    await store.start((runtime) =>
      runtime.registerOrchestration('own', function* () {
        throw new CancelledError('not by a cancellation');
      }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'own');
    const { status, error } = await store.client.waitForOrchestration(id, SOON);
    expect(error).toBeInstanceOf(CancelledError);
    // There was no request to cancel: an orchestration that throws is Failed, even if it throws a CancelledError.
    expect(status).toBe('Failed');
  });
});
