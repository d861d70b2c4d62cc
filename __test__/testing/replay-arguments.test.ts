// The arguments of `replay` and `replayFiles`: wrong histories and definitions, options, and files.

import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  defineOrchestration,
  type HistoryExport,
  NondeterminismError,
  NotRegisteredError,
  PayloadError,
  RuntimeStateError,
} from 'perdure';
import { HistoryError, replay, replayFiles } from 'perdure/testing';
import { afterAll, describe, expect, it } from 'vitest';

import { rejection } from '../support/async.ts';
import { temporaryFolder } from '../support/providers.ts';

describe('the arguments of a replay', () => {
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
      /^the history cannot be replayed: the export is not JSON: /,
    ],
    ['no export', 5, '', /must be a result of client\.exportHistory, got 5/],
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
      /'ExecutionComplete', which is not a kind .* did you mean 'ExecutionCompleted'\?/,
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
      'an event without a field that its kind needs',
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
        "instance 'i', execution 1: it is an execution of orchestration 'one' 1.0.0, " +
        "but only these are known: 'one' 2.0.0, 'two' 1.0.0",
    });
  });

  it.each<[what: string, definitions: unknown, options: object | undefined, message: RegExp]>([
    [
      'no definition',
      null,
      undefined,
      /the definition must be a result of defineOrchestration, or \{ name, version, fn \}; got null/,
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

  it('an input that does not fit its schema fails the code', () => {
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

  describe('as histories in files', () => {
    const folder = temporaryFolder();
    afterAll(() => rmSync(folder, { recursive: true }));
    const write = (file: string, content: unknown): string => {
      const path = join(folder, file);
      mkdirSync(join(path, '..'), { recursive: true });
      writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
      return path;
    };
    const other = { ...completed, payload: '2' };

    it('are replayed, one or all of a folder', async () => {
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

    it('are each named in the error', async () => {
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
      expect(error.message).toMatch(/^2 histories cannot be replayed:\n.*a\.json: [^]*\n.*c\.json: /);
      expect(error.message).toMatch(/c\.json: the history cannot be replayed: the export is not JSON/);
    });

    it('must be there', async () => {
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
