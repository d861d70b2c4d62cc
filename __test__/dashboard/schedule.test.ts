// One schedule on the dashboard: its page, its form, and the actions that create, change, backfill and delete it.

import { defineOrchestration, type Runtime, type ScheduleOptions } from 'perdure';
import type { DashboardOptions } from 'perdure/dashboard';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

import { eventually } from '../support/async.ts';
import { ANY_STORE, SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { verdict } from './ask.ts';
import { LOOKS, obstacles, overflow, useBrowser } from './browser.ts';
import { serving } from './serving.ts';

const { open } = useBrowser();

/** Ends at once, fails, or waits for the event `go`. */
const job = defineOrchestration('job', function* (ctx, how: string) {
  if (how === 'fails') throw new Error('card visa-4111 was refused\nat the bank');
  if (how === 'waits') yield* ctx.waitForEvent('go');
});

const parcel = defineOrchestration('parcel', function* () {}, {
  version: '2.0.0',
  input: z.object({ weight: z.number().max(30) }),
});

const FAR = '2099-01-01T00:00:00.000Z';

/** The due times of a day that is past, every six hours. */
const DAY = { from: '2020-01-01T00:00:00Z', to: '2020-01-01T23:00:00Z' };

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const { asker, served } = serving(store);

  const start = (): Promise<Runtime> => store.start((runtime) => runtime.register(job, parcel));
  const instance = (name: string): string => `perdure.schedule/${name}`;
  const read = (name: string, options: DashboardOptions = {}): Promise<any> =>
    asker(options).get(`schedule?id=${instance(name)}`);
  const post = (action: string, name: string, values: object = {}, options: DashboardOptions = {}) =>
    asker(options).post(action, { id: instance(name), ...values });

  /** Sets a schedule that is due every six hours. Returns its id. */
  async function scheduled(input: string, options: object = {}): Promise<string> {
    const name = store.id('nightly');
    const times = { every: '6h', start: { definition: job, input }, ...options };
    await store.client.schedules.upsert(name, times as ScheduleOptions);
    return name;
  }

  it('is read with its options, its next due times and its recent ones', async () => {
    await start();
    const name = await scheduled('waits', {
      start: {
        name: 'job',
        version: '1.0.0',
        input: 'waits',
        tags: { team: 'a,b' },
        timeout: 90_000,
        key: 'k',
        queue: 'q',
      },
      overlap: 'buffer',
      jitter: '1500ms',
      startAt: FAR,
      maxRuns: 3,
    });
    const set = await read(name);
    expect(set.details).toEqual({
      options: {
        every: '6h',
        start: {
          name: 'job',
          version: '1.0.0',
          id: name,
          tags: { team: 'a,b' },
          queue: 'q',
          key: 'k',
          timeout: 90_000,
        },
        overlap: 'buffer',
        catchUp: '1h',
        jitter: '1500ms',
        startAt: FAR,
        maxRuns: 3,
        pauseOnFailure: false,
      },
      input: { text: '"waits"', isWhole: true },
      nextMs: [0, 1, 2].map((n) => Date.parse(FAR) + n * 6 * 3_600_000),
      hasMore: false,
      recent: [],
    });
    expect((await asker().get(`schedule?id=${instance(name)}&next=2`)).details).toMatchObject({
      nextMs: [0, 1].map((n) => Date.parse(FAR) + n * 6 * 3_600_000),
      hasMore: true,
    });
    // The options make the same schedule again.
    const before = await store.client.schedules.get(name);
    const { options } = set.details;
    expect(await verdict(post('setSchedule', name, { options, keepsInput: true }))).toBe('200');
    expect((await store.client.schedules.get(name))?.spec).toEqual(before?.spec);

    const failing = await scheduled('fails');
    await store.client.schedules.trigger(failing);
    const outcome = async (): Promise<string> => (await read(failing)).details.recent[0].outcome;
    await eventually(10_000, 'the end of the run', async () => (await outcome()) === 'failed');
    const [run] = (await read(failing)).details.recent;
    expect(run).toEqual({
      dueMs: expect.any(Number),
      outcome: 'failed',
      runId: expect.stringMatching(new RegExp(`^${failing}/`)),
      error: 'card visa-4111 was refused',
    });
    for (const id of ['nightly', instance('nobody'), instance(''), run.runId])
      expect(await verdict(asker().ask(`api/v1/schedule?id=${encodeURIComponent(id)}`)), id).toBe(
        '404 INSTANCE_NOT_FOUND',
      );
    for (const path of ['schedule', `schedule?id=${instance(name)}&next=0`, `schedule?id=${instance(name)}&next=201`])
      expect(await verdict(asker().ask(`api/v1/${path}`)), path).toBe('400 BAD_REQUEST');
  });

  it('has its input and the errors of its runs redacted', async () => {
    await start();
    const name = await scheduled('fails');
    const { runId } = await store.client.schedules.trigger(name);
    await store.client.waitForOrchestration(runId ?? '', SOON);
    const outcome = async (): Promise<string> => (await read(name)).details.recent[0].outcome;
    await eventually(10_000, 'the end of the run', async () => (await outcome()) === 'failed');
    const places: unknown[] = [];
    const redact: DashboardOptions['redact'] = (value, place) => {
      places.push([place, value instanceof Error ? value.message : value]);
      return undefined;
    };
    const { details } = await read(name, { redact });
    expect(details).not.toHaveProperty('input');
    expect(details.recent[0]).not.toHaveProperty('error');
    expect(places).toEqual([
      [{ instanceId: instance(name), orchestration: 'job', kind: 'input' }, 'fails'],
      [{ instanceId: runId, orchestration: 'job', kind: 'error' }, 'card visa-4111 was refused\nat the bank'],
    ]);
  });

  it('is created, changed and deleted', async () => {
    const runtime = await start();
    const name = store.id('weekly');
    const options = { cron: '0 2 * * 1', timeZone: 'Europe/Berlin', start: { name: 'job', input: 'secret-4711' } };
    expect(await verdict(post('setSchedule', name, { options }))).toBe('404 INSTANCE_NOT_FOUND');
    const made = await post('setSchedule', name, { options, isNew: true });
    expect(await made.json()).toEqual({ id: instance(name) });
    expect((await store.client.schedules.get(name))?.spec).toMatchObject({
      times: { kind: 'cron', cron: '0 2 * * 1', timeZone: 'Europe/Berlin' },
      start: { name: 'job', input: 'secret-4711', id: name },
    });
    expect(await verdict(post('setSchedule', name, { options, isNew: true }))).toBe('409 INSTANCE_EXISTS');

    // The runs keep their input, which a client that changes the schedule needs not know.
    const daily = { every: '1d', start: { name: 'job', tags: { team: 'ops' } } };
    expect(await verdict(post('setSchedule', name, { options: daily, keepsInput: true }))).toBe('200');
    const { start: kept } = (await store.client.schedules.get(name))?.spec ?? {};
    expect(kept).toEqual({ name: 'job', input: 'secret-4711', id: name, tags: { team: 'ops' } });
    expect(await verdict(post('setSchedule', name, { options: daily }))).toBe('200');
    expect((await store.client.schedules.get(name))?.spec.start).not.toHaveProperty('input');

    // The schema of the runtime beside the dashboard checks the input.
    const heavy = { every: '1d', start: { name: 'parcel', version: '2.0.0', input: { weight: 31 } } };
    const refused = await post('setSchedule', name, { options: heavy }, { runtime });
    expect(refused.status).toBe(422);
    expect(((await refused.json()) as any).error.issues).toMatchObject([{ path: 'input.weight' }]);

    expect(await (await post('deleteSchedule', name)).json()).toEqual({ id: instance(name) });
    expect(await store.client.schedules.get(name)).toBeNull();
    expect(await store.client.getStatus(instance(name))).toBeNull();
    expect(await verdict(post('deleteSchedule', name))).toBe('404 INSTANCE_NOT_FOUND');
  });

  it('is backfilled', async () => {
    await start();
    const name = await scheduled('waits');
    expect(await (await post('backfillSchedule', name, DAY)).json()).toEqual({
      id: instance(name),
      dues: { running: 1, skipped: 3 },
    });
    const later = { from: '2020-01-02T00:00:00Z', to: '2020-01-02T07:00:00Z', overlap: 'allow' };
    expect(await (await post('backfillSchedule', name, later)).json()).toMatchObject({ dues: { running: 2 } });
    const none = { from: '2020-01-03T00:00:01Z', to: '2020-01-03T00:00:02Z' };
    expect(await (await post('backfillSchedule', name, none)).json()).toMatchObject({ dues: {} });
    const long = { from: '2000-01-01T00:00:00Z', to: '2020-01-01T00:00:00Z' };
    expect(await verdict(post('backfillSchedule', name, long))).toBe('409 LIMIT');
    const { recent } = (await store.client.schedules.get(name)) ?? { recent: [] };
    for (const { runId } of recent) if (runId !== undefined) await store.client.raiseEvent(runId, 'go');
  });

  it('refuses wrong options, and names them', async () => {
    await start();
    const name = await scheduled('returns');
    const start_ = { name: 'job' };
    for (const [options, message] of [
      [null, /^schedule: the options must be an object/],
      [{ start: start_ }, /^schedule: a schedule has one of cron, every and at/],
      [{ cron: '99 * * * *', start: start_ }, /^schedule\.cron: /],
      [{ cron: '0 0 31 2 *', start: start_ }, /^schedule: the schedule is never due/],
      [{ cron: '0 0 * * *', timeZone: 'Mars', start: start_ }, /^schedule\.timeZone: /],
      [{ every: 'often', start: start_ }, /^schedule: every must be a duration/],
      [{ at: ['soon'], start: start_ }, /^schedule: at\[0\] must be a time/],
      [{ every: '1d', overlap: 'skp', start: start_ }, /^schedule: overlap must be one of/],
      [{ every: '1d', start: { name: '' } }, /^schedule: start\.name/],
      [{ every: '1d', start: { ...start_, id: 'x'.repeat(201) } }, /^the schedule: start\.id must have at most 200/],
      [{ every: '1d', start: { definition: {} } }, /^schedule: start\.definition must be/],
      [{ every: '1d' }, /^schedule: the options must have a start/],
    ] as const)
      for (const more of [{}, { keepsInput: true }]) {
        if (options === null && 'keepsInput' in more) continue;
        const answer = await post('setSchedule', name, { options, ...more });
        expect(answer.status, JSON.stringify(options)).toBe(400);
        const { error } = (await answer.json()) as any;
        // With an input to keep, a start is made for it.
        const isMade = 'keepsInput' in more && !('start' in (options as object));
        if (!isMade) expect(error.message).toMatch(message);
      }
    const given = { every: '1d', start: start_ };
    for (const [action, body] of [
      ['setSchedule', {}],
      ['setSchedule', { options: given, isNew: 'yes' }],
      ['setSchedule', { options: given, more: 1 }],
      ['deleteSchedule', { note: 'x' }],
      ['backfillSchedule', {}],
      ['backfillSchedule', { from: DAY.from }],
      ['backfillSchedule', { from: DAY.to, to: DAY.from }],
      ['backfillSchedule', { from: 'yesterday', to: DAY.to }],
      ['backfillSchedule', { from: 0, to: DAY.to }],
      ['backfillSchedule', { ...DAY, overlap: 'all' }],
    ] as const)
      expect(await verdict(post(action, name, body)), JSON.stringify([action, body])).toBe('400 BAD_REQUEST');
    for (const id of ['nightly', instance(''), instance('x'.repeat(201))])
      expect(await verdict(asker().post('setSchedule', { id, options: given, isNew: true })), id).toBe(
        '400 BAD_REQUEST',
      );
    for (const [action, body] of [
      ['setSchedule', { options: given }],
      ['deleteSchedule', {}],
      ['backfillSchedule', DAY],
    ] as const)
      for (const id of [instance('nobody'), 'nightly'])
        expect(await verdict(asker().post(action, { id, ...body })), action).toBe('404 INSTANCE_NOT_FOUND');
  });

  it('is changed as the guard allows', async () => {
    await start();
    const name = await scheduled('returns');
    const id = instance(name);
    const bodies = {
      setSchedule: { id, options: { every: '1d', start: { name: 'job' } } },
      backfillSchedule: { id, ...DAY },
      deleteSchedule: { id },
    };
    const asked: unknown[] = [];
    const authorize: DashboardOptions['authorize'] = (_, action, instanceId) => {
      asked.push([action, instanceId]);
      return false;
    };
    expect(await verdict(asker({ authorize }).ask(`api/v1/schedule?id=${id}`))).toBe('403 NOT_AUTHORIZED');
    for (const [action, body] of Object.entries(bodies)) {
      expect(await verdict(asker({ authorize }).post(action, body)), action).toBe('403 NOT_AUTHORIZED');
      expect(await verdict(asker({ readOnly: true }).post(action, body)), action).toBe('403 READ_ONLY');
      expect(await verdict(asker({ token: 'x'.repeat(16) }).post(action, body)), action).toBe('401 TOKEN');
      const headers = { 'content-type': 'application/json' };
      expect(await verdict(asker().post(action, body, { headers })), action).toBe('403 ACTION_HEADER');
      expect(await verdict(asker().post('bulk', { action, filter: 'system=true' })), action).toBe('400 BAD_REQUEST');
    }
    expect(asked).toEqual([
      ['read', id],
      ['setSchedule', id],
      ['backfillSchedule', id],
      ['deleteSchedule', id],
    ]);
    expect(await store.client.schedules.get(name)).toMatchObject({ spec: { times: { kind: 'every' } }, recent: [] });
  });

  const dialog = (page: Page) => page.getByRole('dialog');
  const field = (page: Page, name: string) => dialog(page).getByRole('textbox', { name });
  const actions = (page: Page) => page.getByRole('group', { name: 'Actions' });
  const recent = (page: Page) => page.getByRole('group', { name: 'Recent due times' });

  it.runIf(kind === ANY_STORE)('has a form that creates it, by keyboard too', async () => {
    await start();
    const name = store.id('monthly');
    const page = await open(`${await served({ token: false })}#/schedules`);
    await page.getByRole('button', { name: 'New schedule…' }).focus();
    await page.keyboard.press('Enter');
    await dialog(page).getByRole('heading', { name: 'Create a schedule' }).waitFor();
    await dialog(page).getByRole('textbox', { name: 'ID', exact: true }).fill(name);
    await field(page, 'Cron expression').fill('61 2 * * *');
    await dialog(page).getByLabel('Time zone').fill('Europe/Berlin');
    await dialog(page).getByLabel('Orchestration').fill('job');
    await dialog(page).getByLabel('Input').fill('"waits"');
    await dialog(page).getByLabel('Orchestration').press('Enter');
    await dialog(page).getByRole('alert').getByText('is no cron expression').waitFor();
    const cron = field(page, 'Cron expression');
    expect(await cron.getAttribute('aria-invalid')).toBe('true');
    expect(await dialog(page).getByLabel('Time zone').getAttribute('aria-invalid')).toBe('false');
    await cron.fill('30 2 1 * *');
    expect(await cron.getAttribute('aria-invalid')).toBe('false');

    // A problem of an option that is folded unfolds the options.
    await dialog(page).getByText('More options').click();
    await dialog(page).getByLabel('Jitter').fill('much');
    await dialog(page).getByLabel('Tags').fill('team:ops');
    await dialog(page).getByText('More options').click();
    await dialog(page).getByRole('button', { name: 'Create' }).click();
    await dialog(page).locator('.field').filter({ hasText: 'Jitter' }).getByText('must be a duration').waitFor();
    await dialog(page).getByLabel('Jitter').fill('5m');
    await dialog(page).getByLabel('Jitter').waitFor({ state: 'visible' });
    await dialog(page).getByLabel('Jitter').press('Enter');
    await page.getByRole('heading', { name, exact: true, level: 1 }).waitFor();
    await page.getByText('30 2 1 * * Europe/Berlin').waitFor();
    await page.getByRole('group', { name: 'Input' }).getByText('"waits"').waitFor();
    expect((await store.client.schedules.get(name))?.spec).toMatchObject({
      jitterMs: 300_000,
      start: { name: 'job', input: 'waits', tags: { team: 'ops' } },
    });
    // The same id again is refused in the dialog.
    await page.getByRole('link', { name: 'Schedules' }).first().click();
    await page.getByRole('button', { name: 'New schedule…' }).click();
    await dialog(page).getByRole('textbox', { name: 'ID', exact: true }).fill(name);
    await dialog(page).getByLabel('Due by').selectOption('dates');
    await field(page, 'Dates').fill('2099-01-01T00:00:00Z\n2099-02-01T00:00:00Z');
    await dialog(page).getByLabel('Orchestration').fill('job');
    await dialog(page).getByRole('button', { name: 'Create' }).click();
    await dialog(page).getByRole('alert').getByText(`there is a schedule '${name}' already`).waitFor();
  });

  it.runIf(kind === ANY_STORE)('has a page that shows, changes, backfills and deletes it', async () => {
    await start();
    const name = await scheduled('waits', {
      start: { name: 'job', input: 'waits', tags: { team: 'a,b' } },
      startAt: FAR,
      endAt: '2099-01-10T00:00:00Z',
    });
    const page = await open(`${await served({ token: false })}#/schedule?id=${instance(name)}`);
    const times = page.getByRole('group', { name: 'Next due times' }).getByRole('listitem');
    await times.first().waitFor();
    expect(await times.count()).toBe(5);
    await page.getByRole('button', { name: 'Show more' }).click();
    await times.nth(36).waitFor();
    expect(await times.count()).toBe(37);

    await actions(page).getByRole('button', { name: 'Backfill…' }).click();
    await dialog(page).getByLabel('From').fill('2020-01-01T00:00:00');
    await dialog(page).getByLabel('To').fill('2019-01-01T00:00:00');
    await dialog(page).getByRole('button', { name: 'Backfill' }).click();
    await dialog(page).getByRole('alert').getByText('from must not be after to').waitFor();
    await dialog(page).getByLabel('To').fill('2020-01-01T23:30:00');
    await dialog(page).getByRole('button', { name: 'Backfill' }).click();
    await page
      .getByRole('status')
      .getByText(/^Due times: 1 running, 3 skipped\.$/)
      .waitFor();
    await recent(page).getByText('running', { exact: true }).waitFor();
    expect(await recent(page).getByText('skipped', { exact: true }).count()).toBe(3);

    await actions(page).getByRole('button', { name: 'Edit…' }).click();
    expect(await dialog(page).getByLabel('Every').inputValue()).toBe('6h');
    await dialog(page).getByText('The runs keep their input.').waitFor();
    await dialog(page).getByLabel('Every').fill('12h');
    await dialog(page).getByRole('button', { name: 'Save' }).click();
    await page.getByRole('status').getByText(`${name} is changed.`).waitFor();
    await page.getByText('every 12h').waitFor();
    expect((await store.client.schedules.get(name))?.spec.start).toMatchObject({
      input: 'waits',
      tags: { team: 'a,b' },
    });
    await actions(page).getByRole('button', { name: 'Edit…' }).click();
    await dialog(page).getByRole('button', { name: 'Change the input' }).click();
    expect(await dialog(page).getByLabel('Input').inputValue()).toBe('"waits"');
    await dialog(page).getByLabel('Input').fill('"returns"');
    await dialog(page).getByRole('button', { name: 'Save' }).click();
    await page.getByRole('group', { name: 'Input' }).getByText('"returns"').waitFor();

    await recent(page).getByRole('link').click();
    await page.getByRole('heading', { name: `${name}/2020-01-01T`, level: 1 }).waitFor();
    await page.goBack();
    await actions(page).getByRole('button', { name: 'Delete…' }).click();
    await dialog(page).getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('heading', { name: 'Schedules', level: 1 }).waitFor();
    expect(await store.client.schedules.get(name)).toBeNull();
    await page.goBack();
    await page.getByRole('alert').getByText(`there is no schedule '${name}'`).waitFor();
    for await (const { id } of store.client.listInstances({ idPrefix: `${name}/`, status: ['Running'] }))
      await store.client.raiseEvent(id, 'go');
  });

  it.runIf(kind === ANY_STORE)('is shown without actions where the dashboard is read-only', async () => {
    await start();
    const name = await scheduled('returns');
    const page = await open(`${await served({ token: false, readOnly: true })}#/schedule?id=${instance(name)}`);
    await page.getByRole('heading', { name: 'Options' }).waitFor();
    expect(await page.getByRole('button', { name: /Edit|Delete|Backfill|Run now|Pause/ }).count()).toBe(0);
    await page.getByRole('link', { name: 'Schedules' }).first().click();
    await page.getByRole('link', { name, exact: true }).waitFor();
    expect(await page.getByRole('button', { name: 'New schedule…' }).count()).toBe(0);
  });

  it.runIf(kind === ANY_STORE)(
    'has an accessible page and form in both themes and in a narrow window',
    { timeout: 120_000 },
    async () => {
      await start();
      const name = store.id('n'.repeat(180));
      const times = { at: [new Date(FAR)], start: { definition: job, input: 'fails', tags: { team: 'x'.repeat(90) } } };
      await store.client.schedules.upsert(name, times);
      const { runId } = await store.client.schedules.trigger(name);
      await store.client.waitForOrchestration(runId ?? '', SOON);
      const url = await served({ token: false });
      for (const options of LOOKS) {
        const page = await open(`${url}#/schedule?id=${instance(name)}`, options);
        await recent(page).getByText('failed', { exact: true }).waitFor();
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
        await actions(page).getByRole('button', { name: 'Edit…' }).click();
        await dialog(page).getByText('More options').click();
        await field(page, 'Dates').fill('soon');
        await dialog(page).getByRole('button', { name: 'Save' }).click();
        await dialog(page).getByRole('alert').waitFor();
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
        await dialog(page).getByRole('button', { name: 'Close' }).click();
        await actions(page).getByRole('button', { name: 'Backfill…' }).click();
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
      }
    },
  );
});
