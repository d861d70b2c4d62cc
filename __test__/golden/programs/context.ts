import { randomUUID as cryptoUUID } from 'node:crypto';
import { defineOrchestration, type StandardSchema } from 'perdure';
import * as free from 'perdure/orchestration';

import type { Program } from '../stage.ts';
import { odd, TEXTS } from './sample-values.ts';
import { child, echo, ended, listener, outcome, throughout } from './shared.ts';

export const facts: Program = {
  name: 'facts',
  code: [
    defineOrchestration('facts', function* (ctx) {
      const record = (what: string, value: unknown) => ctx.call(echo, { [what]: value });
      yield* record('identity', [ctx.instanceId, ctx.executionId, ctx.name, ctx.version, ctx.parentId]);
      yield* record('length', [ctx.historyLength, ctx.continueAsNewSuggested]);
      yield* record('chance', [ctx.random(), Math.random(), ctx.randomUUID(), crypto.randomUUID(), cryptoUUID()]);
      yield* record('time', [ctx.now(), Date.now(), new Date(), new Date().getTime(), performance.now()]);
      const calls = [
        () => setTimeout(() => {}, 1),
        () => setInterval(() => {}, 1),
        () => setImmediate(() => {}),
        () => queueMicrotask(() => {}),
        () => fetch('https://example.com'),
      ];
      yield* record(
        'forbidden',
        calls.map((call) => {
          try {
            return call();
          } catch (error) {
            return (error as Error).name;
          }
        }),
      );
      for (const level of ['traceDebug', 'traceInfo', 'traceWarn', 'traceError'] as const)
        ctx[level]('a line', { replaying: ctx.isReplaying });
      const statuses: unknown[] = [ctx.getCustomStatus()];
      for (const status of [{ rich: new Date(0) }, TEXTS, null]) {
        ctx.setCustomStatus(status);
        statuses.push(ctx.getCustomStatus());
      }
      ctx.resetCustomStatus();
      yield* record('statuses', [...statuses, ctx.getCustomStatus()]);
      ctx.setCustomStatus(odd);
      return yield* outcome(Promise.resolve() as never);
    }),
  ],
  instances: { facts: ended },
  record: (stage) => throughout(stage, facts),
};

export const freely: Program = {
  name: 'freely',
  code: [
    defineOrchestration('freely', function* (_, round: number) {
      const {
        call,
        run,
        sleep,
        scheduleTimer,
        all,
        allSettled,
        any,
        race,
        select,
        spawn,
        channel,
        withTimeout,
        uncancellable,
      } = free;
      if (round === 1) {
        free.setCustomStatus('first');
        return yield* free.continueAsNew(2);
      }
      const status = free.getCustomStatus();
      free.resetCustomStatus();
      free.traceDebug('a line');
      free.traceInfo('a line');
      free.traceWarn('a line');
      free.traceError('a line');
      const box = channel<number>();
      box.send(5);
      const values = yield* all([
        call(echo, 1),
        free.scheduleActivity('echo', 2),
        run('three', () => 3),
        spawn(function* () {
          return yield* box.receive();
        }),
      ]);
      yield* sleep(0);
      yield* allSettled([scheduleTimer(0)]);
      yield* any([scheduleTimer(0)]);
      yield* race(scheduleTimer(0), free.waitForEvent('never'));
      yield* select({ timer: scheduleTimer(0), job: free.dequeueEvent('never') });
      yield* withTimeout('24h', scheduleTimer(0));
      yield* uncancellable(function* () {
        yield scheduleTimer(0);
      });
      const id = yield* free.startOrchestration('listener', 'freely-listener', 'free');
      yield* free.raiseEvent(id, 'greeting');
      yield* free.enqueueEvent(id, 'jobs');
      const parts = [
        yield* free.callOrchestration(child, 'returns'),
        yield* free.scheduleSubOrchestration('child', 'returns'),
      ];
      yield* call(echo, [
        free.now(),
        free.random(),
        free.randomUUID(),
        free.currentContext().instanceId,
        free.patched('free'),
      ]);
      return { status, values, parts: parts.length };
    }),
    child,
    listener,
  ],
  instances: { freely: { outcomes: ['continuedAsNew', 'completed'] } },
  record: (stage) => throughout(stage, freely, 1),
};

/** Parses texts of numbers to numbers. */
const numeric: StandardSchema<string, number> = {
  '~standard': {
    version: 1,
    vendor: 'golden',
    validate: (value) =>
      typeof value === 'string' && /^\d+$/.test(value)
        ? { value: Number(value) }
        : { issues: [{ message: 'no number', path: ['amount'] }] },
  },
};

export const checked: Program = {
  name: 'checked',
  code: [
    defineOrchestration(
      'checked',
      function* (ctx, amount) {
        ctx.setCustomStatus('waiting');
        return [
          amount,
          yield* outcome(ctx.waitForEvent('amount', numeric)),
          yield* outcome(ctx.waitForEvent('amount', numeric)),
        ];
      },
      { input: numeric },
    ),
  ],
  instances: { checked: ended, 'checked-wrong': { outcomes: ['failed'] } },
  async record(stage) {
    const { client } = stage;
    await stage.start(checked.code);
    await client.startOrchestration('checked-wrong', 'checked', 'many');
    await stage.end('checked-wrong');
    await client.startOrchestration('checked', 'checked', '5');
    await client.raiseEvent('checked', 'amount', '6');
    await client.raiseEvent('checked', 'amount', 'many');
    await stage.end('checked');
  },
};
