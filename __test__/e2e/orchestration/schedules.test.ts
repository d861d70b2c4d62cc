// Schedules: orchestrations that are started at times.

import {
  Client,
  defineOrchestration,
  defineSchedule,
  InstanceNotFoundError,
  LimitError,
  PayloadError,
  type Runtime,
  type ScheduleInfo,
  type ScheduleOptions,
  type ScheduleRun,
  TimeoutError,
} from 'perdure';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

import { eventually, rejection } from '../../support/async.ts';
import { collectLines } from '../../support/log-lines.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const WITHIN_MS = 20_000;
const DAY_MS = 86_400_000;

/** Ends at once, fails, or waits for the event `go`. */
const job = defineOrchestration('job', function* (ctx, how: string | undefined) {
  if (how === 'fails') throw new Error('on purpose');
  if (how === 'waits') yield* ctx.waitForEvent('go');
  return how;
});

const typed = defineOrchestration('typed', function* () {}, { input: z.string() });

function register(runtime: Runtime): void {
  runtime.register(job, typed);
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  async function schedule(id: string): Promise<ScheduleInfo> {
    return (await store.client.schedules.get(id)) as ScheduleInfo;
  }

  /** Resolves with the schedule when its recent due times are as asked. */
  async function when(id: string, what: string, isSo: (recent: readonly ScheduleRun[]) => boolean) {
    await eventually(WITHIN_MS, what, async () => isSo((await schedule(id)).recent));
    return await schedule(id);
  }

  const count = (recent: readonly ScheduleRun[], outcome: ScheduleRun['outcome']): number =>
    recent.filter((run) => run.outcome === outcome).length;

  it('starts a run at each due time, once', async () => {
    await store.start(register);
    const id = store.id('often');
    const { schedules } = store.client;
    const set = await schedules.upsert(id, { every: '200ms', start: { definition: job, input: 'returns' } });
    expect(set).toMatchObject({ id, spec: { times: { kind: 'every', everyMs: 200 }, overlap: 'skip' } });
    const { recent, counts } = await when(id, 'three runs have ended', (runs) => count(runs, 'completed') >= 3);
    const dues = recent.map(({ due }) => due.getTime());
    expect(dues).toEqual(dues.toSorted((a, b) => b - a));
    expect(new Set(dues).size).toBe(dues.length);
    // A due time that came while the run before it was on its way has no run.
    expect(counts.started).toBeGreaterThanOrEqual(recent.filter(({ runId }) => runId !== undefined).length);
    for (const { due, runId, outcome } of recent.filter(({ outcome }) => outcome === 'completed')) {
      expect(due.getTime() % 200).toBe(0);
      expect(runId).toBe(`${id}/${due.toISOString().replace('.000Z', 'Z')}`);
      expect(await store.client.getStatus(runId as string)).toMatchObject({ status: 'Completed', output: 'returns' });
      expect(outcome).toBe('completed');
    }
    await schedules.delete(id);
    expect(await schedules.get(id)).toBe(null);
    for await (const one of schedules.list()) expect(one.id).not.toBe(id);
  });

  it('changes with its options, and is paused and resumed', async () => {
    await store.start(register);
    const id = store.id('changing');
    const { schedules } = store.client;
    const start = { name: 'job', version: '1.0.0', tags: { by: 'schedule' }, id: `${id} run` };
    const first = await schedules.upsert(id, { cron: '0 2 * * *', timeZone: 'Europe/Berlin', start });
    expect(first.spec.times).toEqual({ kind: 'cron', cron: '0 2 * * *', timeZone: 'Europe/Berlin' });
    expect(first.paused).toBe(undefined);
    await eventually(WITHIN_MS, 'the next time is known', async () => (await schedule(id)).next !== undefined);
    expect([(await schedule(id)).next]).toEqual(await schedules.next(id));
    const dates = await schedules.next(id, 3);
    expect((dates[2] as Date).getTime() - (dates[0] as Date).getTime()).toBeGreaterThan(1.9 * DAY_MS);
    await schedules.pause(id, { note: 'holidays' });
    expect((await schedule(id)).paused).toMatchObject({ by: 'client', note: 'holidays' });
    expect((await schedule(id)).next).toBe(undefined);
    await schedules.upsert(id, { every: '100ms', start });
    expect((await schedule(id)).paused).toMatchObject({ note: 'holidays' });
    // It can be run while it is paused.
    const run = await schedules.trigger(id);
    expect(run).toMatchObject({ outcome: 'running', runId: expect.stringContaining(`${id} run/`) });
    await when(id, 'it has ended', (runs) => count(runs, 'completed') === 1);
    expect(await store.client.getStatus(run.runId as string)).toMatchObject({ tags: { by: 'schedule' } });
    await schedules.resume(id);
    expect((await schedule(id)).paused).toBe(undefined);
    const { recent } = await when(id, 'more runs have ended', (runs) => count(runs, 'completed') > 2);
    // What was due while it was paused is not made up for.
    const { since } = (await schedule(id)).paused ?? { since: run.due };
    expect(recent.filter(({ due }) => due > since).length).toBeLessThan(50);
    await schedules.delete(id);
  });

  it('while a run goes on, does what overlap says', async () => {
    await store.start(register);
    const { schedules } = store.client;
    const start = { definition: job, input: 'waits' };
    const begun = async (overlap: 'skip' | 'buffer' | 'cancelPrevious' | 'allow') => {
      const id = store.id(overlap);
      await schedules.upsert(id, { cron: '0 0 1 1 *', overlap, start });
      return { id, first: await schedules.trigger(id) };
    };
    const skip = await begun('skip');
    expect(await schedules.trigger(skip.id)).toMatchObject({ outcome: 'skipped' });
    expect((await schedule(skip.id)).counts).toEqual({ started: 1, skipped: 1, missed: 0 });

    const buffer = await begun('buffer');
    expect(await schedules.trigger(buffer.id)).toMatchObject({ outcome: 'buffered' });
    expect(await schedules.trigger(buffer.id)).toMatchObject({ outcome: 'buffered' });
    expect(await schedules.trigger(buffer.id, { overlap: 'skip' })).toMatchObject({ outcome: 'skipped' });
    for (let n = 1; n <= 3; n += 1) {
      const now = await when(buffer.id, 'one runs', (runs) => count(runs, 'running') === 1);
      expect(count(now.recent, 'buffered')).toBe(3 - n);
      const { runId } = now.recent.find(({ outcome }) => outcome === 'running') as { runId: string };
      // A run that was buffered is told of before it is there.
      await eventually(WITHIN_MS, runId, async () => (await store.client.getStatus(runId)) !== null);
      await store.client.raiseEvent(runId, 'go');
      await when(buffer.id, 'it has ended', (runs) => count(runs, 'completed') === n);
    }

    const cancel = await begun('cancelPrevious');
    await schedules.trigger(cancel.id);
    const second = await schedules.trigger(cancel.id);
    expect(second).toMatchObject({ outcome: 'buffered' });
    const { recent } = await when(cancel.id, 'the last one runs', (runs) => runs[0]?.outcome === 'running');
    expect(recent.map(({ outcome }) => outcome)).toEqual([
      'running',
      expect.stringMatching(/^(skipped|cancelled)$/),
      'cancelled',
    ]);
    expect(await store.client.getStatus(cancel.first.runId as string)).toMatchObject({ status: 'Cancelled' });

    const allow = await begun('allow');
    expect(await schedules.trigger(allow.id)).toMatchObject({ outcome: 'running' });
    expect(count((await schedule(allow.id)).recent, 'running')).toBe(2);
    for (const { id } of [skip, buffer, cancel, allow]) await schedules.delete(id);
  });

  it('tells runs of one time apart', async () => {
    await store.start(register);
    const id = store.id('same');
    const { schedules } = store.client;
    const start = { definition: job, input: 'waits' };
    await schedules.upsert(id, { cron: '0 0 1 1 *', overlap: 'allow', start });
    const runs = await Promise.all(Array.from({ length: 8 }, () => schedules.trigger(id)));
    expect(new Set(runs.map(({ runId }) => runId)).size).toBe(8);
    expect(count((await schedule(id)).recent, 'running')).toBe(8);
    // A second run of a due time finds the id in use, and the first one goes on.
    const due = (runs[0] as ScheduleRun).due;
    await schedules.backfill(id, due, due);
    const day = new Date('2026-01-01');
    await schedules.backfill(id, day, new Date(day.getTime() + 1));
    await schedules.backfill(id, day, new Date(day.getTime() + 1));
    const { recent } = await when(id, 'the second one has ended', (all) => count(all, 'exists') === 1);
    expect(count(recent, 'running')).toBe(9);
    for (const { runId } of recent) if (runId !== undefined) await store.client.cancelInstance(runId);
    await when(id, 'all have ended', (all) => count(all, 'running') === 0);
    await schedules.delete(id);
  });

  it('makes up for the due times of a pause of all workers, within catchUp', async () => {
    const runtime = await store.start(register);
    const { schedules } = store.client;
    const [kept, missed] = [store.id('kept'), store.id('missed')];
    const start = { definition: job, input: 'returns' };
    const at = [1_500, 1_600, 1_700].map((ms) => new Date(Date.now() + ms));
    await schedules.upsert(kept, { at, overlap: 'allow', start });
    await schedules.upsert(missed, { at, overlap: 'allow', catchUp: 0, start });
    await runtime.shutdown();
    await eventually(WITHIN_MS, 'all were due', async () => Date.now() > (at[2] as Date).getTime() + 100);
    await store.start(register);
    const { recent, next } = await when(kept, 'all have ended', (runs) => count(runs, 'completed') === 3);
    expect(recent.map(({ due }) => due)).toEqual(at.toReversed());
    expect(next).toBe(undefined);
    await eventually(WITHIN_MS, 'all were missed', async () => (await schedule(missed)).counts.missed === 3);
    expect((await schedule(missed)).counts).toEqual({ started: 0, skipped: 0, missed: 3 });
    expect((await schedule(missed)).recent.map(({ due, outcome }) => [due, outcome])).toEqual(
      at.toReversed().map((due) => [due, 'missed']),
    );
    // Past ones can be run on purpose, once.
    const [from, to] = [at[0] as Date, at[2] as Date];
    expect((await schedules.backfill(missed, from, to)).map(({ due }) => due)).toEqual(at);
    await when(missed, 'they have run', (runs) => count(runs, 'completed') === 3);
    await schedules.backfill(missed, from, to);
    await when(missed, 'each id is in use', (runs) => count(runs, 'exists') === 3);
    for (const id of [kept, missed]) await schedules.delete(id);
  });

  it('ends after maxRuns and at endAt, and pauses after a failure', async () => {
    await store.start(register);
    const { schedules } = store.client;
    const [few, short, failing] = [store.id('few'), store.id('short'), store.id('failing')];
    const start = { definition: job, input: 'returns' };
    await schedules.upsert(few, { every: '100ms', maxRuns: 2, overlap: 'allow', start });
    await schedules.upsert(short, { every: '100ms', endAt: new Date(Date.now() + 550), overlap: 'allow', start });
    const fails = { definition: job, input: 'fails' };
    await schedules.upsert(failing, { every: '100ms', pauseOnFailure: true, start: fails });
    await when(few, 'two have ended', (runs) => count(runs, 'completed') === 2);
    expect(await schedule(few)).toMatchObject({ counts: { started: 2 } });
    await eventually(WITHIN_MS, 'it is over', async () => (await schedule(short)).next === undefined);
    expect((await schedule(short)).counts.started).toBeLessThanOrEqual(6);
    await eventually(WITHIN_MS, 'it is paused', async () => (await schedule(failing)).paused !== undefined);
    const { paused, recent } = await schedule(failing);
    expect(paused).toMatchObject({ by: 'failure', note: expect.stringMatching(/^run '.*' failed$/) });
    expect(recent.at(-1)).toMatchObject({ outcome: 'failed', error: 'on purpose' });
    expect((await schedule(few)).next).toBe(undefined);
    for (const id of [few, short, failing]) await schedules.delete(id);
  });

  it('starts each run later by its jitter, in order', async () => {
    await store.start(register);
    const id = store.id('jitter');
    const { schedules } = store.client;
    await schedules.upsert(id, {
      every: '300ms',
      jitter: '250ms',
      overlap: 'allow',
      start: { definition: job, input: 'returns' },
    });
    const { recent } = await when(id, 'four have ended', (runs) => count(runs, 'completed') >= 4);
    for (const { due, runId } of recent.filter(({ outcome }) => outcome === 'completed')) {
      expect(due.getTime() % 300).toBe(0);
      const status = await store.client.getStatus(runId as string);
      expect((status?.createdAt as Date).getTime()).toBeGreaterThanOrEqual(due.getTime());
    }
    await schedules.delete(id);
  });

  it('has a bounded history, and keeps the run that goes on', async () => {
    await store.start(register);
    const id = store.id('long');
    const { schedules } = store.client;
    await schedules.upsert(id, { cron: '0 0 1 1 *', start: { definition: job, input: 'waits' } });
    const { runId } = await schedules.trigger(id);
    const instance = `perdure.schedule/${id}`;
    let triggers = 0;
    // Each trigger is some events of the history.
    for (; (await store.client.getStatus(instance))?.executionId === 1; triggers += 1) {
      expect(triggers).toBeLessThan(1_000);
      expect(await schedules.trigger(id)).toMatchObject({ outcome: 'skipped' });
    }
    expect((await store.client.getHistory(instance)).length).toBeLessThan(100);
    const { recent, counts } = await schedule(id);
    expect(counts).toEqual({ started: 1, skipped: triggers, missed: 0 });
    expect(recent.length).toBe(101);
    expect(recent.at(-1)).toMatchObject({ outcome: 'running', runId });
    await store.client.raiseEvent(runId as string, 'go');
    await when(id, 'its end is known', (runs) => count(runs, 'completed') === 1);
    await schedules.delete(id);
  });

  it('is one schedule, however many set it', async () => {
    await store.start(register);
    const id = store.id('shared');
    const start = { definition: job, input: 'returns' };
    await Promise.all(
      Array.from({ length: 10 }, () => store.client.schedules.upsert(id, { every: '150ms', overlap: 'allow', start })),
    );
    const { recent } = await when(id, 'five have ended', (runs) => count(runs, 'completed') >= 5);
    const dues = recent.map(({ due }) => due.getTime());
    expect(new Set(dues).size).toBe(dues.length);
    expect(count(recent, 'exists')).toBe(0);
    const listed: string[] = [];
    for await (const one of store.client.schedules.list()) listed.push(one.id);
    expect(listed.filter((one) => one === id)).toEqual([id]);
    await store.client.schedules.delete(id);
    // A schedule of the same id begins anew.
    await store.client.schedules.upsert(id, { cron: '0 0 1 1 *', start });
    expect((await schedule(id)).recent).toEqual([]);
    await store.client.schedules.delete(id);
  });

  it('is declared by code: created, changed, and paused when its declaration is gone', async () => {
    const [first, second] = [store.id('first'), store.id('second')];
    const { logger, lines } = collectLines();
    const declare = async (...schedules: ReturnType<typeof defineSchedule>[]) => {
      const options = { workerName: `jobs of ${kind.name}`, logLevel: 'warn', logger } as const;
      const runtime = await store.start((one) => one.register(job, ...schedules), options);
      return runtime;
    };
    const start = { definition: job, input: 'returns' };
    const often = defineSchedule(first, { every: '100ms', overlap: 'allow', start });
    const never = defineSchedule(second, { cron: '0 0 1 1 *', start });
    const runtime = await declare(often, never);
    await when(first, 'it runs', (runs) => count(runs, 'completed') > 1);
    expect(await schedule(second)).toMatchObject({ spec: { declaredBy: `jobs of ${kind.name}` } });
    const wrong = (): void => void runtime.register(defineSchedule(store.id(), { every: '1h', start }));
    expect(wrong).toThrow('must be registered before the runtime is started');
    await runtime.shutdown();
    const twice = store.runtime();
    expect(() => twice.register(never, never)).toThrow(`schedule '${second}' is already registered`);
    // What is declared as before keeps its place, also what was due meanwhile.
    const { recent } = await schedule(first);
    const again = await declare(often);
    const { paused } = await schedule(second);
    expect(paused).toMatchObject({ by: 'removal', note: 'its declaration was removed' });
    expect(lines.map(({ message }) => message)).toEqual([`schedule '${second}' is declared no longer, and was paused`]);
    const more = await when(first, 'it goes on', (runs) => count(runs, 'completed') > count(recent, 'completed') + 2);
    const dues = more.recent.map(({ due }) => due.getTime());
    expect(dues).toEqual(dues.map((_, n) => (dues[0] as number) - n * 100));
    await again.shutdown();
    await declare(often, never);
    expect((await schedule(second)).paused).toBe(undefined);
    for (const id of [first, second]) await store.client.schedules.delete(id);
  });

  it('is paused when the last declaration is gone, by a runtime of its name that is not the default one', async () => {
    const start = { definition: job, input: 'returns' };
    const [named, unnamed] = [store.id('named'), store.id('unnamed')];
    const { logger, lines } = collectLines();
    const own = { workerName: `reports of ${kind.name}`, logLevel: 'warn', logger } as const;
    const declare = async (id: string, options: object): Promise<void> => {
      const schedule = defineSchedule(id, { cron: '0 0 1 1 *', start });
      await (await store.start((runtime) => runtime.register(job, schedule), options)).shutdown();
    };
    await declare(named, own);
    await declare(unnamed, {});
    for (const options of [{ ...own, workerName: 'another' }, {}, { workerName: 'perdure' }])
      await (await store.start(register, options)).shutdown();
    expect([(await schedule(named)).paused, (await schedule(unnamed)).paused]).toEqual([undefined, undefined]);
    await (await store.start(register, own)).shutdown();
    expect((await schedule(named)).paused).toMatchObject({ by: 'removal' });
    expect(lines.map(({ message }) => message)).toEqual([`schedule '${named}' is declared no longer, and was paused`]);
    expect((await schedule(unnamed)).paused).toBe(undefined);
    await declare(named, own);
    expect((await schedule(named)).paused).toBe(undefined);
    await store.start(register);
    for (const id of [named, unnamed]) await store.client.schedules.delete(id);
  });

  it('changes with its declaration, and counts its due times from then on', async () => {
    const id = store.id('declared');
    const declare = async (options: ScheduleOptions): Promise<Runtime> =>
      await store.start((runtime) => runtime.register(job, defineSchedule(id, options)), { workerName: 'changing' });
    await (await declare({ cron: '0 0 1 1 *', catchUp: 0, start: { definition: job, input: 'returns' } })).shutdown();
    const begun = Date.now();
    expect((await schedule(id)).spec).toMatchObject({ times: { kind: 'cron' }, catchUpMs: 0, overlap: 'skip' });
    await eventually(WITHIN_MS, 'a second is over', async () => Date.now() > begun + 1_000);
    await declare({ every: '100ms', offset: '50ms', overlap: 'allow', start: { definition: job, input: 'changed' } });
    const { spec, recent } = await when(id, 'three runs have ended', (runs) => count(runs, 'completed') >= 3);
    const times = { kind: 'every', everyMs: 100, offsetMs: 50 };
    expect(spec).toMatchObject({ times, catchUpMs: 3_600_000, overlap: 'allow', declaredBy: 'changing' });
    for (const { due, runId, outcome } of recent) {
      // No due time of the second before the change is made up for.
      expect(due.getTime()).toBeGreaterThan(begun + 500);
      expect(due.getTime() % 100).toBe(50);
      if (outcome === 'completed')
        expect(await store.client.getStatus(runId as string)).toMatchObject({ output: 'changed' });
    }
    await store.client.schedules.delete(id);
  });

  it('keeps its place when workers of another name declare it', async () => {
    const id = store.id('moved');
    const at = [1_000, 1_100].map((ms) => new Date(Date.now() + ms));
    const moved = defineSchedule(id, { at, overlap: 'allow', start: { definition: job, input: 'returns' } });
    const declare = async (workerName: string): Promise<Runtime> =>
      await store.start((runtime) => runtime.register(job, moved), { workerName });
    await (await declare('worker-1')).shutdown();
    await eventually(WITHIN_MS, 'all were due', async () => Date.now() > (at[1] as Date).getTime() + 100);
    await declare('worker-2');
    const { spec, recent } = await when(id, 'both have ended', (runs) => count(runs, 'completed') === 2);
    expect(spec.declaredBy).toBe('worker-2');
    expect(recent.map(({ due }) => due)).toEqual(at.toReversed());
    await store.client.schedules.delete(id);
  });

  it('is an instance that lists leave out, and so is the watcher of each run', async () => {
    await store.start(register);
    const id = store.id('hidden');
    const { client } = store;
    const { schedules } = client;
    await schedules.upsert(id, { cron: '0 0 1 1 *', start: { definition: job, input: 'waits' } });
    const { runId } = await schedules.trigger(id);
    const builtIn = async (filter: object): Promise<Set<string>> => {
      const found = new Set<string>();
      for await (const { name } of client.listInstances(filter)) if (name.startsWith('perdure.')) found.add(name);
      return found;
    };
    expect(await builtIn({})).toEqual(new Set());
    expect(await builtIn({ status: ['Pending', 'Running', 'Completed'] })).toEqual(new Set());
    expect(await builtIn({ system: true })).toEqual(new Set(['perdure.schedule', 'perdure.schedule.run']));
    await client.raiseEvent(runId as string, 'go');
    await when(id, 'it has ended', (runs) => count(runs, 'completed') === 1);
    expect(await builtIn({})).toEqual(new Set());
    await schedules.delete(id);
  });

  it('refuses what is wrong, and says what', async () => {
    const { schedules } = store.client;
    const start = { definition: job, input: 'returns' };
    const wrong: [object, string][] = [
      [{ start }, 'a schedule has one of cron, every and at'],
      [{ cron: '0 2 * * *', every: '1h', start }, 'a schedule has one of cron, every and at'],
      [{ cron: '61 * * * *', start }, "'61 * * * *' is no cron expression"],
      [{ cron: 'nightly', start }, "'nightly' is no cron expression"],
      [{ cron: '0 0 30 2 *', start }, 'the schedule is never due'],
      [{ cron: '0 2 * * *', timeZone: 'Mars/Olympus', start }, "there is no time zone 'Mars/Olympus'"],
      [{ every: '1ms', start }, 'every must be at least 100 ms'],
      [{ every: '1h', timeZone: 'UTC', start }, 'timeZone belongs to cron'],
      [{ at: [], start }, 'at must have 1 to 1000 times'],
      [{ at: ['tomorrow'], start }, 'at[0] must be a time'],
      [{ every: '1h' }, 'the options must have a start'],
      [{ every: '1h', start: { ...start, name: 'job' } }, 'start takes a definition, or a name and maybe a version'],
      [{ every: '1h', overlap: 'queue', start }, 'overlap'],
      [{ every: '1h', maxRuns: 0, start }, 'maxRuns'],
      [{ every: '1h', cronn: '1', start }, 'cronn'],
      [{ every: '1h', start: { ...start, id: 'x'.repeat(201) } }, 'start.id must have at most 200 characters'],
    ];
    for (const [options, message] of wrong) {
      const error = await rejection(schedules.upsert('wrong', options as never));
      expect(error).toBeInstanceOf(TypeError);
      expect(error.message).toContain(message);
    }
    const unfit = schedules.upsert('wrong', { every: '1h', start: { definition: typed, input: 7 as never } });
    expect(await rejection(unfit)).toBeInstanceOf(PayloadError);
    expect(await rejection(schedules.upsert('x'.repeat(201), { every: '1h', start }))).toBeInstanceOf(TypeError);
    expect(await schedules.get('wrong')).toBe(null);
    const late = await rejection(schedules.upsert(store.id('late'), { every: '1h', start }, { timeout: '50ms' }));
    expect(late).toBeInstanceOf(TimeoutError);
    await store.start(register);
    for (const call of [
      () => schedules.pause('nowhere'),
      () => schedules.resume('nowhere'),
      () => schedules.trigger('nowhere'),
      () => schedules.backfill('nowhere', '2026-01-01', '2026-01-02'),
      () => schedules.next('nowhere'),
      () => schedules.delete('nowhere'),
    ]) {
      const error = await rejection(call());
      expect(error).toBeInstanceOf(InstanceNotFoundError);
      expect(error.message).toBe("there is no schedule 'nowhere'");
    }
    const id = store.id('many');
    await schedules.upsert(id, { every: '1m', start });
    expect(await rejection(schedules.backfill(id, '2026-02-01', '2026-01-01'))).toBeInstanceOf(TypeError);
    const many = await rejection(schedules.backfill(id, '2026-01-01', '2026-02-01'));
    expect(many).toBeInstanceOf(LimitError);
    expect(many).toMatchObject({ limit: 'scheduleBackfill', max: 1_000 });
    await schedules.delete(id);
    expect(await rejection(new Client(store.provider).schedules.pause(id))).toBeInstanceOf(InstanceNotFoundError);
    await store.client.start(job, 'returns').then((run) => run.result({ timeout: SOON }));
  });
});
