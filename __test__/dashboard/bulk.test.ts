// Actions on all instances that match a filter.

import { serveDashboard } from 'perdure/dashboard';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import { PART } from '../../js/dashboard/bulk.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { type Asker, verdict } from './ask.ts';
import { obstacles, overflow, useBrowser } from './browser.ts';
import { serving } from './serving.ts';

const { open } = useBrowser();

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const { asker } = serving(store);
  let name = '';
  beforeEach(() => {
    name = store.id('bulk');
  });

  async function start(count: number): Promise<string[]> {
    const ids = Array.from({ length: count }, (_, n) => `${name}/${n}`);
    await Promise.all(ids.map((id) => store.client.startOrchestration(id, name, null, { tags: { team: 'a:b' } })));
    return ids;
  }

  const part = async (there: Asker, body: object): Promise<any> => {
    const response = await there.post('bulk', body);
    expect(response.status).toBe(200);
    return response.json();
  };

  it('are taken part by part, after a preview that leaves out later instances', async () => {
    await start(PART + 20);
    await store.client.terminateInstance(`${name}/7`);
    const there = asker();
    const filter = `name=${name}&status=Pending&tag=${encodeURIComponent('team:a:b')}`;
    const { createdBefore, ...preview } = await there.get(`preview?${filter}`);
    expect(preview).toEqual({ count: PART + 19, isMore: false, most: 10_000 });
    // The next start has a later time.
    await expect.poll(Date.now).toBeGreaterThan(Date.parse(createdBefore));
    await store.client.startOrchestration(`${name}/later`, name);
    const body = { action: 'terminate', filter: `${filter}&createdBefore=${createdBefore}`, values: { reason: 'off' } };
    const first = await part(there, body);
    expect(first).toMatchObject({ done: PART, failed: 0, problems: [] });
    const second = await part(there, { ...body, cursor: first.cursor });
    expect(second).toEqual({ done: 19, failed: 0, problems: [], cursor: null });
    expect((await there.get(`preview?name=${name}&status=Terminated`)).count).toBe(PART + 20);
    expect((await store.client.getStatus(`${name}/3`))?.error?.message).toContain('off');
    expect((await store.client.getStatus(`${name}/later`))?.status).toBe('Pending');
    expect(await there.get('preview?name=nobody')).toEqual({
      count: 0,
      isMore: false,
      most: 10_000,
      createdBefore: null,
    });
  });

  it('go on after the refusal of an instance, and say which were refused', async () => {
    await start(4);
    await store.client.terminateInstance(`${name}/1`);
    const asked: unknown[] = [];
    const there = asker({
      authorize: (_request, action, id) => {
        asked.push([action, id]);
        return id !== `${name}/2`;
      },
    });
    const { done, failed, problems, cursor } = await part(there, { action: 'delete', filter: `name=${name}` });
    expect([done, failed, cursor]).toEqual([1, 3, null]);
    expect(problems.map(({ id }: any) => id).sort()).toEqual([`${name}/0`, `${name}/2`, `${name}/3`]);
    expect(problems.find(({ id }: any) => id === `${name}/2`).message).toBe('not allowed: delete');
    expect(problems.find(({ id }: any) => id === `${name}/0`).message).toContain('only ended instances can be deleted');
    expect(asked[0]).toEqual(['read', undefined]);
    expect(asked.slice(1).sort()).toEqual([0, 1, 2, 3].map((n) => ['delete', `${name}/${n}`]));
    expect(await store.client.getStatus(`${name}/1`)).toBeNull();
  });

  it('are guarded as every other action, and refuse wrong bodies before they act', async () => {
    const [id = ''] = await start(1);
    const body = { action: 'terminate', filter: `name=${name}` };
    const there = asker();
    expect(await verdict(asker({ readOnly: true }).post('bulk', body))).toBe('403 READ_ONLY');
    expect(await verdict(there.ask('api/v1/bulk'))).toBe('405 METHOD');
    expect(await verdict(there.post('bulk', body, { headers: { 'content-type': 'application/json' } }))).toBe(
      '403 ACTION_HEADER',
    );
    const token = 'a-token-that-nobody-guesses';
    expect(await verdict(asker({ token }).post('bulk', body))).toBe('401 TOKEN');
    const mayNotRead = asker({ authorize: (_request, action) => action !== 'read' });
    expect(await verdict(mayNotRead.post('bulk', body))).toBe('403 NOT_AUTHORIZED');
    for (const wrong of [
      [],
      { action: 'terminate' },
      { filter: '' },
      { ...body, action: 'start' },
      { ...body, action: 'restart' },
      { ...body, filter: 'nmae=x' },
      { ...body, filter: 'status=Gone' },
      { ...body, cursor: 'x' },
      { ...body, values: 7 },
      { ...body, values: { reason: 7 } },
      { ...body, values: { nmae: 'x' } },
      { ...body, action: 'raise' },
      { ...body, limit: 5 },
    ])
      expect(await verdict(there.post('bulk', wrong)), JSON.stringify(wrong)).toBe('400 BAD_REQUEST');
    expect((await store.client.getStatus(id))?.status).toBe('Pending');
  });

  it('are confirmed on the page, with the number of instances, and show their progress', async () => {
    await start(PART + 5);
    await store.client.terminateInstance(`${name}/0`);
    const dashboard = await serveDashboard(store.client, { token: false });
    onTestFinished(() => dashboard.close());
    const page = await open(`${dashboard.url}#/instances?name=${name}`);
    const dialog = page.getByRole('dialog');
    await page.getByRole('button', { name: 'Act on all…' }).click();
    await dialog.getByText(`${PART + 4} instances match.`).waitFor();
    await dialog.getByText(`name ${name}`).waitFor();
    expect(await obstacles(page)).toEqual([]);
    await dialog.getByLabel('Action').selectOption('terminate');
    await dialog.getByLabel('Reason').fill('wrong data');
    await dialog.getByRole('button', { name: `Terminate (${PART + 4} instances)` }).click();
    await dialog.getByText(`Finished: ${PART + 4} of ${PART + 4} done.`).waitFor();
    expect(await obstacles(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Close' }).click();
    expect((await store.client.getStatus(`${name}/104`))?.status).toBe('Terminated');

    // The filter has no instance in a state that the action changes.
    await page.getByLabel('Terminated').check();
    await page.getByRole('button', { name: 'Act on all…' }).click();
    await dialog.getByText('The statuses of the filter are none of these.').waitFor();
    expect(await dialog.getByRole('button', { name: 'Cancel (0 instances)' }).isDisabled()).toBe(true);
    await dialog.getByLabel('Action').selectOption('delete');
    await dialog.getByRole('button', { name: `Delete (${PART + 5} instances)` }).click();
    await dialog.getByText('Finished:').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    await page.getByText('No instances match these filters.').waitFor();
  });

  it('reach running instances, and fit a narrow window', async () => {
    await store.start((runtime) =>
      runtime.registerOrchestration(name, function* (ctx) {
        return yield ctx.waitForEvent('go');
      }),
    );
    const ids = await start(3);
    const dashboard = await serveDashboard(store.client, { token: false });
    onTestFinished(() => dashboard.close());
    const page = await open(`${dashboard.url}#/instances?name=${name}`, {
      viewport: { width: 360, height: 740 },
      colorScheme: 'dark',
    });
    const dialog = page.getByRole('dialog');
    await page.getByRole('button', { name: 'Act on all…' }).click();
    await dialog.getByLabel('Action').selectOption('raise');
    await dialog.getByLabel('Name').fill('go');
    await dialog.getByLabel('Data').fill('{"by": "ada"}');
    expect(await obstacles(page)).toEqual([]);
    expect(await overflow(page)).toBe(0);
    await dialog.getByRole('button', { name: 'Raise event (3 instances)' }).click();
    await dialog.getByText('Finished: 3 of 3 done.').waitFor();
    for (const id of ids) expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual({ by: 'ada' });
  });
});
