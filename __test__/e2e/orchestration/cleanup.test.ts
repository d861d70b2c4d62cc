// Cancelled blocks clean up before the code that waits for them continues: on each store, kept and evicted, replayed,
// and with a crash after each event.

import {
  type Deferred,
  type Duration,
  defineActivity,
  defineOrchestration,
  type OrchestrationContext,
  type Runtime,
  TimeoutError,
} from 'perdure';
import { crashEverywhere, replay, type TestRuntime } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { historyViolations, kinds, scheduled } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

type Block = Generator<any, any, any>;

/** Returns its input, which says what to do or to undo. */
const act = defineActivity('act', async (_, what: string) => what);

/** Marks that a case has arrived where it is to be cancelled. The status counts the arrivals. */
function arrive(ctx: OrchestrationContext): void {
  ctx.setCustomStatus((ctx.getCustomStatus<number>() ?? 0) + 1);
}

/** A step that two further steps undo when the block is cancelled. */
function* booked(ctx: OrchestrationContext, what: string, waits?: () => Block): Block {
  try {
    yield* ctx.call(act, `book ${what}`);
    arrive(ctx);
    yield* waits?.() ?? ctx.waitForEvent('never');
  } finally {
    yield* undo(ctx, what);
  }
}

/** A block that waits, and undoes a step when it is cancelled. */
function* undone(ctx: OrchestrationContext, what: string): Block {
  try {
    yield* ctx.waitForEvent('never');
  } finally {
    yield* undo(ctx, what);
  }
}

function* undo(ctx: OrchestrationContext, what: string): Block {
  yield* ctx.all([ctx.call(act, `undo ${what}`), ctx.call(act, `report ${what}`)]);
}

/** Resolves the deferred, and waits. */
function waitsAfter(ctx: OrchestrationContext, deferred: Deferred<void>): () => Block {
  return function* () {
    deferred.resolve();
    yield* ctx.waitForEvent('never');
  };
}

interface Case {
  readonly name: string;
  /** The number of arrivals of the case before it is cancelled. `undefined` if it is not cancelled. */
  readonly arrivals?: number;
  readonly body: (ctx: OrchestrationContext) => Block;
  /** Activities that ran, in the order in which they were scheduled. */
  readonly acts: readonly string[];
}

const UNDO_BOTH = ['book a', 'book b', 'undo a', 'report a', 'undo b', 'report b'];

const CASES: readonly Case[] = [
  {
    name: 'the branches of all',
    *body(ctx) {
      yield* ctx.all([booked(ctx, 'a'), booked(ctx, 'b')]);
    },
    arrivals: 2,
    acts: UNDO_BOTH,
  },
  {
    name: 'fibers, joined or not',
    *body(ctx) {
      const a = ctx.spawn(booked(ctx, 'a'));
      ctx.spawn(booked(ctx, 'b'));
      yield* a;
    },
    arrivals: 2,
    acts: UNDO_BOTH,
  },
  {
    name: 'a saga, from the inside out',
    *body(ctx) {
      yield* booked(ctx, 'outer', function* () {
        yield* ctx.race(ctx.sleep('1h'), booked(ctx, 'inner'));
      });
    },
    arrivals: 2,
    acts: ['book outer', 'book inner', 'undo inner', 'report inner', 'undo outer', 'report outer'],
  },
  {
    name: 'a cleanup that is uncancellable',
    *body(ctx) {
      yield* ctx.withTimeout(
        '1h',
        (function* (): Block {
          arrive(ctx);
          try {
            yield* ctx.waitForEvent('never');
          } finally {
            yield* ctx.uncancellable(function* () {
              yield* ctx.call(act, 'first');
              yield* ctx.call(act, 'second');
            });
          }
        })(),
      );
    },
    arrivals: 1,
    acts: ['first', 'second'],
  },
  {
    name: 'a block that is out of time',
    *body(ctx) {
      try {
        yield* ctx.withTimeout('20ms', undone(ctx, 'a'));
      } catch (error) {
        if (!(error instanceof TimeoutError)) throw error;
        yield* ctx.call(act, 'after');
      }
    },
    acts: ['undo a', 'report a', 'after'],
  },
  {
    name: 'losers of a race',
    *body(ctx) {
      const isBooked = ctx.deferred();
      yield* ctx.race([isBooked, booked(ctx, 'a', waitsAfter(ctx, isBooked))], { cancelLosers: true });
      yield* ctx.call(act, 'after');
    },
    acts: ['book a', 'undo a', 'report a', 'after'],
  },
  {
    name: 'a combination that is cancelled',
    *body(ctx) {
      const [a, b] = [ctx.deferred(), ctx.deferred()];
      const both = ctx.all([booked(ctx, 'a', waitsAfter(ctx, a)), booked(ctx, 'b', waitsAfter(ctx, b))]);
      yield* ctx.all([a, b]);
      both.cancel('not needed');
      try {
        yield* both;
      } catch (error) {
        yield* ctx.call(act, String(error));
      }
    },
    acts: [...UNDO_BOTH, 'CancelledError: cancelled: not needed'],
  },
  {
    name: 'nothing that another waits for',
    *body(ctx) {
      const shared = ctx.spawn(function* () {
        yield* ctx.sleep('50ms');
        return yield* ctx.call(act, 'shared');
      });
      const waits = function* (): Block {
        yield* ctx.all([shared, ctx.sleep('60ms')]);
      };
      const [one, two] = [ctx.spawn(waits), ctx.spawn(waits)];
      yield* ctx.sleep('10ms');
      one.cancel();
      yield* two;
    },
    acts: ['shared'],
  },
];

