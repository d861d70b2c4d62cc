import { defineOrchestration } from 'perdure';
import * as free from 'perdure/orchestration';

import type { Program } from '../stage.ts';
import { odd, TEXTS } from './sample-values.ts';
import { child, ended, listener, outcome } from './shared.ts';

export const children: Program = {
  name: 'children',
  code: [
    defineOrchestration('children', function* (ctx) {
      const told: unknown[] = [];
      const start = (how: string, name: string) =>
        ctx.scheduleSubOrchestration('child', how, { id: `children-${name}` });
      told.push(
        yield ctx.scheduleSubOrchestration('child', 'returns', {
          id: 'children-first',
          version: '1.0.0',
          tags: { colour: 'red' },
          priority: 2,
        }),
      );
      told.push(yield* ctx.callOrchestration(child, 'returns'));
      told.push(yield* outcome(start('throws', 'throws')));
      told.push(yield* outcome(start('returns', 'first')));
      const cancelled = start('waits', 'cancelled');
      ctx.setCustomStatus('cancel it');
      told.push(yield* outcome(cancelled));
      const terminated = start('waits', 'terminated');
      ctx.setCustomStatus('terminate it');
      told.push(yield* outcome(terminated));
      const left = start('waits', 'left');
      // The child exists by then. A child that is given up in the turn that asked for it would never exist.
      yield* ctx.run('a turn', () => 1);
      left.cancel('not needed');
      told.push(yield* outcome(left));
      return told;
    }),
    child,
  ],
  instances: {
    children: ended,
    'children-first': ended,
    'children-throws': { outcomes: ['failed'] },
    'children-cancelled': { outcomes: ['cancelled'] },
    'children-terminated': { outcomes: ['terminated'] },
    'children-left': { outcomes: ['cancelled'] },
  },
  async record(stage) {
    const { client } = stage;
    await stage.start(children.code);
    await client.startOrchestration('children', 'children');
    await stage.status('children', 'cancel it');
    await stage.status('children-cancelled', 'runs');
    await client.cancelInstance('children-cancelled', 'by hand');
    await stage.status('children', 'terminate it');
    await stage.status('children-terminated', 'runs');
    await client.terminateInstance('children-terminated', 'by force');
    await stage.end('children');
    await stage.end('children-left');
  },
};

/** Children whose attempts fail: their ids, the delays between them, and the errors that are not followed by others. */
export const childRetries: Program = {
  name: 'child-retries',
  code: [
    defineOrchestration('child-retries', function* (ctx) {
      const retry = { maxAttempts: 2, initialInterval: '1ms', backoff: 'linear', jitter: 0 } as const;
      const id = (name: string) => `child-retries-${name}`;
      const told: unknown[] = [];
      told.push(yield* ctx.callOrchestration(child, 'returns', { id: id('first'), retry }));
      told.push(yield* outcome(ctx.scheduleSubOrchestration('child', 'throws', { id: id('twice'), retry })));
      const refused = { ...retry, jitter: 0.5, nonRetryable: ['StockError'], retryOn: ['E_NONE'] };
      told.push(yield* outcome(ctx.callOrchestration(child, 'throws', { id: id('once'), retry: refused })));
      told.push(yield* outcome(ctx.callOrchestration(child, 'throws', { retry: { ...retry, jitter: 1 } })));
      told.push(ctx.random());
      return told;
    }),
    child,
  ],
  instances: {
    'child-retries': ended,
    'child-retries-first': ended,
    'child-retries-twice': { outcomes: ['failed'] },
    'child-retries-twice~2': { outcomes: ['failed'] },
    'child-retries-once': { outcomes: ['failed'] },
  },
  async record(stage) {
    await stage.start(childRetries.code);
    await stage.client.startOrchestration('child-retries', 'child-retries');
    await stage.end('child-retries');
  },
};

