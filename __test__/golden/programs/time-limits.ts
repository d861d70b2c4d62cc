import { CancelledError, defineOrchestration } from 'perdure';

import type { Program } from '../stage.ts';
import { child, echo, ended, nothing, outcome } from './shared.ts';

const PAST = { timeout: '1ms', gracePeriod: '1h' } as const;

/**
 * Instances that are out of time: one that cleans up, and one that cleans up for ever. Another has begun anew, with the
 * rest of its time.
 */
export const timeLimits: Program = {
  name: 'time-limits',
  code: [
    defineOrchestration('time-limits', function* (ctx, how: string) {
      try {
        if (how === 'again') yield* ctx.continueAsNew('waits');
        ctx.setCustomStatus(how);
        yield* ctx.waitForEvent('never');
      } catch (error) {
        if (!(error instanceof CancelledError)) throw error;
        if (how === 'for ever') yield* ctx.sleep('24h');
        return [error.reason, yield* ctx.call(echo, 'cleaned up')];
      }
      return 'never';
    }),
  ],
  instances: {
    'time-limits': ended,
    'time-limits-overdue': { outcomes: ['cancelled'] },
    'time-limits-left': {
      outcomes: ['continuedAsNew', 'waiting'],
      pending: [{ kind: 'event', name: 'never' }],
    },
  },
  async record(stage) {
    const { client } = stage;
    const start = (id: string, how: string, options: object) =>
      client.startOrchestration(id, 'time-limits', how, { version: '1.0.0', ...options });
    await stage.start([...timeLimits.code, echo]);
    await start('time-limits', 'waits', PAST);
    await start('time-limits-overdue', 'for ever', { ...PAST, gracePeriod: '1ms' });
    await start('time-limits-left', 'again', { timeout: '24h' });
    await stage.status('time-limits-left', 'waits');
    for (const id of ['time-limits', 'time-limits-overdue']) await stage.end(id);
  },
};

/** The time limits that an orchestration gives to others. */
export const limitsGiven: Program = {
  name: 'limits-given',
  code: [
    defineOrchestration('limits-given', function* (ctx) {
      const id = (name: string): string => `limits-given-${name}`;
      return [
        yield* outcome(ctx.callOrchestration(child, 'waits', { id: id('child'), ...PAST })),
        yield* ctx.callOrchestration(child, 'returns', { timeout: '1h' }),
        yield* ctx.start(child, 'returns', { id: id('started'), timeout: '1h', gracePeriod: '1m' }),
        yield* ctx.call(nothing),
      ];
    }),
    child,
  ],
  instances: {
    'limits-given': ended,
    'limits-given-child': { outcomes: ['cancelled'] },
    'limits-given-started': ended,
  },
  async record(stage) {
    await stage.start([...limitsGiven.code, nothing]);
    await stage.client.startOrchestration('limits-given', 'limits-given');
    for (const id of ['limits-given', 'limits-given-started']) await stage.end(id);
  },
};
