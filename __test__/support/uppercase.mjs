// The code that the worker threads of async-codec.test.ts run: plain Node and the built package.

import { defineActivity, defineOrchestration } from 'perdure';

export const raise = defineActivity('raise', async (_ctx, text) => text.toUpperCase());

export const shout = defineOrchestration('shout', function* (ctx, text) {
  ctx.setCustomStatus(text);
  return yield* ctx.call(raise, text);
});
