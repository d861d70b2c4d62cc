// Locks: blocks that hold permits, of locks with a name and of entities.

import {
  defineActivity,
  defineEntity,
  defineLock,
  defineOrchestration,
  type EntityAddress,
  LimitError,
  type LockDefinition,
  type Runtime,
  RuntimeStateError,
} from 'perdure';
import * as free from 'perdure/orchestration';
import { describe, expect, it } from 'vitest';

import { eventually, rejection } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const WITHIN_MS = 20_000;

/** The most calls of `inside` that ran at once, and the order in which they began, by the name of the lock. */
const seen = new Map<string, { now: number; most: number; order: unknown[] }>();

const inside = defineActivity('inside', async (_ctx, { name, who }: { name: string; who: unknown }) => {
  const lock = seen.get(name) ?? { now: 0, most: 0, order: [] };
  seen.set(name, lock);
  lock.now += 1;
  lock.most = Math.max(lock.most, lock.now);
  lock.order.push(who);
  // Other work of the event loop comes between.
  await new Promise((resolve) => setImmediate(resolve));
  lock.now -= 1;
});

const account = defineEntity('bank account', {
  initial: () => ({ sum: 0, lines: [] as string[] }),
  handlers: {
    *add(ctx, [by, line]: [by: number, line: string]) {
      ctx.state.lines.push(line);
      ctx.state.sum += by;
      return ctx.state.sum;
    },
    *hold(ctx) {
      yield* ctx.waitForEvent('release');
    },
    *lockItself(ctx) {
      yield* ctx.lock([addressOf(ctx.key)], function* () {});
    },
    *lockOther(ctx, key: string) {
      return yield* ctx.lock(addressOf(key), function* () {
        return 'locked';
      });
    },
  },
  reads: { sum: ({ sum }) => sum, lines: ({ lines }) => lines },
});

/** Returns an address with the type that the handlers need. */
function addressOf(key: string): EntityAddress {
  return account.at(key);
}

/** Says `who` in the block, and waits for the event `go` in it. */
const waiter = defineOrchestration('waiter', function* (ctx, { name, who }: { name: string; who: string }) {
  return yield* ctx.lock(name, function* () {
    try {
      yield* ctx.call(inside, { name, who });
      // An instance that is terminated runs its activity to the end. None is left running from here on.
      ctx.setCustomStatus('in');
      const how = yield* ctx.waitForEvent<string>('go');
      if (how === 'throw') throw new RangeError('as told');
      if (how === 'continue') yield* ctx.continueAsNew({ name: `${name} again`, who });
      return how;
    } finally {
      // The lock is held until the cleanup has ended.
      yield* ctx.call(inside, { name, who: `${who} leaves` });
    }
  });
});

const quick = defineOrchestration('quick', function* (_ctx, { lock, n }: { lock: LockDefinition; n: number }) {
  return yield* free.lock(lock, function* () {
    yield* free.call(inside, { name: lock.name, who: n });
    return n;
  });
});

interface Transfer {
  readonly from: string;
  readonly to: string;
  readonly amount: number;
}

const transfer = defineOrchestration('transfer', function* (ctx, { from, to, amount }: Transfer) {
  return yield* ctx.lock([account.at(from), account.at(to)], function* () {
    const source = ctx.entity(account, from);
    if ((yield* source.sum()) < amount) return false;
    yield* source.add([-amount, ctx.instanceId]);
    yield* ctx.entity(account, to).add([amount, ctx.instanceId]);
    return true;
  });
});

/** Calls a locked account in each way. */
const visitor = defineOrchestration('visitor', function* (ctx, key: string) {
  const mine = ctx.entity(account, key);
  let late: free.FiberFuture<unknown> | undefined;
  const answers = yield* ctx.lock(account.at(key), function* () {
    ctx.setCustomStatus('in');
    yield* ctx.waitForEvent('go');
    const first = yield* mine.add([1, 'called']);
    yield* mine.send.add([1, 'sent']);
    yield* mine.send.add([1, 'sent again']);
    late = ctx.spawn(function* afterwards() {
      yield* ctx.waitForEvent('late');
      return yield* mine.add([1, 'late']);
    });
    return [first, yield* ctx.all([mine.add([0, 'one']), mine.add([0, 'two'])])];
  });
  ctx.setCustomStatus('out');
  const [outcome] = yield* ctx.allSettled([late as free.FiberFuture<unknown>]);
  return [answers, outcome?.status === 'rejected' ? String(outcome.reason) : outcome];
});

