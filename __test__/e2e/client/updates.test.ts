// Updates: messages to instances that get an answer.

import {
  Client,
  defineActivity,
  defineOrchestration,
  defineUpdate,
  InstanceNotFoundError,
  LimitError,
  NotRegisteredError,
  type OrchestrationContext,
  type Runtime,
  RuntimeStateError,
  TimeoutError,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const add = defineUpdate<number, number>('add');
const slow = defineUpdate<undefined, string>('slow');
const fail = defineUpdate<string, never>('fail');

const same = defineActivity('same', async (_ctx, value: number) => value);

/** A sum that updates add to. It ends with the event `end`, or continues as new with `again`. */
const total = defineOrchestration('total', function* (ctx, from: number): Generator<any, number, any> {
  let sum = from;
  const validate = (by: number): void => {
    if (by < 0) throw new RangeError('only up');
  };
  ctx.onUpdate(
    add,
    function* (by) {
      const more = yield* ctx.call(same, by);
      sum += more;
      return sum;
    },
    { validate },
  );
  ctx.onUpdate(slow, function* () {
    const { by } = yield* ctx.waitForEvent<{ by: string }>('release');
    return `released by ${by}`;
  });
  ctx.onUpdate(fail, function* (why) {
    throw new TypeError(why);
  });
  const { index } = yield* ctx.race(ctx.waitForEvent('end'), ctx.waitForEvent('again'));
  yield* ctx.finishUpdates();
  if (index === 1) yield* ctx.continueAsNew(sum);
  return sum;
});

function register(runtime: Runtime): void {
  runtime.register(total, same);
  runtime.registerOrchestration('asks', function* (ctx: OrchestrationContext, { id, times }) {
    const answers: unknown[] = [];
    for (let by = 1; by <= times; by += 1) answers.push(yield* ctx.update(id, add, by));
    try {
      yield* ctx.update(id, fail, 'no such luck');
    } catch (error) {
      answers.push(`${(error as Error).name}: ${(error as Error).message}`);
    }
    return answers;
  });
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Starts an instance of `total`. */
  async function started(from = 0): Promise<string> {
    const { id } = await store.client.start(total, from, { id: store.id('total') });
    return id;
  }

  it('an update resolves with what its handler returned', async () => {
    await store.start(register);
    const id = await started(100);
    expect(await store.client.update(id, add, 1)).toBe(101);
    expect(await store.client.handle(total, id).update(add, 2)).toBe(103);
    const by: number = await store.client.update(id, add, 3);
    expect(by).toBe(106);
    await store.client.raiseEvent(id, 'end');
    expect(await store.client.handle(total, id).result({ timeout: SOON })).toBe(106);
  });

  it('an update rejects with the error of its handler, and the instance goes on', async () => {
    await store.start(register);
    const id = await started();
    const error = await rejection(store.client.update(id, fail, 'it is broken'));
    expect(error).toBeInstanceOf(TypeError);
    expect(error).toMatchObject({ message: 'it is broken' });
    expect(await store.client.update(id, add, 1)).toBe(1);
  });

  it('an update that its validator refuses leaves no trace', async () => {
    await store.start(register);
    const id = await started();
    await store.client.update(id, add, 1);
    const before = await store.client.getHistory(id);
    const error = await rejection(store.client.update(id, add, -1));
    expect(error).toBeInstanceOf(RangeError);
    expect(error).toMatchObject({ message: 'only up' });
    const unknown = await rejection(store.client.update(id, 'ad', 1));
    expect(unknown).toBeInstanceOf(NotRegisteredError);
    expect(unknown).toMatchObject({ kind: 'update', missing: 'ad' });
    expect(await store.client.getHistory(id)).toEqual(before);
  });

  it('updates with the same id are one update, also after the end', async () => {
    await store.start(register);
    const id = await started();
    const calls = [7, 8, 7].map((by) => store.client.update(id, add, by, { updateId: 'once' }));
    expect(new Set(await Promise.all(calls)).size).toBe(1);
    const answer = await store.client.update(id, add, 9, { updateId: 'once' });
    await store.client.raiseEvent(id, 'end');
    expect(await store.client.handle(total, id).result({ timeout: SOON })).toBe(answer);
    expect(await store.client.update(id, add, 1, { updateId: 'once' })).toBe(answer);
  });

  it('an update starts its instance once, also if it is refused', async () => {
    await store.start(register);
    const id = store.id('total');
    const start = { definition: total, input: 100 };
    const refused = await rejection(store.client.updateWithStart(id, add, -1, { start }));
    expect(refused).toMatchObject({ name: 'RangeError', message: 'only up' });
    const calls = [1, 2, 3].map((by) =>
      store.client.updateWithStart(id, add, by, { start: { ...start, input: 900 }, updateId: `add ${by}` }),
    );
    expect(Math.max(...(await Promise.all(calls)))).toBe(106);
    const missing = await rejection(store.client.updateWithStart(id, 'ad', 1, { start }));
    expect(missing).toBeInstanceOf(NotRegisteredError);
    await store.client.raiseEvent(id, 'end');
    expect(await store.client.handle(total, id).result({ timeout: SOON })).toBe(106);
  });

  it('an update that was answered starts nothing again', async () => {
    await store.start(register);
    const id = store.id('total');
    const once = { start: { name: 'total', input: 5, onConflict: 'restartIfTerminal' }, updateId: 'once' } as const;
    expect(await store.client.updateWithStart(id, add, 1, once)).toBe(6);
    await store.client.raiseEvent(id, 'end');
    const ended = await store.client.waitForOrchestration(id, SOON);
    expect(await store.client.updateWithStart(id, add, 1, once)).toBe(6);
    expect(await store.client.getStatus(id)).toEqual(ended);
    const other = { start: { definition: total, input: 5 }, updateId: 'other' };
    expect(await rejection(store.client.updateWithStart(id, add, 1, other))).toBeInstanceOf(RuntimeStateError);
    expect(await store.client.updateWithStart(id, add, 2, { ...once, updateId: 'other' })).toBe(7);
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Running' });
  });

  it('an update with its start waits for a worker', async () => {
    const id = store.id('total');
    const start = { definition: total, input: 5 };
    const late = await rejection(store.client.updateWithStart(id, add, 1, { start, updateId: 'a', timeout: '1ms' }));
    expect(late).toBeInstanceOf(TimeoutError);
    const answer = store.client.updateWithStart(id, add, 1, { start, updateId: 'a' });
    await store.start(register);
    expect(await answer).toBe(6);
  });

  it('an update of an instance that is not there, or has ended, is refused', async () => {
    await store.start(register);
    expect(await rejection(store.client.update('nobody', add, 1))).toBeInstanceOf(InstanceNotFoundError);
    const id = await started();
    await store.client.raiseEvent(id, 'end');
    await store.client.waitForOrchestration(id, SOON);
    expect(await rejection(store.client.update(id, add, 1))).toBeInstanceOf(RuntimeStateError);
  });

  it('an update that the end of the instance cuts off is refused', async () => {
    await store.start(register);
    const id = await started();
    const calls = ['1', '2'].map((updateId) => rejection(store.client.update(id, slow, undefined, { updateId })));
    await store.client.update(id, add, 1);
    await store.client.terminateInstance(id);
    for (const error of await Promise.all(calls)) {
      expect(error).toBeInstanceOf(RuntimeStateError);
      expect(error).toMatchObject({ message: `instance '${id}' ended before it answered update 'slow'` });
    }
    const again = rejection(store.client.update(id, slow, undefined, { updateId: '1' }));
    expect(await again).toBeInstanceOf(RuntimeStateError);
  });

  it('an end waits for the handlers that run', async () => {
    await store.start(register);
    const id = await started();
    const call = store.client.update(id, slow);
    await store.client.update(id, add, 1);
    await store.client.raiseEvent(id, 'end');
    await store.client.raiseEvent(id, 'release', { by: 'Ada' });
    expect(await call).toBe('released by Ada');
    expect(await store.client.handle(total, id).result({ timeout: SOON })).toBe(1);
  });

  it('a wait that is given up leaves the update, whose answer a later call gets', async () => {
    await store.start(register);
    const id = await started();
    const late = await rejection(store.client.update(id, slow, undefined, { updateId: 'a', timeout: 20 }));
    expect(late).toBeInstanceOf(TimeoutError);
    expect(late).toMatchObject({ timeoutMs: 20 });
    const controller = new AbortController();
    const aborted = rejection(store.client.update(id, slow, undefined, { updateId: 'a', signal: controller.signal }));
    await store.client.update(id, add, 1);
    controller.abort(new Error('enough'));
    expect(await aborted).toMatchObject({ message: 'enough' });
    const call = store.client.update(id, slow, undefined, { updateId: 'a', timeout: SOON });
    await store.client.raiseEvent(id, 'release', { by: 'Bob' });
    expect(await call).toBe('released by Bob');
  });

  it('updates wait for a worker, and for one that has died', async () => {
    const id = await started();
    const first = store.client.update(id, add, 1, { timeout: SOON });
    const runtime = await store.start(register);
    expect(await first).toBe(1);
    const cut = store.client.update(id, slow, undefined, { timeout: SOON });
    await store.client.update(id, add, 1);
    await runtime.shutdown();
    const between = store.client.update(id, add, 1, { timeout: SOON });
    await store.start(register);
    expect(await between).toBe(3);
    await store.client.raiseEvent(id, 'release', { by: 'Eve' });
    expect(await cut).toBe('released by Eve');
  });

  it('instances that sleep in the store answer', async () => {
    await store.start(register, { cachedInstancesMax: 0 });
    const id = await started();
    for (let sum = 1; sum <= 20; sum += 1) expect(await store.client.update(id, add, 1)).toBe(sum);
  });

  it('updates go on over executions, and each of them runs once', async () => {
    await store.start(register);
    const id = await started();
    const answers: number[] = [];
    const calls = async (): Promise<void> => {
      for (let n = 0; n < 25; n += 1) answers.push(await store.client.update(id, add, 1, { timeout: SOON }));
    };
    const again = async (): Promise<void> => {
      for (let n = 0; n < 5; n += 1) await store.client.raiseEvent(id, 'again', 'again');
    };
    await Promise.all([calls(), calls(), calls(), calls(), again()]);
    expect(answers.sort((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, n) => n + 1));
    await store.client.raiseEvent(id, 'end');
    expect(await store.client.handle(total, id).result({ timeout: SOON })).toBe(100);
  });

  it('an update of a suspended instance waits until it is resumed', async () => {
    await store.start(register);
    const id = await started();
    await store.client.update(id, add, 1);
    await store.client.suspend(id);
    const call = store.client.update(id, add, 1, { updateId: 'held', timeout: SOON });
    expect(await rejection(store.client.update(id, add, 1, { updateId: 'held', timeout: 20 }))).toBeInstanceOf(
      TimeoutError,
    );
    await store.client.resume(id);
    expect(await call).toBe(2);
  });

  it('a full mailbox refuses updates', async () => {
    const client = new Client(store.provider, { limits: { mailboxMessages: 1 } });
    const id = await started();
    await store.client.raiseEvent(id, 'other');
    expect(await rejection(client.update(id, add, 1))).toBeInstanceOf(LimitError);
  });

  it('an orchestration updates another one, each time once', async () => {
    await store.start(register);
    const id = await started();
    const asker = store.id('asker');
    await store.client.startOrchestration(asker, 'asks', { id, times: 3 });
    const { output } = await store.client.waitForOrchestration(asker, SOON);
    expect(output).toEqual([1, 3, 6, 'TypeError: no such luck']);
  });

  it('many updates at once are answered, each with its own answer', async () => {
    await store.start(register);
    const id = await started();
    const answers = await Promise.all(Array.from({ length: 500 }, () => store.client.update(id, add, 1)));
    expect(new Set(answers).size).toBe(500);
    expect(Math.max(...answers)).toBe(500);
  });

  it.runIf(SHARED_STORES.includes(kind))('a client of another process asks and is answered', async () => {
    await store.start(register);
    const other = new Client(await store.open());
    const id = await started();
    for (let sum = 1; sum <= 5; sum += 1) expect(await other.update(id, add, 1, { timeout: SOON })).toBe(sum);
    const call = rejection(other.update(id, slow, undefined, { timeout: SOON }));
    await other.update(id, add, 1);
    await store.client.terminateInstance(id);
    expect(await call).toBeInstanceOf(RuntimeStateError);
    expect(await rejection(other.update(id, add, -1))).toBeInstanceOf(RuntimeStateError);
  });
});
