import { defineActivity, defineOrchestration } from 'perdure';

import type { Program } from '../stage.ts';

import { echo, ended, flaky, nothing, ONCE, outcome, StockError, throughout } from './shared.ts';

export const activities: Program = {
  name: 'activities',
  code: [
    defineOrchestration('activities', function* (ctx, input: number) {
      const first = yield ctx.scheduleActivity('echo', input);
      const second = yield* ctx.call(echo, [first], {
        retry: {
          maxAttempts: 5,
          initialInterval: '1s',
          backoff: 1.5,
          maxInterval: '1m',
          jitter: 0,
          nonRetryable: ['TypeError'],
        },
        timeout: '1m',
        totalTimeout: '1h',
        heartbeatTimeout: '30s',
        queue: 'default',
        priority: 3,
      });
      const inline = yield* ctx.run('inline', ({ attempt, idempotencyKey }) => `${attempt} ${typeof idempotencyKey}`, {
        timeout: '1m',
        priority: -1,
      });
      const third = yield* ctx.call(nothing);
      const many = yield ctx.all([1, 2, 3].map((n) => ctx.scheduleActivity('echo', { n })));
      return { first, second, inline, third: typeof third, many };
    }),
  ],
  instances: { activities: ended },
  record: (stage) => throughout(stage, activities, 7),
};

export const failures: Program = {
  name: 'failures',
  code: [
    defineOrchestration('failures', function* (ctx) {
      const told: unknown[] = [];
      for (const failure of ['once', 'asks for time'])
        told.push(yield* outcome(ctx.scheduleActivity('flaky', failure)));
      for (const how of ['chain', 'for good', 'many', 'value', 'undefined'])
        told.push(yield* outcome(ctx.scheduleActivity('broken', how, ONCE)));
      told.push(yield* outcome(ctx.call(flaky, 'once', ONCE)));
      told.push(
        yield* outcome(
          ctx.run(
            'inline',
            () => {
              throw new StockError('inline');
            },
            ONCE,
          ),
        ),
      );
      try {
        yield ctx.scheduleActivity('broken', 'chain', ONCE);
      } catch (error) {
        throw Object.assign(new Error('the orchestration fails, too', { cause: error }), { code: 'E_ORDER', told });
      }
    }),
  ],
  instances: { failures: { outcomes: ['failed'] } },
  record: (stage) => throughout(stage, failures),
};

/** Fails at once. The next attempt comes when the test is over. */
const later = defineActivity(
  'later',
  async () => {
    throw new Error('not yet');
  },
  { retry: { maxAttempts: 5, initialInterval: '24h', maxInterval: '7d', jitter: 0 } },
);

export const retrying: Program = {
  name: 'retrying',
  code: [
    defineOrchestration('retrying', function* (ctx) {
      yield* ctx.call(later);
    }),
  ],
  instances: { retrying: { outcomes: ['waiting'], pending: [{ kind: 'activity', eventId: 2, name: 'later' }] } },
  async record(stage) {
    await stage.start([...retrying.code, later]);
    await stage.client.startOrchestration('retrying', 'retrying');
    await stage.recorded('retrying', 'ActivityAttemptFailed');
  },
};

/** The form in which linear growth and the lists of errors are recorded. */
export const retryPolicies: Program = {
  name: 'retry-policies',
  code: [
    defineOrchestration('retry-policies', function* (ctx) {
      const retry = { maxAttempts: 2, initialInterval: '1ms', backoff: 'linear', jitter: 0 } as const;
      const again = ctx.scheduleActivity('flaky', 'once', { retry: { ...retry, retryOn: ['E_NONE', 'Error'] } });
      const told = [yield* outcome(again)];
      told.push(yield* outcome(ctx.scheduleActivity('broken', 'chain', { retry: { ...retry, retryOn: ['E_NONE'] } })));
      return told;
    }),
  ],
  instances: { 'retry-policies': ended },
  record: (stage) => throughout(stage, retryPolicies),
};
