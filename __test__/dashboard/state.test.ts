// The panel of the values that an instance publishes, and the answers that it is made of, on a real store.

import type { DashboardOptions } from 'perdure/dashboard';
import { describe, expect, it } from 'vitest';

import { ANY_STORE, SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { verdict } from './ask.ts';
import { LOOKS, obstacles, overflow, useBrowser } from './browser.ts';
import { at, serving } from './serving.ts';

const { open } = useBrowser();

/** Values by name; the names in `deleted` lose theirs. */
interface Change {
  readonly set?: Readonly<Record<string, unknown>>;
  readonly deleted?: readonly string[];
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const { asker, served } = serving(store);

  /** Starts an instance that publishes these values, changes them with each event `change`, and ends without data. */
  async function publishing(set: Readonly<Record<string, unknown>>): Promise<string> {
    const id = store.id('shop');
    await store.start((runtime) =>
      runtime.registerOrchestration('shop', function* (ctx, first: Change) {
        for (let change: Change | null = first; change !== null; change = yield ctx.waitForEvent('change')) {
          for (const name of change.deleted ?? []) ctx.state.delete(name);
          for (const [name, value] of Object.entries(change.set ?? {})) ctx.state.set(name, value);
          ctx.setCustomStatus(change.deleted ?? []);
        }
      }),
    );
    await store.client.startOrchestration(id, 'shop', { set });
    await store.client.waitForStatusChange(id, 0, '1s', SOON);
    return id;
  }

  const change = (id: string, data: Change | null): Promise<void> => store.client.raiseEvent(id, 'change', data);

  it('are answered with redacted values', async () => {
    const id = await publishing({ pears: { left: 3 }, apples: 7, nothing: undefined });
    expect(await asker().get(`state?id=${id}`)).toEqual({
      items: [
        { name: 'apples', version: 1, value: { text: '7', isWhole: true } },
        { name: 'nothing', version: 1, value: { text: 'undefined', isWhole: true } },
        { name: 'pears', version: 1, value: { text: '{\n  "left": 3\n}', isWhole: true } },
      ],
    });
    const redact: DashboardOptions['redact'] = (value, { kind, name, orchestration }) =>
      kind !== 'state' ? value : name === 'pears' ? undefined : `${orchestration} ${name}`;
    const careful = asker({ redact });
    expect((await careful.get(`state?id=${id}`)).items).toMatchObject([
      { name: 'apples', value: { text: '"shop apples"' } },
      { name: 'nothing' },
      { name: 'pears', version: 1 },
    ]);
    expect((await careful.get(`state?id=${id}`)).items[2]).not.toHaveProperty('value');
    expect(await careful.get(`value?id=${id}&of=state&name=apples`)).toEqual({ text: '"shop apples"', isWhole: true });
    expect(await verdict(careful.ask(`api/v1/value?id=${id}&of=state&name=pears`))).toBe('400 BAD_REQUEST');
    for await (const { event, data } of careful.events(`live?id=${id}`)) {
      expect(JSON.stringify(data)).not.toContain('"text":"7"');
      if (event === 'state') break;
    }
  });

  it('are refused as other reads are', async () => {
    const id = await publishing({ apples: 7 });
    const closed = asker({ authorize: (_request, _action, of) => of !== id });
    for (const path of [`state?id=${id}`, `value?id=${id}&of=state&name=apples`])
      expect(await verdict(closed.ask(`api/v1/${path}`))).toBe('403 NOT_AUTHORIZED');
    for (const path of ['state?id=nobody', 'value?id=nobody&of=state&name=apples'])
      expect(await verdict(asker().ask(`api/v1/${path}`))).toBe('404 INSTANCE_NOT_FOUND');
    for (const path of ['', '&name=', '&name=pears', '&name=apples&event=1', `&name=${'x'.repeat(300)}`])
      expect(await verdict(asker().ask(`api/v1/value?id=${id}&of=state${path}`)), path).toBe('400 BAD_REQUEST');
  });

  it('are answered by their beginnings where they are large or many, and whole on request', async () => {
    const text = '\u0001'.repeat(50_000);
    const id = await publishing({
      a: text,
      ...Object.fromEntries(Array.from({ length: 999 }, (_, n) => [`b ${n} ${'ß'.repeat(240)}`, 'y'.repeat(1_000)])),
    });
    const answer = await asker().ask(`api/v1/state?id=${id}`);
    const body = await answer.text();
    // Less than the buffer of a stream, though each character of the text takes six.
    expect(Buffer.byteLength(body)).toBeLessThan(1.5 * 1024 * 1024);
    const { items } = JSON.parse(body);
    expect(items).toHaveLength(1_000);
    expect(items[0].value.isWhole).toBe(false);
    expect(items[0].value.text).toHaveLength(2_000);
    expect(items[1].value).toEqual({ text: `"${'y'.repeat(1_000)}"`, isWhole: true });
    expect(items.at(-1).value).toEqual({ text: '', isWhole: false });
    expect(items.reduce((sum: number, { value }: any) => sum + value.text.length, 0)).toBe(100_000);
    expect(await asker().get(`value?id=${id}&of=state&name=a`)).toEqual({ text: JSON.stringify(text), isWhole: true });
    expect((await asker().get(`value?id=${id}&of=state&name=a&most=5000`)).text).toHaveLength(5_000);
  });

  it('are followed live, also when other things change, and at the end', async () => {
    const id = await publishing({ apples: 1 });
    const seen: unknown[] = [];
    for await (const { event, data } of asker().events(`live?id=${id}`)) {
      if (event === 'instance' && data.customStatus.text.includes('none')) await change(id, { deleted: ['apples'] });
      if (event !== 'state') continue;
      seen.push(data.items.map(({ name, version, value }: any) => [name, version, value.text]));
      // The values are sent only when they have changed, so this change of the custom status adds none.
      if (seen.length === 1) await change(id, { set: { apples: 2 } });
      else if (seen.length === 2) await change(id, { deleted: ['none'] });
      else if (seen.length === 3) await change(id, { set: { pears: 1 } });
      else await change(id, null);
    }
    expect(seen).toEqual([[['apples', 1, '1']], [['apples', 2, '2']], [], [['pears', 4, '1']]]);
    const after: unknown[] = [];
    for await (const { event, data } of asker().events(`live?id=${id}`)) if (event === 'state') after.push(data);
    expect(after).toMatchObject([{ items: [{ name: 'pears', version: 4 }] }]);
  });

  it('have a panel, which goes with the last value and stays after the end', async () => {
    const long = { list: Array.from({ length: 30 }, (_, n) => `item ${n}`), rest: 'z'.repeat(3_000) };
    const few = Object.fromEntries(Array.from({ length: 13 }, (_, n) => [`few ${n}`, n]));
    const id = await publishing({ apples: { left: 3 }, '<b>': long, ...few });
    const redact: DashboardOptions['redact'] = (value, { name }) => (name === 'few 0' ? undefined : value);
    const page = await open(at(await served({ redact }), id));
    const panel = page.getByRole('region', { name: 'State' });
    const row = (name: string) => panel.getByRole('listitem').filter({ has: page.getByText(name, { exact: true }) });
    const value = (name: string) => panel.getByRole('group', { name: `Value ${name}`, exact: true });
    await value('apples').getByText('3', { exact: true }).waitFor();
    await row('few 0').getByText('hidden').waitFor();
    expect(await panel.getByRole('listitem').count()).toBe(12);
    await panel.getByRole('button', { name: 'Show 3 more' }).click();
    expect(await panel.getByRole('listitem').count()).toBe(15);

    // A long value shows its first lines, and is fetched as a whole on request, until it changes.
    expect(await value('<b>').textContent()).not.toContain('item 29');
    await row('<b>').getByRole('button', { name: 'Show full value' }).click();
    await row('<b>').getByRole('button', { name: 'Show all 35 lines' }).click();
    await value('<b>').getByText('z'.repeat(3_000)).waitFor();
    await change(id, { set: { '<b>': { ...long, list: ['changed'] }, apples: { left: 2 } } });
    await value('<b>').getByText('changed').waitFor();
    await value('apples').getByText('2', { exact: true }).waitFor();
    await row('apples').getByText('version 2').waitFor();
    await row('few 1').getByText('version 1').waitFor();

    await change(id, { deleted: ['apples', '<b>', ...Object.keys(few)] });
    await panel.waitFor({ state: 'detached' });
    await change(id, { set: { apples: 'sold' } });
    await value('apples').getByText('"sold"').waitFor();
    await change(id, null);
    await page.locator('.head').getByText('Completed').waitFor();
    await value('apples').getByText('"sold"').waitFor();
  });

  it('have no panel where nothing is published', async () => {
    const id = await publishing({});
    const page = await open(at(await served(), id));
    await page.getByRole('option').first().waitFor();
    expect(await page.getByRole('region', { name: 'State' }).count()).toBe(0);
  });

  it.runIf(kind === ANY_STORE)(
    'have an accessible panel in both themes and in a narrow window',
    { timeout: 120_000 },
    async () => {
      const id = await publishing({ ['n'.repeat(256)]: { text: 'y'.repeat(5_000), list: [1, null] }, list: [] });
      const url = await served();
      for (const options of LOOKS) {
        const page = await open(at(url, id), options);
        await page.getByRole('region', { name: 'State' }).getByText('version 1').first().waitFor();
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
      }
    },
  );
});