function register(runtime: Runtime): void {
  runtime.register(inside, account, waiter, quick, transfer, visitor);
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Returns a name that no lock of another test or store has. */
  const lockName = (what: string): string => store.id(`${what} of ${kind.name}`);

  async function isIn(id: string): Promise<void> {
    await eventually(WITHIN_MS, `${id} is in its block`, async () => {
      return (await store.client.getStatus(id))?.customStatus === 'in';
    });
  }

  /** Resolves when a number of blocks wait for a lock with a name. */
  async function waiting(name: string, count: number): Promise<void> {
    await eventually(WITHIN_MS, `${count} wait for ${name}`, async () => {
      const shown = await store.client.getState(`perdure.lock/${name}`, 'lock');
      return (shown?.value as { waiting: number } | undefined)?.waiting === count;
    });
  }

  it.each([1, 3])('of a lock with %i permits, as many blocks run at a time', async (permits) => {
    await store.start(register);
    await store.start(register);
    const lock = defineLock(lockName('printers'), { permits });
    const numbers = Array.from({ length: 30 }, (_, n) => n);
    const runs = await Promise.all(numbers.map((n) => store.client.start(quick, { lock, n })));
    expect(await Promise.all(runs.map((run) => run.result({ timeout: SOON })))).toEqual(numbers);
    const { most = 0, order = [] } = seen.get(lock.name) ?? {};
    expect(most).toBeLessThanOrEqual(permits);
    expect(order.toSorted((a, b) => Number(a) - Number(b))).toEqual(numbers);
  });

  it('blocks get a lock in the order in which they asked, and keep it until they have cleaned up', async () => {
    await store.start(register);
    const name = lockName('lock');
    const ids = ['returns', 'throws', 'is cancelled', 'is terminated', 'is suspended', 'continues', 'waits', 'ends'];
    const handles = new Map<string, Awaited<ReturnType<typeof start>>>();
    const start = (who: string) => store.client.start(waiter, { name, who }, { id: store.id(who) });
    for (const [n, who] of ids.entries()) {
      handles.set(who, await start(who));
      if (n === 0) await isIn(of(who).id);
      else await waiting(name, n);
    }
    function of(who: string) {
      const handle = handles.get(who);
      if (handle === undefined) throw new Error(who);
      return handle;
    }
    await store.client.raiseEvent(of('returns').id, 'go', 'returned');
    expect(await of('returns').result({ timeout: SOON })).toBe('returned');
    await isIn(of('throws').id);
    await store.client.raiseEvent(of('throws').id, 'go', 'throw');
    await expect(of('throws').result({ timeout: SOON })).rejects.toThrow('as told');
    await isIn(of('is cancelled').id);
    await of('is cancelled').cancel();
    await isIn(of('is terminated').id);
    expect(await of('is cancelled').status()).toMatchObject({ status: 'Cancelled' });
    await of('is terminated').terminate();
    await isIn(of('is suspended').id);
    await store.client.suspend(of('is suspended').id);
    // One that waits can leave: it is passed over.
    await of('waits').cancel();
    await expect(of('waits').result({ timeout: SOON })).rejects.toThrow();
    await store.client.resume(of('is suspended').id);
    await store.client.raiseEvent(of('is suspended').id, 'go', 'resumed');
    expect(await of('is suspended').result({ timeout: SOON })).toBe('resumed');
    await isIn(of('continues').id);
    await store.client.raiseEvent(of('continues').id, 'go', 'continue');
    await isIn(of('ends').id);
    await store.client.raiseEvent(of('ends').id, 'go', 'last');
    expect(await of('ends').result({ timeout: SOON })).toBe('last');
    await waiting(name, 0);
    const held = ['returns', 'throws', 'is cancelled', 'is terminated', 'is suspended', 'continues', 'ends'];
    // No cleanup comes after a termination, nor after a `continueAsNew`.
    const isCut = (who: string) => who === 'is terminated' || who === 'continues';
    const leaves = (who: string) => (isCut(who) ? [who] : [who, `${who} leaves`]);
    const { most, order } = seen.get(name) ?? {};
    expect(order).toEqual(held.flatMap(leaves));
    expect(most).toBe(1);
    await of('continues').terminate();
  });

  it('a locked entity takes the calls of the block alone, and the others wait', async () => {
    await store.start(register);
    const key = store.id('account');
    const mine = store.client.entity(account, key);
    await mine.add([10, 'before']);
    const visit = await store.client.start(visitor, key);
    await isIn(visit.id);
    const others = [mine.add([100, 'other']), mine.send.add([100, 'one-way'])];
    await eventually(WITHIN_MS, 'the call was taken', async () => {
      const history = await store.client.getHistory(`bank account/${key}`);
      return history.filter((event) => JSON.stringify(event).includes('other')).length > 0;
    });
    expect(await mine.lines()).toEqual(['before']);
    expect((await store.client.getState(`bank account/${key}`, 'lock'))?.value).toMatchObject({ by: visit.id });
    await visit.raiseEvent('go');
    await eventually(WITHIN_MS, 'the block has ended', async () => (await visit.status())?.customStatus === 'out');
    expect(await others[0]).toBe(113);
    await visit.raiseEvent('late');
    const late = `RuntimeStateError: the block that called entity 'bank account/${key}' holds its lock no longer`;
    expect(await visit.result({ timeout: SOON })).toEqual([[11, [13, 13]], late]);
    await eventually(WITHIN_MS, 'all came', async () => (await mine.sum()) === 213);
    const lines = await mine.lines();
    expect(lines.slice(0, 2)).toEqual(['before', 'called']);
    expect(lines.slice(2, 6).toSorted()).toEqual(['one', 'sent', 'sent again', 'two']);
    expect(lines.slice(6)).toEqual(['other', 'one-way']);
    expect(await store.client.getState(`bank account/${key}`, 'lock')).toBeNull();
  });

  it('blocks that lock the same entities in different orders do not wait for each other for ever', async () => {
    await store.start(register);
    await store.start(register);
    const keys = ['a', 'b', 'c'].map((key) => store.id(key));
    for (const key of keys) await store.client.entity(account, key).add([100, 'first']);
    const transfers = Array.from({ length: 60 }, (_, n) => ({
      from: keys[n % 3] as string,
      to: keys[(n * 5 + 1) % 3] as string,
      amount: n,
    }));
    const runs = await Promise.all(transfers.map((input) => store.client.start(transfer, input)));
    const done = await Promise.all(runs.map((run) => run.result({ timeout: SOON })));
    const sums = await Promise.all(keys.map((key) => store.client.entity(account, key).sum()));
    const expected = new Map(keys.map((key) => [key, 100]));
    for (const [n, { from, to, amount }] of transfers.entries()) {
      if (!done[n]) continue;
      expected.set(from, (expected.get(from) ?? 0) - amount);
      expected.set(to, (expected.get(to) ?? 0) + amount);
    }
    expect(sums).toEqual([...expected.values()]);
    expect(Math.min(...sums)).toBeGreaterThanOrEqual(0);
    expect(done.filter(Boolean).length).toBeGreaterThan(10);
  });

  it('the histories of a lock and of an entity are bounded, and those that wait keep their turn', async () => {
    await store.start(register);
    const lock = defineLock(lockName('busy'));
    const key = store.id('busy');
    const numbers = Array.from({ length: 400 }, (_, n) => n);
    const runs = await Promise.all([
      ...numbers.map((n) => store.client.start(quick, { lock, n })),
      ...numbers.map((amount) => store.client.start(transfer, { from: key, to: key, amount })),
    ]);
    await Promise.all(runs.map((run) => run.result({ timeout: '150s' })));
    for (const id of [`perdure.lock/${lock.name}`, `bank account/${key}`]) {
      const status = await store.client.getStatus(id);
      expect(status).toMatchObject({ status: 'Running' });
      expect(status?.executionId).toBeGreaterThan(1);
      expect((await store.client.getHistory(id)).length).toBeLessThan(1_500);
    }
    expect(seen.get(lock.name)?.most).toBe(1);
    // The last block has ended before the lock learns that it is free.
    await expect
      .poll(async () => (await store.client.getState(`perdure.lock/${lock.name}`, 'lock'))?.value)
      .toEqual({ holders: [], waiting: 0 });
  }, 180_000);

  it('a lock outlives the deletion of its entity', async () => {
    await store.start(register);
    const key = store.id('deleted');
    const mine = store.client.entity(account, key);
    const first = await store.client.start(visitor, key);
    await isIn(first.id);
    const deletion = mine.delete();
    const second = await store.client.start(visitor, key);
    await first.raiseEvent('go');
    await deletion;
    await isIn(second.id);
    await second.raiseEvent('go');
    for (const visit of [first, second]) {
      await eventually(WITHIN_MS, 'its block has ended', async () => (await visit.status())?.customStatus === 'out');
      await visit.raiseEvent('late');
    }
    expect(await second.result({ timeout: SOON })).toMatchObject([[1, [3, 3]], expect.anything()]);
    // Deletions and locks in any order.
    const moves = Array.from({ length: 20 }, () => store.client.start(transfer, { from: key, to: key, amount: 0 }));
    const runs = await Promise.all(moves);
    const deletions = runs.map(() => mine.delete());
    await Promise.allSettled(deletions);
    for (const run of runs) expect(await run.result({ timeout: SOON })).toBe(true);
  });

  it('a block whose holder was stopped is cancelled, and its lock is free', async () => {
    await store.start(register);
    const name = lockName('stopped');
    for (const stop of ['cancelInstance', 'terminateInstance'] as const) {
      const run = await store.client.start(waiter, { name, who: stop });
      await isIn(run.id);
      const { children } = await store.client.tree(run.id);
      await store.client[stop](children[0]?.instance.id as string);
      const error = await run.result({ timeout: SOON }).catch((error: unknown) => error);
      expect(error).toBeInstanceOf(RuntimeStateError);
      expect((error as Error).message).toContain(`the lock of 'perdure.lock/${name}' was lost`);
      expect(seen.get(name)?.order.at(-1)).toBe(`${stop} leaves`);
    }
    await store.client.start(quick, { lock: defineLock(name), n: 1 }).then((run) => run.result({ timeout: SOON }));
  });

  it('a block whose lock cannot be asked for fails with the reason', async () => {
    await store.start(register, { limits: { mailboxMessages: 1 } });
    // Nobody runs this entity, so its messages stay unread.
    const unserved = defineEntity('unserved', { initial: () => 0, handlers: { *add() {} } });
    const full = defineOrchestration('full', function* (ctx, key: string) {
      yield* ctx.lock(['before', unserved.at(key)], function* () {});
    });
    await store.start((runtime) => runtime.register(full), { limits: { mailboxMessages: 1 } });
    const key = store.id('unserved');
    await store.client.entity(unserved, key).send.add();
    const error = await rejection((await store.client.start(full, key)).result({ timeout: SOON }));
    expect(error).toBeInstanceOf(LimitError);
    expect(error.message).toContain(`'unserved/${key}' has reached its limit of 1 unread messages`);
    await waiting('before', 0);
    await store.client.terminateInstance(`unserved/${key}`);
  });

  it('a block takes all its locks at once, and an entity cannot lock itself', async () => {
    const nested = defineOrchestration('nested', function* (ctx) {
      yield* ctx.lock(['a', 'b'], function* () {
        yield* ctx.lock('c', function* () {});
      });
    });
    await store.start((runtime) => {
      register(runtime);
      runtime.register(nested);
    });
    const run = await store.client.start(nested);
    await expect(run.result({ timeout: SOON })).rejects.toThrow(
      "ctx.lock was called in a block that holds 'perdure.lock/a', 'perdure.lock/b': take all locks in one call",
    );
    const [key, other] = [store.id('self'), store.id('other')];
    const self = store.client.entity(account, key);
    await expect(self.lockItself()).rejects.toThrow(`entity 'bank account/${key}' cannot lock itself`);
    expect(await self.lockOther(other)).toBe('locked');
  });

  it('built-in instances are in lists if they are asked for', async () => {
    await store.start(register);
    const lock = defineLock(store.id('listed'));
    await (await store.client.start(quick, { lock, n: 1 })).result({ timeout: SOON });
    const names = async (filter: object): Promise<Set<string>> => {
      const found = new Set<string>();
      for await (const { name } of store.client.listInstances(filter)) found.add(name);
      return found;
    };
    const builtIn = (found: Set<string>) => [...found].filter((name) => name.startsWith('perdure.')).toSorted();
    expect(builtIn(await names({}))).toEqual([]);
    expect(builtIn(await names({ status: ['Completed', 'Running'] }))).toEqual([]);
    expect(builtIn(await names({ system: true }))).toEqual(['perdure.lock', 'perdure.lock.holder']);
    expect(await names({ name: 'perdure.lock' })).toEqual(new Set(['perdure.lock']));
    expect(await names({ ids: [`perdure.lock/${lock.name}`] })).toEqual(new Set(['perdure.lock']));
    await eventually(WITHIN_MS, 'the holders have ended', async () => {
      return !(await names({ system: true, status: ['Pending', 'Running'] })).has('perdure.lock.holder');
    });
    await store.client.prune({ system: false });
    expect(builtIn(await names({ system: true }))).toEqual(['perdure.lock', 'perdure.lock.holder']);
    await store.client.prune({});
    expect(builtIn(await names({ system: true }))).toEqual(['perdure.lock']);
    const workers = await store.client.workers();
    const registered = workers.flatMap(({ about }) => about?.registered?.orchestrations ?? []);
    expect(registered.filter(({ name }) => name.startsWith('perdure.'))).toEqual([]);
  });
});
