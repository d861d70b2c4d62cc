import type { Future, InstanceEvent } from 'perdure';
import { describe, expect, it } from 'vitest';

import { Counter, deferred, rejection } from '../../support/async.ts';
import { historyViolations, kinds } from '../../support/history.ts';
import { SHARED_STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  describe('code that no longer fits its history', () => {
    type Code = (ctx: any) => Generator<any, unknown, any>;

    const right: Code = function* (ctx) {
      const a = yield ctx.scheduleActivity('a', { n: 1 });
      const b = yield ctx.scheduleActivity('b', a);
      yield ctx.race(ctx.waitForEvent('ready'), ctx.scheduleTimer('1h'));
      ctx.setCustomStatus('waiting');
      return [a, b, yield ctx.waitForEvent('go')];
    };

    /** The code is the same until both activities are done. */
    const untilReady = (wait: (ctx: any) => Future<unknown>): Code =>
      function* (ctx) {
        const a = yield ctx.scheduleActivity('a', { n: 1 });
        yield ctx.scheduleActivity('b', a);
        yield wait(ctx);
      };

    /**
     * Code that does not fit the history, and the report about it. If nothing was asked for, the report has no line.
     */
    const wrong: Record<string, { code: Code; report: object; source?: unknown }> = {
      'another activity': {
        code: function* (ctx) {
          yield ctx.scheduleActivity('b', { n: 1 });
        },
        report: { eventId: 2, recorded: expect.stringContaining("'a'"), attempted: expect.stringContaining("'b'") },
      },
      'another input': {
        code: function* (ctx) {
          yield ctx.scheduleActivity('a', { n: 2 });
        },
        report: { eventId: 2, field: { name: 'input', recorded: '{"n":1}', attempted: '{"n":2}' } },
      },
      'another order': {
        code: function* (ctx) {
          ctx.scheduleActivity('a', { n: 1 });
          yield ctx.scheduleActivity('b', 'a');
        },
        report: {
          eventId: 3,
          recorded: expect.stringContaining('completes'),
          attempted: expect.stringContaining("'b'"),
        },
      },
      'one more': {
        code: function* (ctx) {
          const a = yield ctx.scheduleActivity('a', { n: 1 });
          yield ctx.scheduleActivity('b', a);
          yield ctx.race(ctx.waitForEvent('ready'), ctx.scheduleTimer('1h'));
          yield ctx.scheduleActivity('a', 'more');
          return yield ctx.waitForEvent('go');
        },
        report: { eventId: 8, attempted: expect.stringContaining("'a'") },
      },
      'one fewer': {
        code: function* (ctx) {
          yield ctx.scheduleActivity('a', { n: 1 });
          return yield ctx.waitForEvent('go');
        },
        report: { eventId: 4, recorded: expect.stringContaining("'b'"), attempted: expect.stringContaining('wait') },
        source: undefined,
      },
      'an end too early': {
        code: function* (ctx) {
          yield ctx.scheduleActivity('a', { n: 1 });
          return 'done';
        },
        report: { eventId: 4, recorded: expect.stringContaining("'b'"), attempted: expect.stringContaining('returns') },
        source: undefined,
      },
      'a timer in place of an activity': {
        code: function* (ctx) {
          yield ctx.scheduleTimer('1h');
        },
        report: { eventId: 2, recorded: expect.stringContaining("'a'"), attempted: expect.stringContaining('timer') },
      },
      'another time of a timer': {
        code: untilReady((ctx) => ctx.race(ctx.waitForEvent('ready'), ctx.scheduleTimer('2h'))),
        report: {
          eventId: 6,
          field: { name: 'fireAtMs', recorded: expect.any(String), attempted: expect.any(String) },
        },
      },
      'another event': {
        code: untilReady((ctx) => ctx.race(ctx.waitForEvent('steady'), ctx.scheduleTimer('1h'))),
        report: {
          eventId: 7,
          recorded: expect.stringContaining("'ready'"),
          attempted: expect.stringContaining("'steady'"),
        },
        source: undefined,
      },
      'code that swallows every error': {
        code: function* (ctx) {
          for (;;) {
            try {
              yield ctx.scheduleActivity('b');
            } catch {
              return 'swallowed';
            }
          }
        },
        report: { eventId: 2, attempted: expect.stringContaining("'b'") },
      },
    };

    it.each(Object.entries(wrong))(
      'suspends the instance and changes nothing: %s',
      async (_, { code, report, ...rest }) => {
        const source = 'source' in rest ? {} : { source: expect.stringContaining('nondeterminism.test.ts') };
        const ran: string[] = [];
        const id = store.id();
        const name = `changing ${id}`;
        const deploy = (version: Code) =>
          store.start((runtime) => {
            for (const activity of ['a', 'b']) {
              runtime.registerActivity(activity, (ctx) => {
                ran.push(ctx.idempotencyKey);
                return activity;
              });
            }
            runtime.registerOrchestration(name, version);
          });

        const first = await deploy(right);
        await store.client.startOrchestration(id, name);
        await store.client.raiseEvent(id, 'ready');
        await store.client.waitForStatusChange(id, 0, undefined, SOON);
        await first.shutdown();
        const history = await store.client.getHistory(id);
        expect(kinds(history)).toEqual([
          'ExecutionStarted',
          'ActivityScheduled',
          'ActivityCompleted',
          'ActivityScheduled',
          'ActivityCompleted',
          'TimerCreated',
          'EventReceived',
        ]);

        const second = await deploy(code);
        const suspended = deferred<InstanceEvent>();
        second.on('instance', (event) => suspended.resolve(event));
        await store.client.raiseEvent(id, 'go', 'event');
        expect(await suspended.promise).toMatchObject({ instanceId: id, status: 'Suspended' });
        await store.settled();
        const status = await store.client.getStatus(id);
        expect(status).toMatchObject({ status: 'Suspended', customStatus: 'waiting', customStatusVersion: 1 });
        expect(status?.error).toMatchObject({
          name: 'NondeterminismError',
          code: 'NONDETERMINISM',
          report: { ...report, ...source },
        });
        expect(await store.client.getHistory(id)).toEqual(history);
        expect(store.errors.splice(0).map(({ message }) => message)).toEqual([
          expect.stringContaining(`'${id}' is suspended`),
        ]);
        await second.shutdown();

        await deploy(right);
        expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(['a', 'b', 'event']);
        expect(ran).toHaveLength(2);
        expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
      },
    );

    it('is suspended again when it is resumed with the wrong code, and ends at once when it is cancelled', async () => {
      const id = store.id();
      const first = await store.start((runtime) =>
        runtime.registerOrchestration('stays wrong', function* (ctx) {
          ctx.setCustomStatus('waiting');
          yield ctx.scheduleTimer('1h');
        }),
      );
      await store.client.startOrchestration(id, 'stays wrong');
      await store.client.waitForStatusChange(id, 0, undefined, SOON);
      await first.shutdown();
      const suspensions = new Counter();
      const second = await store.start((runtime) =>
        runtime.registerOrchestration('stays wrong', function* (ctx) {
          yield ctx.scheduleTimer('2h');
        }),
      );
      second.on('instance', () => suspensions.add());
      await store.client.raiseEvent(id, 'wake');
      await suspensions.reaches(1);
      await store.settled();
      await store.client.resume(id);
      await suspensions.reaches(2);
      await store.settled();
      expect(await store.client.getStatus(id)).toMatchObject({ status: 'Suspended' });
      expect(store.errors.splice(0)).toHaveLength(2);
      await store.client.cancelInstance(id, 'given up');
      const { status, error } = (await store.client.getStatus(id)) ?? {};
      expect([status, error?.message]).toEqual([
        'Cancelled',
        `cancelled: instance '${id}' was suspended, and none of its code ran`,
      ]);
      const history = await store.client.getHistory(id);
      expect(historyViolations(history, 'Cancelled')).toEqual([]);
      expect(history.slice(-2)).toMatchObject([
        { kind: 'CancelRequested', payload: 'given up' },
        { kind: 'ExecutionCancelled' },
      ]);
      await store.client.cancelInstance(id);
      expect(await rejection(store.client.resume(id))).toMatchObject({ code: 'RUNTIME_STATE' });
    });
  });
});
