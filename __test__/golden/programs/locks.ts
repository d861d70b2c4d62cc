import { defineEntity, defineLock, defineOrchestration } from 'perdure';
import * as free from 'perdure/orchestration';

import type { Program } from '../stage.ts';
import { echo, ended, listener, outcome } from './shared.ts';

const shelf = defineEntity('locks-shelf', {
  initial: () => [] as unknown[],
  handlers: {
    *put(ctx, item: unknown) {
      return ctx.state.push(yield* ctx.call(echo, item));
    },
    *note(ctx, item: unknown) {
      ctx.state.push(item);
    },
  },
  reads: { items: (items) => items },
});

const desk = defineLock('locks-desk', { permits: 2 });

export const locks: Program = {
  name: 'locks',
  code: [
    shelf,
    defineOrchestration('locks', function* (ctx) {
      const found: unknown[] = [];
      found.push(
        yield* ctx.lock(['locks-door', desk, shelf.at('locks')], function* () {
          const mine = ctx.entity(shelf, 'locks');
          yield* mine.put('called');
          yield* mine.send.note('sent');
          yield* mine.put('called again');
          return yield* mine.items();
        }),
      );
      found.push(yield* outcome(free.lock('locks-door', failing())));
      const late = ctx.lock('locks-door', function* () {
        ctx.setCustomStatus('locked again');
        yield* ctx.waitForEvent('never');
      });
      yield* ctx.race([late, ctx.waitForEvent('go on')], { cancelLosers: true });
      return found;
    }),
  ],
  instances: {
    locks: ended,
    'locks-holder': ended,
    'locks-shelf/locks': {
      outcomes: ['waiting'],
      pending: [
        { kind: 'queue', name: 'perdure.asks' },
        { kind: 'queue', name: 'perdure.entity' },
      ],
    },
  },
  async record(stage) {
    const { client } = stage;
    await stage.start([...locks.code, echo]);
    await client.startOrchestration('locks', 'locks');
    await stage.status('locks', 'locked again');
    const door = { id: 'perdure.lock/locks-door', name: 'perdure.lock', version: '1.0.0', permits: 1 };
    const input = { holder: 'h', by: 'locks', locks: [door] };
    await client.startOrchestration('locks-holder', 'perdure.lock.holder', input);
    await stage.recorded('locks-holder', 'ActivityCompleted');
    await client.raiseEvent('locks', 'go on');
    await stage.end('locks');
    await client.cancelInstance('locks-holder');
    await stage.end('locks-holder');
  },
};

/** The lock with a name itself: granted, asked for twice, given back twice, and given back before it was asked for. */
export const namedLock: Program = {
  name: 'perdure.lock',
  code: [listener],
  instances: {
    'perdure.lock/golden': {
      outcomes: ['waiting'],
      pending: [
        { kind: 'event', name: 'perdure.unlock/after first' },
        { kind: 'queue', name: 'perdure.asks' },
      ],
    },
  },
  async record(stage) {
    const { client } = stage;
    const id = 'perdure.lock/golden';
    await stage.start(namedLock.code);
    await client.startOrchestration('listener', 'listener');
    const start = { name: 'perdure.lock', version: '1.0.0', input: undefined };
    const request = (holder: string) => ({ holder, by: 'listener', to: 'listener', permits: 1 });
    await client.updateWithStart(id, 'perdure.lock', request('first'), { updateId: 'first/1', start });
    await client.update(id, 'perdure.lock', request('first'), { updateId: 'first/2' });
    await client.raiseEvent(id, 'perdure.unlock/second');
    await client.update(id, 'perdure.lock', request('second'), { updateId: 'second/1' });
    await client.update(id, 'perdure.lock', request('third'), { updateId: 'third/1' });
    for (const holder of ['first', 'third']) {
      await client.raiseEvent(id, `perdure.unlock/${holder}`);
      await client.update(id, 'perdure.lock', request(`after ${holder}`), { updateId: `after ${holder}/1` });
    }
  },
};

function* failing(): Generator<any, never, any> {
  yield* free.call(echo, 'fails');
  throw new RangeError('as told');
}
