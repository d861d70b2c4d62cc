// Updates and queries from the dashboard, and the calls and reads of entities, on a real store.

import { ActivityError, defineEntity, type Runtime } from 'perdure';
import type { DashboardOptions } from 'perdure/dashboard';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';

import { ANY_STORE, SHARED_STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { type Asker, verdict } from './ask.ts';
import { LOOKS, obstacles, overflow, useBrowser } from './browser.ts';
import { at, serving } from './serving.ts';

const { open } = useBrowser();

const cart = defineEntity('cart', {
  initial: () => ({ items: [] as string[] }),
  handlers: {
    *add(ctx, item: string) {
      if (item === '') throw new RangeError('an item has a name');
      return ctx.state.items.push(item);
    },
    *clear(ctx) {
      ctx.state.items = [];
    },
  },
  reads: {
    items: ({ items }) => items,
    item: ({ items }, n: number) => items[n] ?? null,
  },
});

function register(runtime: Runtime): void {
  runtime.register(cart);
  runtime.registerActivity('pack', () => {
    throw new TypeError('no box for card visa-4111');
  });
  runtime.registerOrchestration('basket', function* (ctx) {
    const items: string[] = [];
    ctx.onUpdate(
      'add',
      function* (item: string) {
        return { count: items.push(item) };
      },
      {
        validate(item) {
          if (typeof item !== 'string') throw new RangeError('an item is a text');
        },
      },
    );
    ctx.onUpdate('pack', function* () {
      yield ctx.scheduleActivity('pack', null, { retry: { maxAttempts: 1 } });
    });
    ctx.onUpdate('wait', function* () {
      return yield ctx.waitForEvent('go');
    });
    ctx.onQuery('items', () => items);
    ctx.onQuery('nothing', () => undefined);
    yield ctx.waitForEvent('end');
  });
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const { asker, served } = serving(store);

  async function basket(): Promise<string> {
    const id = store.id('basket');
    await store.start(register);
    await store.client.startOrchestration(id, 'basket');
    return id;
  }

  const answer = async (there: Asker, question: string, body: object): Promise<any> => {
    const response = await there.post(question, body);
    expect(response.status).toBe(200);
    return response.json();
  };

  it('are answered with the answer of the handler, or with its error', async () => {
    const id = await basket();
    const there = asker();
    const update = { id, name: 'add', input: 'tea', updateId: 'request-1' };
    const first = { outcome: 'value', value: { text: '{\n  "count": 1\n}', isWhole: true }, updateId: 'request-1' };
    expect(await answer(there, 'update', update)).toEqual(first);
    // The same id is the same update.
    expect(await answer(there, 'update', { ...update, input: 'cups' })).toEqual(first);
    expect(await answer(there, 'update', { id, name: 'add', input: 7 })).toMatchObject({
      outcome: 'error',
      value: { errors: [{ name: 'RangeError', message: 'an item is a text' }] },
      updateId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    expect(await answer(there, 'query', { id, name: 'items' })).toEqual({
      outcome: 'value',
      value: { text: '[\n  "tea"\n]', isWhole: true },
    });
    expect(await answer(there, 'query', { id, name: 'nothing' })).toMatchObject({ value: { text: 'undefined' } });
    await store.client.terminateInstance(id);
    // An instance that has ended answers queries, and the updates that it has answered.
    expect(await answer(there, 'query', { id, name: 'items' })).toMatchObject({ outcome: 'value' });
    expect(await answer(there, 'update', update)).toEqual(first);
    expect(await answer(there, 'update', { id, name: 'add', input: 'late' })).toMatchObject({
      outcome: 'error',
      value: { errors: [{ name: 'RuntimeStateError' }] },
    });
  });

  it('are refused if they are wrong', async () => {
    const id = await basket();
    const there = asker();
    for (const [question, body, expected] of [
      ['update', { id }, '400 BAD_REQUEST'],
      ['update', { name: 'add' }, '400 BAD_REQUEST'],
      ['update', { id, name: 'add', updateId: 7 }, '400 BAD_REQUEST'],
      ['update', { id, name: 'add', isCall: 'yes' }, '400 BAD_REQUEST'],
      ['update', { id, name: 'perdure.entity' }, '400 BAD_REQUEST'],
      ['update', { id, name: 'ad' }, '409 NOT_REGISTERED'],
      ['update', { id, name: 'add', isCall: true }, '409 NOT_REGISTERED'],
      ['update', { id: 'nobody', name: 'add' }, '404 INSTANCE_NOT_FOUND'],
      ['query', { id }, '400 BAD_REQUEST'],
      ['query', { id, name: 'items', updateId: 'x' }, '400 BAD_REQUEST'],
      ['query', { id, name: 'item' }, '409 NOT_REGISTERED'],
      ['query', { id, name: 'items', isRead: true }, '400 BAD_REQUEST'],
      ['query', { id: 'nobody', name: 'items' }, '404 INSTANCE_NOT_FOUND'],
    ] as const)
      expect(await verdict(there.post(question, body)), JSON.stringify([question, body])).toBe(expected);
    const unknown = (await (await there.post('update', { id, name: 'perdure.lock' })).json()) as any;
    expect(unknown.error.message).toMatch(/^update: name must not begin with 'perdure\.'/);
    await store.client.terminateInstance(id);
  });

  it('are allowed as the guard says, and queries also where the dashboard is read-only', async () => {
    const id = await basket();
    const asked: unknown[] = [];
    const there = asker({
      authorize(_, action, instanceId) {
        asked.push([action, instanceId]);
        return action === 'query';
      },
    });
    expect(await verdict(there.post('update', { id, name: 'add', input: 'tea' }))).toBe('403 NOT_AUTHORIZED');
    expect(await verdict(there.post('query', { id, name: 'items' }))).toBe('200');
    expect(asked).toEqual([
      ['update', id],
      ['query', id],
    ]);
    const quiet = asker({ readOnly: true });
    expect(await verdict(quiet.post('update', { id, name: 'add', input: 'tea' }))).toBe('403 READ_ONLY');
    expect(await verdict(quiet.post('query', { id, name: 'items' }))).toBe('200');
    for (const question of ['update', 'query']) {
      const headers = { 'content-type': 'application/json' };
      expect(await verdict(quiet.post(question, { id, name: 'items' }, { headers }))).toBe('403 ACTION_HEADER');
      expect(await verdict(asker({ token: 'x'.repeat(16) }).post(question, { id, name: 'items' }))).toBe('401 TOKEN');
      expect(await verdict(quiet.ask(`api/v1/${question}?id=${id}&name=items`))).toBe('405 METHOD');
    }
    expect((await store.client.getHistory(id)).some(({ kind }) => kind === 'QueueReceived')).toBe(false);
    await store.client.terminateInstance(id);
  });

  it('have redacted answers and errors', async () => {
    const id = await basket();
    const places: unknown[] = [];
    const there = asker({
      redact(value, { kind, name, orchestration }) {
        places.push([kind, name, orchestration]);
        return kind === 'error' ? new Error('hidden') : name === 'items' ? undefined : value;
      },
    });
    expect(await answer(there, 'query', { id, name: 'items' })).toEqual({ outcome: 'value' });
    const packed = await answer(there, 'update', { id, name: 'pack' });
    expect(packed).toMatchObject({ outcome: 'error', value: { errors: [{ name: 'Error', message: 'hidden' }] } });
    expect(JSON.stringify(packed)).not.toContain('visa');
    expect(places).toEqual([
      ['answer', 'items', 'basket'],
      ['error', 'pack', 'basket'],
    ]);
    expect(await answer(asker(), 'update', { id, name: 'pack' })).toMatchObject({
      value: { errors: [{ name: ActivityError.name }, { message: 'no box for card visa-4111' }] },
    });
    await store.client.terminateInstance(id);
  });

  it('end with the client that leaves, and the update goes on', async () => {
    const id = await basket();
    const leaving = new AbortController();
    const body = { id, name: 'wait', updateId: 'long' };
    const left = asker().post('update', body, { signal: leaving.signal });
    leaving.abort();
    expect(await (await left).json()).toEqual({ outcome: 'waiting', updateId: 'long' });
    await store.client.raiseEvent(id, 'go', 'gone');
    expect(await answer(asker(), 'update', body)).toMatchObject({ outcome: 'value', value: { text: '"gone"' } });
    await store.client.terminateInstance(id);
  });

  it('are calls and reads for an entity', async () => {
    await store.start(register);
    const id = `cart/${store.id('user')}`;
    await store.client.entity(cart, id.slice(5)).add('tea');
    const there = asker({ entities: [cart] });
    expect((await there.get(`instance?id=${id}`)).entity).toEqual({
      handlers: ['add', 'clear'],
      reads: ['items', 'item'],
    });
    expect(await asker().get(`instance?id=${id}`)).not.toHaveProperty('entity');
    const call = { id, name: 'add', isCall: true, input: 'cups' };
    expect(await answer(there, 'update', call)).toMatchObject({ outcome: 'value', value: { text: '2' } });
    expect(await answer(asker(), 'update', call)).toMatchObject({ outcome: 'value', value: { text: '3' } });
    expect(await answer(there, 'update', { ...call, input: '' })).toMatchObject({
      outcome: 'error',
      value: { errors: [{ name: 'RangeError', message: 'an item has a name' }] },
    });
    const read = { id, name: 'item', isRead: true, input: 1 };
    expect(await answer(there, 'query', read)).toEqual({ outcome: 'value', value: { text: '"cups"', isWhole: true } });
    expect(await verdict(there.post('update', { ...call, name: 'ad' }))).toBe('409 NOT_REGISTERED');
    expect(await verdict(there.post('query', { ...read, name: 'ite' }))).toBe('400 BAD_REQUEST');
    expect(await verdict(asker().post('query', read))).toBe('400 BAD_REQUEST');

    await store.client.entity(cart, id.slice(5)).delete();
    // A call makes the entity anew only if its definition is there.
    expect(await answer(asker(), 'update', call)).toMatchObject({ outcome: 'error' });
    expect(await answer(there, 'query', { ...read, name: 'items' })).toMatchObject({ value: { text: '[]' } });
    expect(await answer(there, 'update', call)).toMatchObject({ outcome: 'value', value: { text: '1' } });
  });

  it('are the first call of an entity, and one-way calls, if the dashboard has the definition', async () => {
    await store.start(register);
    const id = `cart/${store.id('user')}`;
    const there = asker({ entities: [cart] });
    expect((await there.get('about')).entities).toEqual([
      { name: 'cart', handlers: ['add', 'clear'], reads: ['items', 'item'] },
    ]);
    expect(await asker().get('about')).not.toHaveProperty('entities');
    const call = { id, name: 'add', isCall: true, input: 'tea' };
    for (const [dashboard, body, expected] of [
      [asker(), call, '404 INSTANCE_NOT_FOUND'],
      [there, { ...call, isCall: false }, '404 INSTANCE_NOT_FOUND'],
      [there, { ...call, id: 'cart/' }, '404 INSTANCE_NOT_FOUND'],
      [there, { ...call, id: 'basket/1' }, '404 INSTANCE_NOT_FOUND'],
      [there, { ...call, name: 'ad' }, '400 BAD_REQUEST'],
      [there, { ...call, name: 'toString' }, '400 BAD_REQUEST'],
      [there, { ...call, name: 'ad', isOneWay: true }, '400 BAD_REQUEST'],
      [there, { id, name: 'add', isOneWay: true }, '404 INSTANCE_NOT_FOUND'],
      [there, { ...call, isOneWay: 'yes' }, '400 BAD_REQUEST'],
    ] as const)
      expect(await verdict(dashboard.post('update', body)), JSON.stringify(body)).toBe(expected);
    expect(await store.client.getStatus(id)).toBeNull();
    expect(await verdict(asker({ entities: [cart], readOnly: true }).post('update', call))).toBe('403 READ_ONLY');
    const asked: unknown[] = [];
    const authorize: DashboardOptions['authorize'] = (_, action, about) => {
      asked.push([action, about]);
      return false;
    };
    for (const isOneWay of [false, true]) {
      const guarded = asker({ entities: [cart], authorize });
      expect(await verdict(guarded.post('update', { ...call, isOneWay }))).toBe('403 NOT_AUTHORIZED');
    }
    expect(asked).toEqual([
      ['update', id],
      ['update', id],
    ]);

    expect(await answer(there, 'update', call)).toMatchObject({ outcome: 'value', value: { text: '1' } });
    const oneWay = { ...call, input: 'cups', isOneWay: true };
    expect(await answer(there, 'update', oneWay)).toEqual({ outcome: 'sent' });
    // The calls run in order.
    expect(await answer(there, 'update', { ...call, input: 'milk' })).toMatchObject({ value: { text: '3' } });
    expect(await store.client.entity(cart, id.slice(5)).items()).toEqual(['tea', 'cups', 'milk']);
    expect(await verdict(asker().post('update', oneWay))).toBe('400 BAD_REQUEST');
    expect(await verdict(there.post('update', { id, name: 'add', isOneWay: true }))).toBe('400 BAD_REQUEST');
    const second = `cart/${store.id('user')}`;
    expect(await answer(there, 'update', { ...oneWay, id: second })).toEqual({ outcome: 'sent' });
    expect(await answer(there, 'update', { ...call, id: second })).toMatchObject({ value: { text: '2' } });
  });

  it('needs definitions in the option entities', () => {
    for (const entities of [cart, [{}], ['cart']])
      expect(() => asker({ entities } as unknown as DashboardOptions)).toThrow(/entities/);
  });

  const group = (page: Page) => page.getByRole('group', { name: 'Questions' });
  const dialog = (page: Page) => page.getByRole('dialog');
  const answered = (page: Page) => dialog(page).getByRole('region', { name: 'Answer' });

  it('have dialogs that show the answers', async () => {
    const id = await basket();
    const page = await open(at(await served({ token: false }), id));
    await group(page).getByRole('button', { name: 'Send an update…' }).click();
    await dialog(page).getByLabel('Name').fill('add');
    await dialog(page).getByLabel('Input').fill('"tea"');
    const send = dialog(page).getByRole('button', { name: 'Send an update' });
    await send.click();
    await answered(page).getByText('"count": 1').waitFor();
    await answered(page)
      .getByText(/^Update ID [0-9a-f-]{36}$/)
      .waitFor();
    await dialog(page).getByLabel('Input').fill('7');
    await send.click();
    await answered(page).getByText('RangeError: an item is a text', { exact: true }).waitFor();
    await dialog(page).getByLabel('Input').fill('{');
    await send.click();
    await dialog(page)
      .getByRole('alert')
      .getByText(/^Input is not JSON/)
      .waitFor();
    await dialog(page).getByLabel('Input').fill('');
    await dialog(page).getByLabel('Name').fill('perdure.entity');
    await send.click();
    await dialog(page)
      .getByRole('alert')
      .getByText(/must not begin with 'perdure\.'/)
      .waitFor();
    await dialog(page).getByRole('button', { name: 'Close' }).click();
    // The names of earlier updates are suggested.
    await group(page).getByRole('button', { name: 'Send an update…' }).click();
    await dialog(page).locator('option[value=add]').waitFor({ state: 'attached' });
    await dialog(page).getByRole('button', { name: 'Close' }).click();

    await group(page).getByRole('button', { name: 'Query…' }).click();
    await dialog(page).getByLabel('Name').fill('items');
    await dialog(page).getByRole('button', { name: 'Query' }).click();
    await answered(page).getByText('"tea"').waitFor();
    expect(await answered(page).getByText('Update ID').count()).toBe(0);
    await dialog(page).getByRole('button', { name: 'Close' }).click();

    await store.client.terminateInstance(id);
    await group(page).getByRole('button', { name: 'Send an update…' }).waitFor({ state: 'detached' });
    await group(page).getByRole('button', { name: 'Query…' }).waitFor();
    const quiet = await open(at(await served({ token: false, readOnly: true }), id));
    await group(quiet).getByRole('button', { name: 'Query…' }).waitFor();
    expect(await group(quiet).getByRole('button').count()).toBe(1);
  });

  // Node 20 collects the signal of `AbortSignal.timeout` as garbage if only `AbortSignal.any` refers to it, and the
  // request then waited for ever.
  it.runIf(kind === ANY_STORE)(
    'say when there is no answer in time, and wait again',
    { timeout: 120_000 },
    async () => {
      const id = await basket();
      const page = await open(at(await served({ token: false }), id));
      await group(page).getByRole('button', { name: 'Send an update…' }).click();
      await dialog(page).getByLabel('Name').fill('wait');
      const send = dialog(page).getByRole('button', { name: 'Send an update' });
      const field = dialog(page).getByLabel('Update ID');
      await send.click();
      await answered(page)
        .getByText(/^There is no answer yet/)
        .waitFor();
      expect(await field.inputValue()).toMatch(/^[0-9a-f-]{36}$/);
      await store.client.raiseEvent(id, 'go', 'late');
      await send.click();
      await answered(page).getByText('"late"').waitFor();
      expect(await field.inputValue()).toBe('');
      await store.client.terminateInstance(id);
    },
  );

  it('have dialogs for the calls and reads of an entity', async () => {
    await store.start(register);
    const id = `cart/${store.id('user')}`;
    await store.client.entity(cart, id.slice(5)).add('tea');
    const page = await open(at(await served({ token: false, entities: [cart] }), id));
    await group(page).getByRole('button', { name: 'Read…' }).waitFor();
    expect(await group(page).getByRole('button').allTextContents()).toEqual(['Call…', 'Read…']);
    await group(page).getByRole('button', { name: 'Call…' }).click();
    await dialog(page).locator('option[value=clear]').waitFor({ state: 'attached' });
    await dialog(page).getByLabel('Handler').fill('add');
    await dialog(page).getByLabel('Input').fill('"cups"');
    await dialog(page).getByRole('button', { name: 'Call' }).click();
    await answered(page).getByText('2', { exact: true }).waitFor();
    await dialog(page).getByRole('button', { name: 'Close' }).click();
    await group(page).getByRole('button', { name: 'Read…' }).click();
    await dialog(page).getByLabel('Name of the read').fill('items');
    await dialog(page).getByRole('button', { name: 'Read', exact: true }).click();
    await answered(page).getByText('"cups"').waitFor();

    // Without the definition, the calls in the history show that it is an entity.
    const plain = await open(at(await served({ token: false }), id));
    await group(plain).getByRole('button', { name: 'Call…' }).click();
    await dialog(plain).locator('option[value=add]').waitFor({ state: 'attached' });
    await dialog(plain).getByLabel('Handler').fill('clear');
    await dialog(plain).getByRole('button', { name: 'Call' }).click();
    await answered(plain).getByText('undefined').waitFor();
    await plain.getByRole('group', { name: 'Value state' }).getByText('"items": []').waitFor();
  });

  it.runIf(kind === ANY_STORE)('have a dialog for an entity that is not there yet', { timeout: 120_000 }, async () => {
    await store.start(register);
    const url = await served({ token: false, entities: [cart] });
    for (const [n, options] of LOOKS.entries()) {
      const key = store.id('user');
      const page = await open(`${url}#/instances`, options);
      await page.getByRole('button', { name: 'Call an entity…' }).focus();
      await page.keyboard.press('Enter');
      expect(await dialog(page).getByRole('combobox', { name: 'Entity' }).inputValue()).toBe('cart');
      await dialog(page).getByLabel('Key').fill(key);
      await dialog(page).locator('option[value=clear]').waitFor({ state: 'attached' });
      await dialog(page).getByLabel('Handler').fill('ad');
      await dialog(page).getByLabel('Input').fill('"tea"');
      await dialog(page).getByLabel('Key').press('Enter');
      await dialog(page).getByRole('alert').getByText(`has no handler 'ad'; it has add, clear`).waitFor();
      await dialog(page).getByLabel('Handler').fill('add');
      await dialog(page).getByLabel('One way').selectOption('true');
      expect(await dialog(page).getByLabel('Update ID').count()).toBe(0);
      await dialog(page).getByRole('button', { name: 'Call', exact: true }).click();
      await answered(page).getByText('The call is stored.').waitFor();
      await dialog(page).getByLabel('One way').selectOption('');
      await dialog(page).getByRole('button', { name: 'Call', exact: true }).click();
      await answered(page).getByText('2', { exact: true }).waitFor();
      expect(await obstacles(page)).toEqual([]);
      expect(await overflow(page)).toBe(0);
      if (n > 0) continue;
      await dialog(page)
        .getByRole('link', { name: `cart/${key}` })
        .click();
      await page.getByRole('heading', { name: `cart/${key}`, level: 1 }).waitFor();
    }
    const quiet = await open(`${await served({ token: false, entities: [cart], readOnly: true })}#/instances`);
    await quiet.getByText('read-only').waitFor();
    expect(await quiet.getByRole('button', { name: 'Call an entity…' }).count()).toBe(0);
  });

  it.runIf(kind === ANY_STORE)(
    'have accessible dialogs in both themes and in a narrow window',
    { timeout: 120_000 },
    async () => {
      const id = await basket();
      const url = await served({ token: false });
      for (const options of LOOKS) {
        const page = await open(at(url, id), options);
        await group(page).getByRole('button', { name: 'Send an update…' }).click();
        await dialog(page).getByLabel('Name').fill('add');
        await dialog(page)
          .getByLabel('Input')
          .fill(JSON.stringify('y'.repeat(300)));
        await dialog(page).getByRole('button', { name: 'Send an update' }).click();
        await answered(page).getByText('Update ID').waitFor();
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
        await dialog(page).getByLabel('Name').fill('pack');
        await dialog(page).getByRole('button', { name: 'Send an update' }).click();
        await answered(page).getByText('Caused by').waitFor();
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
      }
      await store.client.terminateInstance(id);
    },
  );
});
