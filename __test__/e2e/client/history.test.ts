// Histories as clients read them: page by page, and as JSON.

import { Client, type HistoryEvent, type HistoryExport, InstanceNotFoundError, Runtime, SqliteProvider } from 'perdure';
import { describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { historyViolations } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('a long one is read page by page, and no further than it is asked for', async () => {
    const [id, name] = [store.id(), store.id('long')];
    await store.start((runtime) =>
      runtime.registerOrchestration(name, function* (ctx) {
        yield ctx.all(Array.from({ length: 2_500 }, () => ctx.scheduleTimer(0)));
      }),
    );
    await store.client.startOrchestration(id, name);
    await store.client.waitForOrchestration(id, SOON);
    const events: HistoryEvent[] = [];
    for await (const event of store.client.historyEvents(id)) events.push(event);
    expect(events).toHaveLength(5_002);
    expect(historyViolations(events, 'Completed')).toEqual([]);
    expect(events).toEqual(await store.client.getHistory(id));
    const reading = store.client.historyEvents(id);
    expect((await reading.next()).value).toMatchObject({ eventId: 1, kind: 'ExecutionStarted' });
    // The next pages are of this very instance. A later instance with the same id does not continue them.
    await store.client.deleteInstance(id);
    await store.client.startOrchestration(id, 'nobody registers this');
    const rest = (async () => {
      for await (const _ of reading);
    })();
    expect(await rejection(rest)).toBeInstanceOf(InstanceNotFoundError);
  });

  it('a page ends where it has 4 MiB, however few events that are', async () => {
    const [id, name] = [store.id(), store.id('large')];
    const MIB = 1024 * 1024;
    await store.start((runtime) =>
      runtime
        .registerActivity('make', () => 'x'.repeat(MIB - 2))
        .registerOrchestration(name, function* (ctx) {
          for (let n = 0; n < 9; n += 1) yield ctx.scheduleActivity('make');
        }),
    );
    await store.client.startOrchestration(id, name);
    await store.client.waitForOrchestration(id, SOON);
    const pages: HistoryEvent[][] = [];
    for (let from: number | null = 1; from !== null; ) {
      const page = await store.client.historyPage(id, { from });
      pages.push([...page.events]);
      from = page.next;
    }
    expect(pages.map((page) => page.filter((event) => event.kind === 'ActivityCompleted').length)).toEqual([4, 4, 1]);
    expect(pages.flat()).toEqual(await store.client.getHistory(id));
  });

  it('is exported as JSON that says the same, of each execution', async () => {
    const [id, name] = [store.id(), store.id('exported')];
    await store.start((runtime) =>
      runtime
        .registerActivity(name, (_, input) => input)
        .registerOrchestration(name, function* (ctx, round) {
          ctx.setCustomStatus({ round });
          yield ctx.scheduleActivity(name, { when: new Date(0), round });
          if (round === 1) return yield ctx.continueAsNew(2, { version: '2.0.0' });
          return round;
        })
        .registerOrchestration(
          name,
          function* (ctx, round) {
            yield ctx.scheduleActivity(name, 'plain');
            return `${round} ${ctx.version}`;
          },
          { version: '2.0.0' },
        ),
    );
    const { client } = store;
    await client.startOrchestration(id, name, 1, { version: '1.0.0' });
    await client.waitForOrchestration(id, SOON);
    const first = await client.exportHistory(id, 1);
    const second = await client.exportHistory(id);
    for (const exported of [first, second]) {
      expect(JSON.parse(JSON.stringify(exported))).toEqual(exported);
      const events = await client.getHistory(id, exported.executionId);
      expect(exported.events.map(({ eventId, kind, timeMs }) => ({ eventId, kind, timeMs }))).toEqual(
        events.map(({ eventId, kind, time }) => ({ eventId, kind, timeMs: time.getTime() })),
      );
      expect(exported.events.map(({ refId, name, meta }) => ({ refId, name, meta }))).toEqual(
        events.map(({ refId, name, meta }) => ({ refId, name, meta })),
      );
    }
    expect(first).toMatchObject({ format: 1, instanceId: id, name, version: '1.0.0', executionId: 1 });
    expect(second).toMatchObject({ name, version: '2.0.0', executionId: 2 });
    expect(second.events.map(({ payload }) => payload)).toEqual(['2', '"plain"', '"plain"', '"2 2.0.0"']);
    expect(second.events[0]?.meta).toMatchObject({ version: '2.0.0', customStatus: '{"round":1}' });
  });

  it('arguments that are wrong are refused', async () => {
    const { client } = store;
    expect(() => client.historyEvents('')).toThrow(TypeError);
    expect(() => client.historyEvents('id', 0)).toThrow(/executionId/);
    for (const attempt of [
      client.exportHistory(5 as any),
      client.exportHistory('id', 1.5),
      client.getHistory('id', -1),
    ]) {
      expect(await rejection(attempt)).toBeInstanceOf(TypeError);
    }
    expect(await rejection(client.exportHistory('nobody'))).toBeInstanceOf(InstanceNotFoundError);
    await client.startOrchestration('short', 'nobody registers this');
    expect(await rejection(client.exportHistory('short', 2))).toMatchObject({
      message: expect.stringContaining('has no execution 2'),
    });
  });
});

it('an export contains plain values, not the output of the codec', async () => {
  const codec = {
    encode: (text: string) => Buffer.from(text).toString('base64'),
    decode: (text: string) => Buffer.from(text, 'base64').toString(),
  };
  await using provider = await SqliteProvider.inMemory({ codec });
  const runtime = new Runtime(provider, { logLevel: 'silent' });
  runtime.registerOrchestration('coded', function* (ctx, input) {
    ctx.setCustomStatus('kept');
    return ctx.executionId === 1 ? yield ctx.continueAsNew(input) : input;
  });
  await runtime.start();
  const client = new Client(provider);
  await client.startOrchestration('a', 'coded', { secret: 1 });
  await client.waitForOrchestration('a', SOON);
  await client.startOrchestration('held', 'nobody registers this');
  await client.suspend('held', 'a reason');
  const exported: HistoryExport = await client.exportHistory('a');
  expect(exported.events.map(({ payload }) => payload)).toEqual(['{"secret":1}', '{"secret":1}']);
  expect(exported.events[0]?.meta?.customStatus).toBe('"kept"');
  expect((await client.getStatus('held'))?.error?.message).toBe('held by client.suspend: a reason');
  await runtime.shutdown();
});
