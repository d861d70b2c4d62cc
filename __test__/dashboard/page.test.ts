// The page, in a browser, on a real store.

import { hostname } from 'node:os';
import { serveDashboard } from 'perdure/dashboard';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';

import { ANY_STORE, SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { LOOKS, obstacles, overflow, useBrowser } from './browser.ts';
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

  const shown = (page: Page, text: string | RegExp) => page.getByText(text).first().waitFor();
  const dialog = (page: Page) => page.getByRole('dialog');
  const action = (page: Page, name: string) =>
    page.getByRole('group', { name: 'Actions' }).getByRole('button', { name, exact: true }).click();

  describe('the overview', () => {
    it('says that the store is empty, and shows new instances', async () => {
      const page = await open(await served());
      await shown(page, 'No instances yet.');
      await shown(page, 'No workers. Start a runtime on this store.');
      await store.client.startOrchestration('first', 'nobody registers it');
      await page.getByRole('link', { name: 'Pending 1' }).click();
      await page.getByRole('link', { name: 'first' }).waitFor();
      expect(new URL(page.url()).hash).toBe('#/instances?status=Pending');
      await store.client.terminateInstance('first');
      await store.client.deleteInstance('first');
    });

    it('shows counts, rates, workers, counters, and failed instances', async () => {
      const runtime = await orders();
      const id = await waiting({ bad: true });
      await store.client.raiseEvent(id, 'approve', { by: 'ada' });
      await store.client.raiseEvent(id, 'go');
      await store.client.waitForOrchestration(id, SOON);
      const page = await open(await served({ runtime }));
      await page.getByRole('link', { name: 'Failed 1' }).waitFor();
      await page.getByRole('region', { name: 'Recent failed and suspended' }).getByRole('link', { name: id }).waitFor();
      await shown(page, /activity 'ship' failed at its first attempt: no such address/);
      await page.getByRole('region', { name: 'Workers' }).getByRole('cell', { name: 'alive' }).waitFor();
      await page
        .getByRole('region', { name: 'Workers' })
        .getByRole('cell', { name: hostname().slice(0, 24) })
        .waitFor();
      await page
        .getByRole('region', { name: 'Counters of this process' })
        .getByText('turns', { exact: false })
        .first()
        .waitFor();
      // Two polls later.
      await page.getByRole('img', { name: /^Started per second: now/ }).waitFor();
      await page.getByRole('img', { name: /^Attempts per second/ }).waitFor();
    });
  });

  describe('the list', () => {
    const name = 'listed';
    // Enough instances for three pages.
    beforeAll(async () => {
      for (let n = 0; n < 120; n += 1)
        await store.client.startOrchestration(`${name}/${String(n).padStart(3, '0')}`, name, n, {
          tags: { even: String(n % 2 === 0) },
        });
    });
    const ids = (page: Page) => page.getByRole('rowheader').allTextContents();

    it('goes from page to page and back', async () => {
      const page = await open(`${await served()}#/instances?name=${name}`);
      await page.getByRole('link', { name: 'listed/119' }).waitFor();
      expect(await ids(page)).toHaveLength(50);
      await page.getByRole('button', { name: 'Older' }).click();
      await page.getByRole('link', { name: 'listed/069' }).waitFor();
      expect((await ids(page))[0]).toBe('listed/069');
      await page.getByRole('button', { name: 'Older' }).click();
      await page.getByRole('link', { name: 'listed/000' }).waitFor();
      expect(await page.getByRole('button', { name: 'Older' }).isDisabled()).toBe(true);
      await shown(page, 'Page 3: 20 instances');
      await page.getByRole('button', { name: 'Newer' }).click();
      await page.getByRole('link', { name: 'listed/069' }).waitFor();
      // The browser's back button leads to the previous page.
      await page.goBack();
      await page.getByRole('link', { name: 'listed/000' }).waitFor();
    });

    it('is searched by the start of an id from the keyboard, and says when no instance matches', async () => {
      const page = await open(`${await served()}#/instances`);
      await page.getByRole('link', { name: 'listed/119' }).waitFor();
      await page.keyboard.press('/');
      await page.keyboard.type('listed/01');
      await page.getByRole('link', { name: 'listed/119' }).waitFor({ state: 'detached' });
      expect(await ids(page)).toEqual(Array.from({ length: 10 }, (_, n) => `listed/01${9 - n}`));
      await page.keyboard.type('x');
      await shown(page, 'No instances match these filters.');
      await page.getByRole('link', { name: 'Clear' }).click();
      await page.getByRole('link', { name: 'listed/119' }).waitFor();
      expect(await page.getByLabel('ID starts with').inputValue()).toBe('');
    });

    it('shows instances of built-in orchestrations if they are asked for', async () => {
      await store.client.startOrchestration('perdure.lock/door', 'perdure.lock');
      const page = await open(`${await served()}#/instances?idPrefix=perdure`);
      await shown(page, 'No instances match these filters.');
      await page.getByText('More filters').click();
      await page.getByLabel('Built-in orchestrations').check();
      await page.getByRole('link', { name: 'perdure.lock/door' }).waitFor();
      await page.getByLabel('Built-in orchestrations').uncheck();
      await shown(page, 'No instances match these filters.');
    });

    it('is filtered by status and tag, and keeps the filters in the URL', async () => {
      await store.client.terminateInstance('listed/004', 'a reason');
      const url = await served();
      const page = await open(`${url}#/instances?name=${name}`);
      await page.getByRole('link', { name: 'listed/119' }).waitFor();
      await page.getByLabel('Terminated').check();
      await page.getByRole('link', { name: 'listed/119' }).waitFor({ state: 'detached' });
      await page.getByRole('link', { name: 'listed/004' }).waitFor();
      expect(await ids(page)).toEqual(['listed/004']);
      await shown(page, 'cancelled: terminated: a reason');
      await page.getByLabel('Tag').fill('even:false');
      await shown(page, 'No instances match these filters.');
      expect(new URLSearchParams(new URL(page.url()).hash.split('?')[1]).getAll('status')).toEqual(['Terminated']);
      // Another browser with the token and the same URL shows the same.
      const other = await open(`${url}${new URL(page.url()).hash}`);
      await shown(other, 'No instances match these filters.');
      expect(await other.getByLabel('Tag').inputValue()).toBe('even:false');
      expect(await other.getByLabel('Terminated').isChecked()).toBe(true);
    });

    it('shows a refusal of the server, and retries', async () => {
      const page = await open(`${await served()}#/instances?version=${'x'.repeat(300)}`);
      await page.getByRole('alert').getByText('must have at most 256 characters').waitFor();
      await page.getByRole('alert').getByRole('button', { name: 'Try again' }).click();
      await page.getByRole('alert').waitFor();
    });
  });

  describe('an instance', () => {
    it('has a history, read by keys, with values that are text', async () => {
      await orders();
      const id = await waiting({ html: '<img src=x onerror="document.title=1"><b>bold</b>', long: 'y'.repeat(30_000) });
      const page = await open(at(await served(), id));
      const list = page.getByRole('listbox', { name: 'History' });
      await list.getByRole('option').first().waitFor();
      await list.focus();
      await page.keyboard.press('Home');
      await page.getByRole('article', { name: 'Event 1' }).getByText('<b>bold</b>').waitFor();
      expect(await page.locator('img').count()).toBe(0);
      expect(await page.title()).toBe(`${id} · Perdure`);
      const value = page.getByRole('group', { name: 'Value of event 1' });
      await value.getByText('y'.repeat(10_000)).waitFor();
      expect((await value.textContent())?.length).toBeLessThan(21_000);
      await page.getByRole('article').getByRole('button', { name: 'Show full value' }).click();
      await value.getByText('y'.repeat(30_000)).waitFor();
      await list.focus();
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('ArrowDown');
      const failed = page.getByRole('article', { name: 'Event 3' });
      await failed.getByRole('group', { name: 'Value of event 3' }).getByText('RangeError').first().waitFor();
      // From the attempt to its activity, and from the child's event to the child instance.
      await failed.getByRole('button', { name: '#2 activity scheduled' }).click();
      await page.getByRole('article', { name: 'Event 2' }).waitFor();
      await list.focus();
      await page.keyboard.press('End');
      await page.keyboard.press('ArrowUp');
      await page
        .getByRole('article')
        .getByRole('link', { name: `${id}/packing` })
        .click();
      await page.getByRole('heading', { name: `${id}/packing`, level: 1 }).waitFor();
      // Up again, to the parent.
      await page.getByRole('navigation', { name: 'Breadcrumb' }).getByRole('link', { name: id, exact: true }).click();
      await page
        .getByRole('region', { name: 'Parents and children' })
        .getByRole('link', { name: `${id}/packing` })
        .waitFor();
    });

    it('is live: its status, its published values, its history and its end', async () => {
      await orders();
      const id = await waiting({ bad: true });
      const page = await open(at(await served(), id));
      await page.getByRole('group', { name: 'Custom status' }).getByText('"waiting"').waitFor();
      const approval = page
        .getByRole('region', { name: 'State' })
        .getByRole('listitem')
        .filter({ hasText: 'approval' });
      await approval.getByText('version 1').waitFor();
      await approval.getByRole('group', { name: 'Value approval' }).getByText('false').waitFor();
      await shown(page, '6 events');
      await store.client.raiseEvent(id, 'approve', { by: 'ada' });
      await page.getByRole('group', { name: 'Custom status' }).getByText('"approved"').waitFor();
      await approval.getByText('version 2').waitFor();
      await approval.getByRole('group', { name: 'Value approval' }).getByText('"ada"').waitFor();
      await shown(page, '7 events');
      await store.client.raiseEvent(id, 'go');
      await page.getByRole('group', { name: 'Error' }).getByText('no such address').first().waitFor();
      await shown(page, '11 events');
      expect(await page.locator('.head .live').count()).toBe(0);
    });

    it('is changed only after a confirmation', async () => {
      await orders();
      const id = await waiting({ isAlone: true });
      const page = await open(at(await served(), id));
      await action(page, 'Raise event…');
      await dialog(page).getByLabel('Name').fill('approve');
      await dialog(page).getByLabel('Data').fill('{"by": }');
      await dialog(page).getByRole('button', { name: 'Raise event' }).click();
      await dialog(page)
        .getByRole('alert')
        .getByText(/^Data is not JSON/)
        .waitFor();
      await dialog(page).getByLabel('Data').fill('{"by": "ada"}');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await page.getByRole('group', { name: 'Custom status' }).getByText('"ada"').waitFor();
      await dialog(page).waitFor({ state: 'detached' });

      // A dialog that is cancelled does nothing, and the focus returns to the previous element.
      await action(page, 'Terminate…');
      await dialog(page).waitFor();
      await page.keyboard.press('Escape');
      await dialog(page).waitFor({ state: 'detached' });
      expect(await page.evaluate('document.activeElement.textContent')).toBe('Terminate…');
      expect((await store.client.getStatus(id))?.status).toBe('Running');

      await action(page, 'Suspend…');
      await dialog(page).getByLabel('Reason').fill('a question');
      await dialog(page).getByRole('button', { name: 'Suspend' }).click();
      const report = page.getByRole('region', { name: 'Suspended' });
      await report.getByText('held by client.suspend: a question').waitFor();
      await action(page, 'Resume…');
      await dialog(page).getByRole('button', { name: 'Resume' }).click();
      await report.waitFor({ state: 'detached' });

      await action(page, 'Cancel…');
      await dialog(page).getByRole('button', { name: 'Cancel' }).click();
      await page.locator('.head').getByText('Cancelled').waitFor();
      expect((await store.client.getStatus(id))?.status).toBe('Cancelled');

      // Started again under its own id: everything is read anew.
      await action(page, 'Restart…');
      await dialog(page).getByRole('button', { name: 'Restart' }).click();
      await page.locator('.head').getByText('Running').waitFor();
      await action(page, 'Restart…');
      await dialog(page).getByLabel('New ID').fill(`${id}/2`);
      await dialog(page).getByRole('button', { name: 'Restart' }).click();
      await page.getByRole('heading', { name: `${id}/2`, level: 1 }).waitFor();
      expect((await store.client.getHistory(`${id}/2`))[0]?.payload).toEqual({ isAlone: true });
      // A refusal of the server is shown in the dialog.
      await action(page, 'Restart…');
      await dialog(page).getByRole('button', { name: 'Restart' }).click();
      await dialog(page)
        .getByRole('alert')
        .getByText(/already/)
        .waitFor();
      await dialog(page).getByRole('button', { name: 'Close' }).click();
      await action(page, 'Terminate…');
      await dialog(page).getByLabel('Reason').fill('broken');
      await dialog(page).getByRole('button', { name: 'Terminate' }).click();
      await page.getByRole('group', { name: 'Error' }).getByText('terminated: broken').waitFor();
      await action(page, 'Delete…');
      await dialog(page).getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('heading', { name: 'Instances', level: 1 }).waitFor();
      expect(await store.client.getStatus(`${id}/2`)).toBeNull();
    });

    it('has no actions where the dashboard is read-only', async () => {
      await orders();
      const id = await waiting();
      const page = await open(at(await served({ readOnly: true }), id));
      await page.getByRole('heading', { name: id, level: 1 }).waitFor();
      expect(await page.getByRole('group', { name: 'Actions' }).count()).toBe(0);
      await shown(page, 'read-only');
    });

    it('continues in its next execution, and shows former executions', async () => {
      const id = store.id('twice');
      await store.start((runtime) =>
        runtime.registerOrchestration('twice', function* (ctx, n) {
          yield ctx.waitForEvent('go');
          if (n < 2) yield ctx.continueAsNew(n + 1);
        }),
      );
      await store.client.startOrchestration(id, 'twice', 1);
      const page = await open(at(await served(), id));
      await shown(page, '1 events');
      await store.client.raiseEvent(id, 'go');
      await shown(page, 'execution 2 of 2');
      await page.getByRole('link', { name: '← 1' }).click();
      await shown(page, 'execution 1 of 2');
      await page.getByRole('option').getByText('execution continued as new').waitFor();
    });

    it('renders only the visible events of a long history', async () => {
      await orders();
      const id = store.id('long');
      await store.client.startOrchestration(id, 'long', 2_000);
      await store.client.waitForOrchestration(id, SOON);
      const page = await open(at(await served(), id));
      await shown(page, '4,002 events');
      // Like steps share a row of the timeline, which opens.
      await page.getByRole('button', { name: /^activity noop × 2,000/ }).click();
      const group = page.getByRole('list', { name: 'Steps noop' });
      await group.getByRole('button', { name: 'Show more of 1,960 hidden steps' }).click();
      expect(await group.getByRole('button', { name: /^activity noop #/ }).count()).toBe(80);
      await group.getByRole('button', { name: /^activity noop #4000/ }).click();
      await group.getByRole('group', { name: 'Input' }).getByText('1999').waitFor();
      expect(await page.getByRole('option').count()).toBeLessThan(60);
      await page.getByRole('listbox', { name: 'History' }).focus();
      await page.keyboard.press('End');
      await page.getByRole('option', { selected: true }).getByText('execution completed').waitFor();
      expect(await page.getByRole('option').count()).toBeLessThan(60);
    });

    it('shows an error if it does not exist', async () => {
      const page = await open(at(await served(), 'nobody/../#?&"<b>'));
      await page
        .getByRole('alert')
        .getByText(/there is no instance 'nobody\/\.\.\/#\?&"<b>'/)
        .waitFor();
    });
  });

  it('says why an instance is not shown', async () => {
    await store.client.startOrchestration('secret', 'nobody registers it');
    const page = await open(at(await served({ authorize: (_request, _action, id) => id !== 'secret' }), 'secret'));
    await page.getByRole('alert').getByText('not allowed: read').waitFor();
    await store.client.terminateInstance('secret');
  });

  it('has the theme of the system or of the user, and keeps it', async () => {
    const url = await served();
    const page = await open(url, { colorScheme: 'dark' });
    const ground = (): Promise<string> => page.evaluate('getComputedStyle(document.body).backgroundColor');
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    expect(await ground()).toBe('rgb(20, 23, 26)');
    await page.getByRole('button', { name: 'Theme: system' }).click();
    expect(await ground()).toBe('rgb(246, 247, 248)');
    await page.reload();
    await page.getByRole('button', { name: 'Theme: light' }).click();
    expect(await ground()).toBe('rgb(20, 23, 26)');
    await page.getByRole('button', { name: 'Theme: dark' }).click();
    await page.emulateMedia({ colorScheme: 'light' });
    await page.locator('html[data-theme=light]').waitFor();
    expect(await ground()).toBe('rgb(246, 247, 248)');
  });

  it.runIf(kind === ANY_STORE)(
    'is accessible in both themes and in a narrow window',
    {
      timeout: 180_000,
    },
    async () => {
      const runtime = await orders();
      const id = await waiting();
      const failed = await waiting({ bad: true });
      await store.client.raiseEvent(failed, 'approve', { by: 'ada' });
      await store.client.raiseEvent(failed, 'go');
      await store.client.waitForOrchestration(failed, SOON);
      const held = await waiting();
      await store.client.suspend(held, 'a question');
      const url = await served({ runtime });
      for (const options of LOOKS) {
        const page = await open(url, options);
        await page.getByRole('region', { name: 'Workers' }).waitFor();
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
        await page.goto(`${url}#/instances`);
        await page.getByRole('link', { name: id, exact: true }).waitFor();
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
        for (const one of [failed, held, id]) {
          await page.goto(at(url, one));
          await page.getByRole('heading', { name: one, level: 1 }).waitFor();
          await page.getByRole('option').first().click();
          await page.getByRole('article').waitFor();
          expect(await obstacles(page)).toEqual([]);
          expect(await overflow(page)).toBe(0);
        }
        await action(page, 'Raise event…');
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
        // The check itself can fail: this adds text of low contrast, and a field without a name.
        await page.evaluate(`{
        const [pale, field] = [document.createElement('p'), document.createElement('input')];
        Object.assign(pale.style, { color: '#888', background: '#999' });
        pale.append('pale');
        document.querySelector('dialog').append(pale, field);
      }`);
        expect((await obstacles(page)).map((found) => found.split(':')[0]).sort()).toEqual(
          expect.arrayContaining(['input_label_exists', 'text_contrast_sufficient']),
        );
      }
    },
  );

  it('asks for the token, keeps it in an HttpOnly cookie, and accepts a token in the URL', async () => {
    const token = 'a-token-that-nobody-guesses';
    const url = await served({ token });
    const page = await open(url);
    await page.getByLabel('Dashboard token').fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('the token is wrong').waitFor();
    expect(await obstacles(page)).toEqual([]);
    await page.getByLabel('Dashboard token').fill(token);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    expect(await page.evaluate('document.cookie')).toBe('');
    await page.reload();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    const other = await open(`${url}?token=${token}`);
    await other.getByRole('heading', { name: 'Overview' }).waitFor();
    expect(other.url()).toBe(url);
  });

  it('shows that the connection is lost, and reconnects', async () => {
    const first = await serveDashboard(store.client, { token: false });
    const page = await open(first.url);
    await page.getByRole('status').getByText('live').waitFor();
    await first.close();
    await page.getByRole('status').getByText('connection lost').waitFor();
    const again = await serveDashboard(store.client, { port: first.port, token: false });
    onTestFinished(() => again.close());
    await page.getByRole('status').getByText('live').waitFor();
  });

  it('opens with the printed URL, removes the token from it, and asks for the token of a new server', async () => {
    const first = await serveDashboard(store.client);
    const page = await open(`${first.url}#/instances`);
    await page.getByRole('link', { name: 'Overview' }).click();
    await page.getByRole('status').getByText('live').waitFor();
    expect(page.url()).toBe(`${first.url.replace(/\?.*/, '')}#/`);
    await first.close();
    const again = await serveDashboard(store.client, { port: first.port });
    onTestFinished(() => again.close());
    await page.getByLabel('Dashboard token').fill(again.url.split('?token=')[1] ?? '');
    await page.keyboard.press('Enter');
    await page.getByRole('status').getByText('live').waitFor();
  });
});
