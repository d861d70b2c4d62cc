import { defineOrchestration } from 'perdure';

import type { Program } from '../stage.ts';

import { ACTIVITIES, child, echo } from './shared.ts';

export const cancelled: Program = {
  name: 'cancelled',
  code: [
    defineOrchestration('cancelled', function* (ctx) {
      const part = ctx.scheduleSubOrchestration('child', 'waits', { id: 'cancelled-child' });
      const work = ctx.scheduleActivity('hang');
      yield* ctx.uncancellable(function* () {
        yield ctx.scheduleActivity('echo', 'reserved');
      });
      ctx.setCustomStatus('reserved');
      try {
        yield* ctx.race(ctx.waitForEvent('never'), ctx.scheduleTimer('24h'), part, work);
      } finally {
        yield ctx.scheduleActivity('echo', 'released');
        ctx.setCustomStatus('released');
      }
    }),
    child,
  ],
  instances: { cancelled: { outcomes: ['cancelled'] }, 'cancelled-child': { outcomes: ['cancelled'] } },
  async record(stage) {
    await stage.start([...cancelled.code, ...ACTIVITIES]);
    await stage.client.startOrchestration('cancelled', 'cancelled');
    await stage.status('cancelled', 'reserved');
    await stage.status('cancelled-child', 'runs');
    await stage.client.cancelInstance('cancelled', 'the customer \ud800 left');
    await stage.end('cancelled');
    await stage.end('cancelled-child');
  },
};

export const terminated: Program = {
  name: 'terminated',
  code: [
    defineOrchestration('terminated', function* (ctx) {
      try {
        yield* ctx.call(echo, 'before');
        ctx.setCustomStatus('waiting');
        yield* ctx.waitForEvent('never');
      } finally {
        yield* ctx.call(echo, 'never');
      }
    }),
  ],
  instances: { terminated: { outcomes: ['terminated'] }, 'terminated-unbegun': { outcomes: ['terminated'] } },
  async record(stage) {
    await stage.client.startOrchestration('terminated-unbegun', 'terminated');
    await stage.client.terminateInstance('terminated-unbegun');
    await stage.start([...terminated.code, echo]);
    await stage.client.startOrchestration('terminated', 'terminated');
    await stage.status('terminated', 'waiting');
    await stage.client.terminateInstance('terminated', 'no longer wanted');
  },
};
