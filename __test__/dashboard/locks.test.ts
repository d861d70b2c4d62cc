// The page of the locks, the answers that it is made of, and the page of an instance that is a lock, on a real store.

import { defineEntity, defineLock } from 'perdure';
import { describe, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { ANY_STORE, SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { verdict } from './ask.ts';
import { LOOKS, obstacles, overflow, useBrowser } from './browser.ts';
import { at, serving } from './serving.ts';

const { open } = useBrowser();

const account = defineEntity('account', {
  initial: () => 100,
  handlers: {
    *add(ctx, amount: number) {
      ctx.state += amount;
      return ctx.state;
    },
  },
});

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const { asker, served } = serving(store);

  /** Starts instances that ask for a lock with two permits one after the other, and hold it until an event `go`. */
  async function printing(lock: string, instances: number): Promise<string[]> {
    await store.start((runtime) => {
      runtime.registerOrchestration('print', function* (ctx, name) {
        return yield ctx.lock(defineLock(name, { permits: 2 }), function* () {
          return yield ctx.waitForEvent('go');
        });
      });
    });
    const ids = Array.from({ length: instances }, () => store.id('print'));
    for (const [n, id] of ids.entries()) {
      await store.client.startOrchestration(id, 'print', lock);
      await eventually(10_000, 'the request for the lock', async () => {
        const { taken = 0, waiting = 0 } = (await rowOf(lock)) ?? {};
        return taken + waiting === n + 1;
      });
    }
    return ids;
  }

  async function rowOf(name: string): Promise<any> {
    return (await asker().get('locks')).items.find((row: any) => row.name === name);
  }

  async function end(ids: readonly string[]): Promise<void> {
    for (const id of ids) await store.client.raiseEvent(id, 'go');
    for (const id of ids) await store.client.waitForOrchestration(id, SOON);
  }

  it('are listed with the blocks that hold them and those that wait', async () => {
    const name = store.id('printers');
    const [first = '', second = '', ...waiting] = await printing(name, 4);
    expect(await rowOf(name)).toEqual({
      id: `perdure.lock/${name}`,
      name,
      holders: [first, second],
      taken: 2,
      permits: 2,
      waiting: 2,
      updatedAtMs: expect.any(Number),
    });
    await end([first, second, ...waiting]);
    await eventually(10_000, 'the free lock', async () => (await rowOf(name)).taken === 0);
    expect(await rowOf(name)).not.toHaveProperty('permits');
    expect(await rowOf(name)).toMatchObject({ holders: [], waiting: 0 });

    // A lock that was started by hand shows no value.
    await store.client.startOrchestration('perdure.lock/bare', 'perdure.lock');
    expect(await rowOf('bare')).toMatchObject({ holders: [], taken: 0, waiting: 0 });
    expect((await asker().get('locks?limit=1')).items).toHaveLength(1);
    for (const path of ['locks?limit=201', 'locks?cursor=x', 'locks?id=x'])
      expect(await verdict(asker().ask(`api/v1/${path}`)), path).toBe('400 BAD_REQUEST');
    expect(await verdict(asker({ authorize: () => false }).ask('api/v1/locks'))).toBe('403 NOT_AUTHORIZED');
  });

  it('have a page with links to the blocks and to the lock, whose page shows its value', async () => {
    const name = store.id('door');
    const [first = '', second = '', third = ''] = await printing(name, 3);
    const page = await open(await served({ token: false }));
    await page.getByRole('link', { name: 'Locks' }).click();
    const row = page.getByRole('row').filter({ hasText: name });
    await row.getByRole('cell', { name: '2 of 2' }).waitFor();
    await row.getByRole('link', { name: first, exact: true }).waitFor();
    await row.getByRole('link', { name, exact: true }).click();
    await page.getByRole('heading', { name: `perdure.lock/${name}`, level: 1 }).waitFor();
    const value = page.getByRole('region', { name: 'State' }).getByRole('group', { name: 'Value lock' });
    await value.getByText(`"${second}"`).first().waitFor();
    const waits = page.getByRole('region', { name: 'Waiting for' });
    await waits.getByText('unlocked', { exact: true }).first().waitFor();
    expect(await waits.getByRole('button').count()).toBe(0);
    expect(await page.getByRole('group', { name: 'Questions' }).count()).toBe(0);

    // The orchestration of a block shows its lock, held by a child.
    await page.goto(at(page.url().split('#')[0] ?? '', first));
    await waits.getByText('perdure.lock.holder', { exact: true }).waitFor();
    await page.getByRole('option').getByText(`lock perdure.lock/${name}`).waitFor();
    await end([first, second, third]);
  });

  it('of entities are shown with the state of these', async () => {
    const id = store.id('move');
    await store.start((runtime) => {
      runtime.register(account);
      runtime.registerOrchestration('move', function* (ctx) {
        return yield ctx.lock([account.at(id)], function* () {
          yield ctx.entity(account, id).add(-7);
          return yield ctx.waitForEvent('go');
        });
      });
    });
    await store.client.startOrchestration(id, 'move');
    await eventually(10_000, 'the call', async () => {
      const found = await store.client.getState(`account/${id}`, 'state').catch(() => null);
      return found?.value === 93;
    });
    const page = await open(at(await served({ token: false }), `account/${id}`));
    const state = page.getByRole('region', { name: 'State' });
    await state.getByRole('group', { name: 'Value lock' }).getByText(`"${id}"`).waitFor();
    await state.getByRole('group', { name: 'Value state' }).getByText('93').waitFor();
    await end([id]);
    await state.getByRole('group', { name: 'Value lock' }).waitFor({ state: 'detached' });
  });

  it.runIf(kind === ANY_STORE)(
    'have an accessible page in both themes and in a narrow window',
    { timeout: 120_000 },
    async () => {
      const name = store.id('n'.repeat(200));
      const ids = await printing(name, 3);
      const url = await served({ token: false });
      for (const options of LOOKS) {
        const page = await open(`${url}#/locks`, options);
        await page.getByRole('link', { name: ids[0] ?? '', exact: true }).waitFor();
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
      }
      await end(ids);
    },
  );
});
