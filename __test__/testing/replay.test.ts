// `perdure/testing`: histories of real runs, replayed with the code that wrote them and with changed code.

import {
  defineOrchestration,
  type HistoryExport,
  NondeterminismError,
  type OrchestrationFunction,
  type Runtime,
} from 'perdure';
import { replay } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';

const order: OrchestrationFunction = function* (ctx, n: number) {
  const parts = yield ctx.all([ctx.scheduleActivity('pick', n), ctx.scheduleActivity('weigh', n)]);
  yield ctx.scheduleTimer(1);
  ctx.setCustomStatus('waiting');
  const { by } = yield ctx.waitForEvent('approved');
  if (by === 'nobody')
    throw Object.assign(new RangeError('not approved', { cause: new Error('nobody') }), { code: 'NO' });
  return [...parts, by];
};

/** Code that differs from `order` in one operation, and the expected report. */
const CHANGES: readonly { what: string; code: OrchestrationFunction; report: object }[] = [
  {
    what: 'another activity',
    *code(ctx, n) {
      yield ctx.all([ctx.scheduleActivity('choose', n), ctx.scheduleActivity('weigh', n)]);
    },
    report: {
      eventId: 2,
      field: { name: 'name', recorded: 'pick', attempted: 'choose' },
      source: expect.stringContaining('replay.test.ts'),
    },
  },
  {
    what: 'another input',
    *code(ctx, n) {
      yield ctx.all([ctx.scheduleActivity('pick', n), ctx.scheduleActivity('weigh', { n })]);
    },
    report: { eventId: 3, field: { name: 'input', recorded: '1', attempted: '{"n":1}' } },
  },
  {
    what: 'another order',
    *code(ctx, n) {
      yield ctx.all([ctx.scheduleActivity('weigh', n), ctx.scheduleActivity('pick', n)]);
    },
    report: { eventId: 2, field: { name: 'name', recorded: 'pick', attempted: 'weigh' } },
  },
  {
    what: 'one more',
    *code(ctx, n) {
      yield ctx.all(['pick', 'weigh', 'wrap'].map((name) => ctx.scheduleActivity(name, n)));
    },
    report: {
      eventId: 4,
      recorded: "activity 'pick' of event 2 completes",
      attempted: "activity 'wrap' is scheduled",
      hint: expect.stringContaining('does more here'),
    },
  },
  {
    what: 'one fewer',
    *code(ctx, n) {
      yield ctx.scheduleActivity('pick', n);
    },
    report: {
      eventId: 3,
      recorded: "activity 'weigh' is scheduled",
      attempted: 'the code waits for an activity',
      hint: expect.stringContaining('does less here'),
    },
  },
  {
    what: 'one after the other',
    *code(ctx, n) {
      yield ctx.scheduleActivity('pick', n);
      yield ctx.scheduleActivity('weigh', n);
    },
    report: {
      eventId: 3,
      recorded: "activity 'weigh' is scheduled",
      source: expect.stringContaining('replay.test.ts'),
    },
  },
  {
    what: 'another timer',
    *code(ctx, n) {
      yield ctx.all([ctx.scheduleActivity('pick', n), ctx.scheduleActivity('weigh', n)]);
      yield ctx.scheduleTimer(2);
    },
    report: { eventId: 6, field: { name: 'fireAtMs', recorded: expect.any(String), attempted: expect.any(String) } },
  },
  {
    what: 'no timer',
    *code(ctx, n) {
      yield ctx.all([ctx.scheduleActivity('pick', n), ctx.scheduleActivity('weigh', n)]);
      yield ctx.waitForEvent('approved');
    },
    report: { eventId: 6, attempted: "the code waits for event 'approved'" },
  },
  {
    what: 'an end that comes early',
    *code(ctx, n) {
      return yield ctx.all([ctx.scheduleActivity('pick', n), ctx.scheduleActivity('weigh', n)]);
    },
    report: { eventId: 6, attempted: 'the orchestration returns' },
  },
];

