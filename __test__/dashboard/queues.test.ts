// The page of the queues of instances, and the answer that it is made of, on a real store.

import { defineOrchestration } from 'perdure';
import { describe, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { verdict } from './ask.ts';
import { LOOKS, obstacles, overflow, useBrowser } from './browser.ts';
import { serving } from './serving.ts';

const { open } = useBrowser();

const waits = defineOrchestration('waits', function* (ctx) {
  yield* ctx.waitForEvent('go');
});

const MAILS = '2 at once, 3 in 1m, 1 at once of a key, keys in turn';

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const { asker, served } = serving(store);

  /** Sets two queues. One has two instances that run, one that waits, and one whose time has not come. */
  async function busy(): Promise<void> {
    const { client } = store;
    await store.start((runtime) => runtime.register(waits));
    const rate = { limit: 3, per: '1m' } as const;
    await client.queues.set('mails', { concurrency: 2, rate, perKey: { concurrency: 1 }, fairness: 'key' });
    await client.queues.set('idle', {});
    for (const options of [{}, {}, {}, { delay: '1d' }] as const)
      await client.start(waits, undefined, { queue: 'mails', ...options });
    await eventually(10_000, 'two of them run', async () => (await client.queues.get('mails'))?.running === 2);
  }

  it('are listed with their limits and the numbers of their instances', async () => {
    expect(await asker().get('queues')).toEqual({ items: [] });
    await busy();
    expect(await asker().get('queues')).toEqual({
      items: [
        { name: 'idle', limits: 'none', waiting: 0, delayed: 0, running: 0 },
        {
          ...{ name: 'mails', limits: MAILS, waiting: 1, delayed: 1, running: 2, slots: 2, tokens: 1 },
          oldestMs: expect.any(Number),
        },
      ],
    });
    expect(await verdict(asker().ask('api/v1/queues?limit=1'))).toBe('400 BAD_REQUEST');
    expect(await verdict(asker({ authorize: () => false }).ask('api/v1/queues'))).toBe('403 NOT_AUTHORIZED');
    const url = await served({ token: false });
    for (const look of LOOKS) {
      const page = await open(`${url}#/queues`, look);
      const row = page.getByRole('row', { name: /^mails/ });
      await row.waitFor();
      expect(await row.getByRole('cell').allInnerTexts()).toEqual([
        ...[
          '2 of 2',
          '1',
          '1',
          '1',
          expect.stringMatching(/ago|now/),
          MAILS,
          expect.stringMatching(/^Pause…\s+the queue mails$/),
        ],
      ]);
      expect(await obstacles(page)).toEqual([]);
      expect(await overflow(page)).toBe(0);
    }
  });

  it('are paused and resumed', async () => {
    await busy();
    const page = await open(`${await served({ token: false })}#/queues`);
    const change = async (button: string, done: string): Promise<void> => {
      await page.getByRole('button', { name: `${button}… the queue mails` }).click();
      const dialog = page.getByRole('dialog');
      expect(await obstacles(page)).toEqual([]);
      await dialog.getByRole('button', { name: button }).click();
      await page.getByRole('status').getByText(done).waitFor();
    };
    await change('Pause', 'mails is paused.');
    await page.getByRole('row', { name: /^mails paused/ }).waitFor();
    expect((await store.client.queues.get('mails'))?.paused).toEqual({ since: expect.any(Date) });
    expect(await obstacles(page)).toEqual([]);
    await change('Resume', 'mails is resumed.');
    await page.getByRole('button', { name: 'Pause… the queue mails' }).waitFor();
    expect(await store.client.queues.get('mails')).not.toHaveProperty('paused');
    expect(await verdict(asker().post('pauseQueue', { id: 'mials' }))).toBe('404 QUEUE_NOT_FOUND');
    expect(await verdict(asker({ readOnly: true }).post('pauseQueue', { id: 'mails' }))).toBe('403 READ_ONLY');
    const asked: unknown[] = [];
    const authorize = (_: unknown, action: string, id?: string): boolean => asked.push([action, id]) < 0;
    expect(await verdict(asker({ authorize }).post('pauseQueue', { id: 'mails' }))).toBe('403 NOT_AUTHORIZED');
    expect(asked).toEqual([['pauseQueue', 'mails']]);
  });
});
