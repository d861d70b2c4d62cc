// `perdure update`, `perdure query` and `perdure entity`

import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { defineOrchestration, type EntityDefinition } from 'perdure';
import { afterAll, describe, expect, it } from 'vitest';

import { eventually, rejection } from '../support/async.ts';
import { SHARED_STORES, temporaryFolder } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { type Ended, perdure, storeFlags } from './perdure.ts';

/** The methods of the entity `account`. */
type Handlers = { add(ctx: unknown, by: number): Generator<any, number, any> };
type Reads = { sum(sum: number, factor?: number): number };

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const on = (...args: string[]): Promise<Ended> => perdure(...storeFlags(store.address), ...args);

  it('an update prints its answer', async () => {
    await store.start((runtime) => {
      runtime.registerOrchestration('greets', function* (ctx) {
        ctx.onUpdate('greet', function* (name: string) {
          if (name === '') throw new RangeError('nobody to greet');
          return { hello: name };
        });
        yield* ctx.waitForEvent('end');
      });
    });
    const id = store.id();
    await store.client.startOrchestration(id, 'greets');
    const once = ['--update-id', 'once', '--timeout', '20s'];
    expect(await on('update', id, 'greet', '"ann"', ...once)).toMatchObject({ code: 0, out: "{ hello: 'ann' }\n" });
    const again = await on('update', id, 'greet', '"bob"', '--json', ...once);
    expect(JSON.parse(again.out)).toEqual({ answer: { hello: 'ann' } });
    expect(await on('update', id, 'greet', '""')).toMatchObject({ code: 4, err: expect.stringContaining('nobody') });
    expect(await on('update', id, 'gret', '""')).toMatchObject({ err: expect.stringContaining("'greet'") });
    expect(await on('update', 'nobody', 'greet')).toMatchObject({ code: 3 });
    const started = await on('update', store.id(), 'greet', '"ann"', '--start', 'greets', '--timeout', '20s');
    expect(started).toMatchObject({ code: 0, out: "{ hello: 'ann' }\n" });
    expect(await on('update', id, 'greet', '"ann"', '--priority', '1')).toMatchObject({ code: 2 });
    expect((await on('history', id)).out).toMatch(/QueueReceived +update greet +\{ id: 'once'/);
    expect((await on('timeline', id)).out).toContain('update greet awaited');
  });

  it('a query is answered by the code of a module', async () => {
    const module = join(folder, `${store.id('counts')}.mjs`);
    writeFileSync(
      module,
      `import { defineOrchestration } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)};
      export const counts = defineOrchestration('counts', function* (ctx, from) {
        let count = from;
        ctx.onQuery('count', (more = 0) => {
          if (more < 0) throw new RangeError('only up');
          return count + more;
        });
        for (;;) count += yield* ctx.waitForEvent('more');
      });`,
    );
    const { counts } = await import(pathToFileURL(module).href);
    const runtime = await store.start((runtime) => runtime.register(counts));
    const id = store.id('counts');
    await store.client.start(counts, 5, { id });
    const asked = ['query', id, 'count', '--module', module];
    expect(await on(...asked)).toMatchObject({ code: 0, out: '5\n' });
    const more = await on('query', id, 'count', '2', '--module', module, '--json');
    expect(JSON.parse(more.out)).toEqual({ answer: 7 });
    const failed = await on('query', id, 'count', '-m', module, '--', '-1');
    expect(failed).toMatchObject({ code: 4, err: expect.stringContaining('only up') });
    expect(await on('query', id, 'cont', '-m', module)).toMatchObject({ err: expect.stringContaining("'count'") });
    expect(await on('query', 'nobody', 'count', '-m', module)).toMatchObject({ code: 3 });
    // Without a module, a worker answers.
    expect(await on('query', id, 'count')).toMatchObject({ code: 0, out: '5\n' });
    await runtime.shutdown();
    const missing = expect.stringContaining("no running worker has registered orchestration 'counts'");
    expect(await on('query', id, 'count')).toMatchObject({ code: 1, err: missing });
  });

  it('locks have titles, and are listed if they are asked for', async () => {
    const locks = defineOrchestration('locks', function* (ctx, name: string) {
      yield* ctx.lock(name, function* () {});
    });
    await store.start((runtime) => runtime.register(locks));
    const name = store.id('door');
    const lock = `perdure.lock/${name}`;
    const run = await store.client.start(locks, name);
    await run.result();
    expect((await on('history', run.id)).out).toMatch(
      new RegExp(`ChildScheduled +lock ${lock}[^]*EventReceived +lock granted`),
    );
    expect((await on('history', lock)).out).toMatch(
      new RegExp(`QueueReceived +ask for the lock, by ${run.id}[^]*EventSent +grant the lock`),
    );
    expect((await on('list')).out).not.toContain('perdure.');
    expect((await on('list', '--system')).out).toContain(lock);
  });

  it('tokens are listed, resolved and rejected', async () => {
    const tokens = defineOrchestration('tokens', function* (ctx) {
      const [one, two] = [ctx.token({ data: { question: 'may I?' }, timeout: '1h' }), ctx.token()];
      ctx.state.set('ids', [one.id, two.id]);
      const [first, second] = yield* ctx.allSettled([one, two]);
      return [first, second].map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : `${outcome.reason}`));
    });
    await store.start((runtime) => runtime.register(tokens));
    const run = await store.client.start(tokens);
    const ids = async (): Promise<string[]> => ((await store.client.getState(run.id, 'ids'))?.value ?? []) as string[];
    await eventually(20_000, 'the tokens are there', async () => (await ids()).length === 2);
    const [one = '', two = ''] = await ids();
    const listed = await on('tokens', '--open', '--instance', run.id);
    expect(listed).toMatchObject({ code: 0, out: expect.stringContaining("{ question: 'may I?' }") });
    for (const id of [one, two]) expect(listed.out).toContain(id);
    expect(await on('token', one, '{"by":"ann"}')).toMatchObject({ code: 0 });
    expect(await on('token', one, '{"by":"bob"}')).toMatchObject({ code: 1, err: expect.stringContaining('before') });
    expect(await on('token', two, '--reject', 'too late')).toMatchObject({ code: 0 });
    expect(await run.result()).toEqual([{ by: 'ann' }, 'Error: too late']);
    expect(await on('token', 'x'.repeat(43))).toMatchObject({ code: 3 });
    expect(await on('token', 'none')).toMatchObject({ code: 2 });
    expect(await on('token', two, '1', '--reject', 'no')).toMatchObject({ code: 2 });
    const rows = (await on('tokens', '--instance', run.id, '--json')).out.trim().split('\n');
    expect(rows.map((row) => JSON.parse(row).status).toSorted()).toEqual(['rejected', 'resolved']);
    expect((await on('tokens', '--open', '--instance', run.id)).err).toContain('there is no token');
    expect((await on('history', run.id)).out).toMatch(/PatchApplied +key of tokens[^]*ChildScheduled +token/);
  });

  it('an entity is called by the definition of a module', async () => {
    const module = join(folder, `${store.id('account')}.mjs`);
    writeFileSync(
      module,
      `import { defineEntity } from ${JSON.stringify(new URL('../../dist/index.js', import.meta.url).href)};
      export const account = defineEntity('account', {
        initial: () => 0,
        handlers: {
          *add(ctx, by) {
            if (by < 0) throw new RangeError('only up');
            return (ctx.state += by);
          },
        },
        reads: { sum: (sum, factor = 1) => sum * factor },
      });`,
    );
    const { account } = (await import(pathToFileURL(module).href)) as {
      account: EntityDefinition<number, Handlers, Reads>;
    };
    await store.start((runtime) => runtime.register(account));
    const key = store.id('a');
    const call = (...args: string[]): Promise<Ended> => on('entity', 'account', key, ...args, '-m', module);
    expect(await call('sum')).toMatchObject({ code: 0, out: '0\n' });
    expect(await call('add', '5', '--update-id', 'once', '--timeout', '20s')).toMatchObject({ code: 0, out: '5\n' });
    expect(await call('add', '5', '--update-id', 'once')).toMatchObject({ code: 0, out: '5\n' });
    expect(await call('add', '1', '--send')).toMatchObject({ code: 0, out: '' });
    expect(JSON.parse((await call('add', '1', '--json')).out)).toEqual({ answer: 7 });
    expect(await call('sum', '2')).toMatchObject({ code: 0, out: '14\n' });
    expect(await on('entity', 'account', key, 'add', '-m', module, '--', '-1')).toMatchObject({
      code: 4,
      err: expect.stringContaining('only up'),
    });
    const calls = defineOrchestration('calls', function* (ctx): Generator<any, void, any> {
      const mine = ctx.entity(account, key);
      yield* mine.add(1);
      yield* mine.sum();
      yield* mine.delete();
      yield* ctx.update(`account/${key}`, 'none');
    });
    await store.start((runtime) => runtime.register(calls));
    const id = store.id('calls');
    expect((await rejection(store.client.start(calls, undefined, { id }).then((handle) => handle.result()))).name).toBe(
      'RuntimeStateError',
    );
    const { out } = await on('timeline', id);
    for (const title of ['call add of', 'read sum of', 'delete', 'update none of'])
      expect(out).toContain(`${title} account/${key}`);
    const entity = await on('timeline', `account/${key}`, '--all');
    expect(entity.out).toMatch(/call add awaited[^]*delete awaited/);
    expect(await call('sum')).toMatchObject({ code: 0, out: '0\n' });
    for (const wrong of [
      ['sun'],
      ['sum', '--send'],
      ['sum', '--timeout', '1s'],
      ['add', '1', '--send', '--timeout', '1s'],
    ])
      expect(await call(...wrong)).toMatchObject({ code: 2 });
    expect(await on('entity', 'acount', key, 'sum', '-m', module)).toMatchObject({
      code: 2,
      err: expect.stringContaining('no entity acount; they export account'),
    });
  });
});
