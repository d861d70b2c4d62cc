// Starts from the dashboard: the form from the schema of an input, the check of the input, and the start.

import { defineOrchestration, type Runtime } from 'perdure';
import { dashboardHandler, type ServeOptions, serveDashboard } from 'perdure/dashboard';
import type { Page } from 'playwright-core';
import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';

import { ANY_STORE, SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { Asker, verdict } from './ask.ts';
import { obstacles, overflow, useBrowser } from './browser.ts';

const { open } = useBrowser();

const parcel = defineOrchestration(
  'parcel',
  function* (_ctx, input) {
    return input;
  },
  {
    version: '2.0.0',
    input: z.object({
      weight: z.number().max(30).describe('Weight in kg'),
      speed: z.enum(['slow', 'fast']).default('slow'),
      isGift: z.boolean().optional(),
      items: z.array(z.object({ sku: z.string() })).min(1),
    }),
  },
);

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  function register(runtime: Runtime): void {
    runtime.register(parcel);
    runtime.registerOrchestration('parcel', function* () {}, { version: '1.0.0' });
    runtime.registerOrchestration('plain', function* (_ctx, input) {
      return input;
    });
    runtime.registerOrchestration('greeter', function* (ctx, name) {
      ctx.onUpdate('greet', function* (word: string) {
        return `${word}, ${name}`;
      });
      const { value } = yield ctx.race(ctx.waitForEvent('hello'), ctx.dequeueEvent('words'));
      return [name, value];
    });
  }

  const asker = (runtime?: Runtime): Asker =>
    new Asker(dashboardHandler(store.client, { token: false, ...(runtime === undefined ? {} : { runtime }) }));

  it('is offered for what is registered or has instances, with a form where the runtime has a schema', async () => {
    await store.client.startOrchestration(store.id(), 'elsewhere', 1, { version: '3.0.0' });
    const runtime = await store.start(register);
    const there = asker(runtime);
    expect((await there.get('startable')).items).toEqual([
      { name: 'elsewhere', versions: ['3.0.0'] },
      { name: 'greeter', versions: ['1.0.0'] },
      { name: 'parcel', versions: ['2.0.0', '1.0.0'] },
      { name: 'plain', versions: ['1.0.0'] },
    ]);
    const { schema, isChecked } = await there.get('form?name=parcel&version=2.0.0');
    expect(isChecked).toBe(true);
    expect(Object.keys(schema.properties)).toEqual(['weight', 'speed', 'isGift', 'items']);
    const none = { schema: null, isChecked: false };
    expect(await there.get('form?name=parcel&version=1.0.0')).toEqual(none);
    expect(await there.get('form?name=nobody')).toEqual(none);
    expect(await asker().get('form?name=parcel&version=2.0.0')).toEqual(none);
    expect(await verdict(there.ask('api/v1/form?version=1'))).toBe('400 BAD_REQUEST');
  });

  it('checks the input before it starts anything', async () => {
    const runtime = await store.start(register);
    const there = asker(runtime);
    const id = store.id('parcel');
    const wrong = { name: 'parcel', version: '2.0.0', id, input: { weight: 31, items: [{ sku: 7 }] } };
    const refused = await there.post('start', wrong);
    expect(refused.status).toBe(422);
    const { error } = (await refused.json()) as any;
    expect(error.code).toBe('PAYLOAD');
    expect(error.issues.map(({ path }: any) => path)).toEqual(['input.weight', 'input.items[0].sku']);
    expect(await store.client.getStatus(id)).toBeNull();

    const input = { weight: 3, items: [{ sku: 'a' }] };
    const body = { ...wrong, input, tags: { team: 'post' }, priority: 2 };
    expect(await (await there.post('start', body)).json()).toEqual({ id });
    expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({
      status: 'Completed',
      version: '2.0.0',
      output: { ...input, speed: 'slow' },
      tags: { team: 'post' },
      priority: 2,
    });
    // The input is stored as it was given.
    expect((await store.client.getHistory(id))[0]?.payload).toEqual(input);
    expect(await verdict(there.post('start', body))).toBe('409 INSTANCE_EXISTS');
    const { id: made } = (await (await there.post('start', { name: 'plain' })).json()) as { id: string };
    expect(made).toMatch(/^[0-9a-f-]{36}$/);
    expect(await verdict(there.post('start', { id }))).toBe('400 BAD_REQUEST');
    expect(await verdict(there.post('start', { name: 'plain', tags: { a: 1 } }))).toBe('400 BAD_REQUEST');
  });

  it('asks the authorize hook with the id of the new instance', async () => {
    const asked: unknown[] = [];
    const there = new Asker(
      dashboardHandler(store.client, {
        token: false,
        authorize: (_request, action, id) => {
          asked.push([action, id]);
          return id !== 'theirs';
        },
      }),
    );
    expect(await verdict(there.post('start', { name: 'x', id: 'theirs' }))).toBe('403 NOT_AUTHORIZED');
    const { id } = (await (await there.post('start', { name: 'x' })).json()) as { id: string };
    expect(asked).toEqual([
      ['start', 'theirs'],
      ['start', id],
    ]);
    expect(await store.client.getStatus('theirs')).toBeNull();
    expect((await store.client.getStatus(id))?.name).toBe('x');
    await store.client.terminateInstance(id);
  });

  it('is made by a message, in one commit with it', async () => {
    const runtime = await store.start(register);
    const there = asker(runtime);
    const id = store.id('greeter');
    const start = { name: 'greeter', version: '1.0.0', input: 'Ada', tags: { team: 'post' }, priority: 2 };
    expect(await (await there.post('raise', { id, name: 'hello', data: 1, start })).json()).toEqual({ id });
    expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({
      output: ['Ada', 1],
      tags: { team: 'post' },
      priority: 2,
    });
    // An instance that has ended is not replaced.
    expect(await verdict(there.post('raise', { id, name: 'hello', start }))).toBe('409 RUNTIME_STATE');
    const made = (await (await there.post('enqueue', { queue: 'words', data: 'hi', start })).json()) as { id: string };
    expect(made.id).toMatch(/^[0-9a-f-]{36}$/);
    expect((await store.client.waitForOrchestration(made.id, SOON)).output).toEqual(['Ada', 'hi']);

    const updated = store.id('greeter');
    const update = { id: updated, name: 'greet', input: 'hello', updateId: 'first', start };
    expect(await (await there.post('update', update)).json()).toEqual({
      outcome: 'value',
      value: { text: '"hello, Ada"', isWhole: true },
      updateId: 'first',
      instanceId: updated,
    });
    // The instance is there already, and its start has no effect.
    const again = { ...update, updateId: 'second', start: { name: 'plain' } };
    expect(await (await there.post('update', again)).json()).toMatchObject({ value: { text: '"hello, Ada"' } });
    const { instanceId } = (await (await there.post('update', { name: 'greet', start })).json()) as any;
    expect((await store.client.getStatus(instanceId))?.name).toBe('greeter');
    for (const one of [updated, instanceId]) await store.client.terminateInstance(one);
  });

  it('by a message is checked and allowed as any start is', async () => {
    const runtime = await store.start(register);
    const there = asker(runtime);
    const id = store.id('greeter');
    const wrong = { name: 'parcel', version: '2.0.0', input: { weight: 31, items: [] } };
    const messages = { raise: { id, name: 'hello' }, enqueue: { id, queue: 'words' }, update: { id, name: 'greet' } };
    for (const [action, message] of Object.entries(messages)) {
      for (const start of [{}, null, 'greeter', { name: '' }, { name: 'greeter', id }, { name: 'greeter', tags: 1 }])
        expect(await verdict(there.post(action, { ...message, start })), action).toBe('400 BAD_REQUEST');
      expect(await verdict(there.post(action, { ...message, start: wrong })), action).toBe('422 PAYLOAD');
      const { id: _, ...withoutId } = message;
      expect(await verdict(there.post(action, withoutId)), action).toBe('400 BAD_REQUEST');
      const values = { ...withoutId, start: { name: 'greeter' } };
      expect(await verdict(there.post('bulk', { action, filter: '', values })), action).toBe('400 BAD_REQUEST');
      const asked: unknown[] = [];
      const authorize = (_: Request, asks: string, about: string | undefined): boolean => {
        asked.push([asks, about]);
        return asks !== 'start';
      };
      const guarded = new Asker(dashboardHandler(store.client, { token: false, authorize }));
      const body = { ...message, start: { name: 'greeter' } };
      expect(await verdict(guarded.post(action, body)), action).toBe('403 NOT_AUTHORIZED');
      expect(asked).toEqual([
        [action, id],
        ['start', id],
      ]);
      const quiet = new Asker(dashboardHandler(store.client, { token: false, readOnly: true }));
      expect(await verdict(quiet.post(action, body)), action).toBe('403 READ_ONLY');
    }
    const call = { id, name: 'greet', isCall: true, start: { name: 'greeter' } };
    expect(await verdict(there.post('update', call))).toBe('400 BAD_REQUEST');
    expect(await store.client.getStatus(id)).toBeNull();
  });

  describe('the form', () => {
    async function form(options: ServeOptions, size = {}): Promise<Page> {
      const dashboard = await serveDashboard(store.client, { token: false, ...options });
      onTestFinished(() => dashboard.close());
      const page = await open(`${dashboard.url}#/instances`, size);
      await page.getByRole('button', { name: 'Start…' }).click();
      return page;
    }

    it('has a field for each property, and shows the problems of each', async () => {
      const runtime = await store.start(register);
      const page = await form({ runtime });
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Orchestration').fill('parcel');
      await dialog.getByLabel('weight').waitFor();
      expect(await dialog.getByLabel('Version').inputValue()).toBe('2.0.0');
      await dialog.getByText('Weight in kg. at most 30').waitFor();
      await dialog.getByLabel('weight').fill('31');
      await dialog.getByLabel('isGift').selectOption('true');
      await dialog.getByLabel('items').fill('[]');
      expect(await obstacles(page)).toEqual([]);
      await dialog.getByRole('button', { name: 'Start', exact: true }).click();
      await dialog.getByRole('alert').getByText('input does not fit its schema').waitFor();
      await dialog.getByText(/^input\.weight: Too big/).waitFor();
      await dialog.getByText(/^input\.items: Too small/).waitFor();
      expect(await dialog.getByLabel('weight').getAttribute('aria-invalid')).toBe('true');
      expect(await dialog.getByLabel('isGift').getAttribute('aria-invalid')).toBe('false');
      await dialog.getByLabel('weight').fill('12');
      await dialog.getByLabel('items').fill('[{"sku": "a"}]');
      await dialog.getByLabel('Tags').fill('team:post, day:monday');
      await dialog.getByRole('button', { name: 'Start', exact: true }).click();
      await page.getByRole('region', { name: 'Input' }).getByText('12').waitFor();
      await page.getByText('day:monday').waitFor();
      const id = new URLSearchParams(new URL(page.url()).hash.split('?')[1]).get('id') ?? '';
      expect((await store.client.getHistory(id))[0]?.payload).toEqual({
        weight: 12,
        isGift: true,
        items: [{ sku: 'a' }],
      });
    });

    it('takes JSON where no schema is known, in a narrow window too', async () => {
      await store.start(register);
      const page = await form({}, { viewport: { width: 360, height: 740 }, colorScheme: 'dark' });
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Orchestration').fill('plain');
      const id = store.id('plain');
      await dialog.getByLabel('ID').fill(id);
      await dialog.getByLabel('Input').fill('{"a": ');
      await dialog.getByRole('button', { name: 'Start', exact: true }).click();
      await dialog.getByRole('alert').getByText('Input is not JSON').waitFor();
      expect(await obstacles(page)).toEqual([]);
      expect(await overflow(page)).toBe(0);
      await dialog.getByLabel('Input').fill('{"a": [1]}');
      await dialog.getByRole('button', { name: 'Start', exact: true }).click();
      await page.getByRole('heading', { name: id, level: 1 }).waitFor();
      expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual({ a: [1] });
    });

    it.runIf(kind === ANY_STORE)('starts an instance with its first message', async () => {
      await store.start(register);
      const page = await form({}, { viewport: { width: 360, height: 740 } });
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Orchestration').fill('greeter');
      await dialog.getByLabel('Input').fill('"Ada"');
      await dialog.getByLabel('First message').selectOption('update');
      await dialog.getByLabel('Name of the update').fill('wait');
      await dialog.getByLabel('Data of the message').fill('{');
      await dialog.getByRole('button', { name: 'Start', exact: true }).click();
      await dialog.getByRole('alert').getByText('Data of the message is not JSON').waitFor();
      await dialog.getByLabel('Data of the message').fill('"hello"');
      await dialog.getByLabel('Name of the update').fill('greet');
      await dialog.getByRole('button', { name: 'Start', exact: true }).click();
      await dialog.getByRole('region', { name: 'Answer' }).getByText('"hello, Ada"').waitFor();
      expect(await obstacles(page)).toEqual([]);
      expect(await overflow(page)).toBe(0);
      const link = dialog.getByRole('status').getByRole('link');
      const id = (await link.textContent()) ?? '';
      await link.click();
      await page.getByRole('heading', { name: id, level: 1 }).waitFor();

      await page.goBack();
      await page.getByRole('button', { name: 'Start…' }).click();
      await dialog.getByLabel('Orchestration').fill('greeter');
      await dialog.getByLabel('Input').fill('"Bea"');
      await dialog.getByLabel('First message').selectOption('queue message');
      await dialog.getByRole('textbox', { name: 'Queue' }).fill('words');
      await dialog.getByRole('button', { name: 'Start', exact: true }).focus();
      await page.keyboard.press('Enter');
      await page.getByRole('group', { name: 'Output' }).getByText('"Bea"').waitFor();
      await store.client.terminateInstance(id);
    });

    it('is missing where the dashboard is read-only', async () => {
      const dashboard = await serveDashboard(store.client, { token: false, readOnly: true });
      onTestFinished(() => dashboard.close());
      const page = await open(`${dashboard.url}#/instances`);
      await page.getByText('read-only').waitFor();
      expect(await page.getByRole('button', { name: 'Start…' }).count()).toBe(0);
    });
  });
});
