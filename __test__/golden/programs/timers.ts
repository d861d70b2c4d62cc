import { defineOrchestration } from 'perdure';

import type { Program } from '../stage.ts';

import { ended, outcome, throughout } from './shared.ts';

export const timers: Program = {
  name: 'timers',
  code: [
    defineOrchestration('timers', function* (ctx) {
      yield ctx.scheduleTimer(0);
      yield* ctx.sleep('1ms');
      const now = ctx.now();
      yield* ctx.sleep(new Date(now));
      // This timer is never awaited.
      ctx.scheduleTimer('30d');
      const given = ctx.scheduleTimer('1h');
      given.cancel('not needed');
      return [yield* outcome(given), ctx.now() >= now];
    }),
  ],
  instances: { timers: ended },
  record: (stage) => throughout(stage, timers),
};

/** A first turn that is later than this is recorded with its time, ms. The value has a margin. */
const LATE_MS = 1_200;

export const late: Program = {
  name: 'late',
  code: [
    defineOrchestration('late', function* (ctx) {
      const begun = ctx.now();
      yield ctx.scheduleTimer(0);
      return ctx.now() >= begun;
    }),
  ],
  instances: { late: ended },
  async record(stage) {
    await stage.client.startOrchestration('late', 'late');
    // The delay itself is what the history records.
    await new Promise((resolve) => setTimeout(resolve, LATE_MS));
    await stage.start(late.code);
    await stage.end('late');
  },
};
