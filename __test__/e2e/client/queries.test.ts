// Queries: questions to the variables of an instance.

import {
  Client,
  DeterminismError,
  defineActivity,
  defineOrchestration,
  defineQuery,
  defineUpdate,
  InstanceNotFoundError,
  NondeterminismError,
  NotRegisteredError,
  type OrchestrationDefinition,
  PayloadError,
  Runtime,
  TimeoutError,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { deferred, rejection } from '../../support/async.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const sum = defineQuery<undefined, number>('sum');
const over = defineQuery<number, boolean>('over');
const add = defineUpdate<number, number>('add');

const same = defineActivity('same', async (_ctx, value: number) => value);

/** A sum that updates add to. The event `end` ends it, and `again` lets it continue as new. */
const total = defineOrchestration('total', function* (ctx, from: number): Generator<any, number, any> {
  let value = from;
  const list = [{ value }];
  ctx.onQuery(sum, () => value);
  ctx.onQuery(over, (limit) => {
    if (limit < 0) throw new RangeError('only up');
    return value > limit;
  });
  ctx.onQuery('list', () => list);
  ctx.onQuery('schedules', () => void ctx.call(same, 1));
  ctx.onQuery('sets', () => void ctx.state.set('a', 1));
  ctx.onQuery('waits', () => ctx.sleep('1s'));
  ctx.onQuery('later', () => Promise.resolve(1));
  ctx.onQuery('fiber', function* () {});
  ctx.onQuery('unstorable', () => () => {});
  ctx.onUpdate(add, function* (by) {
    const more = yield* ctx.call(same, by);
    value += more;
    return value;
  });
  const { index } = yield* ctx.race(ctx.waitForEvent('end'), ctx.waitForEvent('again'));
  yield* ctx.finishUpdates();
  if (index === 1) yield* ctx.continueAsNew(value);
  value += 1_000;
  return value;
});

function register(runtime: Runtime): void {
  runtime.register(total, same);
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  async function started(from = 0): Promise<string> {
    const { id } = await store.client.start(total, from, { id: store.id('total') });
    return id;
  }

  it('a query is answered by the variables, as they are after each answered update', async () => {
    await store.start(register);
    const id = await started(5);
    expect(await store.client.query(id, sum)).toBe(5);
    for (let by = 1; by <= 5; by += 1) {
      const answer = await store.client.update(id, add, by);
      expect(await store.client.query(id, sum)).toBe(answer);
    }
    const handle = store.client.handle(total, id);
    expect([await handle.query(over, 19), await handle.query(over, 20)]).toEqual([true, false]);
  });

  it('an instance that has ended, or continued as new, answers', async () => {
    await store.start(register);
    const id = await started(5);
    await store.client.update(id, add, 1);
    await store.client.raiseEvent(id, 'again');
    expect(await store.client.update(id, add, 1)).toBe(7);
    expect(await store.client.query(id, sum)).toBe(7);
    await store.client.raiseEvent(id, 'end');
    await store.client.waitForOrchestration(id, SOON);
    expect(await store.client.query(id, sum)).toBe(1_007);
  });

  it('an instance that is suspended answers', async () => {
    await store.start(register);
    const id = await started(5);
    await store.client.update(id, add, 1);
    await store.client.suspend(id, 'the bank is down');
    // The first query reads the whole history, and the second one is answered by the code that was kept.
    for (let n = 0; n < 2; n += 1) expect(await store.client.query(id, sum)).toBe(6);
    if (kind.isShared) expect(await new Client(await store.open()).query(id, sum)).toBe(6);
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Suspended' });
    await store.client.resume(id);
    expect(await store.client.update(id, add, 1)).toBe(7);
    expect(await store.client.query(id, sum)).toBe(7);
  });

  it.runIf(SHARED_STORES.includes(kind))(
    'an instance that changed code has suspended answers by its code',
    async () => {
      const first = await store.start(register);
      const id = await started(5);
      await store.client.update(id, add, 1);
      await first.shutdown();
      const changed = defineOrchestration('total', function* (ctx) {
        ctx.onQuery(sum, () => 1);
        yield* ctx.sleep('1h');
        return 1;
      });
      await store.start((runtime) => runtime.register(changed));
      await store.client.raiseEvent(id, 'end');
      await store.suspended(id);
      store.errors.splice(0);
      expect(await rejection(store.client.query(id, sum))).toBeInstanceOf(NondeterminismError);
      const provider = await store.open();
      new Runtime(provider).register(total);
      expect(await new Client(provider).query(id, sum)).toBe(6);
    },
  );

  it('a query writes nothing', async () => {
    await store.start(register);
    const id = await started();
    await store.client.update(id, add, 1);
    const before = await Promise.all([store.client.getHistory(id), store.client.getStatus(id)]);
    const names = ['sum', 'schedules', 'sets', 'waits', 'fiber'];
    await Promise.allSettled(names.map((name) => store.client.query(id, name)));
    expect(await Promise.all([store.client.getHistory(id), store.client.getStatus(id)])).toEqual(before);
    expect(await store.client.update(id, add, 1)).toBe(2);
  });

  it('a query that acts, fails or answers later is refused', async () => {
    await store.start(register);
    const id = await started();
    for (const name of ['schedules', 'sets', 'waits']) {
      const error = await rejection(store.client.query(id, name));
      expect(error).toBeInstanceOf(DeterminismError);
      expect(error).toMatchObject({ message: expect.stringContaining(`in the handler of query '${name}'`) });
    }
    for (const name of ['later', 'fiber']) {
      const error = await rejection(store.client.query(id, name));
      expect(error).toMatchObject({ name: 'TypeError', message: expect.stringContaining('answers at once') });
    }
    expect(await rejection(store.client.query(id, 'unstorable'))).toBeInstanceOf(PayloadError);
    const error = await rejection(store.client.query(id, over, -1));
    expect(error).toMatchObject({ name: 'RangeError', message: 'only up' });
  });

  it('an answer is a copy', async () => {
    await store.start(register);
    const id = await started(1);
    const answer = (await store.client.query(id, 'list')) as { value: number }[];
    answer.push({ value: 2 });
    expect(await store.client.query(id, 'list')).toEqual([{ value: 1 }]);
  });

  it('a query of an unknown name, instance or orchestration says so', async () => {
    await store.start(register);
    const id = await started();
    await store.client.update(id, add, 1);
    const unknown = await rejection(store.client.query(id, 'summ'));
    expect(unknown).toBeInstanceOf(NotRegisteredError);
    expect(unknown).toMatchObject({ kind: 'query', missing: 'summ', message: expect.stringContaining("'sum'") });
    expect(await rejection(store.client.query('nobody', sum))).toBeInstanceOf(InstanceNotFoundError);
    const other = store.id();
    await store.client.startOrchestration(other, 'unheard of');
    const missing = await rejection(store.client.query(other, sum));
    expect(missing).toBeInstanceOf(NotRegisteredError);
    expect(missing).toMatchObject({ kind: 'orchestration', missing: 'unheard of' });
  });

  it('an instance that takes the id of another one answers for itself', async () => {
    await store.start(register);
    const id = await started(5);
    expect(await store.client.query(id, sum)).toBe(5);
    for (const by of [1, 2]) await store.client.update(id, add, by);
    await store.client.terminateInstance(id);
    expect(await store.client.query(id, sum)).toBe(8);
    await store.client.deleteInstance(id);
    await store.client.start(total, 70, { id });
    expect(await store.client.query(id, sum)).toBe(70);
  });

  it('queries of more instances than are kept, side by side, are answered by each', async () => {
    await store.start(register);
    const ids = await Promise.all(Array.from({ length: 130 }, (_, n) => started(n)));
    const ask = () => Promise.all([...ids, ...ids].map((id) => store.client.query(id, sum)));
    const from = ids.map((_, n) => n);
    expect(await ask()).toEqual([...from, ...from]);
    await Promise.all(ids.map((id) => store.client.update(id, add, 1)));
    expect((await ask()).slice(0, ids.length)).toEqual(from.map((n) => n + 1));
  });

  it('queries see each update that was answered before, with others on their way', async () => {
    await store.start(register);
    const id = await started();
    let answered = 0;
    const updates = Array.from({ length: 40 }, async () => {
      answered = Math.max(answered, await store.client.update(id, add, 1));
      const before = answered;
      expect(await store.client.query(id, sum)).toBeGreaterThanOrEqual(before);
    });
    await Promise.all(updates);
    expect(await store.client.query(id, sum)).toBe(40);
  });

  it.runIf(SHARED_STORES.includes(kind))('the values of a codec are decoded', async () => {
    const codec = {
      encode: (text: string) => `~${Buffer.from(text).toString('hex')}`,
      decode: (text: string) => Buffer.from(text.slice(1), 'hex').toString(),
    };
    const provider = await store.open({ codec });
    await store.start(register, {}, provider);
    const client = new Client(provider);
    const { id } = await client.start(total, 5, { id: store.id('total') });
    for (const answer of [6, 7]) {
      expect(await client.update(id, add, 1)).toBe(answer);
      expect(await client.query(id, sum)).toBe(answer);
    }
  });

  it('code that no longer fits the history says so', async () => {
    await store.start(register);
    const id = await started();
    await store.client.update(id, add, 1);
    const changed = defineOrchestration('total', function* (ctx) {
      ctx.onQuery(sum, () => 1);
      yield* ctx.sleep('1h');
      return 1;
    });
    store.runtime().register(changed);
    expect(await rejection(store.client.query(id, sum))).toBeInstanceOf(NondeterminismError);
  });

  it.runIf(SHARED_STORES.includes(kind))('a process that runs nothing answers by its code', async () => {
    const runtime = await store.start(register);
    const id = await started(5);
    await store.client.update(id, add, 1);
    const provider = await store.open();
    const client = new Client(provider);
    new Runtime(provider).register(total);
    await runtime.shutdown();
    expect(await client.query(id, sum)).toBe(6);
  });

  it.runIf(SHARED_STORES.includes(kind))('a process without the code is answered by a worker that has it', async () => {
    const runtime = await store.start(register);
    const id = await started(5);
    await store.client.update(id, add, 1);
    const provider = await store.open();
    const client = new Client(provider);
    expect(await client.query(id, sum)).toBe(6);
    expect(await client.query(id, over, 5)).toBe(true);
    expect(await rejection(client.query(id, over, -1))).toEqual(new RangeError('only up'));
    expect(await rejection(client.query(id, 'summ'))).toMatchObject({ kind: 'query', missing: 'summ' });
    expect(await rejection(client.query(id, 'schedules'))).toBeInstanceOf(DeterminismError);
    expect(await rejection(client.query('nobody', sum))).toBeInstanceOf(InstanceNotFoundError);
    // The code of a runtime with other orchestrations does not hide that of the worker.
    new Runtime(provider).register(defineOrchestration('another', function* () {}));
    expect(await client.query(id, 'list')).toEqual([{ value: 5 }]);
    // Nothing of a query stays.
    expect((await client.listInstances({ system: true, idPrefix: 'perdure.query' }).page()).items).toEqual([]);
    const aborted = AbortSignal.abort(new Error('enough'));
    expect(await rejection(client.query(id, sum, undefined, { signal: aborted }))).toEqual(new Error('enough'));
    await runtime.shutdown();
    const missing = await rejection(client.query(id, sum));
    expect(missing).toBeInstanceOf(NotRegisteredError);
    expect(missing.message).toContain("no running worker has registered orchestration 'total' version '1.0.0'");
  });

  it.runIf(SHARED_STORES.includes(kind))('a query goes to a worker with the version of its instance', async () => {
    const [older, newer] = ['1.0.0', '2.0.0'].map((version) =>
      defineOrchestration(
        'versioned',
        function* (ctx) {
          ctx.onQuery('version', () => version);
          yield* ctx.sleep('1h');
        },
        { version },
      ),
    ) as [OrchestrationDefinition, OrchestrationDefinition];
    await store.start((runtime) => runtime.register(older));
    await store.start((runtime) => runtime.register(newer));
    const client = new Client(await store.open());
    for (const definition of [older, newer, older]) {
      const { id } = await store.client.start(definition, undefined, { id: store.id() });
      expect(await client.query(id, 'version')).toBe(definition.version);
    }
  });

  it.runIf(SHARED_STORES.includes(kind))('a query that no worker answers in time says so', async () => {
    const released = deferred();
    const begun = deferred();
    const held = defineOrchestration('held', function* (ctx) {
      yield* ctx.run('hold', () => {
        begun.resolve();
        return released.promise;
      });
    });
    await store.start((runtime) => runtime.register(total, same, held), { activityConcurrency: 1 });
    const id = await started(5);
    const holding = await store.client.start(held, undefined);
    await begun.promise;
    const client = new Client(await store.open());
    const late = await rejection(client.query(id, sum, undefined, { timeout: '200ms' }));
    expect(late).toBeInstanceOf(TimeoutError);
    expect(late.message).toContain(`query 'sum' of instance '${id}' was not answered within 200 ms by a worker`);
    released.resolve();
    await holding.result({ timeout: SOON });
    expect(await client.query(id, sum)).toBe(5);
    expect((await client.listInstances({ system: true, idPrefix: 'perdure.query' }).page()).items).toEqual([]);
  });
});
