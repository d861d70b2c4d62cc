// The checks of planted.test.ts, each in a process of its own: `node planted.mjs 'name of the check'`. Runs in plain
// Node with the built package, into which a bug may have been planted.

import assert from 'node:assert/strict';

import {
  Client,
  defineActivity,
  defineEntity,
  defineLock,
  defineOrchestration,
  Runtime,
  SqliteProvider,
} from 'perdure';

const WITHIN_MS = 3_000;
const SOON = '20s';

const step = defineActivity('step', async () => {});

const list = defineEntity('list', {
  initial: () => [],
  handlers: {
    *add(ctx, item) {
      yield* ctx.call(step, undefined);
      if (item < 0) {
        ctx.state.push(item);
        throw new RangeError('only up');
      }
      ctx.state = [...ctx.state, item];
      return ctx.state.length;
    },
  },
  reads: { items: (state) => state },
});

/** The number of blocks that are in the lock now, and the most that were. Activities count: a turn may run twice. */
const inside = { now: 0, most: 0 };

const enter = defineActivity('enter', async () => {
  inside.now += 1;
  inside.most = Math.max(inside.most, inside.now);
});

const leave = defineActivity('leave', async () => {
  inside.now -= 1;
});

const door = defineLock('door');

const visitor = defineOrchestration('visitor', function* (ctx, how) {
  try {
    yield* ctx.lock(door, function* () {
      yield* ctx.call(enter, undefined);
      try {
        if (how === 'throws' || how === 'recovers') throw new Error('on purpose');
        if (how === 'stays') yield* ctx.waitForEvent('go');
      } finally {
        yield* ctx.call(leave, undefined);
      }
    });
  } catch (error) {
    if (how !== 'recovers') throw error;
    ctx.setCustomStatus('recovered');
  }
  if (how === 'lingers' || how === 'recovers') yield* ctx.waitForEvent('go');
});

const asker = defineOrchestration('asker', function* (ctx) {
  const token = ctx.token();
  ctx.setCustomStatus(token.id);
  const answer = yield* token;
  yield* ctx.waitForEvent('end');
  return answer;
});

const provider = await SqliteProvider.inMemory();
const client = new Client(provider);
const runtime = new Runtime(provider, { logLevel: 'silent' });
runtime.register(step, enter, leave, list, visitor, asker);
await runtime.start();

async function eventually(what, isSo) {
  for (const limit = Date.now() + WITHIN_MS; !(await isSo()); await new Promise((resolve) => setTimeout(resolve, 10)))
    assert.ok(Date.now() < limit, `${what} within ${WITHIN_MS} ms`);
}

/** The lock is free in the end, however the blocks ended. */
async function isFree() {
  await eventually('the lock is free', async () => {
    const shown = await client.getState('perdure.lock/door', 'lock');
    return shown !== null && shown.value.holders.length === 0;
  });
}

const CHECKS = {
  async 'each add is kept'() {
    const items = Array.from({ length: 20 }, (_, n) => n);
    await Promise.all(items.map((item) => client.entity(list, 'a').add(item)));
    assert.deepEqual(
      (await client.entity(list, 'a').items()).toSorted((a, b) => a - b),
      items,
    );
  },
  async 'a handler that throws changes nothing'() {
    await client.entity(list, 'b').add(1);
    await assert.rejects(client.entity(list, 'b').add(-1), RangeError);
    await client.entity(list, 'b').add(2);
    assert.deepEqual(await client.entity(list, 'b').items(), [1, 2]);
  },
  async 'one block at a time has the lock'() {
    const runs = await Promise.all(Array.from({ length: 10 }, () => client.start(visitor, 'returns')));
    await Promise.all(runs.map((run) => run.result({ timeout: SOON })));
    assert.equal(inside.most, 1);
  },
  async 'a lock is freed by the end of its block'() {
    await client.start(visitor, 'lingers');
    await isFree();
  },
  async 'a lock is freed by an error'() {
    await assert.rejects((await client.start(visitor, 'throws')).result({ timeout: SOON }));
    await isFree();
    // The end of an orchestration frees its locks, too. This one goes on.
    const run = await client.start(visitor, 'recovers');
    await eventually('it has recovered', async () => (await run.status()).customStatus === 'recovered');
    await isFree();
  },
  async 'a lock is freed by a termination'() {
    const run = await client.start(visitor, 'stays');
    await eventually('it is in its block', () => inside.now === 1);
    await run.terminate();
    await isFree();
  },
  async 'a token needs its secret'() {
    const run = await client.start(asker, undefined);
    await eventually('the token is there', async () => (await run.status()).customStatus !== undefined);
    const { customStatus: id } = await run.status();
    // The first half of an id finds the token. The second half is the secret.
    const other = Buffer.from(id, 'base64url');
    other[31] ^= 1;
    await assert.rejects(client.resolveToken(other.toString('base64url'), 1));
    await client.resolveToken(id, 2);
  },
};

try {
  await CHECKS[process.argv[2]]();
} finally {
  await runtime.shutdown(0);
  await provider.close();
}
