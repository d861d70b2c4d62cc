// The room that an instance takes, its parents and children, and its executions: the answers, and the page.

import { Client } from 'perdure';
import { type DashboardOptions, dashboardHandler } from 'perdure/dashboard';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';

import { ANY_STORE, SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { Asker, verdict } from './ask.ts';
import { LOOKS, obstacles, overflow, useBrowser } from './browser.ts';
import { at, serving } from './serving.ts';

const { open } = useBrowser();

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const { asker, served } = serving(store);

  const start = () =>
    store.start((runtime) => {
      runtime.registerOrchestration('loop', function* (ctx, { n, last }) {
        yield ctx.waitForEvent('go');
        if (n < last) yield ctx.continueAsNew({ n: n + 1, last });
      });
      // Starts as many children as the first number says, each of which goes on with the others.
      runtime.registerOrchestration('family', function* (ctx, [own = 0, ...others]: number[]) {
        yield ctx.all(
          Array.from({ length: own }, (_, n) =>
            ctx.scheduleSubOrchestration('family', others, { id: `${ctx.instanceId}/${n}` }),
          ),
        );
        return null;
      });
    });

  const asked = (path: string, options?: DashboardOptions) => verdict(asker(options).ask(`api/v1/${path}`));

  async function family(sizes: number[]): Promise<string> {
    const id = store.id('family');
    await store.client.startOrchestration(id, 'family', sizes);
    await store.client.waitForOrchestration(id, SOON);
    return id;
  }

  /** Returns the id of an instance that waits in its last execution. */
  async function looped(last: number): Promise<string> {
    const id = store.id('loop');
    await store.client.startOrchestration(id, 'loop', { n: 1, last });
    for (let n = 1; n < last; n += 1) {
      await store.client.raiseEvent(id, 'go');
      await expect.poll(async () => (await store.client.getStatus(id))?.executionId).toBe(n + 1);
    }
    return id;
  }

  describe('the room in the store', () => {
    it('is counted on request', async () => {
      const id = store.id('counted');
      await store.client.startOrchestration(id, 'nobody registers it', { total: 12 });
      for (const name of ['a', 'b', 'b']) await store.client.raiseEvent(id, name, null);
      await store.client.enqueueEvent(id, 'orders', 1);
      expect(await asker({ readOnly: true }).get(`facts?id=${id}`)).toEqual({
        executions: 1,
        events: 1,
        historyBytes: expect.any(Number),
        unread: {
          messages: 4,
          mailboxes: expect.arrayContaining([
            { kind: 'event', name: 'b', messages: 2 },
            { kind: 'queue', name: 'orders', messages: 1 },
          ]),
        },
      });
      const page = await open(at(await served({ readOnly: true }), id));
      const button = page.getByRole('button', { name: 'Count events and bytes' });
      await button.waitFor();
      expect(await page.getByText('Unread messages').count()).toBe(0);
      await button.focus();
      await page.keyboard.press('Enter');
      await page.getByText('event b: 2').waitFor();
      await page.getByText('queue orders: 1').waitFor();
      await store.client.enqueueEvent(id, 'orders', 2);
      await page.getByRole('button', { name: 'Count again' }).click();
      await page.getByText('queue orders: 2').waitFor();
      expect(await overflow(page)).toBe(0);
      expect(await obstacles(page)).toEqual([]);
      await store.client.terminateInstance(id);
      await store.client.deleteInstance(id);
      await page.getByRole('button', { name: 'Count again' }).click();
      await page.getByRole('alert').getByText(id).first().waitFor();
    });

    it('is refused for what is wrong', async () => {
      expect(await asked('facts?id=nobody')).toBe('404 INSTANCE_NOT_FOUND');
      expect(await asked('facts')).toBe('400 BAD_REQUEST');
      expect(await asked('facts?id=nobody&execution=1')).toBe('400 BAD_REQUEST');
      expect(await asked('facts?id=nobody', { authorize: (_request, _action, id) => id !== 'nobody' })).toBe(
        '403 NOT_AUTHORIZED',
      );
    });
  });

  describe('the relatives', () => {
    it('are the parents and the tree of the children, up to 200 instances', async () => {
      await start();
      const id = await family([2, 2, 1]);
      const { ancestors, hasMoreAncestors, top } = await asker({ readOnly: true }).get(`tree?id=${id}/1/0`);
      expect(ancestors.map((one: { id: string }) => one.id)).toEqual([`${id}/1`, id]);
      expect(hasMoreAncestors).toBe(false);
      expect(top).toMatchObject({
        instance: { id: `${id}/1/0`, name: 'family', status: 'Completed', completedAtMs: expect.any(Number) },
        children: [{ instance: { id: `${id}/1/0/0` }, children: [], hasMore: false }],
        hasMore: false,
      });
      const wide = await asker().get(`tree?id=${await family([205])}`);
      expect(wide.top.children).toHaveLength(199);
      expect(wide.top.hasMore).toBe(true);
      const deep = await family(Array(24).fill(1));
      const lowest = await asker().get(`tree?id=${deep}${'/0'.repeat(24)}`);
      expect(lowest.ancestors).toHaveLength(20);
      expect(lowest.hasMoreAncestors).toBe(true);
      // Parents that are gone end the list.
      await store.client.deleteInstance(id);
      expect((await asker().get(`tree?id=${id}/1/0`)).ancestors.map((one: { id: string }) => one.id)).toEqual([
        `${id}/1`,
      ]);
    });

    it('need the right to read the list, because they are other instances', async () => {
      const id = store.id('alone');
      await store.client.startOrchestration(id, 'nobody registers it');
      const mayRead = (...ids: (string | undefined)[]) => ({
        authorize: (_request: Request, _action: string, of: string | undefined) => ids.includes(of),
      });
      expect(await asked(`tree?id=${id}`, mayRead(id))).toBe('403 NOT_AUTHORIZED');
      expect(await asked(`tree?id=${id}`, mayRead(undefined))).toBe('403 NOT_AUTHORIZED');
      expect(await asked(`tree?id=${id}`, mayRead(id, undefined))).toBe('200');
      expect(await asked('tree?id=nobody')).toBe('404 INSTANCE_NOT_FOUND');
      expect(await asked('tree')).toBe('400 BAD_REQUEST');
      expect(await asked(`tree?id=${id}&depth=99`)).toBe('400 BAD_REQUEST');
      await store.client.terminateInstance(id);
    });

    const panelOf = (page: Page) => page.getByRole('region', { name: 'Parents and children' });

    it('are links, up and down', async () => {
      await start();
      const id = await family([2, 1]);
      const page = await open(at(await served({ readOnly: true }), id));
      const panel = panelOf(page);
      await panel.getByText('4 instances').waitFor();
      // A small tree is open.
      await panel.getByRole('link', { name: `${id}/0/0` }).waitFor();
      await panel.getByRole('button', { name: `Children of ${id}/0` }).focus();
      await page.keyboard.press('Enter');
      await panel.getByRole('link', { name: `${id}/0/0` }).waitFor({ state: 'detached' });
      await panel.getByRole('link', { name: `${id}/1/0` }).click();
      await page.getByRole('heading', { name: `${id}/1/0`, level: 1 }).waitFor();
      await panel.getByText('This instance has no children.').waitFor();
      const parents = panel.getByRole('list', { name: 'Parents' });
      await expect.poll(() => parents.getByRole('link').allTextContents()).toEqual([id, `${id}/1`]);
      await parents.getByRole('link', { name: id, exact: true }).click();
      await page.getByRole('heading', { name: id, level: 1, exact: true }).waitFor();
    });

    it('are collapsed where they are many, and the others are read on request', async () => {
      await start();
      const id = await family([205]);
      await store.client.startOrchestration(`${id}/top`, 'family', [25, 1]);
      await store.client.waitForOrchestration(`${id}/top`, SOON);
      const url = await served();
      const page = await open(at(url, id));
      const panel = panelOf(page);
      await panel.getByText('199 instances are shown, and there are more').waitFor();
      expect(await panel.getByRole('listitem').count()).toBe(51);
      for (let n = 0; n < 3; n += 1) await panel.getByRole('button', { name: /^Show \d+ more$/ }).click();
      await panel.getByRole('button', { name: 'List all children, newest first' }).click();
      await panel.getByRole('button', { name: 'Load more' }).waitFor();
      expect(await panel.getByRole('link').count()).toBe(50);
      const other = await open(at(url, `${id}/top`));
      await panelOf(other).getByText('50 instances').waitFor();
      expect(await panelOf(other).getByRole('link').count()).toBe(25);
      await panelOf(other)
        .getByRole('button', { name: `Children of ${id}/top/7` })
        .click();
      await panelOf(other)
        .getByRole('link', { name: `${id}/top/7/0` })
        .waitFor();
    });

    it('are looked for where none is known', async () => {
      const id = store.id('alone');
      await store.client.startOrchestration(id, 'nobody registers it');
      const page = await open(at(await served(), id));
      await panelOf(page).getByRole('button', { name: 'Show relatives' }).click();
      await panelOf(page).getByText('This instance has no children.').waitFor();
      await store.client.terminateInstance(id);
    });

    it.runIf(kind === ANY_STORE)(
      'are accessible in both themes and in a narrow window',
      { timeout: 120_000 },
      async () => {
        await start();
        const id = await family([1, 2, 2]);
        const url = await served();
        for (const options of LOOKS) {
          const page = await open(at(url, `${id}/0`), options);
          await panelOf(page)
            .getByRole('link', { name: `${id}/0/1/1` })
            .waitFor();
          expect(await obstacles(page)).toEqual([]);
          expect(await overflow(page)).toBe(0);
        }
      },
    );
  });

  describe('the executions', () => {
    it('are answered part by part, the newest first', async () => {
      await start();
      const id = await looped(4);
      const there = asker({ readOnly: true });
      const first = await there.get(`executions?id=${id}&limit=3`);
      expect(first).toEqual({
        items: [
          {
            executionId: 4,
            version: '1.0.0',
            status: 'Running',
            startedAtMs: expect.any(Number),
            events: expect.any(Number),
          },
          expect.objectContaining({ executionId: 3, status: 'ContinuedAsNew', endedAtMs: expect.any(Number) }),
          expect.objectContaining({ executionId: 2 }),
        ],
        next: 1,
      });
      const rest = await there.get(`executions?id=${id}&from=1`);
      expect(rest).toMatchObject({ items: [{ executionId: 1 }], next: null });
      expect(await asked(`executions?id=${id}&from=9`)).toBe('404 INSTANCE_NOT_FOUND');
      expect(await asked('executions?id=nobody')).toBe('404 INSTANCE_NOT_FOUND');
      for (const wrong of ['from=0', 'limit=101', 'limit=x', 'execution=1'])
        expect(await asked(`executions?id=${id}&${wrong}`), wrong).toBe('400 BAD_REQUEST');
      await store.client.terminateInstance(id);
    });

    it('are decoded, or refused by the codec', async () => {
      let isKnown = true;
      const codec = {
        encode: (text: string) => `~${text}`,
        decode: (text: string) => {
          if (!isKnown) throw new Error('the key is gone');
          return text.slice(1);
        },
      };
      const client = new Client(await store.open({ codec }));
      const id = store.id('encoded');
      await client.startOrchestration(id, 'nobody registers it', 12);
      const there = new Asker(dashboardHandler(client, { token: false }));
      expect((await there.get(`executions?id=${id}`)).items).toMatchObject([{ executionId: 1, status: 'Pending' }]);
      expect((await there.get(`facts?id=${id}`)).events).toBe(1);
      expect((await there.get(`tree?id=${id}`)).top.instance.id).toBe(id);
      expect((await there.get(`logs?id=${id}`)).lines).toEqual([]);
      isKnown = false;
      expect(await verdict(there.ask(`api/v1/executions?id=${id}`))).toBe('422 PAYLOAD');
      await client.terminateInstance(id);
    });

    it('are a list of links, which follows the instance', async () => {
      await start();
      const id = await looped(3);
      const page = await open(at(await served({ readOnly: true }), id));
      await page.getByRole('button', { name: 'All executions' }).focus();
      await page.keyboard.press('Enter');
      const list = page.getByRole('group', { name: 'All executions' });
      await list.getByText('Continued as new').first().waitFor();
      expect(await list.getByRole('rowheader').allTextContents()).toEqual(['3', '2', '1']);
      await store.client.raiseEvent(id, 'go');
      await list.getByText('Completed').waitFor();
      await list.getByRole('link', { name: '1' }).click();
      await page.getByText('execution 1 of 3').waitFor();
      // The list stays open.
      expect(await list.getByRole('link', { name: '1' }).getAttribute('aria-current')).toBe('page');
      await list.getByRole('link', { name: '2' }).click();
      await page.getByText('execution 2 of 3').waitFor();
      await page.getByRole('button', { name: 'All executions' }).click();
      await list.waitFor({ state: 'detached' });
    });

    it('are loaded part by part where they are many', async () => {
      await start();
      const id = await looped(23);
      const page = await open(at(await served(), id));
      await page.getByRole('button', { name: 'All executions' }).click();
      const list = page.getByRole('group', { name: 'All executions' });
      await list.getByRole('button', { name: 'Load more' }).click();
      await list.getByRole('link', { name: '1', exact: true }).waitFor();
      expect(await list.getByRole('rowheader').count()).toBe(23);
      await store.client.terminateInstance(id);
    });

    it.runIf(kind === ANY_STORE)(
      'are accessible in both themes and in a narrow window',
      { timeout: 120_000 },
      async () => {
        await start();
        const id = await looped(3);
        const url = await served();
        for (const options of LOOKS) {
          const page = await open(at(url, id), options);
          await page.getByRole('button', { name: 'All executions' }).click();
          await page
            .getByRole('group', { name: 'All executions' })
            .getByRole('link', { name: '1', exact: true })
            .waitFor();
          expect(await obstacles(page)).toEqual([]);
          expect(await overflow(page)).toBe(0);
        }
        await store.client.terminateInstance(id);
      },
    );
  });
});
