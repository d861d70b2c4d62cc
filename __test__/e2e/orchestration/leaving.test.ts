// Fibers that are left behind, are interrupted, and share state: on each store, kept and evicted, replayed, and with a
// crash after each event.

import { type Duration, defineActivity, defineOrchestration, type OrchestrationContext } from 'perdure';
import { contextLocal } from 'perdure/orchestration';
import { expect, it } from 'vitest';

import { type Case, runsEveryWay } from '../../support/every-way.ts';

type Block = Generator<any, any, any>;

const act = defineActivity('act', async (_, what: string) => what);
const user = contextLocal('nobody');

class Reload extends Error {}

/** Leaves a fiber behind that takes a step, and one more when it is cancelled. */
function* leaving(ctx: OrchestrationContext, _: unknown, takes: Duration = '1h'): Block {
  ctx.spawn(function* (): Block {
    let isDone = false;
    try {
      yield* ctx.sleep(takes);
      yield* ctx.call(act, 'worked');
      isDone = true;
    } finally {
      if (!isDone) yield* ctx.call(act, 'undone');
    }
  });
  yield* ctx.call(act, 'main');
  return 'output';
}

const CASES: readonly Case[] = [
  { orchestration: defineOrchestration('dropped', leaving), output: 'output', acts: ['main'] },
  {
    orchestration: defineOrchestration('joined', (ctx) => leaving(ctx, undefined, '20ms'), { onEnd: 'join' }),
    output: 'output',
    acts: ['main', 'worked'],
  },
  {
    orchestration: defineOrchestration('cancelled', leaving, { onEnd: 'cancel' }),
    output: 'output',
    acts: ['main', 'undone'],
  },
  {
    orchestration: defineOrchestration('interrupted', function* (ctx) {
      const server = ctx.spawn(function* (): Block {
        for (let n = 1; ; n += 1) {
          try {
            yield* ctx.call(act, `load ${n}`);
            yield* ctx.all([ctx.waitForEvent('never'), ctx.sleep('1h')]);
          } catch (error) {
            if (!(error instanceof Reload)) return `${n} times, ${(error as Error).message}`;
          }
        }
      });
      for (let n = 0; n < 2; n += 1) {
        yield* ctx.sleep('30ms');
        server.interrupt(new Reload('reload'));
      }
      yield* ctx.sleep('30ms');
      server.cancel('enough');
      return yield* server;
    }),
    output: '3 times, cancelled: enough',
    acts: ['load 1', 'load 2', 'load 3'],
  },
  {
    orchestration: defineOrchestration('shared', function* (ctx) {
      const ready = ctx.deferred<string>();
      const workers = ['a', 'b'].map((name) =>
        ctx.spawn(function* () {
          user.set(name);
          const word = yield* ready;
          return yield* ctx.call(act, `${word} ${user.get()}`);
        }),
      );
      yield* ctx.sleep('5ms');
      ready.resolve('go');
      return [...(yield* ctx.all(workers)), user.get()];
    }),
    output: ['go a', 'go b', 'nobody'],
    acts: ['go a', 'go b'],
  },
  {
    orchestration: defineOrchestration('looked at late', function* (ctx) {
      const timers = [ctx.sleep('60ms'), ctx.sleep('20ms'), ctx.sleep('40ms')] as const;
      yield* ctx.sleep('100ms');
      const first = yield* ctx.raceSettled(timers);
      const { tag } = yield* ctx.selectSettled({ last: timers[0], middle: timers[2] });
      return [first.index, first.status, tag];
    }),
    output: [1, 'fulfilled', 'middle'],
    acts: [],
  },
  {
    orchestration: defineOrchestration('loop', function* (ctx) {
      const stop = ctx.sleep('10ms');
      for (let n = 1; n < 20; n += 1) {
        const lost = function* (): Block {
          yield* ctx.waitForEvent('never');
        };
        const { tag } = yield* ctx.select(
          { step: ctx.call(act, `step ${n}`), lost: lost(), never: ctx.waitForEvent('never') },
          { cancelLosers: 'blocks' },
        );
        if (tag !== 'step') return tag;
      }
      return yield* ctx.select({ stop });
    }),
    output: { tag: 'stop', value: undefined },
    acts: Array.from({ length: 19 }, (_, i) => `step ${i + 1}`),
  },
];

runsEveryWay(act, CASES);

it.each(['later', 1, null])('onEnd is refused where it is %j', (onEnd) => {
  expect(() => defineOrchestration('x', leaving, { onEnd } as object)).toThrow(
    /onEnd must be one of 'drop', 'cancel', 'join'/,
  );
});
