// The waits of an instance, as the client describes them.

import { Client, type InstanceDescription, type TimeoutError } from 'perdure';
import { describe, expect, it } from 'vitest';

import { eventually, rejection } from '../../support/async.ts';
import { SHARED_STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  /** Describes an instance until it waits as it should. */
  async function described(
    id: string,
    waits: (description: InstanceDescription) => boolean,
  ): Promise<InstanceDescription> {
    let last: InstanceDescription | null = null;
    await eventually(10_000, 'the description', async () => {
      last = await store.client.describe(id);
      return last !== null && waits(last);
    });
    return last as unknown as InstanceDescription;
  }

  it('names activities, timers, children and messages, and the fiber of each', async () => {
    const id = store.id('busy');
    const childId = store.id('child');
    let release: (() => void) | undefined;
    await store.start((runtime) => {
      runtime.registerActivity('slow', () => new Promise<void>((resolve) => (release = resolve)));
      runtime.registerOrchestration('waits', function* (ctx) {
        yield ctx.waitForEvent('end');
      });
      runtime.registerOrchestration('busy', function* (ctx) {
        const slow = ctx.scheduleActivity('slow');
        const packing = ctx.spawn(function* packing() {
          yield ctx.race([ctx.waitForEvent('packed'), ctx.sleep('1h')]);
        });
        const child = ctx.scheduleSubOrchestration('waits', null, { id: childId });
        yield ctx.all([slow, packing, child, ctx.dequeueEvent('orders')]);
      });
    });
    await store.client.startOrchestration(id, 'busy');
    const description = await described(id, ({ openFibers }) => openFibers === 2);
    expect(description).toEqual({
      status: expect.objectContaining({ id, status: 'Running' }),
      worker: { id: expect.any(String), name: expect.any(String) },
      unread: 0,
      activities: [
        {
          eventId: expect.any(Number),
          name: 'slow',
          scheduledAt: expect.any(Date),
          state: 'running',
          attempt: 1,
          worker: description.worker,
          fiber: 0,
        },
      ],
      timers: [{ eventId: expect.any(Number), dueAt: expect.any(Date), fiber: 1 }],
      children: [
        {
          eventId: expect.any(Number),
          name: 'waits',
          instanceId: childId,
          scheduledAt: expect.any(Date),
          fiber: 0,
        },
      ],
      messages: [
        { kind: 'queue', name: 'orders', fiber: 0 },
        { kind: 'event', name: 'packed', fiber: 1 },
      ],
      fibers: [
        { fiber: 0, waitsFor: ["activity 'slow'", 'fiber 1', `child '${childId}'`, "a message of queue 'orders'"] },
        { fiber: 1, name: 'packing', waitsFor: ["event 'packed'", expect.stringMatching(/^timer due at \d{4}-/)] },
      ],
      openOperations: 3,
      openFibers: 2,
    });
    const [timer] = description.timers;
    expect(timer?.dueAt.getTime()).toBeGreaterThan(Date.now() + 3_500_000);

    await store.client.raiseEvent(id, 'packed');
    await store.client.enqueueEvent(id, 'orders', 1);
    await store.client.raiseEvent(childId, 'end');
    release?.();
    await store.client.waitForOrchestration(id, SOON);
    expect(await store.client.describe(id)).toMatchObject({
      status: { status: 'Completed' },
      activities: [],
      timers: [],
      children: [],
      messages: [],
      fibers: [],
      openOperations: 0,
      openFibers: 0,
    });
  });

  it('tells the last error of a failed activity, the next attempt, and the last heartbeat', async () => {
    const id = store.id('fails');
    await store.start((runtime) => {
      runtime.registerActivity('flaky', (ctx) => {
        ctx.heartbeat({ row: 7 });
        throw new RangeError('no room');
      });
      runtime.registerOrchestration('fails', function* (ctx) {
        yield ctx.scheduleActivity('flaky', null, {
          retry: { maxAttempts: 5, initialInterval: '1h', maxInterval: '1h' },
        });
      });
    });
    await store.client.startOrchestration(id, 'fails');
    const { activities } = await described(
      id,
      ({ activities: [it] }) => it?.heartbeat !== undefined && it.attempt === 2,
    );
    expect(activities).toEqual([
      {
        eventId: 2,
        name: 'flaky',
        scheduledAt: expect.any(Date),
        state: 'retrying',
        attempt: 2,
        lastError: expect.objectContaining({ name: 'RangeError', message: 'no room' }),
        retryAt: expect.any(Date),
        heartbeat: { details: { row: 7 }, at: expect.any(Date) },
        worker: expect.any(Object),
        fiber: 0,
      },
    ]);
    expect(activities[0]?.retryAt?.getTime()).toBeGreaterThan(Date.now() + 1_000_000);
    await store.client.terminateInstance(id);
    expect(await store.client.describe(id)).toMatchObject({ activities: [], openOperations: 0 });
  });

  it('says that an activity waits for a worker of its queue', async () => {
    const id = store.id('queued');
    await store.start((runtime) => {
      runtime.registerActivity('render', () => 1);
      runtime.registerOrchestration('renders', function* (ctx) {
        yield ctx.scheduleActivity('render', null, { queue: 'gpu' });
      });
    });
    await store.client.startOrchestration(id, 'renders');
    const description = await described(id, (it) => it.activities[0]?.state === 'queued');
    expect(description.activities).toMatchObject([{ name: 'render', state: 'queued', queue: 'gpu', attempt: 1 }]);
    expect(description.activities[0]).not.toHaveProperty('worker');
    await store.client.terminateInstance(id);
  });

  it('names 64 of many operations, and their number', async () => {
    const id = store.id('many');
    await store.start((runtime) => {
      runtime.registerOrchestration('many', function* (ctx) {
        yield ctx.all(Array.from({ length: 300 }, () => ctx.sleep('1h')));
      });
    });
    await store.client.startOrchestration(id, 'many');
    const description = await described(id, ({ openOperations }) => openOperations === 300);
    expect(description.timers).toHaveLength(64);
    expect(description.fibers).toEqual([]);
    await store.client.terminateInstance(id);
  });

  it('is kept over a suspension and a restart, and needs no runtime', async () => {
    const id = store.id('kept');
    const runtime = await store.start((runtime) => {
      runtime.registerOrchestration('kept', function* (ctx) {
        yield ctx.waitForEvent('approve');
      });
    });
    await store.client.startOrchestration(id, 'kept');
    await described(id, ({ messages }) => messages.length === 1);
    await runtime.shutdown();
    await store.client.suspend(id, 'a pause');
    const description = await new Client(await store.open()).describe(id);
    expect(description).toMatchObject({
      status: { status: 'Suspended' },
      messages: [{ kind: 'event', name: 'approve', fiber: 0 }],
    });
    expect(description).not.toHaveProperty('worker');
    await store.client.terminateInstance(id);
  });

  it('gives a wait that runs out of time its reason', async () => {
    const ids = [store.id('approval'), store.id('charge')] as const;
    await store.start((runtime) => {
      runtime.registerActivity('charge', () => {
        throw new Error('the bank is closed');
      });
      runtime.registerOrchestration('approval', function* (ctx) {
        yield ctx.waitForEvent('approve');
      });
      runtime.registerOrchestration('charge', function* (ctx) {
        yield ctx.scheduleActivity('charge', null, { retry: { initialInterval: '1h', maxInterval: '1h' } });
      });
    });
    await store.client.startOrchestration(ids[0], 'approval');
    await store.client.startOrchestration(ids[1], 'charge');
    await described(ids[1], ({ activities }) => activities[0]?.state === 'retrying');
    const reasons = await Promise.all(
      ids.map(async (id) => (await rejection<TimeoutError>(store.client.waitForOrchestration(id, 1_100))).reason),
    );
    expect(reasons).toEqual([
      "Running: waits for event 'approve'",
      expect.stringMatching(
        /^Running: waits for activity 'charge' \(attempt 2 at \d{4}-.*Z; last error: the bank is closed\)$/,
      ),
    ]);
    expect(await store.client.getStatus(ids[0])).toMatchObject({ reason: reasons[0] });
    for (const id of ids) await store.client.terminateInstance(id);
  });

  it('names the queue of an instance and its place there, and the start time of one in none', async () => {
    await store.start((runtime) =>
      runtime.registerOrchestration('waits', function* (ctx) {
        yield ctx.waitForEvent('go');
      }),
    );
    const { client } = store;
    const queue = store.id('queue');
    await client.queues.set(queue, { concurrency: 2, perKey: { concurrency: 1 } });
    const start = async (options: object): Promise<string> => {
      const id = store.id();
      await client.startOrchestration(id, 'waits', null, options);
      return id;
    };
    const startAt = new Date('2100-01-01');
    const running = await start({ queue, key: 'ada' });
    const held = await start({ queue, key: 'ada' });
    const ofKey = await described(held, (description) => description.queue?.state === 'held');
    expect(ofKey.queue).toEqual({ name: queue, key: 'ada', state: 'held', since: expect.any(Date) });
    expect((await client.describe(running))?.queue).toMatchObject({ state: 'running' });
    const other = await start({ queue });
    await described(other, (description) => description.queue?.state === 'running');
    const waiting = await start({ queue });
    expect((await client.describe(waiting))?.queue).toEqual({ name: queue, state: 'waiting', since: expect.any(Date) });
    await client.queues.pause(queue);
    const paused = { since: expect.any(Date) };
    expect((await client.describe(waiting))?.queue).toMatchObject({ name: queue, state: 'waiting', paused });
    const waited = await rejection<TimeoutError>(client.waitForOrchestration(waiting, 10));
    expect(waited.reason).toMatch(new RegExp(`^Pending: its queue '${queue}' is paused since \\d{4}-.*Z$`));
    await client.queues.resume(queue);
    const delayed = await start({ queue, startAt });
    expect((await client.describe(delayed))?.queue).toEqual({ name: queue, state: 'delayed', since: startAt });
    const later = await start({ startAt });
    const alone = await client.describe(later);
    expect([alone?.queue, alone?.dueAt]).toEqual([undefined, startAt]);

    const reasonOf = async (id: string): Promise<string | undefined> =>
      (await rejection<TimeoutError>(client.waitForOrchestration(id, 1))).reason;
    expect(await Promise.all([held, waiting, delayed, later].map(reasonOf))).toEqual([
      expect.stringMatching(`^Pending: it waits for a slot or a token of its key 'ada' in queue '${queue}' since 2`),
      expect.stringMatching(`^Pending: it waits for a slot of queue '${queue}' since 2`),
      'Pending: it starts at 2100-01-01T00:00:00.000Z',
      'Pending: it starts at 2100-01-01T00:00:00.000Z',
    ]);
    await client.suspend(waiting);
    expect((await client.describe(waiting))?.queue).toMatchObject({ state: 'suspended' });
    for (const id of [running, held, other, waiting, delayed, later]) await client.terminateInstance(id);
    expect((await client.describe(running))?.queue).toBeUndefined();
  });

  it('is null for an instance that is not there', async () => {
    expect(await store.client.describe('nothing')).toBeNull();
  });
});
