import { defineOrchestration } from 'perdure';
import * as free from 'perdure/orchestration';

import type { Program } from '../stage.ts';
import { broken, child, echo, ended, ONCE, outcome, throughout, told } from './shared.ts';

const LOSERS = { cancelLosers: true, awaitLosers: true } as const;

/** Operations that are made of others. */
export const patterns: Program = {
  name: 'patterns',
  code: [
    defineOrchestration('patterns', function* (ctx) {
      const undone: unknown[] = [];
      const mapped = yield* ctx.map([1, 2, 3], (n) => ctx.call(echo, n), { concurrency: 1, key: (n) => `n${n}` });
      const fails = ctx.map(['chain'], (how) => ctx.call(broken, how, ONCE), { key: (how) => how });
      const failed = yield* outcome(fails);
      const settled = yield* ctx.map([1], (n) => ctx.call(echo, n), { stopOnError: false });
      const saga = ctx.saga(function* (undo) {
        undo(function* () {
          undone.push(yield* ctx.call(echo, 'first'));
        });
        yield* ctx.call(echo, 'step');
        undo(() => ctx.call(broken, 'value', ONCE));
        yield* ctx.all([ctx.call(broken, 'chain', ONCE), ctx.waitForEvent('never')], LOSERS);
      });
      const sagaFailed = yield* outcome(saga);
      const inTime = yield* ctx.withTimeout('24h', ctx.call(echo, 'in time'));
      const again = yield* ctx.callOrchestration(child, 'returns', { id: 'patterns/child' });
      const anew = yield* ctx.callOrchestration(child, 'returns', {
        id: 'patterns/child',
        onConflict: 'restartIfTerminal',
      });
      const kept = yield* ctx.startOrchestration('child', 'patterns/child', 'returns', { onConflict: 'return' });
      return { mapped, failed, settled, sagaFailed, undone, inTime, again, anew, kept };
    }),
    child,
  ],
  instances: { patterns: ended },
  record: (stage) => throughout(stage, patterns),
};

/** Polls, of messages that are there and of none. */
export const polls: Program = {
  name: 'polls',
  code: [
    defineOrchestration('polls', function* (ctx) {
      const found = [
        yield* ctx.pollEvent('early'),
        yield* ctx.pollEvent('early'),
        yield* ctx.tryDequeue('jobs'),
        yield* ctx.drainQueue('jobs', 2),
        yield* ctx.drainQueue('jobs'),
        yield* ctx.dequeueBatch('batch', 2, '24h'),
        yield* ctx.dequeueBatch('batch', 2, '1ms'),
      ];
      const fiber = ctx.spawn(function* () {
        return yield* ctx.tryDequeue('jobs');
      });
      return { found, fiber: typeof (yield* fiber) };
    }),
  ],
  instances: { polls: ended },
  async record(stage) {
    const { client } = stage;
    await client.startOrchestration('polls', 'polls');
    await client.raiseEvent('polls', 'early', 'event');
    for (const job of [1, 2, 3, 4]) await client.enqueueEvent('polls', 'jobs', job);
    for (const item of ['a', 'b', 'c']) await client.enqueueEvent('polls', 'batch', item);
    await stage.start(polls.code);
    await stage.end('polls');
  },
};

/** The same as free functions. */
export const freePatterns: Program = {
  name: 'free-patterns',
  code: [
    defineOrchestration('free-patterns', function* () {
      const { call, map, saga } = free;
      const mapped = yield* map([1, 2], (n) => call(echo, n), { concurrency: 1 });
      let failed = '';
      try {
        yield* saga(function* (undo) {
          undo(() => call(echo, 'undone'));
          yield* call(broken, 'chain', ONCE);
        });
      } catch (error) {
        failed = told(error);
      }
      const found = [
        yield* free.pollEvent('x'),
        yield* free.tryDequeue('x'),
        yield* free.drainQueue('x'),
        yield* free.dequeueBatch('x', 1, 0),
      ];
      return { mapped, failed, found };
    }),
  ],
  instances: { 'free-patterns': ended },
  record: (stage) => throughout(stage, freePatterns),
};