/** Code that differs from `order` after the events that a waiting instance has recorded. */
const LATER: readonly { what: string; code: OrchestrationFunction; report: object }[] = [
  {
    what: 'another event',
    *code(ctx, n) {
      yield ctx.all([ctx.scheduleActivity('pick', n), ctx.scheduleActivity('weigh', n)]);
      yield ctx.scheduleTimer(1);
      yield ctx.waitForEvent('denied');
    },
    report: { eventId: 8, recorded: "event 'approved' is received", attempted: "the code waits for event 'denied'" },
  },
  {
    what: 'another output',
    *code(ctx, n) {
      yield* order(ctx, n);
      return 'other';
    },
    report: { eventId: 9, field: { name: 'output', recorded: '["picked 1","weighed 1","ada"]', attempted: '"other"' } },
  },
  {
    what: 'a step more before the end',
    *code(ctx, n) {
      const output = yield* order(ctx, n);
      yield ctx.scheduleActivity('pick', n);
      return output;
    },
    report: { eventId: 9, recorded: 'the orchestration returns', attempted: "activity 'pick' is scheduled" },
  },
  {
    what: 'a failure in place of an output',
    *code(ctx, n) {
      yield* order(ctx, n);
      throw new Error('other');
    },
    report: { eventId: 9, recorded: 'the orchestration returns', attempted: 'the orchestration throws' },
  },
];

