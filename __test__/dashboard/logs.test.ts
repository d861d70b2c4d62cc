// The panel of the lines that an instance logged, and the answers that it is made of, on a real store.

import type { OrchestrationContext, Runtime, RuntimeOptions } from 'perdure';
import { Client } from 'perdure';
import { type DashboardOptions, serveDashboard } from 'perdure/dashboard';
import type { Page } from 'playwright-core';
import { describe, expect, it, onTestFinished } from 'vitest';

import { ANY_STORE, SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { verdict } from './ask.ts';
import { LOOKS, obstacles, overflow, useBrowser } from './browser.ts';
import { at, serving } from './serving.ts';

const { open } = useBrowser();

function* talking(ctx: OrchestrationContext, n: number) {
  ctx.traceInfo(`begins ${n}`, { total: 12, secret: 'pin 1234' });
  ctx.traceDebug('a detail');
  ctx.traceWarn('the stock is low', { warehouses: Array.from({ length: 20 }, (_, left) => ({ left })) });
  const word: string = yield ctx.waitForEvent('word');
  ctx.traceError(`heard ${word}`);
  if (n < 2) yield ctx.continueAsNew(n + 1);
  yield ctx.waitForEvent('end');
}

/** Logs 100 lines at a time, the fields of the 51st of which are long, and waits for a word between. */
function* babbling(ctx: OrchestrationContext): Generator<any, void, any> {
  for (let turn = 0; ; turn += 1) {
    for (let line = 0; line < 100; line += 1) {
      if (line === 50) ctx.traceInfo(`${turn}.50`, { long: 'x'.repeat(200) });
      else ctx.traceInfo(`${turn}.${line}`);
    }
    if (turn < 2) yield ctx.scheduleActivity('step');
    else yield ctx.waitForEvent('word');
  }
}

function register(runtime: Runtime): void {
  runtime.registerOrchestration('babbling', babbling);
  runtime.registerOrchestration('talking', talking);
  runtime.registerActivity('step', () => null);
  // Each turn keeps at most 100 lines.
  runtime.registerOrchestration('flood', function* (ctx, turns) {
    for (let turn = 0; turn < turns; turn += 1) {
      for (let line = 0; line < 100; line += 1) ctx.traceInfo(`${turn}.${line}`);
      yield ctx.scheduleActivity('step');
    }
  });
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const { asker, served } = serving(store);

  const start = (options: RuntimeOptions = { keepLogs: { level: 'debug', maxLines: 2_000 } }) =>
    store.start(register, options);

  const panelOf = (page: Page) => page.getByRole('region', { name: 'Logs' });
  const linesOf = async (page: Page): Promise<string[]> =>
    (await panelOf(page).getByRole('listitem').allTextContents()).map((text) => text.replace(/^.*?(?=[A-Z]{4})/, ''));

  /** Returns the id of an instance that waits for a word, and has logged three lines. */
  async function started(): Promise<string> {
    const id = store.id('talking');
    await store.client.startOrchestration(id, 'talking', 1);
    await expect.poll(async () => (await store.client.logs(id))?.lines.length).toBe(3);
    return id;
  }

  async function flooded(turns: number): Promise<string> {
    const id = store.id('flood');
    await store.client.startOrchestration(id, 'flood', turns);
    await store.client.waitForOrchestration(id, SOON);
    return id;
  }

  describe('the answer', () => {
    it('has the last lines, those after a cursor, and those that match', async () => {
      await start();
      const id = await started();
      const there = asker({ readOnly: true });
      const messages = async (query: string): Promise<string[]> =>
        (await there.get(`logs?id=${id}&${query}`)).lines.map(({ message }: { message: string }) => message);
      const first = await there.get(`logs?id=${id}`);
      expect(first).toMatchObject({
        lines: [
          {
            executionId: 1,
            atMs: expect.any(Number),
            level: 'info',
            message: 'begins 1',
            fields: { text: expect.stringContaining('"total": 12'), isWhole: true },
          },
          { level: 'debug', message: 'a detail' },
          { level: 'warn', message: 'the stock is low' },
        ],
        hasEarlier: false,
      });
      expect(await messages('level=warn')).toEqual(['the stock is low']);
      expect(await messages('text=STOCK')).toEqual(['the stock is low']);
      // The text of fields, as they are shown in one line.
      expect(await messages(`text=${encodeURIComponent('"total": 12, "sec')}`)).toEqual(['begins 1']);
      expect(await messages('text=nothing')).toEqual([]);
      expect(await there.get(`logs?id=${id}&limit=2`)).toMatchObject({
        lines: [{ message: 'a detail' }, { message: 'the stock is low' }],
        hasEarlier: true,
      });
      await store.client.raiseEvent(id, 'word', 'go');
      await expect.poll(() => messages('level=error')).toEqual(['heard go']);
      await expect.poll(() => messages('execution=2')).toHaveLength(3);
      expect((await messages(`after=${first.cursor}`)).slice(0, 2)).toEqual(['heard go', 'begins 2']);
      expect(await messages('execution=1&level=info')).toEqual(['begins 1', 'the stock is low', 'heard go']);
      await store.client.terminateInstance(id);
    });

    it('covers more lines than the store returns at once', async () => {
      await start();
      const id = await flooded(15);
      const answer = await asker().get(`logs?id=${id}`);
      expect(answer.lines).toHaveLength(200);
      expect([answer.lines[0].message, answer.lines.at(-1).message]).toEqual(['13.0', '14.99']);
      expect(answer).toMatchObject({ hasEarlier: true, cursor: expect.any(String) });
      const found = await asker().get(`logs?id=${id}&text=3.7&limit=1000`);
      expect(found.lines[0].message).toBe('3.7');
      expect(found.hasEarlier).toBe(false);
    });

    it('is redacted, and a search does not find the redacted part', async () => {
      await start();
      const id = await started();
      const there = asker({
        redact: (value, { kind }) =>
          kind === 'logFields' ? { ...(value as object), secret: '(hidden)' } : kind === 'logMessage' ? 'said' : value,
      });
      const { lines } = await there.get(`logs?id=${id}`);
      expect(lines.map(({ message }: { message: string }) => message)).toEqual(['said', 'said', 'said']);
      expect(lines[0].fields.text).toContain('(hidden)');
      expect((await there.get(`logs?id=${id}&text=1234`)).lines).toEqual([]);
      expect((await there.get(`logs?id=${id}&text=begins`)).lines).toEqual([]);
      await store.client.terminateInstance(id);
    });

    it('refuses what is wrong', async () => {
      await start();
      const id = await started();
      const asked = (query: string, options?: DashboardOptions) => verdict(asker(options).ask(`api/v1/logs?${query}`));
      expect(await asked('id=nobody')).toBe('404 INSTANCE_NOT_FOUND');
      expect(await asked(`id=${id}&execution=9`)).toBe('404 INSTANCE_NOT_FOUND');
      for (const wrong of [
        '',
        'execution=0',
        'level=fatal',
        'limit=1001',
        'after=1',
        'after=99999999999999999999.1.1.1',
        `text=${'x'.repeat(201)}`,
        'order=asc',
      ])
        expect(await asked(wrong === '' ? '' : `id=${id}&${wrong}`), wrong).toMatch(/^400 (BAD_REQUEST|ARGUMENT)$/);
      const refused = await asker().ask(`api/v1/logs?id=${id}&level=wran`);
      expect(await refused.text()).toContain("did you mean 'warn'?");
      expect(await asked(`id=${id}`, { authorize: (_request, _action, of) => of !== id })).toBe('403 NOT_AUTHORIZED');
      expect(await verdict(asker().ask(`api/v1/logs?id=${id}`, { method: 'POST' }))).toBe('405 METHOD');
      await store.client.terminateInstance(id);
    });
  });

  describe('the panel', () => {
    it('shows lines as they come, also those of the next execution', async () => {
      await start();
      const id = await started();
      const page = await open(at(await served({ readOnly: true }), id));
      const panel = panelOf(page);
      await panel.getByText('begins 1').waitFor();
      const [info, debug, warn] = await linesOf(page);
      expect(info).toMatch(/^INFO\s*begins 1\{ "total": 12/);
      expect(debug).toBe('DEBUGa detail');
      expect(warn).toMatch(/^WARN\s*the stock is low/);
      // Long fields open on request, also from the keyboard.
      await panel.getByRole('group', { name: 'Fields' }).waitFor({ state: 'hidden' });
      await panel.locator('summary').focus();
      await page.keyboard.press('Enter');
      await panel.getByRole('group', { name: 'Fields' }).getByText('"warehouses"').waitFor();
      await store.client.raiseEvent(id, 'word', 'go');
      await panel.getByText('begins 2').waitFor();
      expect(await linesOf(page)).toHaveLength(3);
      await panel.getByLabel('Execution').selectOption('all');
      await panel.getByText('heard go').waitFor();
      expect(await linesOf(page)).toHaveLength(7);
      await panel.getByText('execution 2').first().waitFor();
      await store.client.raiseEvent(id, 'word', 'again');
      await panel.getByText('heard again').waitFor();
      // The page of a former execution has the lines of that one. The page before it showed them too.
      await page.getByRole('link', { name: '← 1' }).click();
      await expect.poll(() => linesOf(page)).toHaveLength(4);
      await store.client.terminateInstance(id);
    });

    it('has a filter by level and by text, which new lines pass too', async () => {
      await start();
      const id = await started();
      const page = await open(at(await served(), id));
      const panel = panelOf(page);
      await panel.getByText('3 lines').waitFor();
      await panel.getByLabel('Level').selectOption('error');
      await panel.getByText('No lines match.').waitFor();
      await panel.getByLabel('Level').selectOption('warn');
      await panel.getByText('1 matching line').waitFor();
      await panel.getByLabel('Contains').fill('LOW');
      await panel.getByText('the stock is low').waitFor();
      await panel.getByLabel('Contains').fill('heard');
      await panel.getByText('No lines match.').waitFor();
      await panel.getByLabel('Execution').waitFor({ state: 'detached' });
      await store.client.raiseEvent(id, 'word', 'go');
      await page.getByRole('link', { name: '← 1' }).click();
      await panel.getByText('heard go').waitFor();
      await store.client.terminateInstance(id);
    });

    it('shows the last lines, and earlier ones on request', async () => {
      await start();
      const id = await flooded(15);
      const page = await open(at(await served(), id));
      const panel = panelOf(page);
      await panel.getByText('the last 200 lines').waitFor();
      const list = panel.getByRole('log');
      const isAtEnd = () =>
        page.evaluate(
          `(({ scrollTop, clientHeight, scrollHeight }) => scrollTop + clientHeight >= scrollHeight - 2)(
            document.querySelector('[role=log]'))`,
        );
      expect(await isAtEnd()).toBe(true);
      // The list scrolls by keyboard.
      await list.focus();
      await page.keyboard.press('Home');
      await panel.getByRole('button', { name: 'Show up to 1,000 lines' }).click();
      await panel.getByText('the last 1,000 lines').waitFor();
      expect((await linesOf(page))[0]).toBe('INFO5.0');
      expect(await isAtEnd()).toBe(false);
      await panel.getByText(/^Earlier lines are left out/).waitFor();
      await panel.getByLabel('Contains').fill('0.42');
      await panel.getByText('2 matching lines').waitFor();
      expect((await linesOf(page))[0]).toBe('INFO0.42');
    });

    it('keeps a line in its place, and open, while new lines push out the oldest ones', async () => {
      await start();
      const id = store.id('babbling');
      await store.client.startOrchestration(id, 'babbling');
      await expect.poll(async () => (await store.client.logs(id, { limit: 1_000 }))?.lines.length).toBe(300);
      const page = await open(at(await served(), id));
      const panel = panelOf(page);
      await panel.getByText('the last 200 lines').waitFor();
      const line = panel.getByRole('listitem').filter({ hasText: /INFO\s*2\.50/ });
      await line.locator('summary').click();
      await line.getByRole('group', { name: 'Fields' }).waitFor();
      // Away from the end of the list, where it does not follow new lines.
      await line.evaluate((element: any) => element.scrollIntoView({ block: 'center' }));
      // In the list: the panels above it may grow.
      const top = (): Promise<number> =>
        line.evaluate(
          (element: any) =>
            element.getBoundingClientRect().top - element.closest('[role=log]').getBoundingClientRect().top,
        );
      const before = await top();
      await store.client.raiseEvent(id, 'word');
      await panel.getByText('3.99', { exact: true }).waitFor();
      expect(await panel.getByRole('group', { name: 'Fields' }).filter({ visible: true }).count()).toBe(1);
      expect(await line.getByRole('group', { name: 'Fields' }).isVisible()).toBe(true);
      expect(Math.abs((await top()) - before)).toBeLessThan(2);
      await store.client.terminateInstance(id);
    });

    it('says how lines are kept where there are none', async () => {
      await start({});
      const id = store.id('talking');
      await store.client.startOrchestration(id, 'talking', 2);
      const page = await open(at(await served(), id));
      await panelOf(page)
        .getByText(/A runtime with the option keepLogs stores the lines/)
        .waitFor();
      expect(await panelOf(page).getByLabel('Level').count()).toBe(0);
      await store.client.terminateInstance(id);
    });

    it('says the same for a store with a codec', async () => {
      const codec = { encode: (text: string) => `~${text}`, decode: (text: string) => text.slice(1) };
      const provider = await store.open({ codec });
      const id = store.id('talking');
      await new Client(provider).startOrchestration(id, 'talking', 2);
      const dashboard = await serveDashboard(new Client(provider));
      onTestFinished(() => dashboard.close());
      const page = await open(at(dashboard.url, id));
      await panelOf(page)
        .getByText(/in a store without a codec\.$/)
        .waitFor();
      await store.client.terminateInstance(id);
    });

    it.runIf(kind === ANY_STORE)(
      'is accessible in both themes and in a narrow window',
      { timeout: 120_000 },
      async () => {
        await start();
        const id = await started();
        await store.client.raiseEvent(id, 'word', 'go');
        const url = await served();
        for (const options of LOOKS) {
          const page = await open(at(url, id), options);
          await panelOf(page).getByLabel('Execution').selectOption('all');
          await panelOf(page).getByText('heard go').waitFor();
          await panelOf(page).locator('summary').first().click();
          expect(await obstacles(page)).toEqual([]);
          expect(await overflow(page)).toBe(0);
        }
        await store.client.terminateInstance(id);
      },
    );
  });
});
