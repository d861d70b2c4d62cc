import { defineOrchestration } from 'perdure';

import type { Program } from '../stage.ts';
import { riches } from './sample-values.ts';
import { ACTIVITIES, child, echo } from './shared.ts';

export const waiting: Program = {
  name: 'waiting',
  code: [
    defineOrchestration('waiting', function* (ctx) {
      yield* ctx.call(echo, 'before');
      const work = [
        ctx.scheduleActivity('hang'),
        ctx.run(
          'hangs inline',
          ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(1), { once: true })),
        ),
        ctx.scheduleTimer('24h'),
        ctx.scheduleSubOrchestration('child', 'waits', { id: 'waiting-child' }),
        ctx.waitForEvent('__proto__'),
        ctx.dequeueEvent('jobs'),
      ];
      // This timer is never awaited.
      ctx.scheduleTimer('48h');
      const spare = ctx.scheduleActivity('hang');
      spare.cancel();
      ctx.setCustomStatus('waiting');
      yield* ctx.all(work);
    }),
    child,
  ],
  instances: {
    waiting: {
      outcomes: ['waiting'],
      pending: [
        { kind: 'activity', eventId: 4, name: 'hang' },
        { kind: 'activity', eventId: 5, name: 'hangs inline' },
        { kind: 'timer', eventId: 6 },
        { kind: 'child', eventId: 7, name: 'child', instanceId: 'waiting-child' },
        { kind: 'event', name: '__proto__' },
        { kind: 'queue', name: 'jobs' },
      ],
    },
    'waiting-child': { outcomes: ['waiting'], pending: [{ kind: 'event', name: 'never' }] },
  },
  async record(stage) {
    await stage.start([...waiting.code, ...ACTIVITIES]);
    await stage.client.startOrchestration('waiting', 'waiting');
    await stage.status('waiting', 'waiting');
    await stage.status('waiting-child', 'runs');
  },
};

export const unbegun: Program = {
  name: 'unbegun',
  code: [
    defineOrchestration('unbegun', function* (ctx) {
      yield* ctx.waitForEvent('never');
    }),
  ],
  instances: { unbegun: { outcomes: ['notBegun'] } },
  record: (stage) => stage.client.startOrchestration('unbegun', 'unbegun', { input: riches().map }),
};
