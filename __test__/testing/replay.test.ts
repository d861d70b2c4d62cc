// `perdure/testing`: histories of real runs, replayed with the code that wrote them and with changed code.

import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  defineOrchestration,
  type HistoryEvent,
  type HistoryExport,
  NondeterminismError,
  NotRegisteredError,
  type OrchestrationFunction,
  PayloadError,
  type Runtime,
  RuntimeStateError,
} from 'perdure';
import { HistoryError, replay, replayFiles, TestRuntime } from 'perdure/testing';
import { afterAll, describe, expect, it, vi } from 'vitest';

import { rejection } from '../support/async.ts';
import { STORES, temporaryFolder } from '../support/providers.ts';
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

  it('what the same code wrote fits, under way and in the end', async () => {
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
      await vi.waitUntil(async () => (await store.client.getHistory(id)).some(({ kind }) => kind === 'EventSent'), {
        timeout: 20_000,
      });
      await runtime.shutdown();
      return id;
    }

    it('may have another stack after the code has moved', async () => {
      const id = await begun();
      const recorded = JSON.stringify(await store.client.exportHistory(id));
      await store.start((runtime) => register(runtime, there('boom')));
      await store.client.raiseEvent(id, 'go');
      const { status, output } = await store.client.waitForOrchestration(id, SOON);
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

  it.each(CHANGES)('a replay and a runtime say the same of $what', async ({ code, report }) => {
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

describe('what is given', () => {
  const started = {
    eventId: 1,
    timeMs: 1_000,
    kind: 'ExecutionStarted',
    name: 'one',
    meta: { version: '1.0.0', seed: '1' },
  } as const;
  const exported = (...events: object[]) =>
    ({
      format: 1,
      instanceId: 'i',
      name: 'one',
      version: '1.0.0',
      executionId: 1,
      hasBegun: true,
      events: [started, ...events],
    }) as unknown as HistoryExport;
  const completed = { eventId: 2, timeMs: 1_000, kind: 'ExecutionCompleted', payload: '1' };
  const one = defineOrchestration('one', function* () {
    return 1;
  });

  const failure = (history: unknown, definitions: unknown = one, options?: object): Error & { path?: string } => {
    try {
      replay(history as HistoryExport, definitions as typeof one, options);
    } catch (error) {
      return error as Error;
    }
    throw new Error('it was taken');
  };

  it.each<[what: string, history: unknown, path: string, message: RegExp]>([
    [
      'a text that was cut off',
      JSON.stringify(exported(completed)).slice(0, -10),
      '',
      /^the history cannot be replayed: the export is no JSON: /,
    ],
    ['no export', 5, '', /must be what client\.exportHistory returns, got 5/],
    ['another object', { events: [] }, 'format', /is missing: this is not what client\.exportHistory returns/],
    ['a newer format', { ...exported(), format: 2 }, 'format', /format is 2, and this Perdure reads 1/],
    ['no executions', [], '', /is an empty list/],
    ['no events', { ...exported(), events: [] }, 'events', /must be a list of events, got none/],
    ['an event that is none', exported(null as never), 'events[1]', /must be an event, got null/],
    [
      'an event that is missing',
      exported({ ...completed, eventId: 3 }),
      'events[1].eventId',
      /is 3 where 2 was expected/,
    ],
    [
      'an unknown kind',
      exported({ ...completed, kind: 'ExecutionComplete' }),
      'events[1].kind',
      /'ExecutionComplete', which is no kind .* did you mean 'ExecutionCompleted'\?/,
    ],
    [
      'a payload that is no text',
      exported({ ...completed, payload: 1 }),
      'events[1].payload',
      /must be a string .* got 1/,
    ],
    ['no time', exported({ ...completed, timeMs: '1' }), 'events[1].timeMs', /must be a whole number of ms/],
    [
      'a reference to nothing',
      exported({ ...completed, refId: 0 }),
      'events[1].refId',
      /must be the number of an event/,
    ],
    [
      'a beginning that is cut off',
      { ...exported(), events: [{ ...completed, eventId: 1 }] },
      'events[0].kind',
      /an execution begins with 'ExecutionStarted'/,
    ],
    ['another name in its head', { ...exported(), name: 'two' }, 'name', /is 'two', and its first event says 'one'/],
    ['no word of whether it has begun', { ...exported(), hasBegun: undefined }, 'hasBegun', /must be true or false/],
    [
      'the second of two',
      [exported(), { ...exported(), executionId: 0 }],
      '[1].executionId',
      /must be a whole number >= 1/,
    ],
    [
      'two instances',
      [exported(), { ...exported(), instanceId: 'j' }],
      '[1].instanceId',
      /is 'j', another instance than 'i'/,
    ],
    [
      'an event without what its kind needs',
      exported({ eventId: 2, timeMs: 1, kind: 'TimerFired' }),
      'events',
      /event 2 \(TimerFired\) cannot be read: it refers to no earlier event/,
    ],
    [
      'options that the engine does not know',
      exported({ eventId: 2, timeMs: 1, kind: 'ActivityScheduled', name: 'a', meta: { more: 1 } }),
      'events',
      /unknown field `more`/,
    ],
    [
      'events after the end',
      exported(completed, { ...completed, eventId: 3 }),
      'events',
      /event 3 .* the execution ended before it/,
    ],
    [
      'a seed that is none',
      { ...exported(), events: [{ ...started, meta: { version: '1.0.0', seed: 'x' } }] },
      'events',
      /its seed is no number/,
    ],
    [
      'a lone surrogate in a name',
      exported({ eventId: 2, timeMs: 1, kind: 'PatchApplied', name: '\ud800' }),
      'events[1].name',
      /must be a string without lone surrogates/,
    ],
  ])('%s is refused', (_, history, path, message) => {
    const error = failure(history);
    expect(error).toBeInstanceOf(HistoryError);
    expect(error).toMatchObject({ name: 'HistoryError', code: 'HISTORY', path });
    expect(error.message).toMatch(message);
  });

  it('code of another name or version is not there', () => {
    const error = failure(exported(completed), [
      { name: 'one', version: '2.0.0', fn: one.fn },
      { name: 'two', fn: one.fn },
    ]);
    expect(error).toBeInstanceOf(NotRegisteredError);
    expect(error).toMatchObject({
      kind: 'orchestration',
      missing: 'one',
      version: '1.0.0',
      message:
        "instance 'i', execution 1: it is an execution of orchestration 'one' 1.0.0, and there is only 'one' 2.0.0, 'two' 1.0.0",
    });
  });

  it.each<[what: string, definitions: unknown, options: object | undefined, message: RegExp]>([
    [
      'no definition',
      null,
      undefined,
      /the definition must be what defineOrchestration returned, or \{ name, version, fn \}; got null/,
    ],
    ['none of a list', [one, 5], undefined, /definitions\[1\] must be .* got 5/],
    ['an empty list', [], undefined, /the list of definitions is empty/],
    [
      'an async function',
      { name: 'one', fn: async () => {} },
      undefined,
      /must be a function\*, got an async function/,
    ],
    [
      'a misspelt key',
      { name: 'one', verison: '1', fn: one.fn },
      undefined,
      /unknown option `verison`; did you mean `version`/,
    ],
    ['an unknown option', one, { coded: 1 }, /unknown option `coded`/],
    ['a codec that is none', one, { codec: {} }, /codec must be an object with the functions/],
  ])('%s is refused', (_, definitions, options, message) => {
    const error = failure(exported(completed), definitions, options);
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toMatch(message);
  });

  it('two of one name and version are refused', () => {
    expect(failure(exported(completed), [one, { name: 'one', fn: one.fn }])).toBeInstanceOf(RuntimeStateError);
  });

  it('an input that does not fit its schema is what the code fails with', () => {
    const input = {
      '~standard': { version: 1, vendor: 'test', validate: () => ({ issues: [{ message: 'no' }] }) },
    } as const;
    expect(failure(exported(completed), { name: 'one', fn: one.fn, input })).toMatchObject({
      report: { attempted: 'the orchestration throws' },
    });
  });

  describe('with options', () => {
    const codec = {
      encode: (text: string) => Buffer.from(text).toString('base64'),
      decode: (text: string) => Buffer.from(text, 'base64').toString(),
    };

    it('values as a codec made them are compared as they were before', () => {
      const coded = exported({ ...completed, payload: `#${codec.encode('1')}` });
      expect(replay(coded, one, { codec }).executions[0]?.outcome).toBe('completed');
      expect(failure(coded)).toBeInstanceOf(NondeterminismError);
      const input = {
        ...exported(completed),
        events: [{ ...started, payload: `#${codec.encode('1')}` }, completed],
      } as HistoryExport;
      expect(replay(input, one, { codec }).executions[0]?.outcome).toBe('completed');
      expect(failure(input)).toBeInstanceOf(PayloadError);
      const plain = exported(completed);
      expect(replay(plain, one, { codec }).executions[0]?.outcome).toBe('completed');
    });

    it('values are measured by the limit that is given', () => {
      const long = 'x'.repeat(100);
      const code = {
        name: 'one',
        fn: function* () {
          return long;
        },
      };
      const recorded = exported({ ...completed, payload: JSON.stringify(long) });
      expect(replay(recorded, code).executions[0]?.outcome).toBe('completed');
      expect(failure(recorded, code, { limits: { payloadBytes: 50 } })).toBeInstanceOf(NondeterminismError);
    });

    it('the clock is that of the history, unless there is no guard', () => {
      const clock = {
        name: 'one',
        fn: function* () {
          return Date.now();
        },
      };
      const recorded = exported({ ...completed, payload: '1000' });
      expect(replay(recorded, clock).executions[0]?.outcome).toBe('completed');
      expect(failure(recorded, clock, { determinism: 'off' })).toBeInstanceOf(NondeterminismError);
      expect(Date.now()).toBeGreaterThan(1_000_000);
    });
  });

  describe('in files', () => {
    const folder = temporaryFolder();
    afterAll(() => rmSync(folder, { recursive: true }));
    const write = (file: string, content: unknown): string => {
      const path = join(folder, file);
      mkdirSync(join(path, '..'), { recursive: true });
      writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
      return path;
    };
    const other = { ...completed, payload: '2' };

    it('is replayed, one or all of a folder', async () => {
      const paths = [
        write('fine/a.json', exported(completed)),
        write(
          'fine/deep/b.json',
          [exported(), exported()].map((one) => ({ ...one, hasBegun: false })),
        ),
      ];
      write('fine/notes.txt', 'no history');
      const file = await replayFiles(paths[0] as string, one);
      expect(file).toMatchObject([{ file: paths[0], instanceId: 'i', executions: [{ outcome: 'completed' }] }]);
      expect(await replayFiles(pathToFileURL(join(folder, 'fine/')), one)).toMatchObject([
        { file: paths[0] },
        { file: paths[1], executions: [{ outcome: 'notBegun' }, { outcome: 'notBegun' }] },
      ]);
    });

    it('is named in the error, and so is each other one', async () => {
      write('wrong/a.json', exported(other));
      write('wrong/b.json', exported(completed));
      expect(await rejection(replayFiles(join(folder, 'wrong'), one))).toMatchObject({
        name: 'NondeterminismError',
        message: expect.stringMatching(/a\.json: instance 'i', execution 1: the code no longer fits/),
        report: { field: { name: 'output', recorded: '2', attempted: '1' } },
      });
      write('wrong/c.json', '[');
      const error = await rejection<AggregateError>(replayFiles(join(folder, 'wrong'), one));
      expect(error).toBeInstanceOf(AggregateError);
      expect(error.errors.map(({ name }) => name as string)).toEqual(['NondeterminismError', 'HistoryError']);
      expect(error.message).toMatch(
        /^2 histories cannot be replayed:\n.*a\.json: [^]*\n.*c\.json: the history cannot be replayed: the export is no JSON/,
      );
    });

    it('is not there', async () => {
      mkdirSync(join(folder, 'empty'));
      expect(await rejection(replayFiles(join(folder, 'empty'), one))).toMatchObject({
        code: 'HISTORY',
        message: expect.stringContaining('no .json file'),
      });
      expect(await rejection(replayFiles(join(folder, 'nowhere'), one))).toMatchObject({
        code: 'HISTORY',
        message: expect.stringContaining('ENOENT'),
      });
      expect(await rejection(replayFiles(5 as never, one))).toBeInstanceOf(TypeError);
      expect(await rejection(replayFiles(new URL('https://histories.example/'), one))).toBeInstanceOf(TypeError);
    });
  });
});

describe('the steps of a replay', () => {
  const stepped = defineOrchestration('stepped', function* stepping(ctx, n: number) {
    const picked = yield ctx.scheduleActivity('pick', n);
    yield ctx.scheduleTimer(1);
    const { by } = yield ctx.waitForEvent('approved');
    return [picked, by];
  });

  /** Returns the export of an ended execution. */
  async function exportStepped(): Promise<HistoryExport> {
    await using test = await TestRuntime.create();
    test.register(stepped).activity('pick', (_, n) => `picked ${n}`);
    const handle = await test.start(stepped, 3);
    await test.advance('1s');
    await handle.raiseEvent('approved', { by: 'ada' });
    await handle.result();
    return test.client.exportHistory(handle.id);
  }

  it('are all its events, in order, with their values', async () => {
    const exported = await exportStepped();
    const events: HistoryEvent[] = [];
    const { executions } = replay(exported, stepped, { onEvent: (event) => void events.push(event) });
    expect(executions).toMatchObject([{ outcome: 'completed', events: 7 }]);
    expect(events.map(({ eventId, kind, payload }) => [eventId, kind, payload])).toEqual([
      [1, 'ExecutionStarted', 3],
      [2, 'ActivityScheduled', 3],
      [3, 'ActivityCompleted', 'picked 3'],
      [4, 'TimerCreated', undefined],
      [5, 'TimerFired', undefined],
      [6, 'EventReceived', { by: 'ada' }],
      [7, 'ExecutionCompleted', ['picked 3', 'ada']],
    ]);
    expect(events[4]?.time).toEqual(new Date(exported.events[4]?.timeMs ?? 0));
  });

  it('are told on the stack of the code that asks, and before the code sees what it is handed', async () => {
    const seen: string[] = [];
    const traced = defineOrchestration('stepped', function* stepping(ctx, n: number) {
      seen.push('begins');
      const picked = yield ctx.scheduleActivity('pick', n);
      seen.push('is handed something');
      yield ctx.scheduleTimer(1);
      yield ctx.waitForEvent('approved');
      return [picked, 'ada'];
    });
    replay(await exportStepped(), traced, {
      onEvent({ eventId }) {
        seen.push(`${eventId}${/ stepping /.test(new Error().stack ?? '') ? ' asked for' : ''}`);
      },
    });
    expect(seen).toEqual(['1', 'begins', '2 asked for', '3', 'is handed something', '4 asked for', '5', '6', '7']);
  });

  it.each([
    [1, 2, 'waiting', [{ kind: 'activity', eventId: 2, name: 'pick' }]],
    [2, 2, 'waiting', [{ kind: 'activity', eventId: 2, name: 'pick' }]],
    [3, 4, 'waiting', [{ kind: 'timer', eventId: 4, fireAt: expect.any(Date) }]],
    [5, 5, 'waiting', [{ kind: 'event', name: 'approved' }]],
    [6, 7, 'completed', []],
    [100, 7, 'completed', []],
  ])('end where the code waits with event %i behind it', async (until, events, outcome, pending) => {
    const { executions } = replay(await exportStepped(), stepped, { until });
    expect(executions).toMatchObject([{ events, outcome, pending }]);
  });

  it('end with what is thrown when one is told, and the code has nothing of that', async () => {
    const exported = await exportStepped();
    const catching = defineOrchestration('stepped', function* (ctx, n: number) {
      try {
        yield ctx.scheduleActivity('pick', n);
      } catch {
        throw new Error('it is no business of the code');
      }
    });
    for (const at of [1, 2, 3]) {
      const onEvent = ({ eventId }: HistoryEvent): void => {
        if (eventId === at) throw new RangeError(`stop at ${at}`);
      };
      expect(() => replay(exported, catching, { onEvent })).toThrow(new RangeError(`stop at ${at}`));
    }
  });

  it('are of one execution', async () => {
    const exported = await exportStepped();
    expect(() => replay([exported, { ...exported, executionId: 2 }], stepped, { until: 2 })).toThrow(
      'until is for one execution, and these are 2',
    );
    expect(() => replay(exported, stepped, { until: 0 })).toThrow(TypeError);
    expect(() => replay(exported, stepped, { onEvent: 3 as never })).toThrow('onEvent must be a function, got 3');
    await expect(replayFiles('.', stepped, { until: 2 } as never)).rejects.toThrow('unknown option `until`');
  });
});
