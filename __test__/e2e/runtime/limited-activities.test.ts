// Limits of queues for attempts of activities, on each store. Each attempt notes when it begins and ends, so the notes
// of two attempts overlap only if both had a slot at the same time.

import {
  type ActivityContext,
  type ActivityDefinition,
  type ActivityKey,
  type ActivityOptions,
  defineActivity,
  defineOrchestration,
  type InstanceHandle,
  type QueueInfo,
  type QueueLimits,
  type Runtime,
  type RuntimeOptions,
} from 'perdure';
import { beforeEach, describe, expect, it } from 'vitest';

import { aborted, type Deferred, deferred, eventually, rejection } from '../../support/async.ts';
import { mostAtOnce, type WorkNote } from '../../support/notes.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const WITHIN_MS = 30_000;

/** One call of the activity. */
interface Call {
  readonly n: number;
  readonly tenant?: string;
  /** `waits`: until the gate opens; `fails`: in the first attempt. */
  readonly how?: 'waits' | 'fails';
}

interface Note extends Call, WorkNote {
  readonly at: number;
}

const begun = (notes: readonly Note[]): number[] => notes.filter(({ kind }) => kind === 'begin').map(({ n }) => n);

const callsOf = (count: number, of: (n: number) => Partial<Call> = () => ({})): Call[] =>
  Array.from({ length: count }, (_, n) => ({ n, ...of(n) }));

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const notes: Note[] = [];
  let [name, gate]: [string, Deferred<void>] = ['', deferred()];

  beforeEach(() => {
    notes.length = 0;
    [name, gate] = [store.id('queue'), deferred()];
  });

  /** Returns the activity of the test, in its queue. */
  function work(options: ActivityOptions<ActivityKey<Call>> = {}): ActivityDefinition<Call, number> {
    const attempt = async ({ attempt: number, signal }: ActivityContext, call: Call): Promise<number> => {
      notes.push({ ...call, kind: 'begin', at: Date.now() });
      try {
        if (call.how === 'waits') await Promise.race([gate.promise, aborted(signal)]);
        if (call.how === 'fails' && number === 1) throw new Error('on purpose');
        return call.n;
      } finally {
        notes.push({ ...call, kind: 'end', at: Date.now() });
      }
    };
    return defineActivity('work', attempt, { retry: { initialInterval: 1 }, queue: name, ...options });
  }

  /** Makes all calls at once. */
  const calls = (activity: ActivityDefinition<Call, number>, options: ActivityOptions = {}) =>
    defineOrchestration('calls', function* (ctx, list: Call[]) {
      return yield* ctx.all(list.map((call) => ctx.call(activity, call, options)));
    });

  /** Starts a runtime with the activity and what calls it. Returns a function that starts an instance. */
  async function running(
    limits: QueueLimits,
    options?: ActivityOptions<ActivityKey<Call>>,
    called?: ActivityOptions,
  ): Promise<(list: Call[]) => Promise<InstanceHandle<number[]>>> {
    await store.client.queues.set(name, limits);
    const activity = work(options);
    const orchestration = calls(activity, called);
    await store.start((runtime) => runtime.register(activity, orchestration), { queues: ['default', name] });
    return (list) => store.client.start(orchestration, list);
  }

  /** Starts another runtime, with a provider of its own if the store can be opened twice. */
  async function another(register: (runtime: Runtime) => void, options: RuntimeOptions): Promise<Runtime> {
    return store.start(register, options, kind.isShared ? await store.open() : store.provider);
  }

  /** Resolves when the numbers of the queue are as asked. */
  async function numbers(asked: Partial<QueueInfo>): Promise<void> {
    let found: QueueInfo | undefined;
    const isSo = async (): Promise<boolean> => {
      found = await store.client.queues.get(name);
      return Object.entries(asked).every(([key, value]) => found?.[key as keyof QueueInfo] === value);
    };
    await eventually(WITHIN_MS, JSON.stringify(asked), isSo).catch(() => expect(found).toMatchObject(asked));
  }

  /** Resolves when so many attempts are at work at once: a slot may be taken before its attempt has begun. */
  const atWork = (count: number): Promise<void> =>
    eventually(WITHIN_MS, `${count} attempts at work`, () => mostAtOnce(notes) === count);

  const empty = (): Promise<void> => numbers({ running: 0, waiting: 0, delayed: 0 });

  it('no more attempts run than the limit, over all runtimes', async () => {
    const start = await running({ concurrency: 3 });
    const activity = work();
    await another((runtime) => runtime.register(activity, calls(activity)), { queues: ['default', name] });
    const list = callsOf(30, (n) => ({ how: n < 3 ? 'waits' : n % 5 === 0 ? 'fails' : undefined }) as Partial<Call>);
    const handles = [await start(list.slice(0, 15)), await start(list.slice(15))];
    await numbers({ running: 3 });
    await atWork(3);
    gate.resolve();
    const results = await Promise.all(handles.map((handle) => handle.result({ timeout: SOON })));
    expect(results.flat()).toEqual(list.map(({ n }) => n));
    expect(mostAtOnce(notes)).toBe(3);
    await empty();
  });

  it('the key is made of the input, and a key of the call overrides it', async () => {
    const start = await running({ perKey: { concurrency: 1 } }, { key: ({ tenant }) => `tenant ${tenant}` });
    const list = callsOf(12, (n) => ({ tenant: n % 2 === 0 ? 'a' : 'b', ...(n < 2 ? { how: 'waits' } : {}) }));
    const handle = await start(list);
    await numbers({ running: 2, waiting: 10 });
    await atWork(2);
    gate.resolve();
    await handle.result({ timeout: SOON });
    for (const tenant of ['a', 'b']) expect(mostAtOnce(notes, (note) => note.tenant === tenant)).toBe(1);
    expect(mostAtOnce(notes)).toBe(2);
  });

  it('a key of the call overrides that of the definition, and is recorded', async () => {
    const start = await running({ perKey: { concurrency: 2 } }, { key: ({ n }) => `key ${n}` }, { key: 'all' });
    const handle = await start(callsOf(5, () => ({ how: 'waits' })));
    await numbers({ running: 2, waiting: 3 });
    await atWork(2);
    gate.resolve();
    await handle.result({ timeout: SOON });
    expect(mostAtOnce(notes)).toBe(2);
    const scheduled = (await store.client.getHistory(handle.id)).filter((event) => event.kind === 'ActivityScheduled');
    expect(scheduled.map(({ meta }) => meta?.key)).toEqual(Array(5).fill('all'));
  });

  it('no more attempts begin in a span of time than the rate', async () => {
    const [limit, per] = [4, 200];
    const start = await running({ rate: { limit, per } });
    const from = Date.now();
    const handle = await start(callsOf(14, (n) => (n === 0 ? { how: 'fails' } : {})));
    await handle.result({ timeout: SOON });
    const starts = notes.filter((note) => note.kind === 'begin').map(({ at }) => at);
    // Each attempt counts, also one that follows a failed one. An attempt begins after it got its slot.
    expect(starts).toHaveLength(15);
    for (const [i, at] of starts.toSorted((a, b) => a - b).entries())
      expect(at - from, `attempt ${i}`).toBeGreaterThanOrEqual(Math.floor(i / limit) * per - 1);
    expect((await store.client.queues.get(name))?.tokens).toBeLessThanOrEqual(limit);
  });

  it('an attempt gives its slot back until it is tried again', async () => {
    const retry = { initialInterval: '1h', maxAttempts: 2 } as const;
    const start = await running({ concurrency: 1 }, { retry });
    const failing = await start(callsOf(1, () => ({ how: 'fails' })));
    await numbers({ running: 0, waiting: 0, delayed: 1 });
    const next = await start([{ n: 1 }]);
    expect(await next.result({ timeout: SOON })).toEqual([1]);
    await numbers({ running: 0, waiting: 0, delayed: 1 });
    await failing.cancel();
    await empty();
    expect(begun(notes)).toEqual([0, 1]);
  });

  it('limits change while attempts run and wait', async () => {
    const start = await running({ concurrency: 1 });
    const handle = await start(callsOf(6, () => ({ how: 'waits' })));
    await numbers({ running: 1, waiting: 5 });
    expect((await store.client.queues.get(name))?.oldestWait).toBeInstanceOf(Date);
    await store.client.queues.set(name, { concurrency: 4 });
    await numbers({ running: 4, waiting: 2 });
    await store.client.queues.set(name, {});
    await numbers({ running: 6, waiting: 0 });
    gate.resolve();
    await handle.result({ timeout: SOON });
    await empty();
  });

  it.each(['cancel', 'terminate'] as const)('after a %s, an instance has no attempt in line', async (how) => {
    const start = await running({ concurrency: 1 });
    const first = await start([{ n: 0, how: 'waits' }]);
    await atWork(1);
    const second = await start([{ n: 1 }]);
    await numbers({ running: 1, waiting: 1 });
    await second[how]();
    await rejection(second.result({ timeout: SOON }));
    await numbers({ running: 1, waiting: 0 });
    // The attempt that runs gives its slot to the next one.
    const third = await start([{ n: 2 }]);
    await numbers({ running: 1, waiting: 1 });
    await first[how]();
    expect(await third.result({ timeout: SOON })).toEqual([2]);
    await empty();
    expect(begun(notes)).toEqual([0, 2]);
  });

  it('instances and attempts share the limits', async () => {
    await store.client.queues.set(name, { concurrency: 1 });
    const activity = work();
    const orchestration = calls(activity);
    const waits = defineOrchestration('waits', function* (ctx) {
      yield* ctx.waitForEvent('go');
    });
    await store.start((runtime) => runtime.register(activity, orchestration, waits), { queues: ['default', name] });
    const instance = await store.client.start(waits, undefined, { queue: name });
    await numbers({ running: 1 });
    const attempt = await store.client.start(orchestration, [{ n: 0, how: 'waits' }]);
    await numbers({ running: 1, waiting: 1 });
    await instance.raiseEvent('go');
    await eventually(WITHIN_MS, 'the attempt has the slot', () => begun(notes).length === 1);
    const next = await store.client.start(waits, undefined, { queue: name });
    await numbers({ running: 1, waiting: 1 });
    expect((await next.status())?.status).toBe('Pending');
    gate.resolve();
    await attempt.result({ timeout: SOON });
    await numbers({ running: 1, waiting: 0 });
    await next.raiseEvent('go');
    await next.result({ timeout: SOON });
    await empty();
  });

  it('a runtime serves the queues that it sets and whose activities it has, unless it is told others', async () => {
    const activity = work();
    const orchestration = calls(activity);
    const other = store.runtime({ queues: ['default'] });
    other.register(activity, orchestration);
    await other.start({ queues: { [name]: { concurrency: 1 } } });
    const handle = await store.client.start(orchestration, callsOf(4));
    await numbers({ running: 0, waiting: 4 });
    const serving = store.runtime();
    serving.register(activity);
    await serving.start({ queues: { [name]: { concurrency: 2 }, [store.id('queue')]: {} } });
    expect(await handle.result({ timeout: SOON })).toEqual([0, 1, 2, 3]);
    // A start without queues serves the default queue alone.
    await serving.shutdown();
    await serving.start();
    const unserved = await store.client.start(orchestration, [{ n: 4, how: 'waits' }]);
    await numbers({ waiting: 1 });
    await serving.shutdown();
    await serving.start({ queues: { [name]: {} } });
    await numbers({ running: 1 });
    gate.resolve();
    expect(await unserved.result({ timeout: SOON })).toEqual([4]);
  });

  it('a call whose key cannot be told fails in the orchestration, and nothing is recorded', async () => {
    const keys: Record<string, ActivityKey<Call>> = {
      throws: () => {
        throw new RangeError('on purpose');
      },
      returnsNothing: (() => undefined) as unknown as ActivityKey<Call>,
    };
    for (const key of Object.values(keys)) {
      const activity = work({ key });
      const orchestration = calls(activity);
      const runtime = await store.start((started) => started.register(activity, orchestration));
      const handle = await store.client.start(orchestration, [{ n: 0 }]);
      const { error } = await store.client.waitForOrchestration(handle.id, SOON);
      expect(error).toMatchObject({ name: 'TypeError', message: expect.stringMatching(/^activity 'work': /) });
      expect((await store.client.getHistory(handle.id)).map((event) => event.kind)).not.toContain('ActivityScheduled');
      await runtime.shutdown();
    }
  });
});
