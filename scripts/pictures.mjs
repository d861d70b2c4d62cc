// Makes the pictures of docs/dashboard.md again: a real store with some orders in it, its dashboard, and a browser that
// looks at it.

import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { chromium } from 'playwright-core';
import { serveDashboard } from '../dist/dashboard/index.js';
import { Client, Runtime, SqliteProvider } from '../dist/index.js';

const FOLDER = fileURLToPath(new URL('../docs/pictures/', import.meta.url));
const provider = await SqliteProvider.inMemory();
const client = new Client(provider);
const runtime = new Runtime(provider, { logLevel: 'silent', workerName: 'orders', sourceStacks: false });
runtime.registerActivity('reserve', async (_ctx, order) => (await pause(120), { ...order, reserved: true }));
runtime.registerActivity(
  'charge',
  async (ctx, order) => {
    await pause(80);
    if (ctx.attempt < 3) throw failure('the bank does not answer');
    return { receipt: `r-${order.total}` };
  },
  { retry: { initialInterval: 150, maxAttempts: 5 } },
);
runtime.registerActivity('pick', async (_ctx, item) => (await pause(60 + 50 * (item % 4)), `box ${item}`));
runtime.registerActivity('label', async (_ctx, box) => (await pause(70), `${box}, labelled`));
runtime.registerActivity(
  'ship',
  async () => {
    await pause(120);
    throw failure('no such address');
  },
  { retry: { maxAttempts: 1 } },
);
runtime.registerOrchestration('packing', function* (ctx, n) {
  yield ctx.scheduleTimer(100);
  return yield ctx.scheduleActivity('pick', n);
});
runtime.registerOrchestration(
  'order',
  function* (ctx, order) {
    const reserved = yield ctx.scheduleActivity('reserve', order);
    ctx.setCustomStatus({ step: 'charging' });
    yield ctx.scheduleActivity('charge', reserved);
    const boxes = yield ctx.all(
      [1, 2, 3].map(function* (item) {
        const box = yield ctx.scheduleActivity('pick', item);
        yield ctx.scheduleActivity('label', box);
        return box;
      }),
    );
    yield ctx.scheduleSubOrchestration('packing', 7);
    ctx.setCustomStatus({ step: 'waiting for approval', boxes });
    const { value } = yield ctx.race(ctx.waitForEvent('approve'), ctx.scheduleTimer('1h'));
    yield ctx.scheduleTimer(150);
    if (order.total % 9 === 0) yield ctx.scheduleActivity('ship');
    return { boxes, by: value.by };
  },
  { version: '1.2.0' },
);
await runtime.start();

/** An error without a real stack, so that the pictures do not show where this script lies. */
function failure(message) {
  return Object.assign(new Error(message), { stack: `Error: ${message}` });
}

let total = 0;
const start = () =>
  client.startOrchestration(
    `order-${(total += 1)}`,
    'order',
    { total, items: [{ sku: 'a-1', count: 2 }] },
    { tags: { team: total % 2 ? 'billing' : 'sales' } },
  );
const approve = (n) => client.raiseEvent(`order-${n}`, 'approve', { by: 'ada' });
for (let n = 0; n < 60; n += 1) await start();
for (let n = 1; n <= 60; n += 1) await client.waitForStatusChange(`order-${n}`, 1);
for (let n = 1; n <= 50; n += 1) await approve(n);
await client.suspend('order-55', 'a question of the customer');
await client.waitForOrchestration('order-44');
const { url, close } = await serveDashboard(client, { runtime, token: false });
const browser = await chromium.launch({
  executablePath: process.env.PERDURE_TEST_CHROMIUM,
  args: ['--no-sandbox', '--disable-dev-shm-usage'],
});

const overview = await open({ width: 1120, height: 608 }, '');
// Half a minute in which something goes on, for the rates.
for (let n = 0; n < 60; n += 1) {
  await start();
  await pause(150 + 350 * Math.abs(Math.sin(n / 9)));
  if (n > 4) await approve(total - 4);
}
await overview.screenshot({ path: join(FOLDER, 'overview.png') });
const instance = await open({ width: 1120, height: 1000, colorScheme: 'dark' }, '#/instance?id=order-44');
await instance.getByRole('button', { name: /^activity charge/ }).click();
await instance.getByRole('group', { name: 'Details of charge' }).getByRole('group', { name: 'Output' }).waitFor();
await instance.evaluate('scrollTo(0, 0)');
await instance.screenshot({ path: join(FOLDER, 'instance.png') });
const orchestrations = await open({ width: 1120, height: 260 }, '#/orchestrations');
await orchestrations.getByRole('table').waitFor();
await orchestrations.screenshot({ path: join(FOLDER, 'orchestrations.png') });

await browser.close();
await close();
await runtime.shutdown();
await provider.close();

async function open({ width, height, colorScheme = 'light' }, path) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme,
    reducedMotion: 'reduce',
    locale: 'en-GB',
  });
  const page = await context.newPage();
  await page.goto(url + path);
  await page.getByRole('heading', { level: 1 }).waitFor();
  return page;
}
