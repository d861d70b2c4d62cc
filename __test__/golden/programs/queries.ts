import { defineOrchestration } from 'perdure';

import type { Program } from '../stage.ts';
import { ended } from './shared.ts';

/** The questions of processes without the code, as a worker answers them. */
export const queries: Program = {
  name: 'perdure.query',
  code: [
    defineOrchestration('queried', function* (ctx, sum: number) {
      ctx.onQuery('plus', (more: number) => ({ sum: sum + more, at: new Date(0) }));
      ctx.onQuery('nothing', () => undefined);
      ctx.onQuery('fails', () => {
        throw new RangeError('as told');
      });
      yield* ctx.waitForEvent('never');
    }),
  ],
  instances: {
    'perdure.query/plus': ended,
    'perdure.query/nothing': ended,
    'perdure.query/fails': ended,
    'perdure.query/none': ended,
  },
  async record(stage) {
    const { client } = stage;
    await stage.start(queries.code);
    await client.startOrchestration('queried', 'queried', 1);
    for (const query of ['plus', 'nothing', 'fails', 'none']) {
      const input = { id: 'queried', query, ...(query === 'plus' ? { input: 2 } : {}) };
      await client.startOrchestration(`perdure.query/${query}`, 'perdure.query/queried', input, { version: '1.0.0' });
      await stage.end(`perdure.query/${query}`);
    }
  },
};
