import { defineEntity, defineOrchestration } from 'perdure';
import * as free from 'perdure/orchestration';

import type { Program } from '../stage.ts';
import { riches } from './sample-values.ts';
import { echo, ended, outcome } from './shared.ts';

const list = defineEntity('entities-list', {
  initial: (key) => ({ key, items: [] as unknown[] }),
  handlers: {
    *add(ctx, item: unknown) {
      const echoed = yield* ctx.call(echo, item);
      return ctx.state.items.push(echoed);
    },
    *note(ctx, by: string) {
      ctx.state.items.push(by);
      yield* ctx.raiseEvent(by, 'noted', ctx.key);
    },
    *clear(ctx) {
      ctx.state = { key: ctx.key, items: [] };
    },
    *fail(ctx, why: string) {
      ctx.state.items.push(why);
      throw new TypeError(why);
    },
  },
  reads: { items: ({ items }) => items, item: ({ items }, n: number) => items[n] },
});

export const entities: Program = {
  name: 'entities',
  code: [
    list,
    defineOrchestration('entities', function* (ctx, key: string) {
      const mine = ctx.entity(list, key);
      const answers: unknown[] = [
        yield* mine.items(),
        yield* mine.add(riches().map),
        yield* free.entity(list, key).add(2),
        yield* mine.item(1),
        yield* outcome(mine.fail('no such luck')),
        yield* mine.clear(),
      ];
      yield* mine.send.note(ctx.instanceId);
      answers.push(yield* ctx.waitForEvent('noted'), yield* mine.items());
      return answers;
    }),
    defineOrchestration('entities-end', function* (ctx, key: string) {
      yield* ctx.entity(list, key).delete();
    }),
  ],
  instances: { entities: ended, 'entities-end': ended, 'entities-list/entities': ended },
  async record(stage) {
    const { client } = stage;
    await stage.start([...entities.code, echo]);
    await client.startOrchestration('entities', 'entities', 'entities');
    await stage.end('entities');
    await client.startOrchestration('entities-end', 'entities-end', 'entities');
    await stage.end('entities-end');
    await stage.end('entities-list/entities');
  },
};
