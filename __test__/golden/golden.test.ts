// Histories that earlier releases wrote are replayed for ever. The histories that the programs write now must be the
// same.

import { readdirSync, readFileSync } from 'node:fs';
import type { ExportedEvent, HistoryEventKind, HistoryExport } from 'perdure';
import * as free from 'perdure/orchestration';
import { type ReplayOutcome, replay } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { HISTORY_EVENT_KINDS } from '../../js/client/history.ts';
import { FiberContext } from '../../js/orchestration/fiber-context.ts';
import { historyViolations } from '../support/history.ts';
import '../support/leaks.ts';
import { STORES } from '../support/providers.ts';
import { type Fixture, fixtures } from './fixtures.ts';
import { PROGRAMS } from './programs/index.ts';
import { type Expected, type Program, perform } from './stage.ts';

const kept = fixtures();

/** The status that `historyViolations` expects for each outcome. */
const STATES = {
  waiting: 'Running',
  notBegun: 'Pending',
  completed: 'Completed',
  failed: 'Failed',
  cancelled: 'Cancelled',
  terminated: 'Terminated',
  continuedAsNew: 'ContinuedAsNew',
} as const satisfies Record<ReplayOutcome, string>;

/** Returns the newest file of an instance. */
function newest(instanceId: string): Fixture | undefined {
  return kept.findLast((fixture) => fixture.instanceId === instanceId);
}

function programOf(instanceId: string): { program: Program; expected: Expected } {
  for (const program of PROGRAMS) {
    const expected = program.instances[instanceId];
    if (expected !== undefined) return { program, expected };
  }
  throw new Error(`no program has an instance '${instanceId}': programs are never changed`);
}

