import { defineActivity, defineOrchestration } from 'perdure';

import type { Program } from '../stage.ts';
import { odd, riches, TEXTS } from './sample-values.ts';
import { echo, ended, throughout, told } from './shared.ts';

export const values: Program = {
  name: 'values',
  code: [
    defineOrchestration('values', function* (ctx, input: ReturnType<typeof riches>) {
      const back = yield* ctx.call(echo, input);
      const texts = yield* ctx.call(echo, TEXTS);
      const keys = yield* ctx.call(echo, odd);
      const plain = yield* ctx.call(echo, { a: [1.5, true, null, { b: '' }], big: 1e300 });
      return { back, texts, keys, plain, polluted: Object.hasOwn(Object.prototype, 'polluted') };
    }),
  ],
  instances: { values: ended },
  record: (stage) => throughout(stage, values, riches()),
};

export const unstorable: Program = {
  name: 'unstorable',
  code: [
    defineOrchestration('unstorable', function* (ctx) {
      const attempts = [
        () => ctx.scheduleActivity('echo', { f: () => 1 }),
        () => ctx.raiseEvent('nobody', 'event', Symbol('s')),
        () => ctx.setCustomStatus(new WeakMap()),
      ];
      for (const attempt of attempts) {
        try {
          attempt();
        } catch (error) {
          yield* ctx.call(echo, told(error));
        }
      }
      return { items: [1, Promise.resolve()] };
    }),
  ],
  instances: { unstorable: { outcomes: ['failed'] } },
  record: (stage) => throughout(stage, unstorable),
};

export const names: Program = {
  name: 'names',
  code: [
    defineOrchestration(
      '__proto__ 😀',
      function* (ctx) {
        const isNew = ctx.patched('constructor');
        const first = yield ctx.scheduleActivity('toString', ctx.name);
        const inline = yield* ctx.run('\u2028\r\n', () => 'inline');
        const child = yield* ctx.scheduleSubOrchestration('it\'s "quoted"', first, { id: '子/%/_' });
        return [isNew, inline, child, yield* ctx.dequeueEvent('hasOwnProperty')];
      },
      { version: '1.0.0-ä' },
    ),
    defineOrchestration('it\'s "quoted"', function* (ctx, input) {
      yield ctx.scheduleTimer(0);
      return [input, ctx.parentId, ctx.instanceId];
    }),
  ],
  instances: { names: ended },
  async record(stage) {
    await stage.start([...names.code, defineActivity('toString', async (_, input) => input)]);
    await stage.client.startOrchestration('names', '__proto__ 😀', undefined, { version: '1.0.0-ä' });
    await stage.client.enqueueEvent('names', 'hasOwnProperty', 'job');
    await stage.end('names');
  },
};