export const others: Program = {
  name: 'others',
  code: [
    defineOrchestration('others', function* (ctx) {
      const id = yield* ctx.startOrchestration('listener', 'others-listener', 'Ada', {
        version: '1.0.0',
        tags: { by: 'others' },
        priority: -2,
      });
      yield* ctx.raiseEvent(id, 'greeting', { texts: TEXTS });
      yield* ctx.enqueueEvent(id, 'jobs', odd);
      // Sent even if the instance does not wait for it.
      ctx.startOrchestration('listener', 'others-unheard');
      ctx.raiseEvent('others-unheard', 'greeting');
      const told: unknown[] = [id];
      told.push(yield* outcome(ctx.startOrchestration('listener', 'others-listener')));
      told.push(yield* outcome(ctx.raiseEvent('others-nobody', 'greeting')));
      told.push(yield* outcome(ctx.enqueueEvent('others-ended', 'jobs', 1)));
      return told;
    }),
    listener,
  ],
  instances: {
    others: ended,
    'others-listener': ended,
    'others-unheard': { outcomes: ['waiting'], pending: [{ kind: 'queue', name: 'jobs' }] },
  },
  async record(stage) {
    const { client } = stage;
    await stage.start(others.code);
    await client.startOrchestration('others-ended', 'listener', 'ended');
    await client.raiseEvent('others-ended', 'greeting', 1);
    await client.enqueueEvent('others-ended', 'jobs', 1);
    await stage.end('others-ended');
    await client.startOrchestration('others', 'others');
    await stage.end('others');
    await stage.end('others-listener');
    await stage.status('others-unheard', 'greeted');
  },
};

export const full: Program = {
  name: 'full',
  code: [
    defineOrchestration('full', function* (ctx) {
      return [
        yield* outcome(ctx.raiseEvent('full-mailbox', 'one')),
        yield* outcome(ctx.raiseEvent('full-mailbox', 'two')),
      ];
    }),
  ],
  instances: { full: ended },
  async record(stage) {
    await stage.start(full.code, { limits: { mailboxMessages: 1 } });
    await stage.client.startOrchestration('full-mailbox', 'nobody registers this');
    await stage.client.startOrchestration('full', 'full');
    await stage.end('full');
  },
};

const started = defineOrchestration(
  'started',
  function* (ctx, by: string) {
    return `${ctx.instanceId} by ${by}`;
  },
  { version: '2.0.0' },
);

export const starts: Program = {
  name: 'starts',
  code: [
    defineOrchestration('starts', function* (ctx) {
      return [
        yield* ctx.start(started, 'the context', { id: 'starts-one', tags: { by: 'starts' }, priority: 1 }),
        yield* free.start(started, 'the function', { id: 'starts-two' }),
        yield* outcome(ctx.start(started, 'the context', { id: 'starts-one' })),
      ];
    }),
    started,
  ],
  instances: { starts: ended, 'starts-one': ended, 'starts-two': ended },
  async record(stage) {
    await stage.start(starts.code);
    await stage.client.startOrchestration('starts', 'starts');
    for (const id of ['starts', 'starts-one', 'starts-two']) await stage.end(id);
  },
};

const receiver = defineOrchestration('receiver', function* (ctx, from: string) {
  return [from, yield* ctx.waitForEvent('go'), yield* ctx.dequeueEvent('jobs')];
});

export const startedReceivers: Program = {
  name: 'started-receivers',
  code: [
    defineOrchestration('started-receivers', function* (ctx) {
      yield* ctx.raiseEvent('started-receivers-one', 'go', 1, {
        start: { definition: receiver, input: 'the context' },
      });
      const start = { name: 'receiver', input: 'the function', tags: { by: 'message' }, priority: 1 };
      yield* free.enqueueEvent('started-receivers-one', 'jobs', 2, { start });
      yield* free.enqueueEvent('started-receivers-two', 'jobs', 2, { start });
      yield* ctx.raiseEvent('started-receivers-two', 'go', 1);
    }),
    receiver,
  ],
  instances: { 'started-receivers': ended, 'started-receivers-one': ended, 'started-receivers-two': ended },
  async record(stage) {
    await stage.start(startedReceivers.code);
    await stage.client.startOrchestration('started-receivers', 'started-receivers');
    for (const id of ['started-receivers', 'started-receivers-one', 'started-receivers-two']) await stage.end(id);
  },
};
