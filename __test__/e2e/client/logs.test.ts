// The lines that orchestrations log, kept in the store.

import { type LogLine, type LogsPage, type OrchestrationContext, Runtime, SqliteProvider } from 'perdure';
import { describe, expect, it } from 'vitest';

import { SHARED_STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

function* approval(ctx: OrchestrationContext) {
  ctx.traceInfo('begins', { instanceId: 'own', total: 12n });
  yield ctx.scheduleActivity('step');
  ctx.traceDebug('step is done');
  ctx.traceWarn('waits');
  const by: string = yield ctx.waitForEvent('approved');
  ctx.traceInfo(`approved by ${by}`);
  yield ctx.scheduleActivity('step');
  ctx.traceError('ends');
}

function register(runtime: Runtime): void {
  runtime.registerActivity('step', () => null);
  runtime.registerOrchestration('approval', approval);
  runtime.registerOrchestration('counter', function* (ctx: OrchestrationContext, n: number) {
    for (let line = 0; line < 3; line += 1) ctx.traceInfo(`${n}.${line}`);
    yield ctx.scheduleActivity('step');
    if (n < 3) yield ctx.continueAsNew(n + 1);
  });
  runtime.registerOrchestration('flood', function* (ctx: OrchestrationContext) {
    ctx.traceInfo('x'.repeat(10_000), { large: 'y'.repeat(10_000) });
    for (let line = 0; line < 200; line += 1) ctx.traceInfo(`${line}`);
    yield ctx.scheduleActivity('step');
  });
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  async function linesOf(id: string): Promise<readonly LogLine[]> {
    return (await store.client.logs(id, { limit: 1_000 }))?.lines ?? [];
  }

  async function messagesOf(id: string): Promise<string[]> {
    return (await linesOf(id)).map(({ message }) => message);
  }

  it.each([10_000, 0])('keeps each line once over replays and restarts, with a cache of %i', async (cached) => {
    const options = { keepLogs: {}, cachedInstancesMax: cached };
    const id = store.id('approval');
    const first = await store.start(register, options);
    await store.client.startOrchestration(id, 'approval');
    await expect.poll(() => messagesOf(id)).toEqual(['begins', 'waits']);
    await first.shutdown();
    // This one replays the instance from its history.
    await store.start(register, options);
    await store.client.raiseEvent(id, 'approved', 'ann');
    expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Completed');
    expect(await linesOf(id)).toEqual([
      {
        executionId: 1,
        time: expect.any(Date),
        level: 'info',
        message: 'begins',
        fields: { instanceId: 'own', total: '12' },
      },
      { executionId: 1, time: expect.any(Date), level: 'warn', message: 'waits' },
      { executionId: 1, time: expect.any(Date), level: 'info', message: 'approved by ann' },
      { executionId: 1, time: expect.any(Date), level: 'error', message: 'ends' },
    ]);
  });

  it('keeps the lines of a wait that an earlier run left without an event', async () => {
    const options = { keepLogs: {} };
    const waits = (runtime: Runtime): void => {
      runtime.registerOrchestration('waits', function* (ctx) {
        ctx.traceInfo('waits');
        yield ctx.waitForEvent('go');
      });
    };
    const id = store.id('waits');
    for (const again of [false, true]) {
      const runtime = await store.start(waits, options);
      if (!again) await store.client.startOrchestration(id, 'waits');
      await expect.poll(() => messagesOf(id)).toEqual(['waits']);
      await runtime.shutdown();
    }
    await store.start(waits, options);
    await store.client.raiseEvent(id, 'go');
    await store.client.waitForOrchestration(id, SOON);
    expect(await messagesOf(id)).toEqual(['waits']);
  });

  it('reads page by page, by execution, and from a cursor on', async () => {
    await store.start(register, { keepLogs: {} });
    const id = store.id('counter');
    expect(await store.client.logs(id)).toBeNull();
    await store.client.startOrchestration(id, 'counter', 1);
    await store.client.waitForOrchestration(id, SOON);
    const all = ['1.0', '1.1', '1.2', '2.0', '2.1', '2.2', '3.0', '3.1', '3.2'];
    expect(await messagesOf(id)).toEqual(all);
    const read: string[] = [];
    let cursor: string | null = null;
    for (;;) {
      const page: LogsPage | null = await store.client.logs(id, { cursor, limit: 4 });
      read.push(...(page?.lines ?? []).map(({ message }) => message));
      if (page?.lines.length === 0) break;
      cursor = page?.cursor ?? null;
    }
    expect(read).toEqual(all);
    expect(await store.client.logs(id, { cursor })).toEqual({ lines: [], cursor });
    const second = await store.client.logs(id, { executionId: 2 });
    expect(second?.lines.map(({ message, executionId }) => [message, executionId])).toEqual([
      ['2.0', 2],
      ['2.1', 2],
      ['2.2', 2],
    ]);
  });

  it('keeps the last lines of an instance, and those of the wanted level', async () => {
    await store.start(register, { keepLogs: { level: 'warn', maxLines: 4 } });
    const id = store.id('counter');
    await store.client.startOrchestration(id, 'counter', 1);
    await store.client.waitForOrchestration(id, SOON);
    expect(await store.client.logs(id)).toEqual({ lines: [], cursor: null });
    await store.endTest();

    await store.start(register, { keepLogs: { level: 'debug', maxLines: 4 } });
    const other = store.id('counter');
    await store.client.startOrchestration(other, 'counter', 1);
    await store.client.waitForOrchestration(other, SOON);
    expect(await messagesOf(other)).toEqual(['2.2', '3.0', '3.1', '3.2']);
  });

  it('bounds the lines of a turn and their sizes', async () => {
    await store.start(register, { keepLogs: {} });
    const id = store.id('flood');
    await store.client.startOrchestration(id, 'flood');
    await store.client.waitForOrchestration(id, SOON);
    const lines = await linesOf(id);
    expect(lines).toHaveLength(101);
    expect(lines[0]?.message).toBe(`${'x'.repeat(8_192)} … (10000 bytes)`);
    expect(lines[0]?.fields).toEqual({ fields: 'left out: 10012 bytes' });
    expect(lines.at(-1)).toMatchObject({
      level: 'warn',
      message: '101 more lines of this turn are not stored: a turn stores 100',
    });
  });

  it('deletes the lines with their instance', async () => {
    await store.start(register, { keepLogs: {} });
    const id = store.id('counter');
    await store.client.startOrchestration(id, 'counter', 3);
    await store.client.waitForOrchestration(id, SOON);
    expect(await messagesOf(id)).toEqual(['3.0', '3.1', '3.2']);
    await store.client.deleteInstance(id);
    expect(await store.client.logs(id)).toBeNull();
  });

  it('keeps no lines by default', async () => {
    await store.start(register);
    const id = store.id('counter');
    await store.client.startOrchestration(id, 'counter', 3);
    await store.client.waitForOrchestration(id, SOON);
    expect(await linesOf(id)).toEqual([]);
  });
});

describe('arguments', () => {
  it('refuses kept lines with a codec', async () => {
    const codec = { encode: (text: string) => text, decode: (text: string) => text };
    const provider = await SqliteProvider.inMemory({ codec });
    expect(() => new Runtime(provider, { keepLogs: {} })).toThrow(
      'new Runtime: the option keepLogs needs a provider without a codec: the lines would be stored as they are',
    );
    await provider.close();
  });

  it('names a wrong option', async () => {
    const provider = await SqliteProvider.inMemory();
    expect(() => new Runtime(provider, { keepLogs: { maxLines: 0 } })).toThrow(/new Runtime: .*keepLogs\.maxLines/);
    expect(() => new Runtime(provider, { keepLogs: { lines: 1 } as never })).toThrow(/keepLogs.*lines/);
    await provider.close();
  });
});
