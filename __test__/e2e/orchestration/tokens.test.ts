// Tokens: waits that another party ends, who was given the id.

import {
  type Duration,
  defineActivity,
  defineOrchestration,
  InstanceNotFoundError,
  PayloadError,
  type Runtime,
  RuntimeStateError,
  TimeoutError,
  type TokenInfo,
} from 'perdure';
import * as free from 'perdure/orchestration';
import { describe, expect, it } from 'vitest';

import { eventually, rejection } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const WITHIN_MS = 20_000;

/** The ids that were mailed, by the instance. */
const mailed = new Map<string, string[]>();

const mail = defineActivity('mail', async (ctx, ids: readonly string[]) => {
  mailed.set(ctx.instanceId, [...ids]);
});

const approval = defineOrchestration('approval', function* (ctx, timeout: Duration | undefined) {
  const options = { data: { question: 'may I?' }, ...(timeout === undefined ? {} : { timeout }) };
  const first = ctx.token<{ by: string }>(options);
  const second = free.token();
  yield* ctx.call(mail, [first.id, second.id]);
  ctx.setCustomStatus('mailed');
  const [one, two] = yield* ctx.allSettled([first, second]);
  return [one, two].map((outcome) =>
    outcome.status === 'fulfilled' ? outcome.value : `${outcome.reason.name}: ${outcome.reason.message}`,
  );
});

const careless = defineOrchestration('careless', function* (ctx) {
  const { id } = ctx.token({ data: 'never resolved' });
  yield* ctx.call(mail, [id]);
  yield* ctx.waitForEvent('end');
});

function register(runtime: Runtime): void {
  runtime.register(mail, approval, careless);
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Starts an instance, and returns its handle and the ids of its tokens. */
  async function started(timeout?: Duration) {
    const handle = await store.client.start(approval, timeout, { id: store.id(`approval on ${kind.name}`) });
    await eventually(
      WITHIN_MS,
      'the tokens are mailed',
      async () => (await handle.status())?.customStatus === 'mailed',
    );
    const [first = '', second = ''] = mailed.get(handle.id) ?? [];
    return { handle, first, second };
  }

  async function tokens(options?: object): Promise<TokenInfo[]> {
    const found: TokenInfo[] = [];
    for await (const token of store.client.listTokens(options)) found.push(token);
    return found;
  }

  it('a token gives the value that it is resolved with, or the error that it is rejected with', async () => {
    await store.start(register);
    const { handle, first, second } = await started();
    expect(first).toMatch(/^[\w-]{43}$/);
    expect(second).not.toBe(first);
    await store.client.resolveToken(first, { by: 'ann', at: new Date(0) });
    await store.client.rejectToken(second, new RangeError('too late'));
    expect(await handle.result({ timeout: SOON })).toEqual([{ by: 'ann', at: new Date(0) }, 'RangeError: too late']);
  });

  it('a token is resolved once, by its id alone', async () => {
    await store.start(register);
    const { handle, first, second } = await started();
    const calls = Array.from({ length: 10 }, (_, n) => store.client.resolveToken(first, { by: n }));
    const outcomes = await Promise.allSettled(calls);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(RuntimeStateError);
    const late = await rejection(store.client.rejectToken(first, 'again'));
    expect(late).toBeInstanceOf(RuntimeStateError);
    expect(late.message).toBe('the token was resolved before, has expired, or its orchestration has ended');
    // The same place with another secret, and another place.
    const other = second.endsWith('AAAA') ? 'BBBB' : 'AAAA';
    for (const wrong of [`${second.slice(0, -4)}${other}`, `${other}${second.slice(4)}`]) {
      const error = await rejection(store.client.resolveToken(wrong));
      expect(error).toBeInstanceOf(InstanceNotFoundError);
      expect(error.message).toBe('there is no token of that id');
    }
    for (const wrong of ['', `${second}x`, `${second.slice(1)}.`, undefined, 5])
      expect(await rejection(store.client.resolveToken(wrong as string))).toBeInstanceOf(TypeError);
    expect(await rejection(store.client.resolveToken(second, () => {}))).toBeInstanceOf(PayloadError);
    expect(await rejection(store.client.rejectToken(second, 5 as unknown as string))).toBeInstanceOf(TypeError);
    await store.client.resolveToken(second);
    expect((await handle.result({ timeout: SOON }))?.[1]).toBeUndefined();
  });

  it('a token expires', async () => {
    await store.start(register);
    const { handle, first, second } = await started('1ms');
    await store.client.resolveToken(second, 'in time');
    const expired = `${TimeoutError.name}: the token was not resolved within 1 ms`;
    expect(await handle.result({ timeout: SOON })).toEqual([expired, 'in time']);
    expect(await rejection(store.client.resolveToken(first))).toBeInstanceOf(RuntimeStateError);
  });

  it('a replay has the same tokens, in another process too', async () => {
    const runtime = await store.start(register, { cachedInstancesMax: 0 });
    const { handle, first, second } = await started();
    await store.client.resolveToken(first, { by: 'ann' });
    await runtime.shutdown();
    const late = await rejection(store.client.resolveToken(second, 'after a replay', { timeout: '20ms' }));
    expect(late).toBeInstanceOf(TimeoutError);
    await store.start(register);
    expect(await handle.result({ timeout: SOON })).toEqual([{ by: 'ann' }, 'after a replay']);
  });

  it('lists tell what is open, and what became of the others', async () => {
    await store.start(register);
    const { handle, first, second } = await started('1h');
    const id = handle.id;
    const all = await tokens({ instanceId: id });
    expect(all.map((token) => token.id).toSorted()).toEqual([first, second].toSorted());
    const shown = all.find((token) => token.id === first);
    expect(shown).toMatchObject({ instanceId: id, status: 'open', data: { question: 'may I?' } });
    expect((shown?.expiresAt?.getTime() ?? 0) - (shown?.createdAt.getTime() ?? 0)).toBe(3_600_000);
    expect(all.find((token) => token.id === second)?.data).toBeUndefined();
    await store.client.resolveToken(second);
    expect((await tokens({ open: true, instanceId: id })).map((token) => token.id)).toEqual([first]);
    expect((await tokens({ open: true })).map((token) => token.id)).toContain(first);
    await store.client.rejectToken(first, 'no');
    await handle.result({ timeout: SOON });
    expect(new Set((await tokens({ instanceId: id })).map(({ status }) => status))).toEqual(
      new Set(['resolved', 'rejected']),
    );
  });

  it('a token ends with its orchestration, or when it is stopped', async () => {
    await store.start(register);
    const id = store.id(`careless on ${kind.name}`);
    await store.client.start(careless, undefined, { id });
    await eventually(WITHIN_MS, 'the token is mailed', async () => mailed.has(id));
    await store.client.raiseEvent(id, 'end');
    await store.client.handle(id).result({ timeout: SOON });
    const [token = ''] = mailed.get(id) ?? [];
    await eventually(WITHIN_MS, 'it was cancelled', async () => {
      const [info] = await tokens({ instanceId: id });
      return info?.status === 'cancelled';
    });
    expect(await rejection(store.client.resolveToken(token))).toBeInstanceOf(RuntimeStateError);

    const { handle, second } = await started();
    const { children } = await store.client.tree(handle.id);
    await Promise.all(children.map(({ instance }) => store.client.terminateInstance(instance.id, 'enough')));
    for (const outcome of (await handle.result({ timeout: SOON })) ?? [])
      expect(outcome).toBe('RuntimeStateError: the instance of the token was stopped before the token was resolved');
    expect(await rejection(store.client.resolveToken(second))).toBeInstanceOf(RuntimeStateError);
  });
});
