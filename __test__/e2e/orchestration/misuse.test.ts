// Misuses of `yield` that an orchestration is refused for, and the errors that it passes on. None of this may depend on
// the way in which the instance continues.

import { defineActivity, defineOrchestration, type Future, type OrchestrationContext } from 'perdure';

import { type Case, runsEveryWay } from '../../support/every-way.ts';

type Block = Generator<any, any, any>;

const act = defineActivity('act', async (_, what: unknown) => (what instanceof Error ? what.message : what));

/** The input of the activity that `ctx.run` schedules. */
const INLINE = undefined;

const rejected = (): Promise<never> => Promise.reject(new Error('rejected later'));

/** Takes a step, runs `misuse`, takes one more step, and returns the name of the error of `misuse`. */
function* refusing(ctx: OrchestrationContext, misuse: () => Block): Block {
  yield* ctx.call(act, 'before');
  try {
    yield* misuse();
    return 'not refused';
  } catch (error) {
    yield* ctx.call(act, 'after');
    return (error as Error).name;
  }
}

/** The misuses, each with the name of the error that refuses it. */
const MISUSES: Record<string, readonly [error: string, misuse: (ctx: OrchestrationContext) => Block]> = {
  'a promise at a yield': [
    'DeterminismError',
    function* () {
      yield rejected();
    },
  ],
  'promises in all': [
    'TypeError',
    function* (ctx) {
      yield* ctx.all([ctx.sleep('1ms'), rejected(), rejected()] as never);
    },
  ],
  'a promise in spawn': [
    'TypeError',
    function* (ctx) {
      ctx.spawn(rejected() as never);
    },
  ],
  'a promise in an input': [
    'PayloadError',
    function* (ctx) {
      yield* ctx.call(act, { deep: [rejected()] });
    },
  ],
  'an async block in spawn': [
    'TypeError',
    function* (ctx) {
      ctx.spawn((async () => {}) as never);
    },
  ],
  'an async block in uncancellable': [
    'TypeError',
    function* (ctx) {
      ctx.uncancellable((async () => {}) as never);
    },
  ],
  'one generator in two places': [
    'TypeError',
    function* (ctx) {
      const block = (function* (): Block {
        return yield* ctx.call(act, 'once');
      })();
      yield* ctx.all([block, block]);
    },
  ],
  'a proxy whose traps throw': [
    'DeterminismError',
    function* () {
      const thrown = (): never => {
        throw new Error('trap');
      };
      yield new Proxy({}, { get: thrown, has: thrown, getPrototypeOf: thrown, ownKeys: thrown });
    },
  ],
};

const CASES: readonly Case[] = [
  ...Object.entries(MISUSES).map(([name, [output, misuse]]) => ({
    orchestration: defineOrchestration(name, (ctx) => refusing(ctx, () => misuse(ctx))),
    output,
    acts: ['before', 'after'],
  })),
  {
    orchestration: defineOrchestration('a future that others give up', function* (ctx) {
      let kept: Future<void> | undefined;
      const giveUp = (): string => {
        try {
          kept?.cancel();
          return 'given up';
        } catch (error) {
          return (error as Error).name;
        }
      };
      kept = ctx.sleep('20ms');
      const told = yield* ctx.run('giveUp', async () => giveUp());
      yield* ctx.all([kept]);
      return yield* ctx.call(act, told);
    }),
    output: 'DeterminismError',
    acts: [INLINE, 'DeterminismError'],
  },
  {
    orchestration: defineOrchestration('a timer that is given up', function* (ctx) {
      const timer = ctx.sleep('1h');
      const waits = ctx.spawn(function* (): Block {
        try {
          yield* timer;
        } catch (error) {
          return yield* ctx.call(act, (error as Error).message);
        }
      });
      yield* ctx.sleep('5ms');
      timer.cancel('enough');
      return yield* waits;
    }),
    output: 'cancelled: enough',
    acts: ['cancelled: enough'],
  },
  {
    orchestration: defineOrchestration('an error that is handed on', function* (ctx) {
      try {
        yield* ctx.all([
          ctx.sleep('5ms'),
          ctx.run('fails', () => Promise.reject(new RangeError('boom')), { retry: { maxAttempts: 1 } }),
        ]);
      } catch (error) {
        return yield* ctx.call(act, (error as Error).cause);
      }
    }),
    output: 'boom',
    acts: [INLINE, new RangeError('boom')],
  },
  {
    orchestration: defineOrchestration('a branch that others wait for', function* (ctx) {
      const shared = ctx.spawn(function* (): Block {
        yield* ctx.sleep('20ms');
        return yield* ctx.call(act, 'shared');
      });
      const gives = ctx.spawn(function* (): Block {
        yield* ctx.all([shared, ctx.waitForEvent('never')]);
      });
      const keeps = ctx.spawn(function* (): Block {
        return yield* ctx.all([shared]);
      });
      yield* ctx.sleep('5ms');
      gives.cancel();
      return yield* keeps;
    }),
    output: ['shared'],
    acts: ['shared'],
  },
  {
    orchestration: defineOrchestration('values that pass through a channel', function* (ctx) {
      const channel = ctx.channel<number>(1);
      ctx.spawn(function* (): Block {
        for (let n = 1; n <= 3; n += 1) {
          yield* ctx.sleep('1ms');
          yield* channel.send(n);
        }
        channel.close();
      });
      const got: number[] = [];
      for (let n = 1; n <= 3; n += 1) got.push(yield* channel.receive() as Future<number>);
      return yield* ctx.call(act, got);
    }),
    output: [1, 2, 3],
    acts: [[1, 2, 3]],
  },
];

runsEveryWay(act, CASES);
