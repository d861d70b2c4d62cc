// The orchestrations and the workers: their numbers, and their pages.

import type { Runtime } from 'perdure';
import { dashboardHandler, serveDashboard } from 'perdure/dashboard';
import { describe, expect, it, onTestFinished } from 'vitest';

import { newestFirst, quantile, SAMPLE_MAX } from '../../js/dashboard/orchestrations.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { Asker } from './ask.ts';
import { obstacles, overflow, useBrowser } from './browser.ts';

const { open } = useBrowser();

it('a quantile is a value that occurs', () => {
  const hundred = Array.from({ length: 100 }, (_, n) => n + 1);
  expect([quantile(hundred, 0.5), quantile(hundred, 0.99), quantile([7], 0.99), quantile([1, 2], 0.5)]).toEqual([
    50, 99, 7, 1,
  ]);
});

it('versions are sorted by their numbers, the newest first', () => {
  expect(['1.9.0', '1.10.0', '', '2.0.0'].sort(newestFirst)).toEqual(['2.0.0', '1.10.0', '1.9.0', '']);
});

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  function register(runtime: Runtime): void {
    const order = function* (_ctx: unknown, input: { bad?: boolean }): Generator<never, object> {
      if (input.bad) throw new Error('bad');
      return input;
    };
    runtime.registerOrchestration('order', order, { version: '1.9.0' });
    runtime.registerOrchestration('order', order, { version: '1.10.0' });
    runtime.registerOrchestration('idle', function* () {});
    runtime.registerOrchestration('waiter', function* (ctx) {
      yield ctx.waitForEvent('never');
    });
  }

  async function run(count: number, version: string, input: object): Promise<void> {
    for (let n = 0; n < count; n += 1) {
      const id = store.id('order');
      await store.client.startOrchestration(id, 'order', input, { version });
      await store.client.waitForOrchestration(id, SOON);
    }
  }

  it('are counted by name and version, with failure rates and durations', async () => {
    await store.start(register);
    await run(3, '1.10.0', {});
    await run(1, '1.10.0', { bad: true });
    await run(2, '1.9.0', {});
    await store.client.startOrchestration('waiter-1', 'waiter');
    const { items, sampled, isWhole, sinceMs, atMs } = await new Asker(
      dashboardHandler(store.client, { token: false }),
    ).get('orchestrations');
    expect([sampled, isWhole, sinceMs <= atMs]).toEqual([7, true, true]);
    const [order, waiter, idle] = items;
    // A registered orchestration without instances has a row as well.
    expect(idle).toMatchObject({ name: 'idle', instances: 0, versions: [{ version: '1.0.0', workers: 1 }] });
    expect(order).toMatchObject({ name: 'order', instances: 6, ended: 6, overdue: 0 });
    expect(order.counts).toMatchObject({ Completed: 5, Failed: 1, Running: 0 });
    expect(order.versions.map((one: any) => [one.version, one.instances, one.counts.Failed])).toEqual([
      ['1.10.0', 4, 1],
      ['1.9.0', 2, 0],
    ]);
    expect(order.versions.map(({ workers }: any) => workers)).toEqual([1, 1]);
    expect(order.p50Ms).toBeLessThanOrEqual(order.p99Ms);
    expect(order.startsPerSecond).toBeGreaterThan(0);
    expect(waiter.versions[0]).toMatchObject({ version: '1.0.0', instances: 1, ended: 0 });
    expect(waiter).not.toHaveProperty('p50Ms');

    const dashboard = await serveDashboard(store.client, { token: false });
    onTestFinished(() => dashboard.close());
    for (const options of [{}, { colorScheme: 'dark', viewport: { width: 360, height: 740 } }] as const) {
      const page = await open(`${dashboard.url}#/orchestrations`, options);
      await page.getByText('These numbers cover all 7 instances').waitFor();
      const row = page.getByRole('row', { name: /^order 2 versions/ });
      await row.getByRole('link', { name: 'Completed 5' }).waitFor();
      await row.getByRole('cell', { name: '17 %' }).waitFor();
      expect(await obstacles(page)).toEqual([]);
      expect(await overflow(page)).toBe(0);
      await page
        .getByRole('row', { name: /^1\.10\.0/ })
        .getByRole('link', { name: 'Failed 1' })
        .click();
      await page.getByText('Page 1: 1 instances').waitFor();
      expect(new URL(page.url()).hash).toBe('#/instances?name=order&version=1.10.0&status=Failed');
    }
  });

  it('are a sample of the newest where there are very many', async () => {
    const starts = Array.from({ length: SAMPLE_MAX + 250 }, (_, n) =>
      store.client.startOrchestration(`many/${n}`, n < 100 ? 'oldest' : 'newer'),
    );
    await Promise.all(starts);
    const { items, sampled, isWhole } = await new Asker(dashboardHandler(store.client, { token: false })).get(
      'orchestrations',
    );
    expect([sampled, isWhole]).toEqual([SAMPLE_MAX, false]);
    expect(items.reduce((sum: number, { instances }: any) => sum + instances, 0)).toBe(SAMPLE_MAX);
  });

  it('have a page with the workers, their threads, and the code that they report', async () => {
    const registerMany = (runtime: Runtime): void => {
      register(runtime);
      for (let n = 10; n < 60; n += 1) runtime.registerActivity(`activity-${n}`, () => null);
    };
    await store.start(registerMany, { workerName: 'packer', queues: ['default', 'parcels'] });
    const dashboard = await serveDashboard(store.client, { token: false });
    onTestFinished(() => dashboard.close());
    const page = await open(`${dashboard.url}#/workers`);
    await page.getByRole('region', { name: 'Workers' }).getByRole('cell', { name: 'packer' }).waitFor();
    await page.getByRole('region', { name: 'Lanes' }).getByRole('cell', { name: 'main thread' }).waitFor();
    expect(await obstacles(page)).toEqual([]);
    const code = page.getByRole('region', { name: /^packer/ });
    await code.getByText('Activities (50)').waitFor();
    await code.getByRole('link', { name: 'order 1.9.0, 1.10.0' }).waitFor();
    await code.getByText('parcels', { exact: true }).waitFor();
    expect(await code.getByText('activity-59').isVisible()).toBe(false);
    await code.getByText('10 more').click();
    await code.getByText('activity-59').waitFor();
    expect(await obstacles(page)).toEqual([]);
  });
});