const ORCHESTRATIONS = CASES.map(({ name, body }) => defineOrchestration(name, (ctx) => body(ctx)));

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe.each([
    ['kept', {}],
    ['replayed for every turn', { cachedInstancesMax: 0 }],
  ])('instances that are %s', (_, options) => {
    it.each(CASES)('$name', async ({ name, arrivals, acts }) => {
      const { client } = store;
      await store.start((runtime: Runtime) => runtime.register(act, ...ORCHESTRATIONS), options);
      const id = store.id();
      await client.startOrchestration(id, name);
      if (arrivals !== undefined) {
        await expect.poll(async () => (await client.getStatus(id))?.customStatus).toBe(arrivals);
        await client.cancelInstance(id, 'stop');
        await client.cancelInstance(id, 'again');
      }
      const { status } = await client.waitForOrchestration(id, SOON);
      expect(status).toBe(arrivals === undefined ? 'Completed' : 'Cancelled');
      const history = await client.getHistory(id);
      expect(historyViolations(history, status)).toEqual([]);
      expect(scheduled(history)).toEqual(acts);
      // No undo step was given up.
      expect(history.filter(({ kind }) => kind === 'ActivityCompleted')).toHaveLength(acts.length);
      expect(replay(await client.exportHistory(id), ORCHESTRATIONS)).toMatchObject({
        executions: [{ outcome: status.toLowerCase() }],
      });
    });
  });
});

describe('with a crash after each event', () => {
  it.each(CASES)('$name', async ({ name, arrivals, acts }) => {
    const { result, crashes } = await crashEverywhere(async (test: TestRuntime) => {
      test.register(act, ...ORCHESTRATIONS);
      await test.client.startOrchestration('i', name);
      await test.advance('1s');
      if (arrivals !== undefined) await test.client.cancelInstance('i', 'stop');
      const { status, error } = await test.client.waitForOrchestration('i');
      const history = await test.client.getHistory('i');
      return { status, error: error?.message, acts: scheduled(history) };
    });
    expect(result).toEqual(
      arrivals === undefined ? { status: 'Completed', acts } : { status: 'Cancelled', error: 'cancelled: stop', acts },
    );
    expect(crashes).toBeGreaterThan(acts.length * 2);
  });
});

describe.each(STORES)('cancelGrace, on $name', (kind) => {
  const store = useStore(kind);

  const slow = (options: { cancelGrace?: Duration }) =>
    defineOrchestration(
      'slow',
      function* (ctx) {
        ctx.setCustomStatus('waiting');
        try {
          yield* ctx.all([ctx.waitForEvent('never')]);
        } finally {
          ctx.setCustomStatus('cleaning up');
          yield* ctx.sleep('30d');
        }
      },
      options,
    );

  /** Starts the case with one limit, cancels it, and continues it with another limit in a second runtime. */
  async function cancelled(then: { cancelGrace?: Duration }, now: { cancelGrace?: Duration }): Promise<string> {
    const id = store.id();
    const cameTo = (status: string) =>
      expect.poll(async () => (await store.client.getStatus(id))?.customStatus).toBe(status);
    const runtime = await store.start((first) => first.register(slow(then)));
    await store.client.startOrchestration(id, 'slow');
    await cameTo('waiting');
    await store.client.cancelInstance(id, 'stop');
    await cameTo('cleaning up');
    await runtime.shutdown();
    await store.start((second) => second.register(slow(now)));
    return id;
  }

  it.each<[string, { cancelGrace?: Duration }]>([
    ['another', { cancelGrace: '1d' }],
    ['none', {}],
  ])('ends a longer cleanup, also in code that has %s', async (_, now) => {
    const id = await cancelled({ cancelGrace: '300ms' }, now);
    const { status, error } = await store.client.waitForOrchestration(id, SOON);
    expect([status, error?.message, (error?.cause as Error).name]).toEqual([
      'Cancelled',
      'cancelled: stop',
      'TimeoutError',
    ]);
    const history = await store.client.getHistory(id);
    expect(historyViolations(history, 'Cancelled')).toEqual([]);
    expect(kinds(history)).toEqual([
      'ExecutionStarted',
      'CancelRequested',
      'PatchApplied',
      'TimerCreated',
      'TimerCreated',
      'TimerFired',
      'ExecutionCancelled',
    ]);
    for (const code of [slow({ cancelGrace: '300ms' }), slow(now)]) {
      expect(replay(await store.client.exportHistory(id), code).executions).toMatchObject([{ outcome: 'cancelled' }]);
    }
  });

  it('does not hold for an instance that was cancelled before', async () => {
    const id = await cancelled({}, { cancelGrace: '1ms' });
    await store.client.raiseEvent(id, 'ignored');
    await store.settled();
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Running', customStatus: 'cleaning up' });
    await store.client.terminateInstance(id);
  });

  it.each([[-1], ['soon'], [null]])('is refused where it is %j', (cancelGrace) => {
    expect(() => slow({ cancelGrace } as object)).toThrow(/cancelGrace/);
  });
});
