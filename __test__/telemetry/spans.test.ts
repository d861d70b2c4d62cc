// Spans in one process: their kinds, their nesting, and their visibility to users' code.

import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { context, propagation, SpanKind, trace } from '@opentelemetry/api';
import { Client, NonRetryableError } from 'perdure';
import { openTelemetry, TRACE_CONTEXT_BYTES_MAX } from 'perdure/telemetry';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';

import { deferred, rejection } from '../support/async.ts';
import { STORES } from '../support/providers.ts';
import { KINDS, Spans, type Traced, treeOf } from '../support/spans.ts';
import { SOON, useStore } from '../support/store.ts';

const spans = new Spans();
afterAll(() => spans.end());
beforeEach(() => spans.clear());

const telemetry = openTelemetry();
const outcome = ({ name, attributes }: Traced): string =>
  [name, attributes['perdure.outcome']].filter(Boolean).join(' ');
const notTurns = (all: readonly Traced[]): Traced[] => all.filter(({ name }) => name !== 'turn' && name !== 'replay');

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const client = () => new Client(store.provider, { telemetry });

  /** Returns the trace that began with the start of an instance, after the instance has ended. */
  async function traceOf(id: string): Promise<Traced[]> {
    const { status } = await store.client.waitForOrchestration(id, SOON);
    expect(status).toMatch(/Completed|Failed|Cancelled/);
    const start = spans
      .all()
      .find(
        ({ attributes }) => attributes['perdure.operation'] === 'start' && attributes['perdure.instance.id'] === id,
      );
    return spans.all(start?.traceId);
  }

  /** Resolves when a span of the instance has ended with this outcome. */
  async function stretched(id: string, how: string): Promise<void> {
    const ended = (): boolean =>
      spans
        .all()
        .some(({ attributes }) => attributes['perdure.instance.id'] === id && attributes['perdure.outcome'] === how);
    while (!ended()) await store.settled();
  }

  it('nest as the work does: children, retries, detached instances, inline activities', async () => {
    let failures = 1;
    await store.start(
      (runtime) =>
        runtime
          .registerActivity('charge', async () => {
            if (failures-- > 0) throw new RangeError('the bank is down');
            return 'paid';
          })
          .registerOrchestration('shipping', function* (ctx) {
            return yield ctx.run('label', async () => 'label');
          })
          .registerOrchestration('audit', function* () {})
          .registerOrchestration('order', function* (ctx) {
            yield ctx.scheduleActivity('charge', 1, { retry: { initialInterval: 1 } });
            yield ctx.scheduleSubOrchestration('shipping');
            yield ctx.startOrchestration('audit', `${ctx.instanceId}-audit`);
          }),
      { telemetry },
    );
    const id = store.id('order');
    await client().startOrchestration(id, 'order');
    await store.client.waitForOrchestration(id, SOON);
    await store.client.waitForOrchestration(`${id}-audit`, SOON);
    const all = await traceOf(id);
    const tree = treeOf(notTurns(all), ({ name }) => name);
    expect(tree.split('\n')[0]).toBe('perdure.start order');
    const parentOf = (name: string): string[] =>
      all
        .filter((span) => span.name === name)
        .map(({ parentId }) => all.find(({ spanId }) => spanId === parentId)?.name ?? 'none');
    expect(new Set(parentOf('order'))).toEqual(new Set(['perdure.start order']));
    expect(parentOf('charge')).toEqual(['order', 'order']);
    expect(new Set(parentOf('shipping'))).toEqual(new Set(['order']));
    expect(parentOf('label')).toEqual(['shipping']);
    expect(parentOf('audit')).toEqual(['order']);
    expect(new Set(parentOf('turn'))).toEqual(new Set(['order', 'shipping', 'audit']));
    const [first, second] = all.filter(({ name }) => name === 'charge');
    expect(first).toMatchObject({ error: 'the bank is down', thrown: ['RangeError'], kind: KINDS.internal });
    expect(first?.attributes).toEqual({
      'perdure.instance.id': id,
      'perdure.execution.id': 1,
      'perdure.orchestration.name': 'order',
      'perdure.activity.name': 'charge',
      'perdure.activity.attempt': 1,
      'perdure.activity.queue': 'default',
      'perdure.activity.inline': false,
      'error.type': 'RangeError',
    });
    expect(second).toMatchObject({ error: undefined, attributes: { 'perdure.activity.attempt': 2 } });
    expect(all[0]).toMatchObject({
      kind: KINDS.producer,
      attributes: { 'perdure.instance.id': id, 'perdure.orchestration.name': 'order' },
    });
    const label = all.find(({ name }) => name === 'label');
    expect(label?.attributes['perdure.activity.inline']).toBe(true);
  });

  it('spans of HTTP nest below the calling activity, and continue on the server', async () => {
    const tracer = trace.getTracer('by hand');
    const server: Server = createServer((request, response) => {
      const around = propagation.extract(context.active(), request.headers);
      tracer.startSpan('GET /rate', { kind: SpanKind.SERVER }, around).end();
      response.end('7');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    await store.start(
      (runtime) =>
        runtime
          .registerActivity('rate', async () => {
            await Promise.resolve();
            return tracer.startActiveSpan('GET', { kind: SpanKind.CLIENT }, async (span) => {
              const headers: Record<string, string> = {};
              propagation.inject(context.active(), headers);
              const answer = await (await fetch(`http://127.0.0.1:${port}/rate`, { headers })).text();
              span.end();
              return answer;
            });
          })
          .registerOrchestration('rates', function* (ctx) {
            return yield ctx.scheduleActivity('rate');
          }),
      { telemetry },
    );
    const id = store.id('rates');
    await client().startOrchestration(id, 'rates');
    const all = await traceOf(id);
    server.close();
    expect(treeOf(notTurns(all))).toBe(
      ['perdure.start rates', '  rates', '    rate', '      GET', '        GET /rate'].join('\n'),
    );
  });

  it('end with the time that an instance is in memory: one that sleeps has none open', async () => {
    const runtime = await store.start(
      (r) =>
        r
          .registerActivity('step', async () => 1)
          .registerOrchestration('sleeper', function* (ctx) {
            yield ctx.scheduleActivity('step');
            return yield ctx.waitForEvent('go');
          }),
      { telemetry },
    );
    const id = store.id('sleeper');
    await client().startOrchestration(id, 'sleeper');
    await stretched(id, 'sleeping');
    const hits = runtime.metrics().cacheHits;
    await client().raiseEvent(id, 'go');
    const all = await traceOf(id);
    expect(treeOf(all, outcome)).toBe(
      [
        'perdure.start sleeper',
        '  sleeper sleeping',
        '    turn',
        '    step',
        '    turn',
        '  sleeper completed',
        '    turn',
      ].join('\n'),
    );
    expect(all.filter(({ name }) => name === 'sleeper').map(({ attributes }) => attributes['perdure.resumed'])).toEqual(
      [false, true],
    );
    expect(runtime.metrics().cacheHits, 'its generator was kept').toBe(hits + 1);
    const raise = spans.all().find(({ name }) => name === 'perdure.raise go');
    expect(raise).toMatchObject({
      kind: KINDS.producer,
      attributes: { 'perdure.instance.id': id, 'perdure.event.name': 'go' },
    });
  });

  it('show a replay as one span, and nothing that was done before again', async () => {
    await store.start(
      (r) =>
        r
          .registerActivity('step', async () => 1)
          .registerOrchestration('replayed', function* (ctx) {
            for (let i = 0; i < 3; i += 1) yield ctx.scheduleActivity('step');
            yield ctx.waitForEvent('go');
            return yield ctx.scheduleActivity('step');
          }),
      { telemetry, cachedInstancesMax: 0 },
    );
    const id = store.id('replayed');
    await client().startOrchestration(id, 'replayed');
    await stretched(id, 'sleeping');
    await client().raiseEvent(id, 'go');
    const all = await traceOf(id);
    expect(all.filter(({ name }) => name === 'step')).toHaveLength(4);
    const last = all.filter(({ name, attributes }) => name === 'replay' && attributes['perdure.turn.deliveries'] === 3);
    expect(last.length).toBeGreaterThan(0);
    const live = all
      .filter(({ name }) => name === 'turn')
      .map(({ attributes }) => attributes['perdure.turn.commands'] as number);
    expect(
      live.reduce((sum, n) => sum + n, 0),
      'each command is in one turn',
    ).toBe(4);
  });

  it('tell how it ended', async () => {
    await store.start(
      (runtime) =>
        runtime
          .registerActivity('refuse', async () => {
            throw new NonRetryableError('no');
          })
          .registerOrchestration('fails', function* (ctx) {
            yield ctx.scheduleActivity('refuse');
          })
          .registerOrchestration('waits', function* (ctx) {
            yield ctx.waitForEvent('never');
          })
          .registerOrchestration('again', function* (ctx, n: number) {
            if (n > 0) yield ctx.continueAsNew(n - 1);
          }),
      { telemetry },
    );
    const [fails, waits, again] = ['fails', 'waits', 'again'].map((name) => store.id(name)) as [string, string, string];
    await client().startOrchestration(fails, 'fails');
    const failed = await traceOf(fails);
    expect(failed.find(({ name }) => name === 'refuse')).toMatchObject({ error: 'no', thrown: ['NonRetryableError'] });
    const end = failed.find(({ attributes }) => attributes['perdure.outcome'] === 'failed');
    expect(end).toMatchObject({
      name: 'fails',
      thrown: ['ActivityError'],
      attributes: { 'error.type': 'ActivityError' },
    });
    await client().startOrchestration(waits, 'waits');
    await client().cancelInstance(waits);
    const cancelled = await traceOf(waits);
    expect(cancelled.map(({ attributes }) => attributes['perdure.outcome'])).toContain('cancelled');
    expect(cancelled.every(({ error }) => error === undefined)).toBe(true);
    await client().startOrchestration(again, 'again', 2);
    const executions = await traceOf(again);
    expect(
      treeOf(notTurns(executions), (span) =>
        `${outcome(span)} ${span.attributes['perdure.execution.id'] ?? ''}`.trimEnd(),
      ),
    ).toBe(['perdure.start again', '  again continued 1', '  again continued 2', '  again completed 3'].join('\n'));
  });

  it('end with a time that is up, and with the runtime', async () => {
    const begun = deferred();
    const runtime = await store.start(
      (r) =>
        r
          .registerActivity('slow', () => new Promise(() => {}))
          .registerActivity('stuck', () => {
            begun.resolve();
            return new Promise(() => {});
          })
          .registerOrchestration('late', function* (ctx) {
            try {
              yield ctx.scheduleActivity('slow', 1, { timeout: 1, retry: { maxAttempts: 1 } });
            } catch {
              yield ctx.scheduleActivity('stuck');
            }
          }),
      { telemetry },
    );
    const id = store.id('late');
    await client().startOrchestration(id, 'late');
    await begun.promise;
    await runtime.shutdown(1);
    const all = spans.all();
    expect(all.find(({ name }) => name === 'slow')).toMatchObject({ thrown: ['TimeoutError'] });
    expect(all.find(({ name }) => name === 'stuck')).toMatchObject({ thrown: ['RuntimeStateError'] });
    expect(all.find(({ name }) => name === 'late')?.attributes['perdure.outcome']).toBe('dropped');
    await store.client.terminateInstance(id);
  });

  it('are not visible to orchestrations', async () => {
    const seen: unknown[] = [];
    await store.start(
      (runtime) =>
        runtime
          .registerActivity('look', () => seen.push(trace.getActiveSpan() !== undefined))
          .registerOrchestration('looks', function* (ctx) {
            seen.push(trace.getActiveSpan());
            yield ctx.scheduleActivity('look');
            seen.push(trace.getActiveSpan());
          }),
      { telemetry },
    );
    const id = store.id('looks');
    const tracer = trace.getTracer('caller');
    await tracer.startActiveSpan('caller', async (span) => {
      await client().startOrchestration(id, 'looks');
      span.end();
    });
    const all = await traceOf(id);
    expect(seen).toEqual([undefined, true, undefined]);
    expect(treeOf(notTurns(all))).toBe(['caller', '  perdure.start looks', '    looks', '      look'].join('\n'));
  });

  it('spans of a failed call contain the error', async () => {
    await rejection(client().raiseEvent('nobody', 'go'));
    expect(spans.all()).toMatchObject([
      {
        name: 'perdure.raise go',
        thrown: ['InstanceNotFoundError'],
        attributes: { 'error.type': 'InstanceNotFoundError' },
      },
    ]);
  });

  it('cost the store nothing without a tracer', async () => {
    await store.start((runtime) =>
      runtime
        .registerActivity('step', async () => 1)
        .registerOrchestration('child', function* () {})
        .registerOrchestration('plain', function* (ctx) {
          yield ctx.scheduleActivity('step');
          yield ctx.scheduleSubOrchestration('child', undefined, { id: `${ctx.instanceId}-child` });
        }),
    );
    const id = store.id('plain');
    await store.client.startOrchestration(id, 'plain');
    await store.client.waitForOrchestration(id, SOON);
    const history = [...(await store.client.getHistory(id)), ...(await store.client.getHistory(`${id}-child`))];
    expect(JSON.stringify(history)).not.toContain('trace');
    expect(spans.all()).toEqual([]);
  });

  it('carry baggage into activities, unless it is too long', async () => {
    const seen: (string | undefined)[] = [];
    await store.start(
      (runtime) =>
        runtime
          .registerActivity(
            'look',
            () => void seen.push(propagation.getBaggage(context.active())?.getEntry('tenant')?.value),
          )
          .registerOrchestration('carries', function* (ctx) {
            yield ctx.scheduleActivity('look');
          }),
      { telemetry },
    );
    for (const value of ['acme', 'x'.repeat(TRACE_CONTEXT_BYTES_MAX)]) {
      const id = store.id('carries');
      const around = propagation.setBaggage(context.active(), propagation.createBaggage({ tenant: { value } }));
      await context.with(around, () => client().startOrchestration(id, 'carries'));
      expect((await traceOf(id)).map(({ name }) => name)).toContain('look');
      const [first] = await store.client.getHistory(id);
      expect((first?.meta?.trace as string).length).toBeLessThan(200);
    }
    expect(seen).toEqual(['acme', undefined]);
  });

  it('histories that hold contexts replay as any other', async () => {
    const { replay } = await import('perdure/testing');
    function* order(ctx: any): Generator<any, any, any> {
      yield ctx.scheduleActivity('step', 1);
      return yield ctx.scheduleSubOrchestration('child', 2, { id: `${ctx.instanceId}-child` });
    }
    await store.start(
      (runtime) =>
        runtime
          .registerActivity('step', async () => 1)
          .registerOrchestration('child', function* () {
            return 3;
          })
          .registerOrchestration('order', order),
      { telemetry },
    );
    const id = store.id('exported');
    await client().startOrchestration(id, 'order');
    await traceOf(id);
    const exported = await store.client.exportHistory(id);
    expect(exported.events.filter(({ meta }) => meta?.trace !== undefined).map(({ kind: of }) => of)).toEqual([
      'ExecutionStarted',
      'ActivityScheduled',
      'ChildScheduled',
    ]);
    const { executions } = replay(exported, { name: 'order', fn: order });
    expect(executions).toMatchObject([{ outcome: 'completed' }]);
  });
});

describe('openTelemetry', () => {
  it('says which option is wrong', () => {
    expect(() => openTelemetry({ tracerProvider: {} as never })).toThrow(
      new TypeError('openTelemetry: tracerProvider must have the method getTracer, got an object'),
    );
    expect(() => openTelemetry({ propagator: 1 as never })).toThrow(TypeError);
    expect(() => openTelemetry({ tracer: 1 } as never)).toThrow(TypeError);
  });

  it('refuses trace contexts that cannot cross a process', () => {
    propagation.disable();
    expect(() => openTelemetry()).toThrow(/no propagator is registered/);
  });
});
