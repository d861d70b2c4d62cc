// The page of the schedules, the actions on one, and the answers that the page is made of, on a real store.

import { defineOrchestration, type Runtime, type ScheduleOptions } from 'perdure';
import type { DashboardOptions } from 'perdure/dashboard';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { ANY_STORE, SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { verdict } from './ask.ts';
import { LOOKS, obstacles, overflow, useBrowser } from './browser.ts';
import { serving } from './serving.ts';

const { open } = useBrowser();

/** Ends at once, fails, or waits for the event `go`. */
const job = defineOrchestration('job', function* (ctx, how: string) {
  if (how === 'fails') throw new Error('card visa-4111 was refused');
  if (how === 'waits') yield* ctx.waitForEvent('go');
});

const FAR = '2099-01-01T00:00:00Z';

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const { asker, served } = serving(store);

  function start(): Promise<Runtime> {
    return store.start((runtime) => runtime.register(job));
  }

  /** Sets a schedule that is due in a distant year, unless `times` says otherwise. Returns its id. */
  async function scheduled(input: string, options: Partial<ScheduleOptions> = {}, id = store.id('nightly')) {
    const times = { at: [new Date(FAR)], start: { definition: job, input, id: `${id} run` }, ...options };
    await store.client.schedules.upsert(id, times as ScheduleOptions);
    return id;
  }

  async function rowOf(name: string, options: DashboardOptions = {}): Promise<any> {
    const { items } = await asker(options).get('schedules?limit=200');
    return items.find((row: any) => row.name === name);
  }

  const instance = (name: string): string => `perdure.schedule/${name}`;
  const post = (action: string, name: string, values: object = {}): Promise<Response> =>
    asker().post(action, { id: instance(name), ...values });

  it('are listed with their times, their next due time and their last run, without the input of the runs', async () => {
    await start();
    const name = await scheduled('returns', {
      start: { name: 'job', version: '1.0.0', input: 'secret-4711' } as ScheduleOptions['start'],
    });
    await eventually(10_000, 'the next due time', async () => (await rowOf(name)).set.nextMs !== undefined);
    expect(await rowOf(name)).toEqual({
      id: instance(name),
      name,
      isSuspended: false,
      set: {
        times: '1 date',
        starts: { name: 'job', version: '1.0.0' },
        nextMs: Date.parse(FAR),
        counts: { started: 0, skipped: 0, missed: 0 },
      },
    });
    expect(await (await asker().ask('api/v1/schedules')).text()).not.toContain('secret-4711');

    const failing = await scheduled('fails', { at: undefined, cron: '0 2 1 1 *', timeZone: 'Europe/Berlin' } as object);
    const { runId } = await store.client.schedules.trigger(failing);
    await eventually(10_000, 'the end of the run', async () => (await rowOf(failing)).set.last.outcome === 'failed');
    expect((await rowOf(failing)).set).toMatchObject({
      times: '0 2 1 1 * Europe/Berlin',
      last: { id: runId, dueMs: expect.any(Number), outcome: 'failed' },
      counts: { started: 1, skipped: 0, missed: 0 },
    });
    expect(await (await asker().ask('api/v1/schedules')).text()).not.toContain('visa-4111');
  });

  it.each([
    [{ at: undefined, every: '10m' }, 'every 10m'],
    [{ at: undefined, every: '1.5h', offset: '30s' }, 'every 1h 30m + 30s'],
    [{ at: [FAR, '2099-01-02T00:00:00Z', '2099-01-03T00:00:00Z'] }, '3 dates'],
  ])('have the times of %j as %j', async (options, times) => {
    await start();
    expect((await rowOf(await scheduled('returns', options as object))).set.times).toBe(times);
  });

  it('are listed page by page, also those that were never set', async () => {
    await start();
    const [first, second] = [await scheduled('returns'), await scheduled('returns')];
    await store.client.startOrchestration(instance('bare'), 'perdure.schedule');
    expect(await rowOf('bare')).toEqual({ id: instance('bare'), name: 'bare', isSuspended: false });
    expect(await verdict(post('triggerSchedule', 'bare'))).toBe('404 INSTANCE_NOT_FOUND');
    await store.client.terminateInstance(instance('bare'));
    const newest = await asker().get('schedules?limit=1');
    const older = await asker().get(`schedules?limit=1&cursor=${newest.cursor}`);
    expect([newest, older].map(({ items }) => items.map(({ name }: any) => name))).toEqual([[second], [first]]);
    for (const path of ['schedules?limit=201', 'schedules?limit=0', 'schedules?cursor=x', 'schedules?id=x'])
      expect(await verdict(asker().ask(`api/v1/${path}`)), path).toBe('400 BAD_REQUEST');
    await store.client.schedules.delete(first);
    expect(await rowOf(first)).toBe(undefined);
  });

  it('are paused with a note, resumed and run', async () => {
    await start();
    const name = await scheduled('waits');
    const id = instance(name);
    expect(await (await post('pauseSchedule', name, { note: 'holidays' })).json()).toEqual({ id });
    expect((await rowOf(name)).set.paused).toEqual({ sinceMs: expect.any(Number), by: 'client', note: 'holidays' });
    expect((await rowOf(name)).set).not.toHaveProperty('nextMs');
    const redact: DashboardOptions['redact'] = (value, place) =>
      place.kind === 'reason' && place.instanceId === id ? `(${String(value).length} characters)` : value;
    expect((await rowOf(name, { redact })).set.paused.note).toBe('(8 characters)');
    expect((await rowOf(name, { redact: () => undefined })).set.paused).not.toHaveProperty('note');

    const { run } = (await (await post('triggerSchedule', name)).json()) as any;
    expect(run).toEqual({ outcome: 'running', id: expect.stringMatching(new RegExp(`^${name} run/`)) });
    expect(await (await post('triggerSchedule', name)).json()).toEqual({ id, run: { outcome: 'skipped' } });
    expect((await rowOf(name)).set.last).toMatchObject({ id: run.id, outcome: 'running' });
    expect(await (await post('resumeSchedule', name)).json()).toEqual({ id });
    await eventually(10_000, 'the next due time', async () => (await rowOf(name)).set.nextMs === Date.parse(FAR));
    expect((await rowOf(name)).set).not.toHaveProperty('paused');

    // A pause without a note, and a note that is long.
    await post('pauseSchedule', name);
    expect((await rowOf(name)).set.paused).toEqual({ sinceMs: expect.any(Number), by: 'client' });
    await post('pauseSchedule', name, { note: 'n'.repeat(250) });
    expect((await rowOf(name)).set.paused.note).toBe(`${'n'.repeat(200)}…`);
    await store.client.raiseEvent(run.id, 'go');
    await store.client.waitForOrchestration(run.id, SOON);
  });

  it('refuse wrong bodies, and instances that are no schedules', async () => {
    const other = store.id('other');
    await store.client.startOrchestration(other, 'nobody registers it');
    for (const action of ['pauseSchedule', 'resumeSchedule', 'triggerSchedule'])
      for (const [body, expected] of [
        [{}, '400 BAD_REQUEST'],
        [{ id: 7 }, '400 BAD_REQUEST'],
        [{ id: instance('nightly'), more: 1 }, '400 BAD_REQUEST'],
        [{ id: instance('nobody') }, '404 INSTANCE_NOT_FOUND'],
        [{ id: instance('') }, '404 INSTANCE_NOT_FOUND'],
        [{ id: instance('x'.repeat(201)) }, '404 INSTANCE_NOT_FOUND'],
        [{ id: other }, '404 INSTANCE_NOT_FOUND'],
      ] as const)
        expect(await verdict(asker().post(action, body)), `${action} ${JSON.stringify(body)}`).toBe(expected);
    for (const note of ['', 7])
      expect(await verdict(post('pauseSchedule', 'nightly', { note })), String(note)).toBe('400 BAD_REQUEST');
    const bulk = { action: 'pauseSchedule', filter: 'system=true' };
    expect(await verdict(asker().post('bulk', bulk))).toBe('400 BAD_REQUEST');
  });

  it('are changed as the guard allows, which is asked about the instance that the schedule is', async () => {
    await start();
    const name = await scheduled('returns');
    const id = instance(name);
    const asked: unknown[] = [];
    const there = asker({
      authorize(_, action, instanceId) {
        asked.push([action, instanceId]);
        return action === 'pauseSchedule';
      },
    });
    expect(await verdict(there.ask('api/v1/schedules'))).toBe('403 NOT_AUTHORIZED');
    for (const action of ['resumeSchedule', 'triggerSchedule'])
      expect(await verdict(there.post(action, { id })), action).toBe('403 NOT_AUTHORIZED');
    expect(await verdict(there.post('pauseSchedule', { id }))).toBe('200');
    for (const action of ['pauseSchedule', 'resumeSchedule', 'triggerSchedule']) {
      expect(await verdict(asker({ readOnly: true }).post(action, { id })), action).toBe('403 READ_ONLY');
      const headers = { 'content-type': 'application/json' };
      expect(await verdict(asker().post(action, { id }, { headers })), action).toBe('403 ACTION_HEADER');
    }
    // Messages of Perdure's own would go around these rights.
    const update = { id, name: 'perdure.schedule.run', input: {} };
    const data = { ...update, id: 'request-1' };
    expect(await verdict(asker().post('update', update))).toBe('400 BAD_REQUEST');
    expect(await verdict(asker().post('enqueue', { id, queue: 'perdure.asks', data }))).toBe('400 BAD_REQUEST');
    expect(await verdict(asker().post('raise', { id, name: 'perdure.asks', data }))).toBe('400 BAD_REQUEST');
    expect(asked).toEqual([
      ['read', undefined],
      ['resumeSchedule', id],
      ['triggerSchedule', id],
      ['pauseSchedule', id],
    ]);
    expect((await rowOf(name)).set).toMatchObject({ paused: { by: 'client' }, counts: { started: 0 } });
  });

  it.runIf(kind === ANY_STORE)('say that no worker takes a change', { timeout: 60_000 }, async () => {
    const runtime = await start();
    const name = await scheduled('returns');
    await runtime.shutdown();
    const answer = await post('pauseSchedule', name, { note: 'later' });
    expect(answer.status).toBe(409);
    expect(await answer.json()).toEqual({
      error: {
        code: 'TIMEOUT',
        message:
          `no worker has taken this change of schedule '${name}' within 20 s: ` +
          'it is stored, and takes effect if one takes it',
      },
    });
    await start();
    await eventually(10_000, 'the pause', async () => (await rowOf(name)).set.paused?.note === 'later');
  });

  const row = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name });
  const dialog = (page: Page) => page.getByRole('dialog');

  it('have a page that pauses, resumes and runs them', async () => {
    await start();
    const name = await scheduled('waits');
    const page = await open(await served({ token: false }));
    await page.getByRole('link', { name: 'Schedules' }).click();
    const line = row(page, name);
    const press = async (button: string): Promise<void> => {
      await line.getByRole('button', { name: button }).click();
      await dialog(page).getByRole('button', { name: button }).waitFor();
    };
    await press('Pause');
    await dialog(page).getByLabel('Note').fill('holidays');
    await dialog(page).getByRole('button', { name: 'Pause' }).click();
    await page.getByRole('status').getByText(`${name} is paused.`).waitFor();
    await line.getByText('holidays').waitFor();
    await press('Run now');
    await dialog(page).getByRole('button', { name: 'Run now' }).click();
    await page.getByRole('status').getByText(`${name} has started ${name} run/`).waitFor();
    await line.getByText('running', { exact: true }).waitFor();
    await press('Run now');
    await dialog(page).getByRole('button', { name: 'Run now' }).click();
    await page.getByRole('status').getByText(`${name} starts no run, because another one goes on.`).waitFor();
    await line.getByText('1 started, 1 skipped').waitFor();
    await press('Resume');
    await dialog(page).getByRole('button', { name: 'Resume' }).click();
    await line.getByText(/^in \d+ d/).waitFor();

    await line.getByRole('link', { name: 'the run' }).click();
    await page.getByRole('heading', { name: `${name} run/`, level: 1 }).waitFor();
    await page.goBack();
    await line.getByRole('link', { name, exact: true }).click();
    await page.getByRole('heading', { name, exact: true, level: 1 }).waitFor();
    await page.getByRole('link', { name: instance(name) }).click();
    await page.getByRole('heading', { name: instance(name), level: 1 }).waitFor();

    const quiet = await open(`${await served({ token: false, readOnly: true })}#/schedules`);
    await row(quiet, name).getByText('1 date', { exact: true }).waitFor();
    expect(await quiet.getByRole('button', { name: 'Pause' }).count()).toBe(0);
    const { recent } = (await store.client.schedules.get(name)) ?? { recent: [] };
    for (const { runId } of recent) if (runId !== undefined) await store.client.raiseEvent(runId, 'go');
  });

  it.runIf(kind === ANY_STORE)(
    'have an accessible page in both themes and in a narrow window',
    { timeout: 120_000 },
    async () => {
      await start();
      const name = await scheduled('returns', {}, store.id('n'.repeat(190)));
      await store.client.schedules.trigger(name);
      await store.client.schedules.pause(name, { note: 'y'.repeat(250) });
      const url = await served({ token: false });
      for (const options of LOOKS) {
        const page = await open(`${url}#/schedules`, options);
        await row(page, name).getByText('paused', { exact: true }).waitFor();
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
        await row(page, name).getByRole('button', { name: 'Run now' }).click();
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
      }
    },
  );
});
