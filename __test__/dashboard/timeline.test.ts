// The timeline of an instance and the values in it, in a browser, on a real store.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';

import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { Worker } from '../support/worker.ts';
import { useBrowser } from './browser.ts';
import { registerOrders } from './orders.ts';
import { at, serving } from './serving.ts';

const { open } = useBrowser();

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const { served } = serving(store);
  const orders = () => store.start(registerOrders);

  /** Starts an order that waits for its approval. */
  async function waiting(input: object = { total: 12 }): Promise<string> {
    const id = store.id('order');
    await store.client.startOrchestration(id, 'order', input, { tags: { team: 'billing' } });
    await store.client.waitForStatusChange(id, 0, '1s', SOON);
    return id;
  }

  it('is shown with one named row for each step, and a click opens the values of a step in place', async () => {
    await orders();
    const id = await waiting();
    const page = await open(at(await served(), id));
    const steps = page.getByRole('list', { name: 'Steps', exact: true });
    const step = (name: RegExp) => steps.getByRole('button', { name });
    await step(/^child packing/).waitFor();
    const texts = await steps.locator('> li > .step > .gutter').allTextContents();
    expect(texts.map((text) => text.replaceAll(/\s+/g, ' ').trim())).toEqual([
      'execution order',
      'activity charge 2 attempts',
      'child packing',
      'wait waiting for a message or a worker',
    ]);
    // No row is marked before an event is selected.
    expect(await steps.locator('.marked').count()).toBe(0);
    await step(/^activity charge/).click();
    const details = page.getByRole('group', { name: 'Details of charge' });
    await details.getByRole('group', { name: 'Input' }).getByText('"total"').waitFor();
    await details.getByRole('group', { name: 'Output' }).getByText('12').waitFor();
    await details.getByText(/^Attempt 1 failed after/).click();
    const error = details.getByRole('group', { name: 'Error of attempt 1' });
    await error.getByText('RangeError: the bank does not answer', { exact: true }).waitFor();
    await error.getByText('Stack', { exact: true }).click();
    await error.getByText(/\n {4}at /).waitFor();
    await details.getByRole('button', { name: '#4' }).click();
    await page.getByRole('article', { name: 'Event 4' }).waitFor();
    expect(await steps.locator('.marked').count()).toBe(1);
    await step(/^activity charge/).click();
    await details.waitFor({ state: 'detached' });
    await step(/^child packing/).click();
    await page
      .getByRole('group', { name: 'Details of packing' })
      .getByRole('link', { name: `${id}/packing` })
      .click();
    await page.getByRole('heading', { name: `${id}/packing`, level: 1 }).waitFor();
    await page.getByRole('region', { name: 'Input' }).getByText('7').waitFor();
  });

  it('shows the death of a worker between the steps', async () => {
    const folder = temporaryFolder();
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const runtime = { logLevel: 'error', workerName: 'shop-2' };
    const worker = await Worker.start({
      store: store.address,
      log: join(folder, 'log'),
      name: 'w',
      stepMs: 5,
      runtime,
    });
    const id = store.id('steps');
    await store.client.startOrchestration(id, 'steps', { seed: 1, steps: 1_000 });
    await worker.said('step', 5);
    const page = await open(at(await served(), id));
    const steps = page.getByRole('list', { name: 'Steps', exact: true });
    await steps
      .getByRole('button', { name: /^activity step/ })
      .first()
      .waitFor();
    await worker.kill();
    await worker.exited();
    const next = await Worker.start({ store: store.address, log: join(folder, 'log'), name: 'next', stepMs: 5 });
    // The page is updated live.
    await steps.getByText('shop-2 died').waitFor();
    await store.client.terminateInstance(id);
    await next.stop();
  });

  it('has a timeline that works by keyboard', async () => {
    await orders();
    const id = await waiting();
    const page = await open(at(await served(), id));
    const focused = (): Promise<string> =>
      page.evaluate(`document.activeElement.querySelector('.name')?.textContent ?? ''`);
    await page.getByRole('button', { name: /^activity charge/ }).focus();
    const told: string[] = [];
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowUp', 'ArrowUp']) {
      await page.keyboard.press(key);
      told.push(await focused());
    }
    expect(told).toEqual(['packing', 'packing', 'charge', 'order']);
    await page.keyboard.press('+');
    expect(await page.getByRole('button', { name: 'All' }).isEnabled()).toBe(true);
    await page.keyboard.press('0');
    expect(await page.getByRole('button', { name: 'All' }).isDisabled()).toBe(true);
    await page.keyboard.press('Enter');
    await page.getByRole('group', { name: 'Details of order' }).getByRole('group', { name: 'Input' }).waitFor();
  });

  it('has a timeline that is zoomed by the wheel and moved by the mouse, which opens nothing', async () => {
    await orders();
    const id = await waiting();
    const page = await open(at(await served(), id));
    await page.getByRole('button', { name: /^child packing/ }).waitFor();
    const track = page.locator('.step .track').first();
    await track.hover();
    const ticks = (): Promise<string> => page.locator('.ticks').innerHTML();
    await page.keyboard.down('Control');
    await page.mouse.wheel(0, -400);
    await page.keyboard.up('Control');
    await page.locator('.tools button:enabled', { hasText: 'All' }).waitFor();
    const before = await ticks();
    const { x, y } = (await track.boundingBox()) ?? { x: 0, y: 0 };
    await page.mouse.move(x + 100, y + 8);
    await page.mouse.down();
    await page.mouse.move(x + 160, y + 8, { steps: 4 });
    await page.mouse.up();
    await expect.poll(ticks).not.toBe(before);
    expect(await page.locator('.step-details').count()).toBe(0);
  });

  it('shows when a timer is due, and a running step as running', async () => {
    const id = store.id('sleeper');
    await store.start((runtime) =>
      runtime.registerOrchestration('sleeper', function* (ctx) {
        yield ctx.scheduleTimer('2h');
      }),
    );
    await store.client.startOrchestration(id, 'sleeper');
    const page = await open(at(await served(), id));
    await page.getByRole('button', { name: /^timer 2 h due in (?:2 h|1 h 59 min) running$/ }).click();
    const due = (await store.client.getHistory(id)).find(({ kind }) => kind === 'TimerCreated')?.meta.fireAtMs;
    const text = await page.evaluate(`(at => new Date(at).toLocaleTimeString('en-GB'))(${due})`);
    await page
      .getByRole('group', { name: 'Details of timer' })
      .getByText(text as string)
      .waitFor();
    expect(await page.locator('.step.marked').count()).toBe(0);
    await store.client.terminateInstance(id);
  });

  it('has values whose long parts are folded, and whose text is copied whole', async () => {
    await orders();
    const lines = Array.from({ length: 40 }, (_, n) => ({ sku: `s-${n}` }));
    const id = await waiting({ total: 1, lines });
    const page = await open(at(await served(), id));
    const input = page.getByRole('region', { name: 'Input' });
    await input.getByText('"s-1"', { exact: true }).waitFor();
    expect(await input.getByText('"s-39"').count()).toBe(0);
    await input.getByRole('button', { name: 'Show all 125 lines' }).click();
    await input.getByText('"s-39"').waitFor();
    await input.getByRole('button', { name: 'Part "lines": [' }).click();
    await input.getByText('… 120 lines … ]').waitFor();
    expect(await input.getByText('"s-39"').count()).toBe(0);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await input.getByRole('button', { name: 'Copy' }).click();
    await input.getByRole('button', { name: 'Copied' }).waitFor();
    expect(JSON.parse(await page.evaluate('navigator.clipboard.readText()'))).toEqual({ total: 1, lines });
  });
});
