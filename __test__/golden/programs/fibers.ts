import { CLOSED, defineOrchestration } from 'perdure';

import type { Program } from '../stage.ts';

import { ACTIVITIES, echo, ended, ONCE, outcome, type Steps, throughout, told, twice } from './shared.ts';

export const combinators: Program = {
  name: 'combinators',
  code: [
    defineOrchestration('combinators', function* (ctx) {
      const fails = () => ctx.scheduleActivity('broken', 'chain', ONCE);
      ctx.setCustomStatus('nested');
      const nested = yield* ctx.all([
        twice(ctx, 'a'),
        ctx.race(ctx.scheduleTimer('24h'), ctx.all([twice(ctx, 'b'), ctx.waitForEvent('c')]), { cancelLosers: true }),
        ctx.select({ d: ctx.waitForEvent('d'), never: ctx.waitForEvent('never') }),
      ]);
      const settled = yield* ctx.allSettled([ctx.call(echo, 1), fails(), ctx.scheduleTimer(0)]);
      const any = yield* ctx.any([fails(), ctx.call(echo, 'any')]);
      const failed = [
        yield* outcome(ctx.all([fails(), ctx.scheduleTimer('24h')], { cancelLosers: true })),
        yield* outcome(ctx.any([fails()])),
        yield* outcome(ctx.race([fails(), ctx.waitForEvent('never')])),
      ];
      const raced = yield* ctx.race(
        (function* (): Steps<string> {
          return yield ctx.scheduleActivity('echo', 'first');
        })(),
        ctx.scheduleTimer('24h'),
      );
      const inTime = yield* ctx.withTimeout('24h', ctx.call(echo, 'in time'));
      const outOfTime = yield* outcome(ctx.withTimeout('1ms', twice(ctx, 'never')));
      const empty = [yield* ctx.all([]), yield* ctx.allSettled([])];
      const shown = settled.map((one) => (one.status === 'fulfilled' ? (one.value ?? 'done') : told(one.reason)));
      return { nested, shown, any, failed, raced, inTime, outOfTime, empty };
    }),
  ],
  instances: { combinators: ended },
  async record(stage) {
    const { client } = stage;
    await stage.start([...combinators.code, ...ACTIVITIES]);
    await client.startOrchestration('combinators', 'combinators');
    await stage.status('combinators', 'nested');
    for (const name of ['b', 'a', 'c', 'd', 'b', 'a']) await client.raiseEvent('combinators', name, name.toUpperCase());
    await stage.end('combinators');
  },
};

export const fibers: Program = {
  name: 'fibers',
  code: [
    defineOrchestration('fibers', function* (ctx) {
      const jobs = ctx.channel<number>(1);
      const done: string[] = [];
      const producer = ctx.spawn(function* () {
        for (let n = 1; n <= 4; n += 1) yield* jobs.send(n);
        jobs.close();
        return 'sent';
      });
      const consumers = ['a', 'b'].map((name) =>
        ctx.spawn(function* () {
          let job: number | typeof CLOSED;
          while ((job = yield* jobs.receive()) !== CLOSED) {
            yield ctx.scheduleTimer(0);
            done.push(`${name}${job}`);
          }
          return name;
        }),
      );
      const all = yield* ctx.all([producer, ...consumers]);
      const rest = ctx.channel<string>();
      for (const text of ['x', 'y']) rest.send(text);
      rest.close();
      yield* rest.forEach(function* (text) {
        done.push(`${yield* ctx.call(echo, text)}`);
      });
      const left = ctx.spawn(function* () {
        try {
          yield* ctx.waitForEvent('never');
        } finally {
          done.push('left');
        }
      });
      yield ctx.scheduleTimer(0);
      left.cancel('enough');
      const fails = ctx.spawn(function* () {
        yield ctx.scheduleTimer(0);
        throw new Error('in a fiber');
      });
      return { all, done, ends: [yield* outcome(left), yield* outcome(fails)] };
    }),
  ],
  instances: { fibers: ended },
  record: (stage) => throughout(stage, fibers),
};

export const stuck: Program = {
  name: 'stuck',
  code: [
    defineOrchestration('stuck', function* (ctx) {
      yield* ctx.call(echo, 'before');
      yield* ctx.channel().receive();
    }),
  ],
  instances: { stuck: { outcomes: ['failed'] } },
  record: (stage) => throughout(stage, stuck),
};
