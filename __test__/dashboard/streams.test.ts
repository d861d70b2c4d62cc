// The panel of the streams of an instance, and the answers that it is made of, on a real store.

import type { DashboardOptions } from 'perdure/dashboard';
import { describe, expect, it } from 'vitest';

import { ANY_STORE, SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { verdict } from './ask.ts';
import { LOOKS, obstacles, overflow, useBrowser } from './browser.ts';
import { at, serving } from './serving.ts';

const { open } = useBrowser();

/** Values to write, by the names of their streams; and streams to close after that. */
interface Part {
  readonly write?: readonly (readonly [name: string, values: readonly unknown[]])[];
  readonly close?: readonly string[];
  /** Deletes earlier entries. */
  readonly maxEntries?: number;
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const { asker, served } = serving(store);

  /** Starts an instance that writes this, then the data of each event `part`, and ends with one without data. */
  async function writing(first: Part): Promise<string> {
    const id = store.id('writer');
    await store.start((runtime) => {
      runtime.registerOrchestration('writer', function* (ctx, first: Part) {
        let done = 0;
        for (let part: Part | null = first; part !== null; part = yield ctx.waitForEvent('part')) {
          const { maxEntries } = part;
          const options = maxEntries === undefined ? {} : { maxEntries };
          for (const [name, values] of part.write ?? [])
            for (const value of values) ctx.stream(name, options).write(value);
          for (const name of part.close ?? []) ctx.stream(name).close();
          ctx.setCustomStatus((done += 1));
        }
      });
      runtime.registerActivity(
        'model',
        async (ctx) => {
          const tokens = ctx.stream('tokens');
          tokens.write(`of attempt ${ctx.attempt}`);
          if (ctx.attempt === 1) throw new Error('the connection broke');
        },
        { retry: { initialInterval: '1ms' } },
      );
      runtime.registerOrchestration('agent', function* (ctx) {
        yield ctx.scheduleActivity('model');
      });
    });
    await store.client.startOrchestration(id, 'writer', first);
    await store.client.waitForStatusChange(id, 0, '1s', SOON);
    return id;
  }

  /** Runs an instance whose activity fails once after its first entry. */
  async function retrying(): Promise<string> {
    await writing({});
    const id = store.id('agent');
    await store.client.startOrchestration(id, 'agent');
    await store.client.waitForOrchestration(id);
    return id;
  }

  const next = (id: string, data: Part | null): Promise<void> => store.client.raiseEvent(id, 'part', data);

  it('are listed, and answered with redacted values', async () => {
    const id = await writing({
      write: [
        ['log', [{ left: 3 }, undefined]],
        ['card', ['visa']],
      ],
      close: ['card'],
    });
    const streams = [
      { name: 'card', first: 0, next: 1, isClosed: true },
      { name: 'log', first: 0, next: 2, isClosed: false },
    ];
    expect(await asker().get(`streams?id=${id}`)).toEqual({ items: streams, others: 0 });
    const atMs = expect.any(Number);
    expect(await asker().get(`stream?id=${id}&name=log`)).toEqual({
      items: [
        { index: 0, atMs, value: { text: '{\n  "left": 3\n}', isWhole: true } },
        { index: 1, atMs, value: { text: 'undefined', isWhole: true } },
      ],
      first: 0,
      next: 2,
    });
    const redact: DashboardOptions['redact'] = (value, { kind, name, orchestration }) =>
      kind !== 'stream' ? value : name === 'card' ? undefined : `${orchestration} ${name}`;
    const careful = asker({ redact });
    const { items } = await careful.get(`stream?id=${id}&name=log`);
    expect(items[0].value).toEqual({ text: '"writer log"', isWhole: true });
    expect((await careful.get(`stream?id=${id}&name=card`)).items).toEqual([{ index: 0, atMs }]);
    const whole = `value?id=${id}&of=stream&index=0&name`;
    expect(await careful.get(`${whole}=log`)).toEqual({ text: '"writer log"', isWhole: true });
    expect(await verdict(careful.ask(`api/v1/${whole}=card`))).toBe('400 BAD_REQUEST');
  });

  it('are refused as other reads are', async () => {
    const id = await writing({ write: [['log', [1]]] });
    const closed = asker({ authorize: (_request, _action, of) => of !== id, readOnly: true });
    const entry = (of: string): string => `value?id=${of}&of=stream&name=log&index=0`;
    for (const path of [`streams?id=${id}`, `stream?id=${id}&name=log`, entry(id)])
      expect(await verdict(closed.ask(`api/v1/${path}`)), path).toBe('403 NOT_AUTHORIZED');
    for (const path of ['streams?id=nobody', 'stream?id=nobody&name=log', entry('nobody')])
      expect(await verdict(asker().ask(`api/v1/${path}`)), path).toBe('404 INSTANCE_NOT_FOUND');
    for (const path of ['', '&name=', '&name=other', '&name=log&from=-1', '&name=log&x=1', `&name=${'x'.repeat(300)}`])
      expect(await verdict(asker().ask(`api/v1/stream?id=${id}${path}`)), path).toBe('400 BAD_REQUEST');
    for (const path of ['', '&name=log', '&name=log&index=1', '&name=other&index=0', '&name=log&index=0&event=1'])
      expect(await verdict(asker().ask(`api/v1/value?id=${id}&of=stream${path}`)), path).toBe('400 BAD_REQUEST');
    expect(await asker({ readOnly: true }).get(entry(id))).toEqual({ text: '1', isWhole: true });
  });

  it('are answered by their last entries, by the beginnings of large ones, and by at most 500 names', async () => {
    const text = '\u0001'.repeat(4_000);
    const id = await writing({
      write: [
        ['large', Array.from({ length: 60 }, () => text)],
        ['few', Array.from({ length: 70 }, (_, n) => n)],
        ...Array.from({ length: 501 }, (_, n) => [`name ${n} ${'ß'.repeat(240)}`, [n]] as const),
      ],
    });
    const answer = await asker().ask(`api/v1/stream?id=${id}&name=large`);
    const body = await answer.text();
    // Each character of the text takes six.
    expect(Buffer.byteLength(body)).toBeLessThan(1024 * 1024);
    const { items, first, next: following } = JSON.parse(body);
    expect([items.length, items[0].index, first, following]).toEqual([50, 10, 10, 60]);
    expect(items[0].value.isWhole).toBe(false);
    expect(items[0].value.text).toHaveLength(2_000);
    const whole = `value?id=${id}&of=stream&name=large&index=59`;
    expect(await asker().get(whole)).toEqual({ text: JSON.stringify(text), isWhole: true });
    expect((await asker().get(`${whole}&most=5000`)).text).toHaveLength(5_000);

    const indexes = async (from: number): Promise<number[]> =>
      (await asker().get(`stream?id=${id}&name=few&from=${from}`)).items.map(({ index }: any) => index);
    expect(await indexes(0)).toHaveLength(50);
    expect(await indexes(68)).toEqual([68, 69]);
    expect(await indexes(70)).toEqual([]);
    expect(await indexes(Number.MAX_SAFE_INTEGER)).toEqual([]);

    const list = await asker().get(`streams?id=${id}`);
    expect([list.items.length, list.others]).toEqual([500, 3]);
  });

  it('have a line where an attempt begins anew', async () => {
    const id = await retrying();
    const { items } = await asker().get(`stream?id=${id}&name=tokens`);
    const [{ activity }] = items;
    expect(items.map(({ atMs: _, ...rest }: any) => rest)).toEqual([
      { index: 0, activity, attempt: 1, value: { text: '"of attempt 1"', isWhole: true } },
      { index: 1, activity, attempt: 2, resetFrom: 0 },
      { index: 1, activity, attempt: 2, value: { text: '"of attempt 2"', isWhole: true } },
    ]);
    // The value of an entry is not the marker before it.
    expect(await asker().get(`value?id=${id}&of=stream&name=tokens&index=1`)).toEqual(items[2].value);

    const page = await open(at(await served(), id));
    const panel = page.getByRole('region', { name: 'Streams' });
    await panel.getByText('not closed').waitFor();
    await panel.getByRole('button', { name: 'Entries of tokens' }).click();
    const lines = panel.getByRole('log', { name: 'Last entries of tokens' }).getByRole('listitem');
    await lines.nth(2).waitFor();
    expect(await lines.nth(0).textContent()).toContain('attempt 1"of attempt 1"');
    expect(await lines.nth(1).textContent()).toContain('attempt 2 begins anew');
    expect(await lines.nth(2).textContent()).toContain('attempt 2"of attempt 2"');
  });

  it('are followed live as a list, which is sent only when it has changed, also at the end', async () => {
    const id = await writing({});
    const seen: unknown[] = [];
    let statuses = 0;
    for await (const { event, data } of asker().events(`live?id=${id}`)) {
      // This change of the custom status changes no stream.
      if (event === 'instance' && (statuses += 1) === 2) await next(id, {});
      if (event === 'instance' && statuses === 3) await next(id, { close: ['log'] });
      if (event !== 'streams') continue;
      seen.push(data.items.map(({ next, isClosed }: any) => [next, isClosed]));
      if (seen.length === 1) await next(id, { write: [['log', [1, 2]]] });
      else if (seen.length === 3) await next(id, null);
    }
    expect(seen).toEqual([[], [[2, false]], [[2, true]]]);
    const after: unknown[] = [];
    for await (const { event, data } of asker().events(`live?id=${id}`)) if (event === 'streams') after.push(data);
    expect(after).toEqual([{ items: [{ name: 'log', first: 0, next: 2, isClosed: true }], others: 0 }]);
  });

  it('have a panel, whose open rows show the last entries, live', async () => {
    const long = { list: Array.from({ length: 30 }, (_, n) => `item ${n}`), rest: 'z'.repeat(3_000) };
    const id = await writing({
      write: [
        ['log', Array.from({ length: 59 }, (_, n) => `line ${n}`)],
        ['log', [long]],
        ['quiet', [0]],
      ],
    });
    const redact: DashboardOptions['redact'] = (value, { name }) => (name === 'quiet' ? undefined : value);
    const page = await open(at(await served({ redact }), id));
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    const panel = page.getByRole('region', { name: 'Streams' });
    const list = panel.getByRole('list').first();
    const row = (name: string) => list.locator(':scope > li').filter({ has: page.getByText(name, { exact: true }) });
    const entry = (n: number) => row('log').getByRole('group', { name: `Entry ${n} of log`, exact: true });
    await row('log').getByText('60 entries').waitFor();
    await row('log').getByText('open', { exact: true }).waitFor();
    await row('quiet').getByText('1 entry').waitFor();

    // Nothing is read for closed rows, also when they change.
    await next(id, { write: [['log', ['line 60']]] });
    await row('log').getByText('61 entries').waitFor();
    expect(asked.filter((url) => url.includes('/stream?'))).toEqual([]);
    await row('log').getByRole('button', { name: 'Entries of log' }).click();
    await entry(60).getByText('"line 60"').waitFor();
    const lines = row('log').getByRole('log').getByRole('listitem');
    expect(await lines.count()).toBe(50);
    expect(await lines.first().textContent()).toContain('"line 11"');
    await row('log').getByText('Earlier entries are left out.').waitFor();

    // A long value is fetched as a whole on request, and stays so.
    expect(await entry(59).textContent()).not.toContain('item 29');
    await lines.nth(48).getByRole('button', { name: 'Show full value' }).click();
    await lines.nth(48).getByRole('button', { name: 'Show all 35 lines' }).click();
    await entry(59).getByText('z'.repeat(3_000)).waitFor();
    await next(id, { write: [['log', ['<b>bold</b>', 'line 62']]] });
    await entry(61).getByText('"<b>bold</b>"').waitFor();
    await entry(62).getByText('"line 62"').waitFor();
    expect(await lines.count()).toBe(50);
    await entry(59).getByText('z'.repeat(3_000)).waitFor();
    // The new entries were read, and no others again.
    expect(asked.filter((url) => url.includes('/stream?') && url.includes('from=61'))).toHaveLength(1);

    await row('quiet').getByRole('button').click();
    await row('quiet').getByText('hidden').waitFor();
    await row('quiet').getByRole('button').click();
    await row('quiet').getByText('hidden').waitFor({ state: 'detached' });

    // A closed row is not read any more.
    await next(id, { write: [['quiet', [1]]], close: ['log'] });
    await row('quiet').getByText('2 entries').waitFor();
    await row('log').getByText('closed', { exact: true }).waitFor();
    await next(id, null);
    await row('quiet').getByText('not closed').waitFor();
    await entry(62).getByText('"line 62"').waitFor();
    expect(asked.filter((url) => url.includes('/stream?') && url.includes('name=quiet'))).toHaveLength(1);
  });

  it('have a panel that says how many entries were deleted', async () => {
    const id = await writing({ write: [['last', Array.from({ length: 200 }, (_, n) => n)]], maxEntries: 10 });
    // Entries are deleted in chunks, as a later one comes.
    await next(id, { write: [['last', [200]]], maxEntries: 1 });
    await store.client.waitForStatusChange(id, 1, '1s', SOON);
    const [stream] = (await store.client.listStreams(id)) ?? [];
    expect(stream).toEqual({ name: 'last', first: 200, next: 201, isClosed: false });
    const page = await open(at(await served(), id));
    const panel = page.getByRole('region', { name: 'Streams' });
    await panel.getByText('1 entry').waitFor();
    await panel.getByText('the first 200 were deleted').waitFor();
    await panel.getByRole('button').click();
    await panel.getByRole('group', { name: 'Entry 200 of last' }).getByText('200').waitFor();
    expect(await panel.getByRole('log').getByRole('listitem').count()).toBe(1);
    expect(await panel.getByText('Earlier entries').count()).toBe(0);
  });

  it('may have any names', async () => {
    const names = ['__proto__', 'constructor', '\u0001\u001b[31m\n"', '<script>alert(1)</script>', '\u202e&=#?%', '..'];
    const id = await writing({ write: names.map((name) => [name, [{ name }]] as const) });
    for (const name of names) {
      const query = new URLSearchParams({ id, name });
      const [{ value }] = (await asker().get(`stream?${query}`)).items;
      expect(value.text).toContain(JSON.stringify(name));
    }
    const page = await open(at(await served(), id));
    const panel = page.getByRole('region', { name: 'Streams' });
    await panel.getByText('1 entry').first().waitFor();
    const buttons = panel.getByRole('list').first().locator(':scope > li > .name > button');
    expect(await buttons.count()).toBe(names.length);
    for (let n = 0; n < names.length; n += 1) {
      await buttons.nth(n).click();
      // The row grows when its entries come, which moves the next button.
      await panel.getByRole('log').nth(n).waitFor();
    }
    for (const name of names)
      expect((await panel.locator('pre').allTextContents()).join('\n')).toContain(JSON.stringify(name));
  });

  it('have no panel where there are none', async () => {
    const id = await writing({});
    const page = await open(at(await served(), id));
    await page.getByRole('option').first().waitFor();
    expect(await page.getByRole('region', { name: 'Streams' }).count()).toBe(0);
  });

  it.runIf(kind === ANY_STORE)(
    'have an accessible panel in both themes and in a narrow window',
    { timeout: 120_000 },
    async () => {
      const name = 'n'.repeat(256);
      const values = [{ text: 'y'.repeat(5_000), list: [1, null] }, 'short'];
      const id = await writing({ write: [[name, values]] });
      const agent = await retrying();
      const url = await served();
      for (const options of LOOKS) {
        for (const [of, stream] of [
          [id, name],
          [agent, 'tokens'],
        ] as const) {
          const page = await open(at(url, of), options);
          const panel = page.getByRole('region', { name: 'Streams' });
          await panel.getByRole('button', { name: `Entries of ${stream}` }).click();
          await panel.getByRole('group', { name: `Entry 1 of ${stream}` }).waitFor();
          expect(await obstacles(page)).toEqual([]);
          expect(await overflow(page)).toBe(0);
        }
      }
    },
  );
});
