// Requests in a transaction of the user's, on both databases: see docs/internals/transactions.md.

import {
  type Client,
  defineEvent,
  defineOrchestration,
  InstanceExistsError,
  InstanceNotFoundError,
  LimitError,
  PayloadError,
  RuntimeStateError,
  SqliteProvider,
  type StandardSchema,
  Client as StoreClient,
} from 'perdure';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { rejection } from '../../support/async.ts';
import { delayed } from '../../support/delayed-codec.ts';
import { SHARED_STORES } from '../../support/providers.ts';
import { query } from '../../support/rows.ts';
import { SOON, type TestStore, useStore } from '../../support/store.ts';
import { type UserDatabase, userDatabase } from '../../support/user-database.ts';
import { badError, WRONG_VALUES } from '../../support/wrong-values.ts';

interface Order {
  readonly total: number;
  readonly placed: Date;
}

const orderSchema: StandardSchema<Order> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value) =>
      (value as Order | undefined)?.placed instanceof Date
        ? { value: value as Order }
        : { issues: [{ message: 'must be a date', path: ['placed'] }] },
  },
};

const order = defineOrchestration(
  'order',
  function* (ctx, input: Order) {
    return { year: input.placed.getUTCFullYear(), seen: yield* ctx.waitForEvent('go') };
  },
  { version: '2', input: orderSchema },
);
const echo = defineOrchestration('echo', function* (_, input: unknown) {
  return input;
});
const paid = defineEvent<{ at: Date }>('paid');
const collect = defineOrchestration('collect', function* (ctx, count: number) {
  const seen: unknown[] = [];
  while (seen.length < count) seen.push(yield* ctx.dequeueEvent('mail'));
  return [...seen, yield* ctx.waitForEvent(paid)];
});

/** Runs the requests of `work` in a transaction that commits. */
async function committed(user: UserDatabase, work: () => Promise<unknown>): Promise<void> {
  await user.run('BEGIN');
  await work();
  await user.run('COMMIT');
}

