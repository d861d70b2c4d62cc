// Cleanup, time limits, pools, uncancellable blocks, and operations that are given up.

import { defineOrchestration, type OrchestrationContext } from 'perdure';
import * as free from 'perdure/orchestration';

import type { Program } from '../stage.ts';

import { echo, ended, ONCE, outcome, type Steps, throughout, told, twice } from './shared.ts';

/** A block that waits, and takes a step when it is cancelled. */
function* held(ctx: OrchestrationContext, what: string): Steps<void> {
  try {
    ctx.setCustomStatus(what);
    yield* ctx.waitForEvent('never');
  } finally {
    yield* ctx.call(echo, `undo ${what}`);
  }
}

function* booked(ctx: OrchestrationContext, what: string): Steps<void> {
  yield* ctx.call(echo, `book ${what}`);
  yield* held(ctx, what);
}

/** One attempt at a time, so that concurrent activities end in the order in which they began. */
const ONE_BY_ONE = { activityConcurrency: 1 };

export const saga: Program = {
  name: 'saga',
  code: [
    defineOrchestration('saga', function* (ctx) {
      yield* ctx.call(echo, 'hall');
      ctx.spawn(booked(ctx, 'beside'));
      try {
        yield* ctx.all([booked(ctx, 'left'), ctx.race(booked(ctx, 'right'), ctx.scheduleTimer('24h'))]);
      } catch (error) {
        yield* ctx.uncancellable(function* () {
          yield* ctx.call(echo, ['no hall', told(error)]);
        });
        throw error;
      }
    }),
  ],
  instances: { saga: { outcomes: ['cancelled'] } },
  async record(stage) {
    await stage.start([...saga.code, echo], ONE_BY_ONE);
    await stage.client.startOrchestration('saga', 'saga');
    await stage.status('saga', 'left');
    await stage.client.cancelInstance('saga', 'it rains');
    await stage.end('saga');
  },
};

export const outOfTime: Program = {
  name: 'out-of-time',
  code: [
    defineOrchestration('out-of-time', function* (ctx) {
      const late = yield* outcome(ctx.withTimeout('1ms', held(ctx, 'late')));
      const lost = yield* ctx.race([held(ctx, 'lost'), ctx.scheduleTimer('1ms')], { cancelLosers: true });
      const given = ctx.all([held(ctx, 'given up'), ctx.waitForEvent('never')]);
      ctx.spawn(function* () {
        yield* ctx.scheduleTimer('1ms');
        given.cancel('not needed');
      });
      return [late, lost.index, yield* outcome(given)];
    }),
  ],
  instances: { 'out-of-time': ended },
  async record(stage) {
    await stage.start([...outOfTime.code, echo], ONE_BY_ONE);
    await stage.client.startOrchestration('out-of-time', 'out-of-time');
    await stage.end('out-of-time');
  },
};

export const pool: Program = {
  name: 'pool',
  code: [
    defineOrchestration(
      'pool',
      function* (ctx) {
        const jobs = ctx.channel<string>();
        for (const job of ['a', 'b', 'c', 'd']) jobs.send(job);
        jobs.close();
        const worker = () => jobs.forEach((job) => booked(ctx, job));
        try {
          yield* ctx.all([worker(), worker()]);
        } catch (error) {
          const left: string[] = [];
          for (let job = yield* jobs; job !== free.CLOSED; job = yield* jobs) left.push(job);
          return [told(error), left];
        }
      },
      { cancelGrace: '1h' },
    ),
  ],
  instances: { pool: ended },
  async record(stage) {
    await stage.start([...pool.code, echo], ONE_BY_ONE);
    await stage.client.startOrchestration('pool', 'pool');
    await stage.status('pool', 'b');
    await stage.client.cancelInstance('pool');
    await stage.end('pool');
  },
};

const company = free.contextLocal('nobody');

export const together: Program = {
  name: 'together',
  code: [
    defineOrchestration(
      'together',
      function* (ctx) {
        const ready = free.deferred<string>();
        const other = ctx.deferred<void>();
        const messages: string[] = [];
        const server = ctx.spawn(function* () {
          for (;;) {
            try {
              return yield* other;
            } catch (error) {
              messages.push((error as Error).message);
            }
          }
        });
        const waiting = ['a', 'b'].map((name) => {
          company.set(name);
          return ctx.spawn(function* () {
            return `${yield* ready} ${company.get()}`;
          });
        });
        for (const message of ['once', 'twice']) {
          yield* ctx.scheduleTimer(1);
          server.interrupt(new Error(message));
        }
        yield* ctx.scheduleTimer(1);
        ready.resolve('go');
        const words = yield* ctx.all(waiting);
        other.resolve();
        yield* server;
        const never = () => ctx.waitForEvent('never');
        const results = [
          yield* ctx.raceSettled([ctx.scheduleActivity('broken', 'chain', ONCE), never()]),
          yield* ctx.selectSettled({ broken: ctx.scheduleActivity('broken', 'chain', ONCE), never: never() }),
          yield* free.raceSettled(ctx.scheduleTimer(0), never()),
          yield* free.selectSettled(
            { timer: ctx.scheduleTimer(0), block: held(ctx, 'block') },
            { cancelLosers: 'blocks' },
          ),
        ];
        ctx.spawn(held(ctx, 'left'));
        yield* ctx.scheduleTimer(1);
        return [
          words,
          messages,
          results.map(({ status, ...place }) => [
            status,
            ...Object.values(place).map((value) => (value instanceof Error ? told(value) : value)),
          ]),
        ];
      },
      { onEnd: 'cancel' },
    ),
  ],
  instances: { together: ended },
  record: (stage) => throughout(stage, together),
};

export const shielded: Program = {
  name: 'shielded',
  code: [
    defineOrchestration('shielded', function* (ctx) {
      const caught: unknown[] = [];
      try {
        yield* ctx.uncancellable(function* () {
          ctx.setCustomStatus('shielded');
          caught.push(yield* ctx.waitForEvent('done'));
        });
        yield* ctx.waitForEvent('never');
      } catch (error) {
        caught.push(told(error));
      }
      // The instance was asked to cancel, and ends in its own way instead.
      return caught;
    }),
  ],
  instances: { shielded: ended },
  async record(stage) {
    const { client } = stage;
    await stage.start(shielded.code);
    await client.startOrchestration('shielded', 'shielded');
    await stage.status('shielded', 'shielded');
    await client.cancelInstance('shielded');
    await client.raiseEvent('shielded', 'done', 'and done');
    await stage.end('shielded');
  },
};

export const givenUp: Program = {
  name: 'given-up',
  code: [
    defineOrchestration('given-up', function* (ctx) {
      const futures = [
        ctx.scheduleActivity('hang'),
        ctx.run(
          'hangs inline',
          ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(1), { once: true })),
        ),
        ctx.scheduleTimer('1h'),
        ctx.waitForEvent('never'),
        ctx.dequeueEvent('never'),
        ctx.all([ctx.scheduleTimer('2h'), twice(ctx, 'never')]),
      ];
      // By then the activities run.
      yield* ctx.call(echo, 'begun');
      for (const [i, future] of futures.entries()) future.cancel(`reason ${i}`);
      const told: unknown[] = [];
      for (const future of futures) told.push(yield* outcome(future));
      return told;
    }),
  ],
  instances: { 'given-up': ended },
  record: (stage) => throughout(stage, givenUp),
};