describe.each(kept)('$instanceId of $release', ({ instanceId, text, exports }) => {
  it('fits the code, and stands where it stood', () => {
    const { program, expected } = programOf(instanceId);
    const replayed = replay(text, program.code);
    expect(replayed.instanceId).toBe(instanceId);
    expect(replayed.executions.map(({ outcome }) => outcome)).toEqual(expected.outcomes);
    expect(replayed.executions.map(({ executionId, events }) => [executionId, events])).toEqual(
      exports.map(({ events }, i) => [i + 1, events.length]),
    );
    expect(replayed.executions.at(-1)?.pending).toEqual(
      (expected.pending ?? []).map((work) => (work.kind === 'timer' ? { ...work, fireAt: expect.any(Date) } : work)),
    );
  });

  it('keeps the rules of a history, and names nothing of the machine that wrote it', () => {
    for (const [i, { events }] of exports.entries()) {
      const history = events.map((event) => ({ ...event, time: new Date(event.timeMs) }));
      expect(historyViolations(history, STATES[programOf(instanceId).expected.outcomes[i] ?? 'waiting'])).toEqual([]);
    }
    expect(text).not.toMatch(/file:|node:|node_modules|golden\/programs| at \//);
  });
});

describe('the comparison of histories', () => {
  const withOutput = kept.filter(({ exports }) => exports.at(-1)?.events.at(-1)?.kind === 'ExecutionCompleted');

  it.each(withOutput)(
    'another output of $instanceId of $release does not fit, and nothing before it',
    ({ instanceId, exports }) => {
      const last = exports.at(-1) as HistoryExport;
      const other = { ...(last.events.at(-1) as ExportedEvent), payload: '"something else"' };
      const changed = [...exports.slice(0, -1), { ...last, events: [...last.events.slice(0, -1), other] }];
      expect(() => replay(changed, programOf(instanceId).program.code)).toThrow(
        `execution ${last.executionId}: the code no longer fits its history, at event ${other.eventId}:`,
      );
    },
  );
});

describe('the histories', () => {
  const newestOnes = PROGRAMS.flatMap(({ instances }) => Object.keys(instances)).map((id) => [id, newest(id)] as const);

  it('are there for each program', () => {
    expect(
      newestOnes.filter(([, fixture]) => fixture === undefined).map(([id]) => id),
      'npm run golden records what is missing',
    ).toEqual([]);
  });

  it('hold every kind of event that the engine can write', () => {
    const source = readFileSync(new URL('../../crates/engine/src/record/table.rs', import.meta.url), 'utf8');
    const table = source.slice(source.indexOf('\nkinds! {\n'));
    const kinds = [...table.matchAll(/^ {4}(\w+) \(/gm)].map(([, kind]) => kind);
    expect(kinds).toEqual([...HISTORY_EVENT_KINDS]);
    const found = new Set(
      newestOnes
        .flatMap(([, fixture]) => fixture?.exports ?? [])
        .flatMap(({ events }) => events.map(({ kind }) => kind)),
    );
    // Every kind of event occurs in an export.
    expect(HISTORY_EVENT_KINDS.filter((kind) => !found.has(kind))).toEqual([]);
  });

  it('come from programs that use every operation of the context, and every free function', () => {
    const folder = new URL('programs/', import.meta.url);
    const source = readdirSync(folder)
      .map((file) => readFileSync(new URL(file, folder), 'utf8'))
      .join('\n');
    const isUsed = (name: string) => new RegExp(`ctx\\.${name}\\b|'${name}'`).test(source);
    const isUsedFreely = (name: string) =>
      new RegExp(`free\\.${name}\\b|const \\{[^}]*\\b${name}\\b[^}]*\\} = free`).test(source);
    const classes = [FiberContext, Object.getPrototypeOf(FiberContext)];
    const operations = classes
      .flatMap(({ prototype }) => Object.getOwnPropertyNames(prototype))
      .filter((name) => name !== 'constructor');
    expect(operations.filter((name) => !isUsed(name))).toEqual([]);
    expect(Object.keys(free).filter((name) => name !== 'CLOSED' && !isUsedFreely(name))).toEqual([]);
  });
});

describe.each(STORES)('on $name', (kind) => {
  it.each(PROGRAMS)('$name still writes its recorded histories', async (program) => {
    const site = kind.create();
    try {
      await using provider = await site.open();
      for (const [instanceId, exports] of await perform(program, provider)) {
        const then = newest(instanceId)?.exports ?? [];
        expect(comparable(exports, then), instanceId).toEqual(comparable(then, then));
      }
    } finally {
      await site.remove();
    }
  });
});

/** Returns an export without the parts that differ between runs: times, and values that come from the random seed. */
function comparable(exports: readonly HistoryExport[], then: readonly HistoryExport[]): unknown[] {
  return exports.map((given, i) => {
    const exported = settled(given, then[i]);
    const isLate = (other: HistoryExport | undefined) => other?.events[1]?.kind === 'ExecutionBegan';
    // A first turn that came late is recorded, and it may come late on a busy machine.
    const isAlone = isLate(exported) && !isLate(then[i]);
    const all = isAlone ? without(exported.events, ({ eventId }) => eventId === 2) : exported.events;
    // An earlier release recorded the cancellations of timers.
    const timers = new Set(all.filter(({ kind }) => kind === 'TimerCreated').map(({ eventId }) => eventId));
    const events = byCommand(without(all, ({ kind, refId = 0 }) => kind === 'OperationCancelled' && timers.has(refId)));
    return {
      ...exported,
      events: events.map(({ timeMs: _, ...event }) => JSON.parse(withoutChance(event)) as unknown),
    };
  });
}

/**
 * Returns the export as if its start had named a version. In the old releases, a start without a version, before there
 * was a runtime, took 1.0.0. Now a worker decides the version, and the first turn records it.
 */
function settled(exported: HistoryExport, then: HistoryExport | undefined): HistoryExport {
  const [first, second, ...rest] = exported.events;
  if (first === undefined || then === undefined || first.meta?.version !== '') return exported;
  const { version: _, ...meta } = second?.meta ?? {};
  const began = second?.kind === 'ExecutionBegan' ? { ...second, meta } : second;
  if (began !== second && Object.keys(meta).length === 0) delete (began as { meta?: object }).meta;
  const { version } = then;
  return {
    ...exported,
    version,
    events: [{ ...first, meta: { ...first.meta, version } }, ...(began === undefined ? [] : [began]), ...rest],
  };
}

/** Returns the events as they would be without some of them. */
function without(events: readonly ExportedEvent[], isGone: (event: ExportedEvent) => boolean): ExportedEvent[] {
  const ids = new Map<number, number>();
  const left = events.filter((event) => !isGone(event));
  for (const [i, { eventId }] of left.entries()) ids.set(eventId, i + 1);
  const moved = (id: number) => ids.get(id) ?? id;
  return left.map((event) => ({
    ...event,
    eventId: moved(event.eventId),
    ...(event.refId === undefined ? {} : { refId: moved(event.refId) }),
  }));
}

/** Kinds of events that tell the outcome of a command. */
const OUTCOMES: ReadonlySet<string> = new Set<HistoryEventKind>([
  'ActivityCompleted',
  'ActivityFailed',
  'TimerFired',
  'ChildCompleted',
  'ChildFailed',
]);

/**
 * Returns the events with each run of adjacent outcomes in the order of their commands. Work that runs at the same time
 * ends in any order, which the program does not decide.
 */
function byCommand(events: readonly ExportedEvent[]): ExportedEvent[] {
  const sorted = [...events];
  for (let from = 0; from < sorted.length; from += 1) {
    const length = sorted.slice(from).findIndex(({ kind }) => !OUTCOMES.has(kind));
    const to = length < 0 ? sorted.length : from + length;
    const run = sorted.slice(from, to).toSorted((a, b) => (a.refId ?? 0) - (b.refId ?? 0));
    for (const [i, event] of run.entries()) sorted[from + i] = { ...event, eventId: from + i + 1 };
    from = to;
  }
  return sorted;
}

function withoutChance({ meta, ...event }: Omit<ExportedEvent, 'timeMs'>): string {
  const { seed, incarnation: _, fireAtMs, retryAtMs, ...rest } = meta ?? {};
  const told = { seed: typeof seed, fireAtMs: typeof fireAtMs, retryAtMs: typeof retryAtMs };
  return JSON.stringify({ ...event, meta: { ...rest, ...told } })
    .replaceAll(/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g, '<uuid>')
    .replaceAll(/perdure\.token(Key)?\/[\w-]{22,32}/g, '<token>')
    .replaceAll(/(?<![\w-])[\w-]{43}(?![\w-])/g, '<token>')
    .replaceAll(/\b20\d\d-\d\d-\d\dT[\d:.]+Z/g, '<date>')
    .replaceAll(/\b1\d{12}\b/g, '1')
    .replaceAll(/\b\d\.\d{8,}(e-\d+)?/g, '0.5');
}
