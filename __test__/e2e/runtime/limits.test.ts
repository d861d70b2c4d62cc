// The named limits: the effect of each and its error message. Cancellation and termination still work beyond a limit.

import {
  Client,
  defineActivity,
  defineOrchestration,
  LimitError,
  type OrchestrationContext,
  PayloadError,
  Runtime,
  type RuntimeLimits,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const step = defineActivity('step', async (_, n: number) => n);

/** Code that grows with its input, catches its cancellation and cleans up with an activity. */
const GROWING: Record<string, (ctx: OrchestrationContext, size: number) => Generator<any, unknown, any>> = {
  *historyEvents(ctx, size) {
    // Each step has two events, and two more are at the ends.
    for (let i = 0; i < size; i += 1) yield* ctx.call(step, i);
    return size;
  },
  *pendingActivities(ctx, size) {
    yield* ctx.all(Array.from({ length: size }, (_, i) => ctx.call(step, i)));
    return size;
  },
  *historyBytes(ctx, size) {
    for (let i = 0; i < size; i += 1) yield* ctx.call(step, i);
    return size;
  },
  *turnBytes(ctx, size) {
    yield* ctx.all(Array.from({ length: size }, (_, i) => ctx.call(step, i)));
    return size;
  },
  *fibers(ctx, size) {
    const fiber = function* (i: number): Generator<any, number, any> {
      yield ctx.sleep(1);
      return i;
    };
    const fibers = Array.from({ length: size }, (_, i) => ctx.spawn(fiber(i)));
    yield* ctx.all(fibers);
    return size;
  },
};

const CASES: [
  name: 'historyEvents' | 'historyBytes' | 'turnBytes' | 'pendingActivities' | 'fibers',
  max: number,
  fits: number,
  exceeds: number,
  what: string,
][] = [
  ['historyEvents', 12, 5, 6, 'ctx.continueAsNew'],
  // The input, and the input and the result of each step, are texts of one digit.
  ['historyBytes', 11, 5, 6, 'ctx.continueAsNew'],
  ['turnBytes', 5, 5, 6, 'fewer activities at once'],
  ['pendingActivities', 10, 10, 11, 'ctx.channel'],
  ['fibers', 10, 10, 11, 'ctx.channel'],
];

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe.each(CASES)('%s', (limit, max, fits, exceeds, what) => {
    const cleaned: string[] = [];
    const cleanUp = defineActivity('cleanUp', async (ctx) => void cleaned.push(ctx.instanceId));
    const growing = defineOrchestration(limit, function* (ctx, size: number) {
      try {
        yield ctx.waitForEvent('go');
        return yield* GROWING[limit]!(ctx, size);
      } finally {
        yield* ctx.uncancellable(function* () {
          yield* ctx.call(cleanUp);
        });
      }
    });
    const deploy = (limits: RuntimeLimits) =>
      store.start((runtime) => runtime.register(growing, step, cleanUp), { limits });

    async function suspended(id: string): Promise<void> {
      await store.suspended(id);
      const { error } = (await store.client.getStatus(id)) ?? {};
      expect(error).toBeInstanceOf(LimitError);
      expect(error).toMatchObject({ code: 'LIMIT', limit, max });
      for (const part of [`limits.${limit}`, ` ${max} `, what, `client.resume(id)`])
        expect(error?.message).toContain(part);
      store.errors.splice(0);
    }

    it('may be reached by an instance; more suspends it until the limit is raised', async () => {
      const first = await deploy({ [limit]: max + (limit === 'historyEvents' ? 4 : 0) });
      const [small, large] = [store.id('small'), store.id('large')];
      await store.client.start(growing, fits, { id: small });
      await store.client.raiseEvent(small, 'go');
      expect(await store.client.waitForOrchestration(small, SOON)).toMatchObject({ status: 'Completed', output: fits });
      await first.shutdown();

      const second = await deploy({ [limit]: max });
      await store.client.start(growing, exceeds, { id: large });
      await store.client.raiseEvent(large, 'go');
      await suspended(large);
      const before = await store.client.getHistory(large);
      await store.client.resume(large);
      await suspended(large);
      expect(await store.client.getHistory(large), 'nothing of the turn was stored').toEqual(before);
      await second.shutdown();

      await deploy({ [limit]: 1_000 });
      await store.client.resume(large);
      expect(await store.client.waitForOrchestration(large, SOON)).toMatchObject({
        status: 'Completed',
        output: exceeds,
      });
      expect(historyViolations(await store.client.getHistory(large), 'Completed')).toEqual([]);
    });

    it('is no obstacle for cancel, which ends it without its cleanup, nor for terminate', async () => {
      await deploy({ [limit]: max });
      const [cancelled, terminated] = [store.id('cancelled'), store.id('terminated')];
      for (const id of [cancelled, terminated]) {
        await store.client.start(growing, exceeds, { id });
        await store.client.raiseEvent(id, 'go');
        await suspended(id);
      }
      await store.client.terminateInstance(terminated, 'given up');
      expect(await store.client.getStatus(terminated)).toMatchObject({ status: 'Terminated' });
      await store.client.cancelInstance(cancelled, 'too large');
      expect(await store.client.waitForOrchestration(cancelled, SOON)).toMatchObject({ status: 'Cancelled' });
      expect(cleaned).not.toContain(cancelled);
    });

    it('lets a cancel through when it is exceeded in the first turn', async () => {
      const atOnce = defineOrchestration(`${limit} at once`, function* (ctx) {
        // This many events are too many for one turn.
        ctx.scheduleTimer('1h');
        const fiber = function* (): Generator<any, void, any> {
          yield ctx.sleep('1h');
        };
        for (let i = 0; i < exceeds; i += 1) limit === 'fibers' ? ctx.spawn(fiber) : ctx.call(step, i);
        yield ctx.sleep('1h');
      });
      await store.start((runtime) => runtime.register(atOnce, step), {
        limits: { [limit]: Math.min(max, exceeds - 1) },
      });
      const id = store.id();
      await store.client.start(atOnce, undefined, { id });
      await store.suspended(id);
      store.errors.splice(0);
      await store.client.cancelInstance(id);
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Cancelled' });
    });
  });

  it('code that catches a LimitError cannot continue', async () => {
    const stubborn = defineOrchestration('stubborn', function* (ctx) {
      for (let i = 0; i < 100; i += 1) {
        try {
          ctx.call(step, i);
        } catch {
          return 'caught';
        }
      }
      return yield ctx.sleep('1h');
    });
    await store.start((runtime) => runtime.register(stubborn, step), { limits: { pendingActivities: 5 } });
    const id = store.id();
    await store.client.start(stubborn, undefined, { id });
    await store.suspended(id);
    expect((await store.client.getStatus(id))?.error?.message).toMatch(/\n {4}at .*limits\.test\.ts/);
    expect(kinds(await store.client.getHistory(id))).toEqual(['ExecutionStarted']);
    store.errors.splice(0);
  });

  it('payloadBytes is checked where a value is passed', async () => {
    const large = 'x'.repeat(1_000);
    const lengths = defineOrchestration('lengths', function* (ctx, input: string) {
      let refused: unknown;
      try {
        ctx.call(
          defineActivity('echo', async (_, text: string) => text),
          large,
        );
      } catch (error) {
        refused = error;
      }
      return [input.length, refused instanceof PayloadError && refused.message];
    });
    const wordy = defineActivity('wordy', async () => large);
    const words = defineOrchestration('words', function* (ctx) {
      return yield* ctx.call(wordy);
    });
    const runtime = await store.start((r) => r.register(lengths, words, wordy), { limits: { payloadBytes: 900 } });
    const told = (path: string, more = '') =>
      expect.stringMatching(
        new RegExp(
          `^${path} cannot be stored: it takes \\d+ bytes, over the limit of 900 bytes ` +
            `\\(limits.payloadBytes\\)${more}$`,
        ),
      );

    // A client of the same provider uses the runtime's limits, unless it has its own.
    const error = await rejection(store.client.start(lengths, large));
    expect(error).toBeInstanceOf(PayloadError);
    expect(error).toMatchObject({ message: told('input'), path: 'input' });
    const generous = new Client(store.provider, { limits: { payloadBytes: 2_000 } });
    const handle = await generous.start(lengths, large, { id: store.id() });
    expect(await handle.result({ timeout: SOON })).toEqual([1_000, told('input')]);
    await expect(generous.raiseEvent(handle.id, 'go', 'x'.repeat(2_000))).rejects.toThrow(PayloadError);
    const failed = await store.client.start(words, undefined, { id: store.id() });
    expect((await rejection(failed.result({ timeout: SOON }))).cause?.message).toEqual(
      told('output', '\\. The activity has run, .*'),
    );
    await runtime.shutdown();
  });

  it('mailboxMessages keeps a client from sending more until some are read', async () => {
    const reader = defineOrchestration('reader', function* (ctx) {
      yield ctx.waitForEvent('read');
      const read: unknown[] = [];
      for (let i = 0; i < 3; i += 1) read.push(yield ctx.dequeueEvent('jobs'));
      return read;
    });
    const client = new Client(store.provider, { limits: { mailboxMessages: 3 } });
    const id = store.id();
    await client.start(reader, undefined, { id });
    await client.enqueueEvent(id, 'jobs', 1);
    await client.enqueueEvent(id, 'jobs', 2);
    await client.raiseEvent(id, 'other');
    for (const send of [() => client.enqueueEvent(id, 'jobs', 'lost'), () => client.raiseEvent(id, 'read', 'lost')]) {
      const error = await rejection(send());
      expect(error).toBeInstanceOf(LimitError);
      expect(error).toMatchObject({
        code: 'LIMIT',
        limit: 'mailboxMessages',
        max: 3,
        message: expect.stringContaining(`'${id}'`),
      });
    }
    await new Client(store.provider, { limits: { mailboxMessages: 4 } }).raiseEvent(id, 'read');
    await store.start((runtime) => runtime.register(reader));
    await expect.poll(() => rejection(client.enqueueEvent(id, 'jobs', 3)).catch(() => 'sent')).toBe('sent');
    expect(await client.handle(id).result({ timeout: SOON })).toEqual([1, 2, 3]);
  });

  it('mailboxMessages keeps an orchestration from sending more, too', async () => {
    const sender = defineOrchestration('sender', function* (ctx, to: string) {
      const sent = yield* ctx.allSettled([1, 2, 3, 4].map((n) => ctx.enqueueEvent(to, 'jobs', n)));
      return sent.map((result) => (result.status === 'rejected' ? result.reason : 'sent'));
    });
    const id = store.id('full');
    await store.client.startOrchestration(id, 'nobody registers this');
    await store.start((runtime) => runtime.register(sender), { limits: { mailboxMessages: 3 } });
    const output = await (await store.client.start(sender, id)).result({ timeout: SOON });
    expect(output.slice(0, 3)).toEqual(['sent', 'sent', 'sent']);
    expect(output[3]).toBeInstanceOf(LimitError);
    expect(output[3]).toMatchObject({
      code: 'LIMIT',
      limit: 'mailboxMessages',
      max: 3,
      message: expect.stringContaining(`'${id}'`),
    });
  });

  it('a mailbox that is full takes a cancel', async () => {
    const client = new Client(store.provider, { limits: { mailboxMessages: 1 } });
    const sleeper = defineOrchestration('sleeper', function* (ctx) {
      yield ctx.sleep('1h');
    });
    const id = store.id();
    await client.start(sleeper, undefined, { id });
    await client.raiseEvent(id, 'unread');
    await expect(client.raiseEvent(id, 'unread')).rejects.toThrow(LimitError);
    await client.cancelInstance(id);
    await store.start((runtime) => runtime.register(sleeper));
    expect(await client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Cancelled' });
  });

  it.each([
    [{ historyEvent: 5 }, 'new Runtime: limits: unknown option `historyEvent`; did you mean `historyEvents`?'],
    [{ pendingActivities: 0 }, 'new Runtime: limits.pendingActivities must be a whole number >= 1, got 0'],
    [
      { payloadBytes: 2 ** 40 },
      'new Runtime: limits.payloadBytes must be a whole number from 16 to 268435456, got 1099511627776',
    ],
    [5, 'new Runtime: limits must be an object, got 5'],
  ])('refuses limits that are none: %o', (limits, message) => {
    expect(() => new Runtime(store.provider, { limits: limits as RuntimeLimits })).toThrow(new TypeError(message));
  });

  it('refuses limits of a client that are those of a runtime', () => {
    expect(() => new Client(store.provider, { limits: { fibers: 1 } as never })).toThrow(
      'new Client: limits: unknown option `fibers`; the options are payloadBytes, mailboxMessages',
    );
  });
});
