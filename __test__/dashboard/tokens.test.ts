// The page of the tokens, the actions that end one, and the answers that the page is made of, on a real store.

import type { DashboardOptions } from 'perdure/dashboard';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { ANY_STORE, SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { verdict } from './ask.ts';
import { LOOKS, obstacles, overflow, useBrowser } from './browser.ts';
import { at, serving } from './serving.ts';

const { open } = useBrowser();

/** The input of an orchestration: it makes tokens with these data, and waits for all of them. */
interface Wanted {
  readonly data: readonly unknown[];
  readonly timeout?: string;
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const { asker, served } = serving(store);

  /** Starts an instance that waits for tokens, and returns when they are there. */
  async function waiting({ data, timeout }: Wanted): Promise<string> {
    const id = store.id('checkout');
    await store.start((runtime) =>
      runtime.registerOrchestration('checkout', function* (ctx, wanted: Wanted) {
        const tokens = wanted.data.map((data) =>
          ctx.token({
            ...(data === null ? {} : { data }),
            ...(wanted.timeout === undefined ? {} : { timeout: wanted.timeout as '1h' }),
          }),
        );
        const ended = yield ctx.allSettled(tokens);
        return ended.map((one: any) => one.value ?? one.reason?.message ?? null);
      }),
    );
    await store.client.startOrchestration(id, 'checkout', { data, ...(timeout === undefined ? {} : { timeout }) });
    await eventually(10_000, 'the tokens', async () => (await secretsOf(id)).length === data.length);
    return id;
  }

  /** Returns the ids that resolve the open tokens of an instance. */
  async function secretsOf(instanceId: string): Promise<string[]> {
    const ids: string[] = [];
    for await (const { id } of store.client.listTokens({ open: true, instanceId })) ids.push(id);
    return ids;
  }

  /** Returns the rows of an instance. */
  async function rowsOf(id: string, path = 'tokens', options: DashboardOptions = {}): Promise<any[]> {
    return (await asker(options).get(path)).items.filter(({ instanceId }: any) => instanceId === id);
  }

  it('are listed without the ids that resolve them, whether they are open or have ended', async () => {
    const id = await waiting({ data: [{ total: 12 }], timeout: '1h' });
    const plain = await waiting({ data: [null] });
    const [row] = await rowsOf(id);
    expect(row).toEqual({
      token: expect.stringMatching(/^perdure\.token\/[\w-]{22}$/),
      instanceId: id,
      status: 'open',
      data: { text: '{\n  "total": 12\n}', isWhole: true },
      createdAtMs: expect.any(Number),
      expiresAtMs: row.createdAtMs + 3_600_000,
    });
    expect((await rowsOf(plain))[0]).not.toHaveProperty('data');
    expect((await rowsOf(plain))[0]).not.toHaveProperty('expiresAtMs');
    expect(await rowsOf(id, 'tokens?open=false')).toEqual([]);

    const [[secret = ''], [other = '']] = [await secretsOf(id), await secretsOf(plain)];
    await store.client.resolveToken(secret, 'paid');
    await store.client.terminateInstance(plain);
    await store.client.resolveToken(other).catch(() => {});
    await store.client.waitForOrchestration(id, SOON);
    let ended: any[] = [];
    await eventually(10_000, 'the end', async () => {
      ended = [...(await rowsOf(id, 'tokens?open=false')), ...(await rowsOf(plain, 'tokens?open=false'))];
      return ended.length === 2;
    });
    expect(ended.map(({ status }) => status)).toEqual(['resolved', 'cancelled']);
    expect(ended[0].endedAtMs).toBeGreaterThanOrEqual(row.createdAtMs);

    // Nor are the ids in the histories of the token and of the orchestration.
    const paths = [
      'tokens?open=false',
      ...[id, row.token].flatMap((of) => [`history?id=${of}`, `instance?id=${of}`, `value?id=${of}&event=1`]),
      `value?id=${id}&event=2`,
      `value?id=${id}&event=3`,
    ];
    for (const path of paths) {
      const answer = await (await asker().ask(`api/v1/${path}`)).text();
      expect(answer, path).not.toContain(secret);
      expect(answer, path).not.toMatch(/tokenKey.[0-9a-f]/);
    }
    expect(JSON.parse((await asker().get(`value?id=${row.token}&event=1`)).text)).toEqual({
      id: '(hidden)',
      timeoutMs: 3_600_000,
      data: { total: 12 },
    });
  });

  it('are listed page by page, with redacted data', async () => {
    const id = await waiting({ data: [1, 2, 3] });
    const first = await asker().get('tokens?limit=2');
    const second = await asker().get(`tokens?limit=2&cursor=${first.cursor}`);
    expect([first.items.length, second.items[0].instanceId]).toEqual([2, id]);
    const redact: DashboardOptions['redact'] = (value, { kind, name, instanceId }) =>
      kind === 'input' && name === 'perdure.token' && instanceId === id && value === 2 ? undefined : `${value} hidden`;
    const texts = (await rowsOf(id, 'tokens', { redact })).map(({ data }) => data?.text);
    expect(texts.sort()).toEqual(['"1 hidden"', '"3 hidden"', undefined]);
    for (const path of ['tokens?open=yes', 'tokens?cursor=x', 'tokens?limit=0', 'tokens?limit=201', 'tokens?id=x'])
      expect(await verdict(asker().ask(`api/v1/${path}`)), path).toBe('400 BAD_REQUEST');
    await store.client.terminateInstance(id);
  });

  it('are resolved and rejected by the instance that each is', async () => {
    const id = await waiting({ data: [1, 2] });
    const other = await waiting({ data: [3] });
    const there = asker();
    const [{ token: later }, { token }] = (await rowsOf(id)).sort((a, b) => b.data.text - a.data.text) as [any, any];
    for (const [body, expected] of [
      [{ id, token, value: 1, more: 2 }, '400 BAD_REQUEST'],
      [{ id }, '400 BAD_REQUEST'],
      [{ id, token: 7 }, '400 BAD_REQUEST'],
      [{ id: other, token }, '404 TOKEN_NOT_FOUND'],
      [{ id, token: other }, '404 TOKEN_NOT_FOUND'],
      [{ id, token: 'perdure.token/nobody' }, '404 TOKEN_NOT_FOUND'],
      [{ id, token: (await secretsOf(id))[0] }, '404 TOKEN_NOT_FOUND'],
    ] as const)
      expect(await verdict(there.post('resolveToken', body)), JSON.stringify(body)).toBe(expected);
    expect(await verdict(there.post('rejectToken', { id, token: later }))).toBe('400 BAD_REQUEST');

    expect(await (await there.post('resolveToken', { id, token, value: { by: 'ada' } })).json()).toEqual({ id });
    expect(await verdict(there.post('resolveToken', { id, token }))).toBe('409 RUNTIME_STATE');
    expect(await verdict(there.post('rejectToken', { id, token: later, message: 'too late' }))).toBe('200');
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([{ by: 'ada' }, 'too late']);
    await store.client.terminateInstance(other);
  });

  it('are ended as the guard allows, which is asked about the instance that waits', async () => {
    const id = await waiting({ data: [1] });
    const [{ token }] = (await rowsOf(id)) as [any];
    const asked: unknown[] = [];
    const there = asker({
      authorize(_, action, instanceId) {
        asked.push([action, instanceId]);
        return action === 'resolveToken';
      },
    });
    expect(await verdict(there.ask('api/v1/tokens'))).toBe('403 NOT_AUTHORIZED');
    expect(await verdict(there.post('rejectToken', { id, token, message: 'no' }))).toBe('403 NOT_AUTHORIZED');
    for (const action of ['resolveToken', 'rejectToken']) {
      const body = { id, token, message: 'no' };
      expect(await verdict(asker({ readOnly: true }).post(action, body))).toBe('403 READ_ONLY');
      expect(await verdict(there.post(action, body, { headers: { 'content-type': 'application/json' } }))).toBe(
        '403 ACTION_HEADER',
      );
    }
    // An update of Perdure's own would go around these rights.
    const input = { id: (await secretsOf(id))[0], outcome: { kind: 'resolved' } };
    expect(await verdict(asker().post('update', { id: token, name: 'perdure.token', input }))).toBe('400 BAD_REQUEST');
    expect(await verdict(there.post('resolveToken', { id, token }))).toBe('200');
    expect(asked).toEqual([
      ['read', undefined],
      ['rejectToken', id],
      ['resolveToken', id],
    ]);
    await store.client.waitForOrchestration(id, SOON);
  });

  const row = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text });
  const dialog = (page: Page) => page.getByRole('dialog');

  it('have a page that resolves and rejects them, and shows those that have ended', async () => {
    const id = await waiting({ data: [{ question: 'first?' }, { question: 'second?' }], timeout: '2h' });
    const secrets = await secretsOf(id);
    const page = await open(await served({ token: false }));
    await page.getByRole('link', { name: 'Tokens' }).click();
    const first = row(page, 'first?');
    await first.getByText(/^in 1 h 59 min$/).waitFor();
    await first.getByRole('button', { name: 'Resolve' }).click();
    await dialog(page).getByLabel('Value').fill('{"ok":');
    await dialog(page).getByRole('button', { name: 'Resolve' }).click();
    await dialog(page)
      .getByRole('alert')
      .getByText(/^Value is not JSON/)
      .waitFor();
    await dialog(page).getByLabel('Value').fill('{"ok":true}');
    await dialog(page).getByRole('button', { name: 'Resolve' }).click();
    await page.getByRole('status').getByText('The token was resolved.').waitFor();
    await first.waitFor({ state: 'detached' });
    await row(page, 'second?').getByRole('button', { name: 'Reject' }).click();
    await dialog(page).getByLabel('Message').fill('not today');
    await dialog(page).getByRole('button', { name: 'Reject' }).click();
    await page.getByRole('status').getByText('The token was rejected.').waitFor();
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual([{ ok: true }, 'not today']);

    await page.getByLabel('Ended').check();
    await first.getByText('resolved', { exact: true }).waitFor();
    await row(page, 'second?').getByText('rejected', { exact: true }).waitFor();
    expect(await page.getByRole('button', { name: 'Resolve' }).count()).toBe(0);
    expect(await page.content()).not.toContain(secrets[0]);
    await first.getByRole('link', { name: 'Details' }).click();
    await page.getByRole('heading', { name: /^perdure\.token/, level: 1 }).waitFor();
    expect(page.url()).not.toContain(secrets[0]);
    await page.goBack();
    await first.getByRole('link', { name: id, exact: true }).click();
    await page.getByRole('heading', { name: id, level: 1 }).waitFor();
  });

  it('say why one cannot be resolved, and have no buttons where the dashboard is read-only', async () => {
    const id = await waiting({ data: [{ question: 'gone?' }] });
    const page = await open(`${await served({ token: false })}#/tokens`);
    await row(page, 'gone?').getByRole('button', { name: 'Resolve' }).click();
    await store.client.resolveToken((await secretsOf(id))[0] ?? '', 1);
    await dialog(page).getByRole('button', { name: 'Resolve' }).click();
    await dialog(page)
      .getByRole('alert')
      .getByText(/^the token was resolved before/)
      .waitFor();

    const still = await waiting({ data: [{ question: 'there?' }] });
    const quiet = await open(`${await served({ token: false, readOnly: true })}#/tokens`);
    await row(quiet, 'there?').getByRole('link', { name: 'Details' }).waitFor();
    expect(await quiet.getByRole('button', { name: 'Resolve' }).count()).toBe(0);
    await store.client.terminateInstance(still);
  });

  it('go from page to page and back', async () => {
    const id = await waiting({ data: Array.from({ length: 51 }, (_, n) => n) });
    const page = await open(`${await served({ token: false })}#/tokens`);
    await page.getByText('Page 1: 50 tokens').waitFor();
    await page.getByRole('button', { name: 'Older' }).click();
    await page.getByText(/^Page 2: \d+ tokens$/).waitFor();
    await page.getByRole('button', { name: 'Newer' }).click();
    await page.getByText('Page 1: 50 tokens').waitFor();
    await store.client.terminateInstance(id);
  });

  it.runIf(kind === ANY_STORE)(
    'have an accessible page in both themes and in a narrow window',
    { timeout: 120_000 },
    async () => {
      const id = await waiting({ data: [{ question: 'y'.repeat(300) }, null], timeout: '1h' });
      const url = await served({ token: false });
      for (const options of LOOKS) {
        const page = await open(`${url}#/tokens`, options);
        await page.getByRole('link', { name: id, exact: true }).first().waitFor();
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
        await row(page, 'yyy').getByRole('button', { name: 'Resolve' }).click();
        expect(await obstacles(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
        const [{ token }] = (await rowsOf(id)) as [any];
        await page.goto(at(url, token));
        await page.getByRole('heading', { name: token, level: 1 }).waitFor();
        expect(await page.getByRole('group', { name: 'Questions' }).count()).toBe(0);
      }
      await store.client.terminateInstance(id);
    },
  );
});
