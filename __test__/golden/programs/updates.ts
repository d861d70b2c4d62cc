import { defineOrchestration } from 'perdure';
import * as free from 'perdure/orchestration';

import type { Program } from '../stage.ts';
import { riches } from './sample-values.ts';
import { echo, ended, outcome } from './shared.ts';

export const updates: Program = {
  name: 'updates',
  code: [
    defineOrchestration('updates', function* (ctx) {
      const seen: unknown[] = [];
      const validate = (value: unknown): void => {
        if (value === 'refused') throw new RangeError('it is refused');
      };
      ctx.onUpdate(
        'step',
        function* (value: unknown) {
          const echoed = yield* ctx.call(echo, value);
          return seen.push(echoed);
        },
        { validate },
      );
      free.onUpdate('fail', function* (why: string) {
        throw new TypeError(why);
      });
      // Queries leave nothing in a history.
      ctx.onQuery('seen', () => seen);
      free.onQuery('count', () => seen.length);
      yield* ctx.waitForEvent('end');
      yield* ctx.finishUpdates();
      yield* free.finishUpdates();
      return seen;
    }),
    defineOrchestration('updating', function* (ctx, other: string) {
      return [
        yield* ctx.update(other, 'step', riches().map),
        yield* free.update(other, 'step'),
        yield* outcome(ctx.update(other, 'step', 'refused')),
        yield* outcome(free.update(other, 'fail', 'no such luck')),
        yield* outcome(ctx.update(other, 'none')),
        yield* outcome(ctx.update('updates-nobody', 'step', 1)),
      ];
    }),
  ],
  instances: { updates: ended, updating: ended },
  async record(stage) {
    const { client } = stage;
    await stage.start([...updates.code, echo]);
    await client.startOrchestration('updates', 'updates');
    await client.update('updates', 'step', 1);
    await client.startOrchestration('updating', 'updating', 'updates');
    await stage.end('updating');
    await client.query('updates', 'seen');
    await client.raiseEvent('updates', 'end');
    await stage.end('updates');
  },
};
