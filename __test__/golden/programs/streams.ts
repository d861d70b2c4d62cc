import { defineActivity, defineOrchestration, type OrchestrationContext } from 'perdure';
import * as free from 'perdure/orchestration';

import type { Program } from '../stage.ts';
import { told } from './shared.ts';

const writes = defineActivity('writes', async (ctx, text: string) => {
  ctx.stream('activity').write(text);
  await ctx.stream('activity').flush();
});

/** Writes to a stream that the first execution closes. Returns the text of the error. */
function written(ctx: OrchestrationContext, value: unknown): string {
  try {
    ctx.stream('closed').write(value);
    return 'written';
  } catch (error) {
    return told(error);
  }
}

/** A closed stream stays closed over executions. What is written leaves no event. */
export const streams: Program = {
  name: 'streams',
  code: [
    defineOrchestration('streams', function* (ctx, round: number) {
      const refusal = written(ctx, round);
      ctx.stream('open', { maxEntries: 10, retain: '1h' }).write(new Map([[round, undefined]]));
      yield* ctx.call(writes, `round ${round}`);
      free.stream('closed').close();
      if (round === 1) return yield* ctx.continueAsNew(2);
      return refusal;
    }),
  ],
  instances: { streams: { outcomes: ['continuedAsNew', 'completed'] } },
  async record(stage) {
    await stage.start([...streams.code, writes]);
    await stage.client.startOrchestration('streams', 'streams', 1);
    await stage.end('streams');
  },
};
