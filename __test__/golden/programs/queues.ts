import { defineActivity, defineOrchestration } from 'perdure';
import * as free from 'perdure/orchestration';

import type { Program } from '../stage.ts';
import { child, ended, listener, outcome } from './shared.ts';

const QUEUE = { queue: 'golden', key: 'ann' } as const;

/** Instances that wait in a queue, with their keys, and later starts. */
export const admissions: Program = {
  name: 'admissions',
  code: [
    defineOrchestration('admissions', function* (ctx) {
      const id = (name: string): string => `admissions-${name}`;
      const start = { definition: listener, input: 'by a message', ...QUEUE };
      return [
        yield* ctx.callOrchestration(child, 'returns', { id: id('child'), ...QUEUE }),
        yield* ctx.callOrchestration(child, 'returns', { queue: 'golden', delay: '1ms' }),
        yield* ctx.start(child, 'waits', { id: id('holder'), ...QUEUE, startAt: new Date(1) }),
        yield* free.raiseEvent(id('listener'), 'greeting', 1, { start: { ...start, key: 'bob', delay: '1ms' } }),
        yield* outcome(ctx.callOrchestration(child, 'returns', { queue: 'golden none' })),
        yield* outcome(ctx.startOrchestration('child', 'started', 'returns', { queue: 'golden none', key: 'ann' })),
        yield* outcome(ctx.enqueueEvent(id('none'), 'jobs', 1, { start: { ...start, queue: 'golden none' } })),
      ];
    }),
    child,
    listener,
  ],
  instances: {
    admissions: ended,
    'admissions-child': ended,
    'admissions-holder': { outcomes: ['waiting'], pending: [{ kind: 'event', name: 'never' }] },
    'admissions-listener': ended,
    'admissions-waiting': { outcomes: ['notBegun'] },
  },
  async record(stage) {
    const { client } = stage;
    await client.queues.set('golden', { concurrency: 2, perKey: { concurrency: 1 } });
    await stage.start(admissions.code);
    await client.startOrchestration('admissions', 'admissions');
    await stage.end('admissions');
    await client.enqueueEvent('admissions-listener', 'jobs', 2);
    await stage.end('admissions-listener');
    await stage.status('admissions-holder', 'runs');
    // The holder has the one slot of its key.
    await client.startOrchestration('admissions-waiting', 'child', 'returns', { version: '1.0.0', ...QUEUE });
  },
};

const render = defineActivity('render', async (_, name: string) => `${name} is rendered`, {
  queue: 'golden',
  key: (name) => `key of ${name}`,
});

/** Attempts that wait in a queue, by its limits or for a runtime that serves it. */
export const activityQueues: Program = {
  name: 'activity-queues',
  code: [
    defineOrchestration('activity-queues', function* (ctx) {
      const told: unknown[] = [
        yield* ctx.call(render, 'a'),
        yield* ctx.call(render, 'b', { key: 'another key', scheduleToStartTimeout: '1h' }),
        yield* ctx.scheduleActivity('render', 'c', { queue: 'golden' }),
      ];
      told.push(yield* ctx.all(['d', 'e', 'f'].map((name) => ctx.call(render, name, { key: 'one' }))));
      const late = { queue: 'golden none', scheduleToStartTimeout: '1ms', retry: { maxAttempts: 3 } } as const;
      told.push(yield* outcome(ctx.call(render, 'late', late)));
      told.push(yield* outcome(free.call(render, 'late', { ...late, totalTimeout: '1h', key: 'one' })));
      ctx.setCustomStatus('waiting');
      const left = { queue: 'golden none', key: 'one', scheduleToStartTimeout: '1h' } as const;
      return yield* ctx.race(ctx.call(render, 'left', left), ctx.waitForEvent('never'));
    }),
  ],
  instances: {
    'activity-queues': {
      outcomes: ['waiting'],
      pending: [
        { kind: 'activity', eventId: 18, name: 'render' },
        { kind: 'event', name: 'never' },
      ],
    },
  },
  async record(stage) {
    const { client } = stage;
    await client.queues.set('golden', { concurrency: 2, perKey: { concurrency: 1 } });
    await stage.start([...activityQueues.code, render], { queues: ['default', 'golden'] });
    await client.startOrchestration('activity-queues', 'activity-queues');
    await stage.status('activity-queues', 'waiting');
  },
};