async function call<T>(make: () => Promise<T>): Promise<T> {
  return make();
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  let user: UserDatabase;
  let client: Client;

  beforeEach(async () => {
    user = await userDatabase(store.address);
    client = store.client;
  });

  afterEach(() => user.close());

  const result = (id: string): Promise<unknown> => client.handle(id).result({ timeout: SOON });

  it('a committed start runs, with values beyond JSON', async () => {
    await store.start((runtime) => runtime.register(order));
    const [id, named] = [store.id(), store.id()];
    await committed(user, async () => {
      const input = { total: 12, placed: new Date(0) };
      expect(await client.within(user.tx).start(order, input, { id, tags: { a: '"1"' }, priority: 3 })).toBe(id);
      await client.within(user.tx).startOrchestration(named, 'order', input, { version: '2' });
      await client.within(user.tx).raiseEvent(named, 'go', new Date(1));
      expect(await client.getStatus(id)).toBeNull();
    });
    await client.raiseEvent(id, 'go', 'there');
    expect(await result(id)).toEqual({ year: 1970, seen: 'there' });
    expect(await result(named)).toEqual({ year: 1970, seen: new Date(1) });
    expect(await client.getStatus(id)).toMatchObject({ tags: { a: '"1"' }, priority: 3, version: '2' });
    const rows = query(store.address, 'SELECT meta FROM history WHERE event_id = 1');
    for (const { meta } of rows)
      expect(JSON.parse(String(meta))).toMatchObject({
        version: '2',
        seed: expect.stringMatching(/^\d{1,20}$/),
        incarnation: expect.stringMatching(/^[\da-f]{16}$/),
      });
    expect(new Set(rows.map(({ meta }) => meta)).size).toBe(rows.length);
  });

  it('a start without a version gets the newest one that a worker has', async () => {
    const id = store.id();
    await committed(user, () => client.within(user.tx).startOrchestration(id, 'echo', 7));
    await store.start((runtime) => runtime.register(echo));
    expect(await result(id)).toBe(7);
    expect((await client.getStatus(id))?.version).toBe(echo.version);
  });

  it('a transaction that is rolled back leaves nothing, also to a savepoint', async () => {
    const [kept, lost, gone] = [store.id('kept'), store.id('lost'), store.id('gone')];
    await store.start((runtime) => runtime.register(echo));
    await user.run('BEGIN');
    await client.within(user.tx).startOrchestration(gone, 'echo');
    await user.run('ROLLBACK');
    await committed(user, async () => {
      await client.within(user.tx).startOrchestration(kept, 'echo', 'kept');
      await user.run('SAVEPOINT here');
      await client.within(user.tx).startOrchestration(lost, 'echo');
      await client.within(user.tx).raiseEvent(kept, 'lost');
      await user.run('ROLLBACK TO here');
    });
    expect(await result(kept)).toBe('kept');
    expect([await client.getStatus(gone), await client.getStatus(lost)]).toEqual([null, null]);
    expect((await client.checkStore()).findings).toEqual([]);
  });

  it('messages of a transaction arrive in their order', async () => {
    await store.start((runtime) => runtime.register(collect));
    const ids = [store.id(), store.id()];
    await client.startOrchestration(ids[0] as string, 'collect', 40);
    await committed(user, async () => {
      const within = client.within(user.tx);
      await within.start(collect, 40, { id: ids[1] as string });
      for (let n = 0; n < 40; n += 1) for (const id of ids) await within.enqueueEvent(id, 'mail', n);
      for (const id of ids) await within.raiseEvent(id, paid, { at: new Date(5) });
    });
    const expected = [...Array.from({ length: 40 }, (_, n) => n), { at: new Date(5) }];
    for (const id of ids) expect(await result(id)).toEqual(expected);
  });

  it('a request to cancel cancels', async () => {
    await store.start((runtime) => runtime.register(collect));
    const id = store.id();
    await client.startOrchestration(id, 'collect', 1);
    await committed(user, () => client.within(user.tx).cancelInstance(id, 'no more'));
    expect(await rejection(result(id))).toMatchObject({ name: 'CancelledError', reason: 'no more' });
    // Nothing is left to cancel.
    await committed(user, () => client.within(user.tx).cancelInstance(id));
  });

  it('an id in use is an error at once, or leaves the instance as it is', async () => {
    const id = store.id();
    await client.startOrchestration(id, 'nobody registers this', 1);
    const within = client.within(user.tx);
    const error = await rejection(call(() => within.startOrchestration(id, 'echo', 2)));
    expect(error).toBeInstanceOf(InstanceExistsError);
    expect(error).toMatchObject({ instanceId: id, message: `an instance with the id '${id}' exists already` });
    expect(error.cause).toBeInstanceOf(Error);
    await committed(user, () => within.startOrchestration(id, 'echo', 2, { onConflict: 'return' }));
    expect(await client.getStatus(id, { input: true })).toMatchObject({ name: 'nobody registers this', input: 1 });
    const twice = store.id();
    await user.run('BEGIN');
    await within.startOrchestration(twice, 'echo', 2);
    expect(await rejection(call(() => within.startOrchestration(twice, 'echo')))).toBeInstanceOf(InstanceExistsError);
    await user.run('ROLLBACK');
  });

  it('a message that its instance does not take is an error of the client', async () => {
    await store.start((runtime) => runtime.register(echo));
    const [ended, waiting] = [store.id('ended'), store.id('waiting')];
    await client.startOrchestration(ended, 'echo');
    await result(ended);
    await client.startOrchestration(waiting, 'nobody registers this');
    await client.raiseEvent(waiting, 'one');
    const small = new StoreClient(store.provider, { limits: { mailboxMessages: 1 } }).within(user.tx);
    const within = client.within(user.tx);
    const errorOf = (make: () => Promise<unknown>): Promise<any> => rejection(call(make));
    expect(await errorOf(() => within.raiseEvent('absent', 'go'))).toMatchObject({
      name: 'InstanceNotFoundError',
      instanceId: 'absent',
    });
    expect(await errorOf(() => within.cancelInstance('absent'))).toBeInstanceOf(InstanceNotFoundError);
    expect(await errorOf(() => within.enqueueEvent(ended, 'go'))).toBeInstanceOf(RuntimeStateError);
    expect(await errorOf(() => small.enqueueEvent(waiting, 'go'))).toBeInstanceOf(LimitError);
    expect(await errorOf(() => small.enqueueEvent(waiting, 'go'))).toMatchObject({ limit: 'mailboxMessages', max: 1 });
    await client.suspend(waiting);
    expect(await errorOf(() => within.cancelInstance(waiting))).toMatchObject({
      name: 'RuntimeStateError',
      message: expect.stringContaining(waiting),
    });
    await committed(user, () => within.raiseEvent(waiting, 'two'));
    expect((await client.facts(waiting)).unread.messages).toBe(2);
  });

  it('an instance that waits for its start takes messages, and no cancellation', async () => {
    await client.queues.set('full', { concurrency: 1 });
    const [delayed, queued] = [store.id('delayed'), store.id('queued')];
    await client.startOrchestration(delayed, 'echo', 1, { delay: '1d' });
    await client.startOrchestration(queued, 'nobody registers this', 1, { queue: 'full' });
    const within = client.within(user.tx);
    for (const id of [delayed, queued]) {
      expect(await rejection(call(() => within.cancelInstance(id)))).toMatchObject({
        name: 'RuntimeStateError',
        message: expect.stringContaining(id),
      });
      await committed(user, () => within.raiseEvent(id, 'go'));
      expect((await client.facts(id)).unread.messages).toBe(1);
      expect((await client.getStatus(id))?.status).toBe('Pending');
      await client.cancelInstance(id);
      expect((await client.waitForOrchestration(id, SOON)).status).toBe('Cancelled');
    }
  });

  it('wrong arguments are refused, and nothing is requested', async () => {
    const within = client.within(user.tx) as any;
    const big = new StoreClient(store.provider, { limits: { payloadBytes: 16 } }).within(user.tx);
    const wrong: readonly [() => Promise<unknown>, new (...args: any[]) => Error, RegExp][] = [
      [() => within.start('order'), TypeError, /what defineOrchestration returned/],
      [() => within.start(order, { total: 1 }), PayloadError, /placed/],
      [() => within.start(echo, 1, { version: '1' }), TypeError, /version/],
      [() => within.startOrchestration('', 'echo'), TypeError, /instance id/],
      [() => within.startOrchestration('a', 'x'.repeat(257)), TypeError, /at most 256/],
      [() => within.startOrchestration('a', 'echo', () => {}), PayloadError, /function/],
      [() => within.startOrchestration('a', 'echo', 1, { onConflict: 'restartIfFailed' }), TypeError, /onConflict/],
      [() => within.startOrchestration('a', 'echo', 1, { tag: {} }), TypeError, /did you mean `tags`/],
      [() => within.startOrchestration('a', 'echo', 1, { tags: { a: '\0' } }), TypeError, /NUL/],
      [() => big.startOrchestration('a', 'echo', 'x'.repeat(20)), PayloadError, /payloadBytes/],
      [() => within.raiseEvent('a', 5), TypeError, /event/],
      [() => within.enqueueEvent('a', paid), TypeError, /queue/],
      [() => within.cancelInstance('a', 5), TypeError, /reason/],
    ];
    for (const [make, type, message] of wrong) {
      const error = await rejection(call(make));
      expect(error).toBeInstanceOf(type);
      expect(error.message).toMatch(message);
    }
    expect(await client.getStatus('a')).toBeNull();
  });

  it('values of any type are refused with an error that says what is wrong', async () => {
    const within = client.within(user.tx) as any;
    const calls: readonly (readonly [method: string, ...args: unknown[]])[] = [
      ['start', echo, 1, {}],
      ['startOrchestration', 'absent', 'echo', 1, {}],
      ['raiseEvent', 'absent', 'go', 1],
      ['enqueueEvent', 'absent', 'mail', 1],
      ['cancelInstance', 'absent', 'reason'],
    ];
    const problems: string[] = [];
    for (const [method, ...args] of calls)
      for (let at = 0; at < args.length; at += 1)
        for (const [what, make] of WRONG_VALUES)
          try {
            await user.run('BEGIN');
            await within[method](...args.with(at, make()));
          } catch (error) {
            const problem = badError(error);
            if (problem !== undefined) problems.push(`${method}, argument ${at}: ${what}: ${problem}`);
          } finally {
            await user.run('ROLLBACK');
          }
    expect(problems).toEqual([]);
  });

  it('an object that is no transaction is refused', async () => {
    for (const wrong of [undefined, null, 5, 'tx', {}, [], () => {}, new Proxy({}, {})])
      expect(() => client.within(wrong as object)).toThrow(/client\.within takes a transaction/);
    expect(() => client.within({ query() {}, connect() {}, idleCount: 0 })).toThrow(/this is a pool/);
    const memory = await SqliteProvider.inMemory();
    expect(() => new StoreClient(memory).within(user.tx)).toThrow(/store in memory/);
    await memory.close();
  });

  it('a trigger of a table of the user starts an instance', async () => {
    await store.start((runtime) => runtime.register(echo));
    await user.run('CREATE TABLE purchases (id text)');
    const isSqlite = store.address.kind === 'sqlite';
    await user.run(
      isSqlite
        ? `CREATE TRIGGER purchased AFTER INSERT ON purchases BEGIN
             INSERT INTO perdure_start (id, name, input)
             VALUES ('purchase-' || NEW.id, 'echo', json_object('purchase', NEW.id));
           END`
        : `CREATE FUNCTION purchased() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             PERFORM start('purchase-' || NEW.id, 'echo', jsonb_build_object('purchase', NEW.id)); RETURN NULL;
           END $$;
           CREATE TRIGGER purchased AFTER INSERT ON purchases FOR EACH ROW EXECUTE FUNCTION purchased()`,
    );
    await user.run("BEGIN; INSERT INTO purchases VALUES ('lost'); ROLLBACK");
    await user.run("INSERT INTO purchases VALUES ('7'), ('8')");
    expect([await result('purchase-7'), await result('purchase-8')]).toEqual([{ purchase: '7' }, { purchase: '8' }]);
    expect(await client.getStatus('purchase-lost')).toBeNull();
  });

  it('values go through the codec', async () => {
    const codec = {
      encode: (text: string) => Buffer.from(text).toString('base64'),
      decode: (text: string) => Buffer.from(text, 'base64').toString(),
    };
    const provider = await store.open({ codec });
    await store.start((runtime) => runtime.register(collect), {}, provider);
    const id = store.id();
    const coded = new StoreClient(provider);
    await committed(user, async () => {
      await coded.within(user.tx).start(collect, 1, { id });
      await coded.within(user.tx).enqueueEvent(id, 'mail', 'secret');
      await coded.within(user.tx).raiseEvent(id, paid, { at: new Date(5) });
    });
    expect(await coded.handle(id).result({ timeout: SOON })).toEqual(['secret', { at: new Date(5) }]);
    const rows = query(store.address, 'SELECT payload FROM history WHERE payload IS NOT NULL');
    expect(rows.filter(({ payload }) => String(payload).includes('secret'))).toEqual([]);
    const later = new StoreClient(await store.open({ codec: delayed(codec) }));
    await checkLater(store, user, later);
  });
});

/** A synchronous transaction cannot wait for a codec that answers later. */
async function checkLater(store: TestStore, user: UserDatabase, client: Client): Promise<void> {
  const id = store.id();
  const start = () => call(() => client.within(user.tx).startOrchestration(id, 'collect', 0));
  if (store.address.kind === 'sqlite') {
    expect((await rejection(start())).message).toMatch(/answers later/);
    expect(await client.getStatus(id)).toBeNull();
    return;
  }
  await committed(user, async () => {
    await start();
    await client.within(user.tx).raiseEvent(id, paid, { at: new Date(6) });
  });
  expect(await client.handle(id).result({ timeout: SOON })).toEqual([{ at: new Date(6) }]);
}
