// The panel of the waits of an instance, and the answers that it is made of, on a real store.

import type { DashboardOptions } from 'perdure/dashboard';
import { describe, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { ANY_STORE, SHARED_STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { verdict } from './ask.ts';
import { LOOKS, obstacles, overflow, useBrowser } from './browser.ts';
import { at, serving } from './serving.ts';

const { open } = useBrowser();

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const { asker, served } = serving(store);

  /** Starts an instance that waits for one thing of each kind, and returns when its activity has failed once. */
  async function waiting(): Promise<string> {
    const id = store.id('busy');
    await store.start((runtime) => {
      runtime.registerActivity('flaky', (ctx) => {
        ctx.heartbeat({ row: 7 });
        throw new RangeError('no room');
      });
      runtime.registerOrchestration('waits', function* (ctx) {
        yield ctx.waitForEvent('end');
      });
      runtime.registerOrchestration('busy', function* (ctx) {
        const flaky = ctx.scheduleActivity('flaky', null, {
          retry: { maxAttempts: 5, initialInterval: '1h', maxInterval: '1h' },
        });
        const packing = ctx.spawn(function* packing() {
          yield ctx.race([ctx.waitForEvent('packed'), ctx.sleep('2h')]);
        });
        const child = ctx.scheduleSubOrchestration('waits', null, { id: `${ctx.instanceId}/child` });
        const lines = ctx.all(Array.from({ length: 70 }, () => ctx.scheduleActivity('offered', 0, { queue: 'gpu' })));
        yield packing;
        ctx.setCustomStatus('packed');
        const order = yield ctx.dequeueEvent('orders');
        ctx.setCustomStatus({ order });
        yield ctx.all([flaky, child, lines]);
      });
    });
    await store.client.startOrchestration(id, 'busy');
    await eventually(10_000, 'the failed attempt', async () => {
      const [flaky] = (await store.client.describe(id))?.activities ?? [];
      return flaky?.heartbeat !== undefined && flaky.state === 'retrying';
    });
    return id;
  }

  it('are answered with redacted values, and are empty after the end', async () => {
    const id = await waiting();
    const waits = await asker().get(`waits?id=${id}`);
    expect(waits).toMatchObject({
      executionId: 1,
      activities: expect.arrayContaining([
        expect.objectContaining({
          eventId: 2,
          name: 'flaky',
          state: 'retrying',
          attempt: 2,
          lastError: expect.objectContaining({ errors: [expect.objectContaining({ message: 'no room' })] }),
          retryAtMs: expect.any(Number),
          heartbeat: { atMs: expect.any(Number), details: { text: '{\n  "row": 7\n}', isWhole: true } },
        }),
        expect.objectContaining({ name: 'offered', state: 'queued', attempt: 1, queue: 'gpu' }),
      ]),
      messages: [{ kind: 'event', name: 'packed', fiber: 1 }],
      openOperations: 73,
      openFibers: 2,
    });
    const redact: DashboardOptions['redact'] = (value, { kind, name, eventId }) =>
      kind === 'heartbeat' ? undefined : kind === 'error' ? `${name} ${eventId}` : value;
    const [flaky] = (await asker({ redact }).get(`waits?id=${id}`)).activities;
    expect(flaky).toMatchObject({ lastError: { text: '"flaky 2"' }, heartbeat: { atMs: expect.any(Number) } });
    expect(flaky.heartbeat).not.toHaveProperty('details');
    expect(await verdict(asker({ authorize: (_, __, of) => of !== id }).ask(`api/v1/waits?id=${id}`))).toBe(
      '403 NOT_AUTHORIZED',
    );
    expect(await verdict(asker().ask('api/v1/waits?id=nobody'))).toBe('404 INSTANCE_NOT_FOUND');

    await store.client.terminateInstance(id);
    expect(await asker().get(`waits?id=${id}`)).toMatchObject({
      activities: [],
      timers: [],
      children: [],
      messages: [],
      fibers: [],
      openOperations: 0,
    });
  });

  it('are followed live', async () => {
    const id = await waiting();
    const seen: string[] = [];
    for await (const { event, data } of asker().events(`live?id=${id}`)) {
      if (event !== 'waits') continue;
      const [message] = data.messages;
      seen.push(message?.name ?? 'nothing');
      if (message?.name === 'packed') await store.client.raiseEvent(id, 'packed');
      else if (message?.name === 'orders') await store.client.enqueueEvent(id, 'orders');
      else break;
    }
    expect(seen).toEqual(['packed', 'orders', 'nothing']);
    await store.client.terminateInstance(id);
  });

  it('have a panel that sends the awaited messages, and goes with the end', async () => {
    const id = await waiting();
    const page = await open(at(await served(), id));
    const panel = page.getByRole('region', { name: 'Waiting for' });
    const row = (text: string) => panel.getByRole('listitem').filter({ hasText: text }).first();
    const flaky = row('flaky');
    await flaky.getByText('retrying').waitFor();
    await flaky.getByText('attempt 2').waitFor();
    await flaky.getByText(/^next attempt in \d/).waitFor();
    await flaky.getByText(/^Heartbeat: \{ "row": 7 \}$/).waitFor();
    await flaky.getByText(/^Last error: RangeError: no room$/).click();
    await flaky.getByRole('group', { name: 'Last error' }).getByText('no room').first().waitFor();
    await row('offered').getByText('queue gpu').waitFor();
    await panel.getByRole('button', { name: 'Show 53 more' }).click();
    expect(await panel.getByText('queue gpu').count()).toBe(62);
    await panel.getByText('and 9 operations that are not listed').waitFor();
    await panel.getByRole('list', { name: 'Fibers (2)' }).getByText("event 'packed'").waitFor();
    await flaky.getByRole('button', { name: '#2' }).click();
    await page.getByRole('article', { name: 'Event 2' }).waitFor();

    const dialog = page.getByRole('dialog');
    await panel.getByRole('button', { name: 'Raise event… packed' }).click();
    expect(await dialog.getByLabel('Name').inputValue()).toBe('packed');
    await dialog.getByRole('button', { name: 'Raise event' }).click();
    await panel.getByRole('button', { name: 'Enqueue… orders' }).click();
    expect(await dialog.getByLabel('Queue').inputValue()).toBe('orders');
    await dialog.getByLabel('Data').fill('12');
    await dialog.getByRole('button', { name: 'Enqueue' }).click();
    await page.getByRole('group', { name: 'Custom status' }).getByText('12').waitFor();
    // A form that is opened from the actions is empty.
    await page.getByRole('group', { name: 'Actions' }).getByRole('button', { name: 'Raise event…' }).click();
    expect(await dialog.getByLabel('Name').inputValue()).toBe('');
    await dialog.getByRole('button', { name: 'Close' }).click();

    await store.client.terminateInstance(id);
    await panel.waitFor({ state: 'detached' });
  });

  it('have a panel with timers and links to children', async () => {
    const id = store.id('short');
    await store.start((runtime) => {
      runtime.registerOrchestration('waits', function* (ctx) {
        yield ctx.waitForEvent('end');
      });
      runtime.registerOrchestration('short', function* (ctx) {
        const child = ctx.scheduleSubOrchestration('waits', null, { id: `${ctx.instanceId}/child` });
        yield ctx.all([child, ctx.sleep('2h')]);
      });
    });
    await store.client.startOrchestration(id, 'short');
    const page = await open(at(await served({ readOnly: true }), id));
    const panel = page.getByRole('region', { name: 'Waiting for' });
    await panel.getByText(/^due in 1 h 59 min$/).waitFor();
    await panel.getByRole('link', { name: `${id}/child` }).click();
    await page.getByRole('heading', { name: `${id}/child`, level: 1 }).waitFor();
    // The dashboard is read-only.
    await panel.getByText('end', { exact: true }).waitFor();
    expect(await panel.getByRole('button').count()).toBe(0);
    await store.client.raiseEvent(`${id}/child`, 'end');
    await panel.waitFor({ state: 'detached' });
    await store.client.terminateInstance(id);
  });

  it('name the queue of an instance that has not begun, or its start time', async () => {
    await store.start((runtime) =>
      runtime.registerOrchestration('waits', function* (ctx) {
        yield ctx.waitForEvent('end');
      }),
    );
    const [queue, startAt] = [store.id('queue'), new Date(Date.now() + 3 * 3_600_000)];
    const ids = ['running', 'held', 'delayed', 'later'].map((name) => store.id(name));
    await store.client.queues.set(queue, { perKey: { concurrency: 1 } });
    for (const [n, options] of [{ key: 'ada' }, { key: 'ada' }, { startAt }].entries())
      await store.client.startOrchestration(ids[n] as string, 'waits', null, { queue, ...options });
    await store.client.startOrchestration(ids[3] as string, 'waits', null, { startAt });
    const placeOf = async (id: string): Promise<unknown> => (await store.client.describe(id))?.queue?.state;
    await eventually(10_000, 'it is held', async () => (await placeOf(ids[1] as string)) === 'held');
    const url = await served();
    const texts: string[] = [];
    for (const id of ids.slice(1)) {
      const page = await open(at(url, id));
      const panel = page.getByRole('region', { name: 'Waiting for' });
      await panel.getByRole('listitem').first().waitFor();
      texts.push((await panel.getByRole('listitem').textContent()) ?? '');
      expect(await obstacles(page)).toEqual([]);
    }
    expect(texts).toEqual([
      expect.stringMatching(new RegExp(`${queue}[^]*its key has no slot or token[^]*key ada`)),
      expect.stringMatching(new RegExp(`${queue}[^]*delayed[^]*comes into line in 2 h`)),
      expect.stringMatching(/due in 2 h/),
    ]);
    for (const id of ids) await store.client.terminateInstance(id);
  });

  it('have no panel where an instance has not begun', async () => {
    const id = store.id('pending');
    await store.client.startOrchestration(id, 'nobody registers it');
    const page = await open(at(await served(), id));
    await page.getByRole('option').first().waitFor();
    expect(await page.getByRole('region', { name: 'Waiting for' }).count()).toBe(0);
    await store.client.terminateInstance(id);
  });

  it.runIf(kind === ANY_STORE)(
    'have an accessible panel in both themes and in a narrow window',
    { timeout: 120_000 },
    async () => {
      const id = await waiting();
      const url = await served();
      for (const options of LOOKS) {
        const page = await open(at(url, id), options);
        const panel = page.getByRole('region', { name: 'Waiting for' });
        await panel.getByText(/^Last error/).click();
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
      }
      await store.client.terminateInstance(id);
    },
  );
});