/** Returns the error of a replay that does not fit. */
function refused(
  history: Parameters<typeof replay>[0],
  code: OrchestrationFunction,
  name = 'order',
): NondeterminismError {
  try {
    replay(history, { name, fn: code });
  } catch (error) {
    expect(error).toBeInstanceOf(NondeterminismError);
    return error as NondeterminismError;
  }
  throw new Error('it fits');
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Starts an instance of `order` that waits for its event. No runtime with its code is left. */
  async function waiting(): Promise<string> {
    const id = store.id();
    const runtime = await store.start((runtime) =>
      runtime
        .registerOrchestration('order', order)
        .registerActivity('pick', (_, n) => `picked ${n}`)
        .registerActivity('weigh', (_, n) => `weighed ${n}`),
    );
    await store.client.startOrchestration(id, 'order', 1);
    await store.client.waitForStatusChange(id, 0, undefined, SOON);
    await runtime.shutdown();
    return id;
  }

  async function finished(by: string): Promise<HistoryExport> {
    const id = await waiting();
    await store.start((runtime) => runtime.registerOrchestration('order', order));
    await store.client.raiseEvent(id, 'approved', { by });
    await store.client.waitForOrchestration(id, SOON);
    return store.client.exportHistory(id);
  }

  it('a history of the same code fits, before and after its end', async () => {
    const open = await store.client.exportHistory(await waiting());
    expect(replay(open, { name: 'order', fn: order })).toEqual({
      instanceId: open.instanceId,
      executions: [
        {
          executionId: 1,
          name: 'order',
          version: '1.0.0',
          events: 7,
          outcome: 'waiting',
          pending: [{ kind: 'event', name: 'approved' }],
        },
      ],
    });
    for (const [by, outcome] of [
      ['ada', 'completed'],
      ['nobody', 'failed'],
    ] as const) {
      const { executions } = replay(JSON.stringify(await finished(by)), [defineOrchestration('order', order)]);
      expect(executions).toMatchObject([{ events: 9, outcome, pending: [] }]);
    }
  });

  describe('an error that the code hands on', () => {
    /** Two functions with the same code, a line apart. */
    const here = (message: string) => new RangeError(message, { cause: new Error('why') });
    const there = (message: string) => Object.assign(new RangeError(message, { cause: new Error('why') }));

    /** Passes the error to every operation that takes a value, and also the error of a failed activity. */
    const handing = (made: Error): OrchestrationFunction =>
      function* (ctx, name: string) {
        try {
          yield ctx.scheduleActivity('fails', undefined, { retry: { maxAttempts: 1 } });
        } catch (error) {
          yield ctx.scheduleActivity('told', new Map([['deep', [error, made]]]));
        }
        yield ctx.scheduleSubOrchestration('child', made);
        ctx.startOrchestration('child', `${ctx.instanceId}-detached`, { made });
        ctx.raiseEvent(`${ctx.instanceId}-detached`, 'told', made);
        yield ctx.waitForEvent('go');
        return { name, made };
      };

    const register = (runtime: Runtime, made: Error): Runtime =>
      runtime
        .registerOrchestration('handing', handing(made))
        .registerOrchestration('child', function* (_ctx, error) {
          return error;
        })
        .registerActivity('told', () => {})
        .registerActivity('fails', () => {
          throw new Error('failed');
        });

    /** Returns the id of an instance that waits for an event. */
    async function begun(): Promise<string> {
      const runtime = await store.start((runtime) => register(runtime, here('boom')));
      const id = store.id();
      await store.client.startOrchestration(id, 'handing', 'one');
      await expect.poll(async () => (await store.client.getHistory(id)).map(({ kind }) => kind)).toContain('EventSent');
      await runtime.shutdown();
      return id;
    }

    it('may have another stack after the code has moved', async () => {
      const id = await begun();
      const recorded = JSON.stringify(await store.client.exportHistory(id));
      await store.start((runtime) => register(runtime, there('boom')));
      await store.client.raiseEvent(id, 'go');
      const { status, output } = await store.client.waitForOrchestration<any>(id, SOON);
      expect([status, output.made]).toEqual(['Completed', new RangeError('boom', { cause: new Error('why') })]);
      // As if the code were in another file.
      const moved = recorded.replaceAll(/[^\s"(]*:\d+:\d+/g, '/elsewhere.js:1:1');
      expect(moved).not.toBe(recorded);
      expect(replay(moved, { name: 'handing', fn: handing(there('boom')) }).executions).toMatchObject([
        { outcome: 'waiting' },
      ]);
    });

    it('is another one when it says something else', async () => {
      const id = await begun();
      const exported = await store.client.exportHistory(id);
      const report = { field: { name: 'input' }, recorded: expect.stringContaining("activity 'told'") };
      expect(refused(exported, handing(there('bang')), 'handing').report).toMatchObject(report);
    });
  });

  it.each(CHANGES)('a replay and a runtime report $what alike', async ({ code, report }) => {
    const id = await waiting();
    const error = refused(await store.client.exportHistory(id), code);
    expect(error.report).toMatchObject(report);
    expect(error.message).toMatch(
      /^instance '.*', execution 1: the code no longer fits its history, at event \d+:\n {2}recorded: /,
    );

    await store.start((runtime) => runtime.registerOrchestration('order', code));
    await store.client.raiseEvent(id, 'approved', { by: 'ada' });
    await store.suspended(id);
    const status = await store.client.getStatus(id);
    expect((status?.error as NondeterminismError).report).toEqual(error.report);
    expect(error.message.endsWith((status?.error as Error).message)).toBe(true);
    store.errors.splice(0);
    await store.client.terminateInstance(id);
  });

  it('a history with an end is compared up to it', async () => {
    const exported = await finished('ada');
    for (const { what, code, report } of [...CHANGES, ...LATER]) {
      expect(refused(exported, code).report, what).toMatchObject(report);
    }
  });

  it('an error that is another one is told, one of another stack is not', async () => {
    const exported = await finished('nobody');
    const throwing = (error: Error): OrchestrationFunction =>
      function* (ctx, n) {
        try {
          yield* order(ctx, n);
        } catch {
          throw error;
        }
      };
    const nobody = new Error('nobody');
    const same = Object.assign(new RangeError('not approved', { cause: nobody }), { code: 'NO' });
    expect(replay(exported, { name: 'order', fn: throwing(same) }).executions[0]?.outcome).toBe('failed');
    for (const other of [
      new RangeError('not approved'),
      new Error('not approved', { cause: nobody }),
      new RangeError('approved', { cause: nobody }),
    ]) {
      expect(refused(exported, throwing(other)).report).toEqual({
        eventId: 9,
        recorded: 'the orchestration throws',
        attempted: 'the orchestration throws',
        field: {
          name: 'error',
          recorded: 'RangeError (NO): not approved, caused by Error: nobody',
          attempted: expect.stringContaining(other.message),
        },
        hint: expect.any(String),
      });
    }
  });

  it('nothing has to fit before the first turn, and everything after one that recorded nothing', async () => {
    const [idle, begun] = [store.id('idle'), store.id('begun')];
    const waits: OrchestrationFunction = function* (ctx) {
      ctx.setCustomStatus('waiting');
      yield ctx.waitForEvent('go');
    };
    await store.client.startOrchestration(idle, 'waits');
    const before = await store.client.exportHistory(idle);
    await store.start((runtime) => runtime.registerOrchestration('waits', waits));
    await store.client.startOrchestration(begun, 'waits');
    await store.client.waitForStatusChange(begun, 0, undefined, SOON);
    const after = await store.client.exportHistory(begun);
    expect([before.events.length, after.events.length]).toEqual([1, 1]);
    expect(replay(before, { name: 'waits', fn: order }).executions[0]).toMatchObject({
      outcome: 'notBegun',
      pending: [],
    });
    expect(replay(after, { name: 'waits', fn: waits }).executions[0]).toMatchObject({
      outcome: 'waiting',
      pending: [{ kind: 'event', name: 'go' }],
    });
    expect(refused(after, order, 'waits').report).toMatchObject({ eventId: 2, recorded: 'the code waited here' });
  });
});
