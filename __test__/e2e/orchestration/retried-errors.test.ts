// The errors after which an activity is retried, by their names and codes.

import { Client, type RetryOptions, type Runtime } from 'perdure';
import { describe, expect, it } from 'vitest';

import { SHARED_STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

class Teapot extends Error {
  override readonly name = 'Teapot';
}

const coded = (code: string | number): Error => Object.assign(new Error('no'), { code });
const reset = new TypeError('fetch failed', { cause: coded('ECONNRESET') });
const deep = new Error('no', { cause: new Error('no', { cause: coded('ECONNRESET') }) });

/** An error, a policy, and the number of attempts of an activity that always fails with that error. */
const CASES: Readonly<Record<string, [error: unknown, retry: RetryOptions, attempts: number]>> = {
  'a name that is never retried': [new Teapot(), { nonRetryable: ['Teapot'] }, 1],
  'a code that is never retried': [coded('23505'), { nonRetryable: ['23505'] }, 1],
  'a number that is never retried': [coded(11_000), { nonRetryable: ['11000'] }, 1],
  'a code of the direct cause that is never retried': [reset, { nonRetryable: ['ECONNRESET'] }, 1],
  'an error that is not listed': [coded('40001'), { nonRetryable: ['23505', 'TypeError'] }, 3],
  'a name that is retried': [new Teapot(), { retryOn: ['Teapot'] }, 3],
  'a code that is retried': [coded('40001'), { retryOn: ['Teapot', '40001'] }, 3],
  'a code of the direct cause that is retried': [reset, { retryOn: ['ECONNRESET'] }, 3],
  'a code that is not among those retried': [coded('23505'), { retryOn: ['40001'] }, 1],
  'a code of a deeper cause': [deep, { retryOn: ['ECONNRESET'] }, 1],
  'an error in both lists': [reset, { retryOn: ['ECONNRESET'], nonRetryable: ['TypeError'] }, 1],
  'a text that was thrown': ['no', { retryOn: ['ECONNRESET'] }, 1],
  'a text that was thrown, by its name': ['no', { retryOn: ['NonError'] }, 3],
};

const encode = (text: string) => Buffer.from(text).toString('base64');
const decode = (text: string) => Buffer.from(text, 'base64').toString();

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe.each([
    ['kept as it is', {}],
    ['encoded by a codec', { codec: { encode, decode } }],
  ])('%s', (_, options) => {
    it.each([
      ['of its own instances', 'default'],
      ['of instances of another worker', 'elsewhere'],
    ])('a worker retries activities %s by the names and codes of their errors', async (__, queue) => {
      const attempts: Record<string, number> = {};
      const parent = (runtime: Runtime) =>
        runtime.registerOrchestration('tries', function* (ctx) {
          const tries = Object.entries(CASES).map(([name, [, retry]]) =>
            ctx.scheduleActivity('fails', name, { queue, retry: { initialInterval: 1, jitter: 0, ...retry } }),
          );
          const results = yield* ctx.allSettled(tries);
          return results.map((result) => (result.status === 'rejected' ? result.reason.attempt : 0));
        });
      const activity = (runtime: Runtime) =>
        runtime.registerActivity('fails', async (_ctx, name: string) => {
          attempts[name] = (attempts[name] ?? 0) + 1;
          throw CASES[name]?.[0];
        });
      const provider = await store.open(options);
      await store.start((runtime) => activity(parent(runtime)), {}, provider);
      await store.start(activity, { queues: ['elsewhere'] }, await store.open(options));
      const client = new Client(provider);
      const id = store.id();
      await client.startOrchestration(id, 'tries');
      const { output } = await client.waitForOrchestration(id, SOON);
      const expected = Object.entries(CASES).map(([name, [, , count]]) => [name, count]);
      expect(Object.entries(attempts).sort()).toEqual(expected.sort());
      expect(output).toEqual(Object.values(CASES).map(([, , count]) => count));
    });
  });

  it('an attempt that takes too long has the name TimeoutError', async () => {
    await store.start((runtime) =>
      runtime
        .registerActivity('slow', (ctx) => new Promise((__, reject) => ctx.signal.addEventListener('abort', reject)))
        .registerOrchestration('slow', function* (ctx, retry: RetryOptions) {
          const slow = (limits: object) => ctx.scheduleActivity('slow', null, { retry, ...limits });
          const [timeout, silence] = yield* ctx.allSettled([slow({ timeout: 10 }), slow({ heartbeatTimeout: 10 })]);
          return [timeout, silence].map((result) => (result.status === 'rejected' ? result.reason.attempt : 0));
        }),
    );
    const run = async (retry: RetryOptions): Promise<unknown> => {
      const id = store.id();
      await store.client.startOrchestration(id, 'slow', { initialInterval: 1, maxAttempts: 2, ...retry });
      return (await store.client.waitForOrchestration(id, SOON)).output;
    };
    expect(await run({ nonRetryable: ['TimeoutError'] })).toEqual([1, 1]);
    expect(await run({ retryOn: ['TimeoutError'] })).toEqual([2, 2]);
    expect(await run({ retryOn: ['ECONNRESET'] })).toEqual([1, 1]);
  });
});
