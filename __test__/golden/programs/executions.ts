import { defineOrchestration } from 'perdure';
import * as free from 'perdure/orchestration';

import type { Program } from '../stage.ts';

import { echo, ended, outcome } from './shared.ts';

export const again: Program = {
  name: 'again',
  code: [
    defineOrchestration('again', function* (ctx, { round, left }: { round: number; left: unknown[] }) {
      const status = ctx.getCustomStatus();
      ctx.setCustomStatus({ round });
      left.push(status, yield* ctx.dequeueEvent('jobs'));
      if (round === 2) yield* ctx.continueAsNew({ round: 3, left: new Set(left) }, { version: '2.0.0' });
      yield* ctx.continueAsNew({ round: round + 1, left });
    }),
    defineOrchestration(
      'again',
      function* (ctx, { round, left }: { round: number; left: Set<unknown> }) {
        return {
          round,
          left,
          last: yield* ctx.dequeueEvent('jobs'),
          version: ctx.version,
          execution: ctx.executionId,
          random: ctx.random() < 1,
        };
      },
      { version: '2.0.0' },
    ),
  ],
  instances: { again: { outcomes: ['continuedAsNew', 'continuedAsNew', 'completed'] } },
  async record(stage) {
    await stage.start(again.code);
    await stage.client.startOrchestration('again', 'again', { round: 1, left: [] }, { version: '1.0.0' });
    for (const job of ['first', 'second', 'third']) await stage.client.enqueueEvent('again', 'jobs', job);
    await stage.end('again');
  },
};

export const publishes: Program = {
  name: 'publishes',
  code: [
    defineOrchestration('publishes', function* (ctx, round: number) {
      const before = ctx.state.keys().map((name) => [name, ctx.state.get(name)]);
      ctx.state.set('round', round);
      ctx.state.set(`of ${round}`, new Map([[round, undefined]]));
      ctx.state.set('nothing', undefined);
      const step = yield* ctx.call(echo, before);
      if (round === 2) ctx.state.delete('of 1');
      if (round < 3) return yield* ctx.continueAsNew(round + 1);
      free.state.clear();
      ctx.state.set('last', step);
      return ctx.state.get('last');
    }),
  ],
  instances: { publishes: { outcomes: ['continuedAsNew', 'continuedAsNew', 'completed'] } },
  async record(stage) {
    await stage.start([...publishes.code, echo]);
    await stage.client.startOrchestration('publishes', 'publishes', 1);
    await stage.end('publishes');
  },
};

const published = defineOrchestration('published', function* (ctx) {
  ctx.state.set('rich', new Map([['date', new Date(0)]]));
  ctx.state.set('nothing', undefined);
});

export const reads: Program = {
  name: 'reads',
  code: [
    defineOrchestration('reads', function* (ctx, other: string) {
      return [
        yield* ctx.readState(other, 'rich'),
        yield* ctx.readState(other, 'nothing'),
        yield* free.readState(other, 'none'),
        yield* free.readState(other),
        yield* outcome(ctx.readState('reads-nobody', 'rich')),
        yield* outcome(ctx.readState('reads-nobody')),
      ];
    }),
  ],
  instances: { reads: ended },
  async record(stage) {
    await stage.start([...reads.code, published]);
    await stage.client.startOrchestration('reads-published', 'published');
    await stage.end('reads-published');
    await stage.client.startOrchestration('reads', 'reads', 'reads-published');
    await stage.end('reads');
  },
};

const unpatched = defineOrchestration('patched', function* (ctx) {
  ctx.setCustomStatus('waiting');
  yield* ctx.waitForEvent('go');
  return yield* ctx.call(echo, 'old');
});

export const patched: Program = {
  name: 'patched',
  code: [
    defineOrchestration('patched', function* (ctx) {
      const first = ctx.patched('check first') ? yield* ctx.call(echo, 'checked') : 'unchecked';
      ctx.setCustomStatus('waiting');
      yield* ctx.waitForEvent('go');
      // The execution that passed here before has this patch, and not the other.
      const both = [ctx.patched('check first'), ctx.patched('ship faster')];
      return [first, both, yield* ctx.call(echo, 'old')];
    }),
  ],
  instances: { 'patched-before': ended, 'patched-after': ended },
  async record(stage) {
    const { client } = stage;
    const old = await stage.start([unpatched, echo]);
    await client.startOrchestration('patched-before', 'patched');
    await stage.status('patched-before', 'waiting');
    await old.shutdown();
    await stage.start([...patched.code, echo]);
    await client.startOrchestration('patched-after', 'patched');
    await stage.status('patched-after', 'waiting');
    for (const id of ['patched-before', 'patched-after']) {
      await client.raiseEvent(id, 'go');
      await stage.end(id);
    }
  },
};
