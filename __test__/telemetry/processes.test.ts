// One trace over several processes: an attempt that another worker takes from a queue, and an instance that continues
// elsewhere after a crash.

import { join } from 'node:path';
import { Client } from 'perdure';
import { openTelemetry } from 'perdure/telemetry';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';

import { Process, root } from '../support/process.ts';
import { SHARED_STORES, STORES } from '../support/providers.ts';
import { KINDS, Spans, type Traced, treeOf } from '../support/spans.ts';
import { SOON, useStore } from '../support/store.ts';

const spans = new Spans();
afterAll(() => spans.end());
beforeEach(() => spans.clear());
const telemetry = openTelemetry();

type Said = { type: 'ready' } | { type: 'holding' } | { type: 'started' } | { type: 'span'; span: Traced };
type Told = { type: 'start'; id: string; name: string; input?: unknown } | { type: 'stop' };

afterEach(async () => {
  await Promise.all([...Process.running].map((worker) => worker.kill()));
});

const isTurn = ({ name }: Traced): boolean => name === 'turn' || name === 'replay';
const outcome = ({ name, attributes }: Traced): string =>
  [name, attributes['perdure.outcome']].filter(Boolean).join(' ');

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  async function worker(options: { runtime?: object; holds?: boolean } = {}): Promise<Process<Said, Told>> {
    const args = JSON.stringify({ store: store.address, ...options });
    const started = new Process<Said, Told>('worker', [
      process.execPath,
      join(root, '__test__/telemetry/worker.mjs'),
      args,
    ]);
    await started.said('ready');
    return started;
  }

  const spansOf = (process: Process<Said, Told>): Traced[] => process.all('span').map(({ span }) => span);

  it('an attempt that another process takes from a queue nests below the instance that waits for it', async () => {
    const far = await worker({ runtime: { queues: ['far'] } });
    await store.start(
      (runtime) =>
        runtime.registerOrchestration('queued', function* (ctx) {
          return yield ctx.scheduleActivity('charge', 1, { queue: 'far', retry: { initialInterval: 1 } });
        }),
      { telemetry },
    );
    const id = store.id('queued');
    await new Client(store.provider, { telemetry }).startOrchestration(id, 'queued');
    const { output } = await store.client.waitForOrchestration(id, SOON);
    expect(output).not.toBe(process.pid);
    far.tell({ type: 'stop' });
    await far.exited();
    const all = [...spans.all(), ...spansOf(far)].filter((span) => !isTurn(span));
    expect(new Set(all.map(({ traceId }) => traceId)).size).toBe(1);
    // The instance sleeps while others work for it, and decides about the next attempt.
    const [first, second] = all.filter(({ name }) => name === 'charge');
    for (const attempt of [first, second]) {
      expect(attempt).toMatchObject({
        kind: KINDS.consumer,
        attributes: { 'perdure.activity.queue': 'far', 'perdure.instance.id': id },
      });
      expect(all.find(({ spanId }) => spanId === attempt?.parentId)?.name).toBe('queued');
    }
    expect([first?.error, second?.error]).toEqual(['the bank is down', undefined]);
    expect(all.filter(({ name }) => name === 'perdure.start queued')).toHaveLength(1);
  });

  it('a killed process and the process that takes over write one trace', async () => {
    const first = await worker({ holds: true });
    const id = store.id('order');
    first.tell({ type: 'start', id, name: 'order', input: 1 });
    await first.said('started');
    await first.said('holding');
    await first.kill();
    const second = await worker();
    expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Completed');
    second.tell({ type: 'stop' });
    await second.exited();

    const before = spansOf(first);
    const after = spansOf(second).filter(({ attributes }) => attributes['perdure.operation'] === undefined);
    const all = [...before, ...after];
    expect(new Set(all.map(({ traceId }) => traceId)).size, treeOf(all)).toBe(1);
    const start = before.find(({ name }) => name === 'perdure.start order');
    // Open spans are lost with their process. The first execution had ended. The next one continues in another process,
    // again below the start.
    expect(before.filter((span) => outcome(span) === 'order continued')).toMatchObject([{ parentId: start?.spanId }]);
    expect(after.filter(({ name }) => name === 'order')).not.toHaveLength(0);
    for (const span of after)
      if (span.name === 'order')
        expect(span).toMatchObject({
          parentId: start?.spanId,
          attributes: { 'perdure.resumed': true, 'perdure.execution.id': 2 },
        });
    // The span of the child is below the span that started it. Nothing else is left of the latter.
    const shipping = after.filter(({ name }) => name === 'shipping');
    expect(shipping).toMatchObject([{ attributes: { 'perdure.resumed': true, 'perdure.outcome': 'completed' } }]);
    expect(after.find(({ name }) => name === 'hold')?.parentId).toBe(shipping[0]?.spanId);
    expect(after.filter(({ name }) => name === 'replay').length).toBeGreaterThan(0);
  });
});

describe.each(STORES)('worker threads on $name', (kind) => {
  const store = useStore(kind);
  const WORK = new URL('./thread-work.mjs', import.meta.url);
  const TELEMETRY = new URL('./thread-telemetry.mjs', import.meta.url);

  it('record spans below the spans of the main thread', async () => {
    const runtime = await store.start(() => {}, { threads: 2, modules: [WORK, TELEMETRY], telemetry });
    const id = store.id('threads');
    await new Client(store.provider, { telemetry }).startOrchestration(id, 'threads', 60);
    const { output } = await store.client.waitForOrchestration(id, SOON);
    const [start] = spans.all();
    const seen = output as { thread: number; traceId: string | undefined }[];
    expect(new Set(seen.map(({ traceId }) => traceId))).toEqual(new Set([start?.traceId]));
    expect(new Set(seen.map(({ thread }) => thread)).size).toBeGreaterThan(1);
    await runtime.shutdown();
  });

  it('are not started without it', async () => {
    const runtime = store.runtime({ threads: 1, modules: [WORK], telemetry });
    await expect(runtime.start()).rejects.toThrow("one of the modules must export it as 'telemetry'");
  });
});
