// Queues of instances: limits, order and slots, on each store. Each orchestration notes when it begins and ends, so the
// notes of two entries overlap only if both had a slot at the same time.

import {
  defineActivity,
  defineOrchestration,
  type InstanceHandle,
  type OpenActivity,
  type QueueInfo,
  type QueueLimits,
  type Runtime,
  type TimeoutError,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { eventually, rejection } from '../../support/async.ts';
import { mostAtOnce, type WorkNote } from '../../support/notes.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const WITHIN_MS = 30_000;

interface Note extends WorkNote {
  readonly id: string;
  /** The name of the runtime that ran it. */
  readonly on: string;
}

const begun = (notes: readonly Note[]): string[] => notes.filter(({ kind }) => kind === 'begin').map(({ id }) => id);

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const notes: Note[] = [];

  /** Takes some time. Fails for the input `fails`, and waits for the event `go` for the input `waits`. */
  function register(on: string): (runtime: Runtime) => void {
    return (runtime) =>
      runtime.registerOrchestration('work', function* (ctx, how: string | undefined) {
        const id = ctx.instanceId;
        yield* ctx.run('begin', () => void notes.push({ id, kind: 'begin', on }));
        if (how === 'waits') yield* ctx.waitForEvent('go');
        else yield* ctx.sleep(10);
        yield* ctx.run('end', () => void notes.push({ id, kind: 'end', on }));
        if (how === 'fails') throw new Error('on purpose');
        return how;
      });
  }

  async function queue(limits: QueueLimits): Promise<string> {
    notes.length = 0;
    const name = store.id('queue');
    await store.client.queues.set(name, limits);
    return name;
  }

  async function info(name: string): Promise<QueueInfo> {
    return (await store.client.queues.get(name)) as QueueInfo;
  }

  /** Resolves when the numbers of a queue are as asked. */
  async function numbers(name: string, asked: Partial<QueueInfo>): Promise<void> {
    let found: QueueInfo | undefined;
    const isSo = async (): Promise<boolean> => {
      found = await info(name);
      return Object.entries(asked).every(([key, value]) => found?.[key as keyof QueueInfo] === value);
    };
    await eventually(WITHIN_MS, JSON.stringify(asked), isSo).catch(() => expect(found).toMatchObject(asked));
  }

  const empty = (name: string): Promise<void> => numbers(name, { running: 0, waiting: 0, delayed: 0 });

  async function starts(queue: string, count: number, key?: (n: number) => string | undefined): Promise<string[]> {
    const list = Array.from({ length: count }, (_, n) => {
      const of = key?.(n);
      return { name: 'work', version: '1.0.0', id: store.id(queue), queue, ...(of === undefined ? {} : { key: of }) };
    });
    const outcomes = await store.client.startMany(list);
    expect(outcomes.filter(({ error }) => error !== undefined)).toEqual([]);
    return outcomes.map(({ id }) => id);
  }

  async function start(queue: string, how: string, options: object = {}): Promise<string> {
    const id = store.id(queue);
    await store.client.startOrchestration(id, 'work', how, { version: '1.0.0', queue, ...options });
    return id;
  }

  /** Starts two runtimes, each with a provider of its own if the store can be opened twice. */
  async function twoRuntimes(): Promise<void> {
    await store.start(register('a'), { workerName: 'a' });
    await store.start(register('b'), { workerName: 'b' }, kind.isShared ? await store.open() : store.provider);
  }

  it('let no more instances run than the limit, over all runtimes', async () => {
    await twoRuntimes();
    const name = await queue({ concurrency: 3 });
    const ids = await starts(name, 40);
    await numbers(name, { running: 3 });
    await empty(name);
    expect(mostAtOnce(notes)).toBe(3);
    expect(begun(notes).toSorted()).toEqual(ids.toSorted());
    for (const id of ids) expect((await store.client.getStatus(id))?.status).toBe('Completed');
  });

  it('let no runtime take more than its part', async () => {
    await twoRuntimes();
    const name = await queue({ perWorker: 2 });
    await starts(name, 20);
    await empty(name);
    for (const on of ['a', 'b']) expect(mostAtOnce(notes, (note) => note.on === on)).toBeLessThanOrEqual(2);
    expect(begun(notes)).toHaveLength(20);
  });

  it('limit each key, and leave instances without a key alone', async () => {
    await twoRuntimes();
    const name = await queue({ perKey: { concurrency: 1 } });
    const keyed = await starts(name, 16, (n) => `key ${n % 2}`);
    const blocker = await start(name, 'waits');
    const other = await start(name, 'waits');
    for (const id of [blocker, other])
      await eventually(WITHIN_MS, 'they run beside each other', () => begun(notes).includes(id));
    for (const rest of [0, 1]) {
      const ids = new Set(keyed.filter((_, n) => n % 2 === rest));
      await eventually(WITHIN_MS, 'the ends of one key', async () => {
        return notes.filter(({ id, kind }) => kind === 'end' && ids.has(id)).length === 8;
      });
      expect(mostAtOnce(notes, ({ id }) => ids.has(id))).toBe(1);
    }
    for (const id of [blocker, other]) await store.client.raiseEvent(id, 'go');
    await empty(name);
  });

  it('let no more instances begin in a span of time than the rate', async () => {
    await twoRuntimes();
    const name = await queue({ rate: { limit: 4, per: '200ms' }, perKey: { rate: { limit: 1, per: '100ms' } } });
    const from = Date.now();
    await starts(name, 16, (n) => (n < 8 ? 'one' : undefined));
    await empty(name);
    // The last of 16 begins after three spans, and the last of the 8 of the key after seven.
    expect(Date.now() - from).toBeGreaterThanOrEqual(700);
    expect(begun(notes)).toHaveLength(16);
    expect((await info(name)).tokens).toBeLessThanOrEqual(4);
  });

  it.each([
    ['key', ['urgent', 'a1', 'b1', 'a2', 'b2', 'a3', 'later']],
    ['none', ['urgent', 'a1', 'a2', 'a3', 'b1', 'b2', 'later']],
  ] as const)('with fairness %j are left in order of priority, then of that', async (fairness, order) => {
    await store.start(register('a'));
    const name = await queue({ concurrency: 1, fairness });
    const blocker = await start(name, 'waits', { key: 'x' });
    await numbers(name, { running: 1 });
    const names = new Map<string, string>();
    const waiting = [
      ...[['later', 'c', -1] as const, ['a1', 'a', 0] as const, ['a2', 'a', 0] as const, ['a3', 'a', 0] as const],
      ...[['b1', 'b', 0] as const, ['b2', 'b', 0] as const, ['urgent', 'a', 7] as const],
    ];
    for (const [what, key, priority] of waiting) names.set(await start(name, 'returns', { key, priority }), what);
    expect(await info(name)).toMatchObject({ running: 1, waiting: 7, oldestWait: expect.any(Date) });
    await store.client.raiseEvent(blocker, 'go');
    await empty(name);
    expect(begun(notes).map((id) => names.get(id))).toEqual([undefined, ...order]);
  });

  it('change while instances run and wait', async () => {
    await store.start(register('a'));
    const name = await queue({ concurrency: 1 });
    const ids: string[] = [];
    for (let n = 0; n < 6; n += 1) ids.push(await start(name, 'waits'));
    await numbers(name, { running: 1, waiting: 5 });
    await store.client.queues.set(name, { concurrency: 4 });
    await numbers(name, { running: 4, waiting: 2 });
    // Lower limits stop no instance that runs.
    await store.client.queues.set(name, { concurrency: 2 });
    expect(await info(name)).toMatchObject({ running: 4, waiting: 2, limits: { concurrency: 2 } });
    for (const id of ids.slice(0, 2)) await store.client.raiseEvent(id, 'go');
    await numbers(name, { running: 2, waiting: 2 });
    await store.client.queues.set(name, {});
    await numbers(name, { running: 4, waiting: 0 });
    for (const id of ids.slice(2)) await store.client.raiseEvent(id, 'go');
    await empty(name);
  });

  it('give no slot while they are paused', async () => {
    await twoRuntimes();
    const name = await queue({ concurrency: 2 });
    const running = [await start(name, 'waits'), await start(name, 'waits')];
    await numbers(name, { running: 2 });
    const from = Date.now();
    await store.client.queues.pause(name);
    const { paused } = await info(name);
    expect(paused?.since.getTime()).toBeGreaterThan(from - 5_000);
    await store.client.queues.pause(name);
    // New limits, and a process that begins, leave the pause alone.
    await store.client.queues.set(name, { concurrency: 3 });
    const third = store.runtime({ workerName: 'c' });
    register('c')(third);
    await third.start({ queues: { [name]: { concurrency: 3 } } });
    expect((await info(name)).paused).toEqual(paused);
    const waiting = await starts(name, 6);
    for (const id of running) await store.client.raiseEvent(id, 'go');
    for (const id of running) await store.client.waitForOrchestration(id, SOON);
    // An instance outside of the queue is started later and runs, so the workers have looked for work.
    await store.client.startOrchestration(store.id(name), 'work', 'free', { version: '1.0.0' });
    await eventually(WITHIN_MS, 'it runs', () => begun(notes).length === 3);
    expect(await info(name)).toMatchObject({ running: 0, waiting: 6, limits: { concurrency: 3 }, paused });
    await store.client.queues.resume(name);
    expect(await info(name)).not.toHaveProperty('paused');
    await store.client.queues.resume(name);
    await empty(name);
    expect(
      begun(notes)
        .filter((id) => waiting.includes(id))
        .toSorted(),
    ).toEqual(waiting.toSorted());
    expect(mostAtOnce(notes, ({ id }) => waiting.includes(id))).toBeLessThanOrEqual(3);
  });

  it('that are paused hold up attempts of activities, and not those that have a slot', async () => {
    let calls = 0;
    const gates: (() => void)[] = [];
    const call = defineActivity('call', () => {
      calls += 1;
      return new Promise<void>((resolve) => gates.push(resolve));
    });
    const name = await queue({ concurrency: 1 });
    const caller = defineOrchestration('caller', function* (ctx, timeout: number | null) {
      const options = timeout === null ? {} : { scheduleToStartTimeout: timeout, retry: { maxAttempts: 1 } };
      yield* ctx.call(call, undefined, { queue: name, ...options });
    });
    await store.start((runtime) => runtime.register(call, caller), { queues: 'any' });
    const running = await store.client.start(caller, null);
    await eventually(WITHIN_MS, 'one is called', () => calls === 1);
    const waiting = await store.client.start(caller, null);
    await eventually(WITHIN_MS, 'the other is in line', async () => (await info(name)).waiting === 1);
    const placeOf = async ({ id }: InstanceHandle): Promise<OpenActivity | undefined> =>
      (await store.client.describe(id))?.activities[0];
    const since = expect.any(Date);
    expect(await placeOf(running)).toMatchObject({ state: 'running', place: { state: 'running', since } });
    expect(await placeOf(waiting)).toMatchObject({ state: 'queued', place: { state: 'waiting', since } });
    const reasonOf = async ({ id }: InstanceHandle): Promise<string | undefined> =>
      (await rejection<TimeoutError>(store.client.waitForOrchestration(id, 1))).reason;
    expect(await reasonOf(waiting)).toMatch(
      `waits for activity 'call' (it waits for a slot of queue '${name}' since 2`,
    );
    await store.client.queues.pause(name);
    expect(await placeOf(waiting)).toMatchObject({ place: { state: 'waiting', paused: { since } } });
    expect(await reasonOf(waiting)).toMatch(`waits for activity 'call' (its queue '${name}' is paused since 2`);
    const late = await store.client.start(caller, 100);
    gates[0]?.();
    await running.result({ timeout: SOON });
    await expect(late.result({ timeout: SOON })).rejects.toThrow('longer than its scheduleToStartTimeout');
    expect(await info(name)).toMatchObject({ running: 0, waiting: 1 });
    expect(calls).toBe(1);
    await store.client.queues.resume(name);
    await eventually(WITHIN_MS, 'the other is called', () => calls === 2);
    gates[1]?.();
    await waiting.result({ timeout: SOON });
    await empty(name);
  });

  it('that are not there cannot be paused', async () => {
    const expected = { name: 'QueueNotFoundError', code: 'QUEUE_NOT_FOUND', queue: 'none' };
    await expect(store.client.queues.pause('none')).rejects.toMatchObject(expected);
    await expect(store.client.queues.resume('none')).rejects.toMatchObject(expected);
  });

  it('have the slot again after each kind of end', async () => {
    await store.start(register('a'));
    const name = await queue({ concurrency: 1 });
    const failing = await start(name, 'fails');
    const [cancelled, terminated] = [await start(name, 'waits'), await start(name, 'waits')];
    expect((await store.client.waitForOrchestration(failing, SOON)).status).toBe('Failed');
    await eventually(WITHIN_MS, 'the second runs', () => begun(notes).includes(cancelled));
    await store.client.cancelInstance(cancelled);
    await eventually(WITHIN_MS, 'the third runs', () => begun(notes).includes(terminated));
    await store.client.terminateInstance(terminated);
    const next = await start(name, 'returns');
    expect((await store.client.waitForOrchestration(next, SOON)).output).toBe('returns');
    await empty(name);
  });

  it('keep the slot of an instance that is suspended or continues as new', async () => {
    const rounds = defineOrchestration('rounds', function* (ctx, round: number): Generator<any, number, any> {
      if (round === 3) yield* ctx.waitForEvent('go');
      else ctx.continueAsNew(round + 1);
      return round;
    });
    await store.start((runtime) => {
      register('a')(runtime);
      runtime.register(rounds);
    });
    const name = await queue({ concurrency: 1 });
    const first = await store.client.start(rounds, 0, { queue: name });
    const second = await start(name, 'returns');
    await eventually(WITHIN_MS, 'the last round', async () => (await first.status())?.executionId === 4);
    await store.client.suspend(first.id);
    await eventually(WITHIN_MS, 'its suspension', async () => (await first.status())?.status === 'Suspended');
    expect(await info(name)).toMatchObject({ running: 1, waiting: 1 });
    expect((await store.client.getStatus(second))?.status).toBe('Pending');
    await store.client.resume(first.id);
    await first.raiseEvent('go');
    expect(await first.result({ timeout: SOON })).toBe(3);
    expect((await store.client.waitForOrchestration(second, SOON)).status).toBe('Completed');
  });

  it('end an instance that waits when it is cancelled or terminated, without running it', async () => {
    await store.start(register('a'));
    const name = await queue({ concurrency: 1 });
    const blocker = await start(name, 'waits');
    await numbers(name, { running: 1 });
    const [cancelled, terminated, delayed, later] = [
      await start(name, 'returns'),
      await start(name, 'returns'),
      await start(name, 'returns', { delay: '1d' }),
      await start(name, 'returns', { delay: '1d' }),
    ];
    await numbers(name, { running: 1, waiting: 2, delayed: 2 });
    for (const id of [cancelled, delayed]) await store.client.cancelInstance(id, 'enough');
    for (const id of [terminated, later]) await store.client.terminateInstance(id);
    for (const id of [cancelled, delayed])
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Cancelled' });
    for (const id of [terminated, later])
      expect(await store.client.waitForOrchestration(id, SOON)).toMatchObject({ status: 'Terminated' });
    await numbers(name, { running: 1, waiting: 0, delayed: 0 });
    await store.client.raiseEvent(blocker, 'go');
    await empty(name);
    expect(begun(notes)).toEqual([blocker]);
  });

  it('keep messages for an instance that waits', async () => {
    await store.start(register('a'));
    const name = await queue({ concurrency: 1 });
    const blocker = await start(name, 'waits');
    const waiting = await start(name, 'waits');
    await numbers(name, { running: 1, waiting: 1 });
    await store.client.raiseEvent(waiting, 'go');
    const sent = store.id(name);
    const started = { start: { name: 'work', version: '1.0.0', input: 'waits', queue: name } };
    await store.client.raiseEvent(sent, 'go', undefined, started);
    expect(await info(name)).toMatchObject({ running: 1, waiting: 2 });
    await eventually(WITHIN_MS, 'the first runs', () => begun(notes).length > 0);
    expect(begun(notes)).toEqual([blocker]);
    await store.client.raiseEvent(blocker, 'go');
    for (const id of [waiting, sent])
      expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Completed');
    await empty(name);
  });

  it('take the starts of an orchestration, and those of a schedule', async () => {
    const name = await queue({ concurrency: 2, fairness: 'key' });
    const parent = defineOrchestration('parent', function* (ctx) {
      const options = { version: '1.0.0', queue: name };
      const children = [0, 1, 2, 3].map((n) =>
        ctx.scheduleSubOrchestration<string>('work', 'child', { ...options, key: `${n % 2}` }),
      );
      yield* ctx.startOrchestration('work', `${ctx.instanceId} detached`, 'detached', options);
      return yield* ctx.all(children);
    });
    await store.start((runtime) => {
      register('a')(runtime);
      runtime.register(parent);
    });
    const handle = await store.client.start(parent);
    expect(await handle.result({ timeout: SOON })).toEqual(Array.from({ length: 4 }, () => 'child'));
    await store.client.waitForOrchestration(`${handle.id} detached`, SOON);
    expect(mostAtOnce(notes)).toBeLessThanOrEqual(2);
    const blockers = [await start(name, 'waits'), await start(name, 'waits')];
    await numbers(name, { running: 2 });
    const id = store.id('schedule');
    const run = { name: 'work', version: '1.0.0', input: 'run', queue: name, key: 'runs' };
    await store.client.schedules.upsert(id, { at: ['2099-01-01'], start: run });
    const { runId } = await store.client.schedules.trigger(id, { timeout: SOON });
    await numbers(name, { running: 2, waiting: 1 });
    for (const blocker of blockers) await store.client.raiseEvent(blocker, 'go');
    expect((await store.client.waitForOrchestration(runId as string, SOON)).output).toBe('run');
    await empty(name);
  });

  it('lose nothing when 10 000 instances wait in one that is to be deleted', async () => {
    const name = await queue({ concurrency: 1, rate: { limit: 1, per: '366d' } });
    const list = Array.from({ length: 10_000 }, (_, n) => ({ name: 'quick', version: '1.0.0', queue: name, input: n }));
    const outcomes = await store.client.startMany(list);
    expect(outcomes.filter(({ error }) => error !== undefined)).toEqual([]);
    await expect(store.client.queues.delete(name)).rejects.toMatchObject({
      name: 'RuntimeStateError',
      code: 'RUNTIME_STATE',
      queue: name,
      waiting: 10_000,
      running: 0,
    });
    expect(await info(name)).toMatchObject({ waiting: 10_000, tokens: 1 });
    await store.client.queues.set(name, {});
    let ran = 0;
    await store.start((runtime) =>
      runtime.registerOrchestration('quick', function* () {
        ran += 1;
      }),
    );
    await empty(name);
    expect(ran).toBe(10_000);
    await store.client.queues.delete(name);
    expect(await store.client.queues.get(name)).toBe(undefined);
  }, 120_000);
});
