// The end of an execution while handlers of updates run.

import {
  CancelledError,
  defineActivity,
  defineOrchestration,
  defineUpdate,
  type InstanceDescription,
  PerdureError,
  RuntimeStateError,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { aborted, deferred, eventually, rejection } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const WITHIN_MS = 20_000;

/** The ways in which the function of an execution ends. */
type How = 'return' | 'again' | 'throw' | 'finish';

const slow = defineUpdate<string, string>('slow');
const dropped = defineUpdate<string, string>('dropped');
const quick = defineUpdate<string, string>('quick');

/** Ends as the event `end` says. Its handlers wait for the events that they are told. */
const ends = defineOrchestration('ends', function* (ctx, round: number): Generator<any, string, any> {
  ctx.onUpdate(slow, function* (event) {
    return yield* ctx.waitForEvent<string>(event);
  });
  ctx.onUpdate(
    dropped,
    function* (event) {
      return yield* ctx.waitForEvent<string>(event);
    },
    { onEnd: 'reject' },
  );
  ctx.onUpdate(quick, function* (text) {
    return `${text} in round ${round}`;
  });
  const how = yield* ctx.waitForEvent<How>('end');
  if (how === 'finish') yield* ctx.finishUpdates();
  if (how === 'throw') throw new RangeError('broken');
  if (how === 'again') yield* ctx.continueAsNew(round + 1);
  return `round ${round}`;
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Starts an instance with an update whose handler waits for an event. */
  async function waiting(update: typeof slow | typeof dropped, event: string) {
    await store.start((runtime) => runtime.register(ends));
    const { id } = await store.client.start(ends, 1, { id: store.id() });
    const call = store.client.update(id, update, event, { updateId: event });
    // An error is looked at later.
    call.catch(() => {});
    // Updates are taken in their order.
    expect(await store.client.update(id, quick, 'hello')).toBe('hello in round 1');
    return { id, call };
  }

  async function described(id: string, waits: (it: InstanceDescription) => boolean): Promise<InstanceDescription> {
    let last: InstanceDescription | null = null;
    await eventually(WITHIN_MS, 'the description', async () => {
      last = await store.client.describe(id);
      return last !== null && waits(last);
    });
    return last as unknown as InstanceDescription;
  }

  /** Resolves when the main fiber waits for the end of the handler of `slow`, and with its words for that. */
  async function endWaits(id: string): Promise<readonly string[]> {
    const isEnding = ({ messages }: InstanceDescription) => messages.every(({ fiber }) => fiber !== 0);
    const { fibers, messages } = await described(id, isEnding);
    expect(messages).toMatchObject([{ kind: 'event', name: 'never' }]);
    expect(fibers[1]).toEqual({ fiber: expect.any(Number), name: 'update slow', waitsFor: ["event 'never'"] });
    return fibers[0]?.waitsFor ?? [];
  }

  describe("a handler with onEnd: 'reject'", () => {
    it.each([
      ['return', { status: 'Completed', output: 'round 1' }],
      ['throw', { status: 'Failed', error: { name: 'RangeError', message: 'broken' } }],
    ] as const)('is cut off by %s, and its answer is a CancelledError, now and later', async (how, end) => {
      const { id, call } = await waiting(dropped, 'never');
      await store.client.raiseEvent(id, 'end', how);
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject(end);
      const again = store.client.update(id, dropped, 'never', { updateId: 'never' });
      for (const error of await Promise.all([call, again].map(rejection))) {
        expect(error).toBeInstanceOf(CancelledError);
        expect(error.message).toBe('cancelled: the execution ended before the handler of the update');
      }
    });

    it('is cut off by continueAsNew, does not run again, and the next execution takes updates', async () => {
      const { id, call } = await waiting(dropped, 'never');
      await store.client.raiseEvent(id, 'end', 'again');
      expect(await rejection(call)).toBeInstanceOf(CancelledError);
      expect(await store.client.update(id, quick, 'hello', { timeout: SOON })).toBe('hello in round 2');
      await store.client.raiseEvent(id, 'never', 'too late');
      const again = store.client.update(id, dropped, 'never', { updateId: 'never' });
      expect(await rejection(again)).toBeInstanceOf(CancelledError);
      const other = store.client.update(id, dropped, 'never', { timeout: SOON });
      expect(await other).toBe('too late');
    });

    it('answers by itself while the end waits for another handler', async () => {
      const { id, call } = await waiting(dropped, 'release');
      const kept = store.client.update(id, slow, 'later', { timeout: SOON });
      await store.client.update(id, quick, 'hello');
      await store.client.raiseEvent(id, 'end', 'return');
      await store.client.raiseEvent(id, 'release', 'in time');
      expect(await call).toBe('in time');
      await store.client.raiseEvent(id, 'later', 'at last');
      expect(await kept).toBe('at last');
      expect(await store.client.handle(ends, id).result({ timeout: SOON })).toBe('round 1');
    });

    it('has its activity aborted', async () => {
      const [begun, told] = [deferred(), deferred<unknown>()];
      const stays = defineActivity('stays', async ({ signal }) => {
        begun.resolve();
        told.resolve(await aborted(signal));
      });
      const works = defineOrchestration('works', function* (ctx) {
        const work = function* (): Generator<any, void, any> {
          yield* ctx.call(stays);
        };
        ctx.onUpdate('work', work, { onEnd: 'reject' });
        yield* ctx.waitForEvent('end');
      });
      await store.start((runtime) => runtime.register(stays, works));
      const { id } = await store.client.start(works, undefined, { id: store.id() });
      const call = rejection(store.client.update(id, 'work'));
      await begun.promise;
      await store.client.raiseEvent(id, 'end');
      expect(await call).toBeInstanceOf(CancelledError);
      await told.promise;
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Completed' });
    });
  });

  describe('a handler that never returns', () => {
    const ENDING = ['the end of fiber 1 (update slow)'];

    it.each([
      ['return', ENDING, 'Completed'],
      ['throw', ENDING, 'Failed'],
      ['again', ENDING, 'Cancelled'],
      ['finish', ['fiber 3'], 'Cancelled'],
    ] as const)('is named by the description after %s, and a cancel ends it', async (how, waits, status) => {
      const { id, call } = await waiting(slow, 'never');
      await store.client.raiseEvent(id, 'end', how);
      expect(await endWaits(id)).toEqual(waits);
      // The execution takes no more updates.
      const late = rejection(store.client.update(id, quick, 'late', { updateId: 'late' }));
      await store.client.cancelInstance(id, 'enough');
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ status });
      expect(await rejection(call)).toMatchObject({ name: 'CancelledError', reason: 'enough' });
      expect(await late).toBeInstanceOf(RuntimeStateError);
    });

    it.each(['return', 'again'] as const)('is ended by a terminate after %s', async (how) => {
      const { id, call } = await waiting(slow, 'never');
      await store.client.raiseEvent(id, 'end', how);
      await endWaits(id);
      await store.client.terminateInstance(id, 'enough');
      expect(await store.client.getStatus(id)).toMatchObject({ status: 'Terminated' });
      expect(await rejection(call)).toMatchObject({
        name: 'RuntimeStateError',
        message: `instance '${id}' ended before it answered update 'slow'`,
      });
    });

    it('holds updates up until the next execution, which comes once it returns', async () => {
      const { id, call } = await waiting(slow, 'never');
      await store.client.raiseEvent(id, 'end', 'again');
      await endWaits(id);
      const late = store.client.update(id, quick, 'late', { timeout: SOON });
      await store.client.raiseEvent(id, 'never', 'after all');
      expect(await call).toBe('after all');
      expect(await late).toBe('late in round 2');
    });

    it('and that nothing could wake is a deadlock, which names it', async () => {
      const stuck = defineOrchestration('stuck', function* (ctx) {
        ctx.onUpdate('wait', function* () {
          yield* ctx.deferred();
        });
        yield* ctx.waitForEvent('end');
      });
      await store.start((runtime) => runtime.register(stuck));
      const { id } = await store.client.start(stuck, undefined, { id: store.id() });
      const call = rejection(store.client.update(id, 'wait'));
      await store.client.raiseEvent(id, 'end');
      const { status, error } = await store.client.waitForOrchestration(id, SOON);
      expect(status).toBe('Failed');
      expect(error).toBeInstanceOf(PerdureError);
      expect(error).toMatchObject({ code: 'DEADLOCK' });
      expect(error?.message).toContain('the main fiber waits for the end of fiber 1 (update wait)');
      expect(error?.message).toContain('fiber 1 (update wait) waits for');
      expect(await call).toBeInstanceOf(CancelledError);
    });
  });
});
