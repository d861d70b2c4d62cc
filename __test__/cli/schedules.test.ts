// `perdure schedules`

import type { Runtime, ScheduleInfo } from 'perdure';
import { describe, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { type Ended, perdure, storeFlags, valuesOf } from './perdure.ts';

const WITHIN_MS = 20_000;

/** A time in the form of people, with its distance from now. */
const DUE = /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z \(in .+\)/;

/** Times that are hardly due while a test runs. */
const YEARLY = ['--cron', '0 0 1 1 *'];
const JANUARY = ['--cron', '0 0 * 1 *'];

/** Ends at once, fails, or waits for the event `go`. */
function register(runtime: Runtime): void {
  runtime.registerOrchestration('job', function* (ctx, how: string | null) {
    if (how === 'fails') throw new Error('on\npurpose');
    if (how === 'waits') yield* ctx.waitForEvent('go');
    return how;
  });
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const on = (...args: string[]): Promise<Ended> => perdure(...storeFlags(store.address), 'schedules', ...args);

  async function set(id: string, ...args: string[]): Promise<Ended> {
    const ended = await on('set', id, 'job', ...args, '--timeout', '20s');
    expect(ended).toMatchObject({ code: 0, out: '' });
    return ended;
  }

  /** Resolves when the newest due time of a schedule has this outcome. */
  async function newest(id: string, outcome: string): Promise<ScheduleInfo> {
    const schedule = async () => (await store.client.schedules.get(id)) as ScheduleInfo;
    await eventually(WITHIN_MS, outcome, async () => (await schedule()).recent[0]?.outcome === outcome);
    return await schedule();
  }

  it('schedules are listed', async () => {
    expect(await on()).toEqual({ code: 0, out: '', err: 'there is no schedule\n' });
    expect(await on('--json')).toEqual({ code: 0, out: '', err: '' });
    await store.start(register);
    const [cron, every, dates] = [store.id('cron'), store.id('every'), store.id('dates')];
    const ended = await set(cron, '"done"', '--cron', '0 2 * * *', '--time-zone', 'Europe/Berlin');
    expect(ended.err).toMatch(`${cron}: set, next due `);
    expect(ended.err).toMatch(DUE);
    await set(every, '--every', '90m', '--offset', '5m', '--orchestration-version', '1.0.0');
    await set(dates, '--at', '2100-01-01', '2100-01-03', '2100-01-02');
    await eventually(WITHIN_MS, 'the next time is known', async () => {
      return (await store.client.schedules.get(cron))?.next !== undefined;
    });
    expect(await on('trigger', cron)).toMatchObject({ code: 0, out: expect.stringMatching(`^${cron}/.*Z\n$`) });
    await newest(cron, 'completed');
    await on('pause', dates, '--note', 'holidays');
    const { code, out } = await on('list');
    expect(code).toBe(0);
    expect(valuesOf(await on('--json')).map(({ id }) => id)).toEqual([dates, every, cron]);
    const lines = out.trim().split('\n');
    expect(lines[0]).toMatch(/^ID +TIMES +STARTS +NEXT +LAST +PAUSED$/);
    const row = (id: string): string => lines.find((line) => line.startsWith(id)) as string;
    expect(row(cron)).toMatch(/ {2}0 2 \* \* \* Europe\/Berlin {2}job +in .* {2}completed .* ago$/);
    expect(row(every)).toMatch(/ {2}every 1h 30m \+ 5m +job 1\.0\.0 /);
    expect(row(dates)).toMatch(/ {2}3 dates +job .* for .*: holidays$/);
    const listed = valuesOf(await on('list', '--json'));
    expect(listed.map(({ id }) => id)).toEqual([dates, every, cron]);
    expect(listed[0]).toMatchObject({ paused: { by: 'client', note: 'holidays' }, spec: { times: { kind: 'at' } } });
    for (const id of [cron, every, dates]) {
      const deleted = await on('delete', id, '--yes', '--timeout', '20s');
      expect(deleted).toEqual({ code: 0, out: '', err: `${id}: deleted\n` });
    }
    expect(valuesOf(await on('list', '--json'))).toEqual([]);
  });

  it('a schedule is set with all options, and shown', async () => {
    await store.start(register);
    const id = store.id('all');
    const times = ['--cron', '30 6 * * 1', '--start-at', '2100-01-01', '--end-at', '2100-03-01T00:00:00Z'];
    const limits = ['--overlap', 'buffer', '--catch-up', '90s', '--jitter', '1500', '--max-runs', '7'];
    const start = ['--orchestration-version', '1.0.0', '-t', 'team=a', '-t', 'by=cli', '--priority', '3'];
    const timeLimit = ['--run-timeout', '1h', '--run-grace-period', '1m'];
    await set(id, '{"how":[1]}', ...times, ...limits, '--pause-on-failure', ...start, ...timeLimit);
    expect((await store.client.schedules.get(id))?.spec).toEqual({
      times: { kind: 'cron', cron: '30 6 * * 1', timeZone: 'UTC' },
      start: {
        name: 'job',
        id,
        version: '1.0.0',
        tags: { team: 'a', by: 'cli' },
        priority: 3,
        input: { how: [1] },
        timeout: 3_600_000,
        gracePeriod: 60_000,
      },
      overlap: 'buffer',
      catchUpMs: 90_000,
      jitterMs: 1_500,
      maxRuns: 7,
      pauseOnFailure: true,
      startAtMs: Date.UTC(2100, 0),
      endAtMs: Date.UTC(2100, 2),
    });
    const { out } = await on('show', id);
    const fields = Object.fromEntries(out.split('\n').map((line) => line.split(/ {2,}/)));
    expect(fields).toMatchObject({
      Schedule: id,
      Times: '30 6 * * 1 UTC',
      'Starts at': expect.stringMatching(/^2100-01-01 00:00:00\.000Z \(in .*\)$/),
      'Ends at': expect.stringContaining('2100-03-01 00:00:00.000Z'),
      Orchestration: 'job 1.0.0',
      Input: '{ how: [ 1 ] }',
      Tags: 'team=a by=cli',
      Priority: '3',
      Overlap: 'buffer',
      'Catch-up': '1m 30s',
      Jitter: '1s 500ms',
      Runs: 'at most 7',
      'On failure': 'pause the schedule',
      Next: expect.stringContaining('2100-01-04 06:30:00.000Z'),
      Counts: '0 started, 0 skipped, 0 missed',
    });
    expect(out.match(/^ +2100-/gm)).toHaveLength(4);
    const [shown] = valuesOf(await on('show', id, '--json'));
    const mondays = [4, 11, 18, 25, 32].map((day) => new Date(Date.UTC(2100, 0, day, 6, 30)).toISOString());
    expect(shown).toMatchObject({ id, spec: { maxRuns: 7 }, recent: [], ahead: mondays });
    const next = await on('next', id, '2');
    expect(next.out.trim().split('\n')).toEqual([expect.stringMatching(DUE), expect.stringMatching(DUE)]);
    expect(valuesOf(await on('next', id, '3', '--json'))).toEqual(mondays.slice(0, 3).map((due) => ({ due })));
    expect(valuesOf(await on('next', id, '--json'))).toHaveLength(1);
    // A further `set` replaces all options. `--json` prints the same as that of `show`.
    const again = await on('set', id, 'job', '--at', '2000-01-01', '--json');
    expect(valuesOf(again)).toEqual([expect.objectContaining({ id, ahead: [] })]);
    expect(valuesOf(again)[0].spec).toMatchObject({ times: { kind: 'at' }, overlap: 'skip', pauseOnFailure: false });
    expect(await on('next', id)).toEqual({ code: 0, out: '', err: 'no due time is left\n' });
    expect((await on('show', id)).out).toMatch(/Times +2000-01-01 00:00:00\.000Z\n[^]*Next +no due time is left/);
    expect((await set(id, '--at', '2000-01-01')).err).toBe(`${id}: set, with no due time left\n`);
  });

  it('a schedule is paused and resumed', async () => {
    await store.start(register);
    const id = store.id('halted');
    await set(id, ...YEARLY);
    const note = ['--note', 'a\u001b[31mb', '--timeout', '20s'];
    expect(await on('pause', id, ...note)).toEqual({ code: 0, out: '', err: `${id}: paused\n` });
    expect((await on('show', id)).out).toMatch(/Paused +for .*: a\\u001b\[31mb\n[^]*the paused schedule passes over/);
    expect((await set(id, ...YEARLY)).err).toBe(`${id}: set, and still paused\n`);
    expect(await on('resume', id, '--timeout', '20s')).toEqual({ code: 0, out: '', err: `${id}: resumed\n` });
    expect((await on('show', id)).out).not.toMatch(/paused/i);
    await set(id, '"fails"', ...YEARLY, '--pause-on-failure');
    const run = (await on('trigger', id)).out.trim();
    await newest(id, 'failed');
    const { out } = await on('show', id);
    expect(out).toContain(`: run '${run}' failed\n`);
    expect(out).toMatch(new RegExp(`DUE +OUTCOME +RUN +ABOUT\n.*Z  failed   ${run}  on\n$`));
  });

  it('a schedule is run now, and due times of the past are', async () => {
    await store.start(register);
    const id = store.id('run');
    await set(id, '"waits"', ...JANUARY);
    const first = (await on('trigger', id, '--timeout', '20s')).out.trim();
    const skipped = await on('trigger', id);
    expect(skipped).toEqual({ code: 0, out: '', err: `${id}: skipped, another run of the schedule goes on\n` });
    const [buffered] = valuesOf(await on('trigger', id, '--overlap', 'buffer', '--json'));
    expect(buffered).toEqual({ due: expect.any(String), outcome: 'buffered' });
    expect(await on('show', first)).toMatchObject({ code: 3 });
    const days = ['2026-01-01', '2026-01-03T00:00:00Z'];
    const filled = await on('backfill', id, ...days, '--overlap', 'allow', '--timeout', '20s');
    expect(filled).toMatchObject({ code: 0, err: '3 due times\n' });
    expect(filled.out).toMatch(
      new RegExp(`DUE +OUTCOME +RUN\\b.*\n2026-01-01 .*Z  running  ${id}/2026-01-01T00:00:00Z`),
    );
    const none = await on('backfill', id, '1s', '0s');
    expect(none).toEqual({ code: 0, out: '', err: '0 due times\n' });
    const week = valuesOf(await on('backfill', id, '2025-01-01', '2025-01-07', '--json'));
    expect(week.map(({ outcome }) => outcome)).toEqual(Array(7).fill('skipped'));
    expect(await on('backfill', id, '1970-01-01', '2020-01-01')).toMatchObject({
      code: 1,
      err: expect.stringContaining('more than 1000 due times'),
    });
    const { out, err } = await on('show', id);
    expect(out).toContain('Counts         4 started, 8 skipped, 0 missed\n');
    expect(out.match(/skipped$/gm)).toHaveLength(8);
    expect(err).toBe('');
    await on('backfill', id, '2024-01-01', '2024-01-31');
    expect((await on('show', id)).err).toMatch(/^and 24 earlier due times: --json has all of them\n$/);
    await on('delete', id, '--yes');
    expect(await store.client.getStatus(first)).toMatchObject({ status: 'Running' });
  });

  it('a schedule that is missing, wrong or without a worker is told', async () => {
    for (const args of [
      ['show', 'nowhere'],
      ['next', 'nowhere'],
      ['pause', 'nowhere'],
      ['resume', 'nowhere'],
      ['trigger', 'nowhere'],
      ['backfill', 'nowhere', '7d', '1d'],
      ['delete', 'nowhere', '--yes'],
    ])
      expect([args[0], await on(...args)]).toEqual([
        args[0],
        { code: 3, out: '', err: "perdure: there is no schedule 'nowhere'\n" },
      ]);
    const never = await on('set', 'never', 'job', '--cron', '0 0 30 2 *');
    expect(never).toMatchObject({ code: 2, err: expect.stringContaining('never due') });
    const zone = await on('set', 'never', 'job', '--cron', '@daily', '--time-zone', 'Mars/Olympus');
    expect(zone).toMatchObject({ code: 2, err: expect.stringContaining("there is no time zone 'Mars/Olympus'") });
    expect(await on('set', 'never', 'job', '{bad', ...YEARLY)).toMatchObject({ code: 2 });
    expect(await on('set', 'late', 'job', ...YEARLY, '--timeout', '50ms')).toMatchObject({ code: 5 });
  });
});
