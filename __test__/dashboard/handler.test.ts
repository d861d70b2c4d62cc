// The answers of the dashboard: each path, on each store.

import { Client, defineActivity, type HistoryEvent } from 'perdure';
import { dashboardHandler } from 'perdure/dashboard';
import { describe, expect, it } from 'vitest';

import { deferred } from '../support/async.ts';
import { STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { Money, types } from '../support/value-types.mjs';
import { Asker, verdict } from './ask.ts';
import { serving } from './serving.ts';

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const { asker } = serving(store);
  const orders = () =>
    store.start((runtime) => {
      runtime.register(
        defineActivity(
          'charge',
          async (ctx, order: { total: number }) => {
            if (ctx.attempt === 1) throw new RangeError('the bank does not answer');
            return { receipt: `r-${order.total}` };
          },
          { retry: { initialInterval: 1 } },
        ),
      );
      runtime.registerOrchestration('packing', function* (_ctx, n) {
        return n;
      });
      runtime.registerOrchestration(
        'order',
        function* (ctx, order) {
          const receipt = yield ctx.scheduleActivity('charge', order);
          yield ctx.scheduleSubOrchestration('packing', 7, { id: `${ctx.instanceId}/packing` });
          ctx.setCustomStatus({ step: 'waiting' });
          const { by } = yield ctx.waitForEvent('approve');
          ctx.setCustomStatus({ step: 'approved', by });
          const note = yield ctx.dequeueEvent('notes');
          if (by === 'nobody') throw new TypeError('not approved');
          return { receipt, by, note };
        },
        { version: '1.2.0' },
      );
    });

  /** Starts an order that waits for its approval. */
  async function waiting(tags: Record<string, string> = {}): Promise<string> {
    const id = store.id('order');
    await store.client.startOrchestration(id, 'order', { total: 12 }, { tags, priority: 2 });
    await store.client.waitForStatusChange(id, 0, '1s', SOON);
    return id;
  }

  it('shows an instance of a registered class by its stored data', async () => {
    const client = new Client(await store.open({ types }));
    const id = store.id('typed');
    await client.startOrchestration(id, 'nobody registers it', { price: new Money(5, 'EUR') });
    const there = new Asker(dashboardHandler(client, { token: false }));
    const { events } = await there.get(`history?id=${id}`);
    expect(events[0].value.text).toContain("Money { cents: 5n, currency: 'EUR' }");
  });

  it('names its store', async () => {
    const about = await asker({ readOnly: true }).get('about');
    expect(about).toMatchObject({
      store: { kind: expect.stringMatching(/sqlite|postgres/), location: expect.any(String) },
      readOnly: true,
      hasRuntime: false,
    });
  });

  it('answers a scrape of an authorized caller, and refuses any other', async () => {
    const runtime = await store.start(() => {});
    const [plain, whole] = [await asker().ask('metrics'), await asker({ runtime }).ask('metrics')];
    expect(plain.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(plain.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(await plain.text()).toMatch(/^# HELP perdure_\w+ /);
    expect(await whole.text()).toContain('perdure_turns_total');
    expect(await verdict(asker({ token: 'a-token-of-sixteen' }).ask('metrics'))).toMatch(/^401/);
    expect(await verdict(asker({ authorize: () => false }).ask('metrics'))).toBe('403 NOT_AUTHORIZED');
    expect(await verdict(asker().ask('metrics', { method: 'DELETE' }))).toBe('405 METHOD');
    expect(
      (
        await asker({ token: 'a-token-of-sixteen' }).ask('metrics', {
          headers: { authorization: 'Bearer a-token-of-sixteen' },
        })
      ).status,
    ).toBe(200);
  });

  it('serves the page, with its files under names of their content', async () => {
    const there = asker();
    const page = await there.ask('');
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(page.headers.get('cache-control')).toBe('no-cache');
    const html = await page.text();
    const files = [...html.matchAll(/"\.\/(assets\/[^"]+)"/g)].map(([, file = '']) => file);
    expect(files.map((file) => file.replace(/-[0-9a-f]{12}\./, '.'))).toEqual([
      'assets/icon.svg',
      'assets/page.css',
      'assets/page.js',
    ]);
    for (const file of files) {
      const answer = await there.ask(file, { headers: { 'accept-encoding': 'gzip' } });
      expect(answer.headers.get('cache-control')).toContain('immutable');
      expect(answer.headers.get('content-encoding')).toBe('gzip');
      const again = await there.ask(file, { headers: { 'if-none-match': answer.headers.get('etag') ?? '' } });
      expect(again.status).toBe(304);
    }
    // The page contains nothing that the policy would have to allow, and nothing from other sites.
    expect(html).not.toMatch(/<script(?![^>]*src=)|<style|\son\w+=|style=|https?:/);
    expect(await verdict(there.ask('assets/page.js'))).toBe('404 NOT_FOUND');
  });

  it('sends each answer with a strict policy, and lets only the page be cached', async () => {
    for (const path of ['', 'api/v1/about', 'nowhere', 'api/v1/instance?id=nobody']) {
      const { headers } = await asker().ask(path);
      expect(headers.get('content-security-policy')).toMatch(
        /^default-src 'none'; script-src 'self'; style-src 'self';.*frame-ancestors 'none'/,
      );
      expect(headers.get('content-security-policy')).not.toContain('unsafe');
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect([...headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
      expect(headers.get('cache-control')).toBe(path === '' ? 'no-cache' : 'no-store');
    }
  });

  it('lists instances by conditions, page by page', async () => {
    const name = store.id('listed');
    for (let n = 0; n < 5; n += 1)
      await store.client.startOrchestration(`${name}/${n}`, name, n, {
        tags: { n: String(n), even: String(n % 2 === 0) },
      });
    const there = asker();
    const ids = async (query: string) =>
      (await there.get(`instances?name=${name}&${query}`)).items.map(({ id }: { id: string }) =>
        id.replace(`${name}/`, ''),
      );
    expect(await ids('')).toEqual(['4', '3', '2', '1', '0']);
    expect(await ids('tag=even:true')).toEqual(['4', '2', '0']);
    expect(await ids('tag=even:true&tag=n:2')).toEqual(['2']);
    expect(await ids(`idPrefix=${encodeURIComponent(`${name}/3`)}`)).toEqual(['3']);
    expect(await ids('status=Pending&status=Failed')).toHaveLength(5);
    expect(await ids('status=Completed')).toEqual([]);
    const first = await there.get(`instances?name=${name}&limit=2`);
    const second = await there.get(`instances?name=${name}&limit=3&cursor=${first.cursor}`);
    expect([...first.items, ...second.items].map(({ id }) => id)).toEqual(
      ['4', '3', '2', '1', '0'].map((n) => `${name}/${n}`),
    );
  });

  it('lists instances of built-in orchestrations if they are asked for', async () => {
    const there = asker();
    const id = `perdure.lock/${store.id('door')}`;
    await store.client.startOrchestration(id, 'perdure.lock');
    const ids = async (query: string) =>
      (await there.get(`instances?idPrefix=perdure.&${query}`)).items.map(({ id }: { id: string }) => id);
    expect(await ids('')).not.toContain(id);
    expect(await ids('system=true')).toContain(id);
    expect(await ids('name=perdure.lock')).toContain(id);
    expect((await there.ask('api/v1/instances?system=yes')).status).toBe(400);
    expect(JSON.stringify(await there.get('startable'))).not.toContain('perdure.');
  });

  it('shows an instance, its history and its values', async () => {
    await orders();
    const id = await waiting({ team: 'billing' });
    const there = asker();
    expect(await there.get(`instance?id=${encodeURIComponent(id)}`)).toMatchObject({
      id,
      name: 'order',
      version: '1.2.0',
      status: 'Running',
      executionId: 1,
      tags: { team: 'billing' },
      customStatusVersion: 1,
      customStatus: { text: '{\n  "step": "waiting"\n}', isWhole: true },
    });
    const { events, executionId, next } = await there.get(`history?id=${id}`);
    expect([executionId, next]).toEqual([1, null]);
    expect(events).toMatchObject([
      { id: 1, kind: 'ExecutionStarted', name: 'order', note: '1.2.0', value: { text: '{\n  "total": 12\n}' } },
      { id: 2, kind: 'ActivityScheduled', name: 'charge' },
      {
        id: 3,
        kind: 'ActivityAttemptFailed',
        ref: 2,
        attempt: 1,
        untilMs: expect.any(Number),
        value: { text: expect.stringMatching(/^RangeError: the bank does not answer\n\s+at /) },
      },
      { id: 4, kind: 'ActivityCompleted', ref: 2, value: { text: '{\n  "receipt": "r-12"\n}' } },
      { id: 5, kind: 'ChildScheduled', name: 'packing', instance: `${id}/packing` },
      { id: 6, kind: 'ChildCompleted', ref: 5, value: { text: '7' } },
    ]);
    const part = await there.get(`history?id=${id}&execution=1&from=2&limit=3`);
    expect(part).toMatchObject({ events: [{ id: 2 }, { id: 3 }, { id: 4 }], next: 5 });
    expect((await there.get(`instances?parentId=${id}`)).items).toMatchObject([{ id: `${id}/packing`, parentId: id }]);
    expect(await there.get(`value?id=${id}&event=4`)).toEqual({ text: '{\n  "receipt": "r-12"\n}', isWhole: true });
    expect(await there.get(`value?id=${id}&of=customStatus`)).toEqual({
      text: '{\n  "step": "waiting"\n}',
      isWhole: true,
    });
    expect(await verdict(there.ask(`api/v1/value?id=${id}&of=output`))).toBe('400 BAD_REQUEST');
    expect(await verdict(there.ask(`api/v1/value?id=${id}&event=99`))).toBe('400 BAD_REQUEST');
    expect(await verdict(there.ask('api/v1/instance?id=nobody'))).toBe('404 INSTANCE_NOT_FOUND');
    expect(await verdict(there.ask('api/v1/history?id=nobody'))).toBe('404 INSTANCE_NOT_FOUND');
  });

  it('shows any value as text, the beginning of long ones, and all of them when asked', async () => {
    const cycle: Record<string, unknown> = { name: 'cycle' };
    cycle.self = cycle;
    const value = {
      long: 'x'.repeat(50_000),
      date: new Date(0),
      map: new Map([['k', 1n]]),
      cycle,
      html: '<script>alert(1)</script>',
      none: undefined,
    };
    const id = store.id('values');
    await store.client.startOrchestration(id, 'nobody registers it', value);
    const there = asker();
    const {
      events: [first],
    } = await there.get(`history?id=${id}`);
    expect(first.value.isWhole).toBe(false);
    expect(first.value.text).toHaveLength(200);
    const { text, isWhole } = await there.get(`value?id=${id}&event=1`);
    expect(isWhole).toBe(true);
    for (const part of [
      'x'.repeat(50_000),
      '1970-01-01T00:00:00.000Z',
      "Map(1) { 'k' => 1n }",
      '[circular]',
      '<script>alert(1)</script>',
      'undefined',
    ])
      expect(text).toContain(part);
    // Answered as JSON, which no browser interprets as a page.
    expect((await there.ask(`api/v1/value?id=${id}&event=1`)).headers.get('content-type')).toMatch(
      /^application\/json/,
    );
  });

  it('does each action', async () => {
    await orders();
    const there = asker();
    const id = await waiting({ team: 'billing' });
    const status = async () => (await store.client.getStatus(id))?.status;
    expect(await verdict(there.post('suspend', { id, reason: 'a question' }))).toBe('200');
    expect((await there.get(`instance?id=${id}`)).report).toMatchObject({
      code: 'SUSPENDED',
      message: expect.stringContaining('a question'),
      fields: [{ name: 'reason', value: { text: 'a question' } }],
    });
    expect(await verdict(there.post('resume', { id }))).toBe('200');
    expect(await verdict(there.post('raise', { id, name: 'approve', data: { by: 'ada' } }))).toBe('200');
    expect(await verdict(there.post('enqueue', { id, queue: 'notes', data: [1, 2] }))).toBe('200');
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual({
      receipt: { receipt: 'r-12' },
      by: 'ada',
      note: [1, 2],
    });
    const cancelled = await waiting();
    expect(await verdict(there.post('cancel', { id: cancelled, reason: 'not wanted' }))).toBe('200');
    expect((await store.client.waitForOrchestration(cancelled, SOON)).status).toBe('Cancelled');
    const terminated = await waiting();
    expect(await verdict(there.post('terminate', { id: terminated, reason: 'broken' }))).toBe('200');
    expect((await there.get(`instance?id=${terminated}`)).error).toEqual({
      text: 'cancelled: terminated: broken',
      isWhole: true,
    });
    // Started again, under its own id and under another.
    expect(await verdict(there.post('restart', { id }))).toBe('200');
    expect(await status()).not.toBe('Completed');
    const other = store.id('again');
    expect(await (await there.post('restart', { id, newId: other })).json()).toEqual({ id: other });
    expect(await store.client.getStatus(other)).toMatchObject({
      name: 'order',
      version: '1.2.0',
      tags: { team: 'billing' },
      priority: 2,
    });
    const [first] = (await store.client.getHistory(other)) as [HistoryEvent];
    expect(first.payload).toEqual({ total: 12 });
  });

  it('refuses actions that the status of the instance does not allow', async () => {
    const there = asker();
    const id = store.id('open');
    await store.client.startOrchestration(id, 'nobody registers it');
    expect(await verdict(there.post('restart', { id }))).toBe('409 INSTANCE_EXISTS');
    expect(await verdict(there.post('restart', { id, newId: id }))).toBe('409 INSTANCE_EXISTS');
    expect(await verdict(there.post('restart', { id, executionId: 4 }))).toBe('404 INSTANCE_NOT_FOUND');
    await store.client.terminateInstance(id);
    expect(await verdict(there.post('suspend', { id }))).toBe('409 RUNTIME_STATE');
    for (const action of ['raise', 'enqueue', 'cancel', 'terminate', 'suspend', 'resume', 'delete', 'restart']) {
      const body = {
        id: 'nobody',
        ...(action === 'raise' ? { name: 'e' } : action === 'enqueue' ? { queue: 'q' } : {}),
      };
      expect(await verdict(there.post(action, body)), action).toBe('404 INSTANCE_NOT_FOUND');
    }
  });

  it('follows an instance to its end: its history, its status, each change', async () => {
    await orders();
    const id = await waiting();
    const kinds: string[] = [];
    const steps: unknown[] = [];
    const states: string[] = [];
    let last = '';
    for await (const { event, data } of asker().events(`live?id=${id}`)) {
      last = event;
      if (event === 'history') kinds.push(...data.events.map(({ kind }: { kind: string }) => kind));
      if (event !== 'instance') continue;
      states.push(data.status);
      steps.push(JSON.parse(data.customStatus.text).step);
      if (data.status === 'Running' && steps.length === 1)
        await store.client.raiseEvent(id, 'approve', { by: 'nobody' });
      if (steps.at(-1) === 'approved' && data.status === 'Running') await store.client.enqueueEvent(id, 'notes');
    }
    expect(last).toBe('end');
    expect(states.at(-1)).toBe('Failed');
    expect([...new Set(steps)]).toEqual(['waiting', 'approved']);
    expect(kinds).toEqual((await store.client.getHistory(id)).map(({ kind }) => kind));
  });

  it('follows an instance into its next execution, unless one was asked for', async () => {
    const id = store.id('again');
    const began = deferred();
    await store.start((runtime) =>
      runtime.registerOrchestration('twice', function* (ctx, n) {
        if (n === 2) began.resolve();
        yield ctx.waitForEvent('go');
        if (n < 2) yield ctx.continueAsNew(n + 1);
      }),
    );
    await store.client.startOrchestration(id, 'twice', 1);
    const seen: string[] = [];
    for await (const { event, data } of asker().events(`live?id=${id}`)) {
      if (event === 'history')
        seen.push(...data.events.map(({ kind }: { kind: string }) => `${data.executionId} ${kind}`));
      if (event === 'history' && data.executionId === 2) break;
      if (event === 'instance' && data.executionId === 1) await store.client.raiseEvent(id, 'go');
    }
    expect(seen.filter((one) => one.startsWith('2'))[0]).toBe('2 ExecutionStarted');
    await began.promise;
    await store.client.raiseEvent(id, 'go');
    await store.client.waitForOrchestration(id, SOON);
    const { events } = await asker().get(`history?id=${id}&execution=1`);
    expect(events.at(-1)).toMatchObject({ kind: 'ExecutionContinuedAsNew' });
    expect(await asker().get(`history?id=${id}`)).toMatchObject({ executionId: 2 });
  });

  it('follows the counts, the workers with their lanes, and the counters of the given runtime', async () => {
    const runtime = await orders();
    for await (const { event, data } of asker({ runtime }).events('live')) {
      if (event === 'past') continue;
      expect(event).toBe('sample');
      expect(data.stats.workers).toBe(1);
      expect(data.workers).toMatchObject([
        {
          name: 'perdure',
          isAlive: true,
          pid: process.pid,
          about: { threads: 0, lanes: [{ busyShare: expect.any(Number) }] },
        },
      ]);
      expect(data.runtime.counters.turns).toBeGreaterThanOrEqual(0);
      expect(data.tick.instances).toBe(Object.values<number>(data.stats.instances).reduce((a, b) => a + b));
      break;
    }
  });

  it('says why an instance is suspended, field by field', async () => {
    const id = store.id('mismatch');
    const first = await store.start((runtime) =>
      runtime.registerOrchestration('changes', function* (ctx) {
        yield ctx.scheduleTimer(1);
        yield ctx.waitForEvent('go');
      }),
    );
    await store.client.startOrchestration(id, 'changes');
    // When the stream shows the timer in the history, the status has changed since the start.
    for await (const { event, data } of asker().events(`live?id=${id}`))
      if (event === 'history' && data.events.some(({ kind }: any) => kind === 'TimerFired')) break;
    await first.shutdown();
    const second = await store.start((runtime) =>
      runtime.registerOrchestration('changes', function* (ctx) {
        yield ctx.scheduleActivity('other');
      }),
    );
    await store.client.raiseEvent(id, 'go');
    await store.suspended(id);
    store.errors.splice(0);
    const { report } = await asker().get(`instance?id=${id}`);
    expect(report.code).toBe('NONDETERMINISM');
    expect(Object.fromEntries(report.fields.map(({ name, value }: any) => [name, value.text]))).toMatchObject({
      eventId: '2',
      recorded: expect.stringContaining('timer'),
      attempted: expect.stringContaining('other'),
    });
    await second.shutdown();
  });

  it('answers 409 where a limit of the store says no', async () => {
    const id = store.id('full');
    await store.client.startOrchestration(id, 'nobody registers it');
    const small = new Client(store.provider, { limits: { mailboxMessages: 1 } });
    const there = new Asker(dashboardHandler(small, { token: false }));
    expect(await verdict(there.post('raise', { id, name: 'e' }))).toBe('200');
    expect(await verdict(there.post('raise', { id, name: 'e' }))).toBe('409 LIMIT');
  });
});
