import { defineOrchestration } from 'perdure';

import type { Program } from '../stage.ts';
import { odd, riches, TEXTS } from './sample-values.ts';
import { ended } from './shared.ts';

const EVENTS = ['approved', '__proto__', 'Ünï 😀', 'toString'];

export const messages: Program = {
  name: 'messages',
  code: [
    defineOrchestration('messages', function* (ctx) {
      // All of them came early, in another order.
      const events: unknown[] = [];
      for (const name of EVENTS) events.push(yield* ctx.waitForEvent(name));
      const queue: unknown[] = [];
      for (let i = 0; i < 3; i += 1) queue.push(yield* ctx.dequeueEvent('jobs'));
      ctx.setCustomStatus('races');
      const raced = yield* ctx.race(ctx.waitForEvent('one'), ctx.waitForEvent('two'), ctx.scheduleTimer('24h'));
      // The wait for 'two' has lost the race, and consumed no event.
      const two = yield* ctx.waitForEvent('two');
      const none = yield* ctx.waitForEvent('none');
      return { events, queue, raced, two, none: typeof none };
    }),
  ],
  instances: { messages: ended },
  async record(stage) {
    const { client } = stage;
    await client.startOrchestration('messages', 'messages');
    for (const [i, name] of [...EVENTS].reverse().entries())
      await client.raiseEvent('messages', name, [odd, TEXTS][i] ?? riches().map);
    for (const job of ['first', TEXTS, { third: 3 }]) await client.enqueueEvent('messages', 'jobs', job);
    await stage.start(messages.code);
    await stage.status('messages', 'races');
    await client.raiseEvent('messages', 'one', 1);
    await client.raiseEvent('messages', 'two', { two: new Date(0) });
    await client.raiseEvent('messages', 'none');
    await stage.end('messages');
  },
};
