// Starts in a transaction of the user's that have a queue, a start time or a time limit, on both databases: see
// docs/internals/transactions.md.

import { CancelledError, type Client, defineOrchestration, QueueNotFoundError } from 'perdure';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { eventually, rejection } from '../../support/async.ts';
import { mostAtOnce, type WorkNote } from '../../support/notes.ts';
import { SHARED_STORES } from '../../support/providers.ts';
import { query } from '../../support/rows.ts';
import { SOON, useStore } from '../../support/store.ts';
import { type UserDatabase, userDatabase } from '../../support/user-database.ts';
import { badError, WRONG_VALUES } from '../../support/wrong-values.ts';

const DAY_MS = 86_400_000;

/** The clock of a Postgres server may differ by some ms. */
const SKEW_MS = 20;

interface Note extends WorkNote {
  readonly id: string;
}

/** Returns the time at which it begins. */
const clock = defineOrchestration('clock', function* (ctx) {
  return yield* ctx.run('now', () => Date.now());
});
const waiter = defineOrchestration('waiter', function* (ctx) {
  return yield* ctx.waitForEvent('go');
});
/** Its cleanup lasts for ever. */
const stubborn = defineOrchestration('stubborn', function* (ctx): Generator<any, void, any> {
  try {
    yield* ctx.waitForEvent('go');
  } catch (error) {
    if (!(error instanceof CancelledError)) throw error;
    yield* ctx.uncancellable(function* () {
      yield* ctx.waitForEvent('never');
    });
  }
});

async function call<T>(make: () => Promise<T>): Promise<T> {
  return make();
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const isSqlite = kind.name.includes('SQLite');
  const notes: Note[] = [];
  const work = defineOrchestration('work', function* (ctx) {
    const id = ctx.instanceId;
    yield* ctx.run('begin', () => void notes.push({ id, kind: 'begin' }));
    yield* ctx.sleep(10);
    yield* ctx.run('end', () => void notes.push({ id, kind: 'end' }));
  });
  let user: UserDatabase;
  let client: Client;

  beforeEach(async () => {
    notes.length = 0;
    user = await userDatabase(store.address);
    client = store.client;
  });

  afterEach(async () => {
    await user.close();
    expect((await client.checkStore()).findings).toEqual([]);
  });

  async function committed(work: () => Promise<unknown>): Promise<void> {
    await user.run('BEGIN');
    await work();
    await user.run('COMMIT');
  }

  async function queue(limits: Parameters<Client['queues']['set']>[1] = {}): Promise<string> {
    const name = store.id('queue');
    await client.queues.set(name, limits);
    return name;
  }

  /** Starts an instance by SQL, in a transaction of its own. */
  function startBySql(id: string, options: object | string): Promise<unknown> {
    const text = (typeof options === 'string' ? options : JSON.stringify(options)).replaceAll("'", "''");
    return user.run(
      isSqlite
        ? `INSERT INTO perdure_start (id, name, options) VALUES ('${id}', 'nobody registers this', '${text}')`
        : `SELECT start('${id}', 'nobody registers this', NULL, '${text}')`,
    );
  }

  const result = (id: string): Promise<unknown> => client.handle(id).result({ timeout: SOON });

  /** Returns the times after their creation at which instances are due, ms. */
  function dueAfterEach(ids: readonly string[]): number[] {
    const list = ids.map((id) => `'${id}'`).join();
    const rows = query(
      store.address,
      `SELECT coalesce(q.queued_at, i.wake_at) - i.created_at AS ms
       FROM instances i LEFT JOIN queue_places q ON q.key = i.key WHERE i.id IN (${list}) ORDER BY i.key`,
    );
    return rows.map(({ ms }) => Number(ms));
  }

  const dueAfter = (id: string): number | undefined => dueAfterEach([id])[0];

  it('a start waits in its queue for a slot', async () => {
    await store.start((runtime) => runtime.register(work));
    const name = await queue({ concurrency: 1 });
    const ids = [store.id(), store.id(), store.id()];
    await committed(async () => {
      for (const id of ids.slice(0, 2)) await client.within(user.tx).start(work, undefined, { id, queue: name });
      expect((await client.queues.get(name))?.waiting).toBe(0);
    });
    await committed(() => client.within(user.tx).startOrchestration(ids[2] as string, 'work', null, { queue: name }));
    for (const id of ids) await result(id);
    expect(mostAtOnce(notes)).toBe(1);
    expect(notes.filter(({ kind }) => kind === 'begin').map(({ id }) => id)).toEqual(ids);
    await eventually(20_000, 'no slot is taken', async () => (await client.queues.get(name))?.running === 0);
  });

  it('a start gets the place and the first event that a start of the client gets', async () => {
    const [theirs, ours, bySql] = [
      await queue({ fairness: 'key' }),
      await queue({ fairness: 'key' }),
      await queue({ fairness: 'key' }),
    ];
    const starts = [
      { key: 'a' },
      { key: 'a', priority: 7 },
      { key: 'b', version: '3' },
      {},
      { key: 'a', delay: '1d', timeout: '1.5s' },
      { startAt: new Date(Date.now() + DAY_MS), timeout: 5_000, gracePeriod: 0 },
      { startAt: '1970-01-01T00:00:00Z', key: '\u{1f600}\u0001%' },
      { key: 'b' },
      { delay: 0 },
    ] as const;
    const ids = starts.map(() => [store.id('theirs'), store.id('ours'), store.id('by sql')] as const);
    for (const [n, options] of starts.entries())
      await client.startOrchestration(ids[n]?.[0] as string, 'x', null, { version: '1', ...options, queue: theirs });
    await committed(async () => {
      for (const [n, options] of starts.entries())
        await client
          .within(user.tx)
          .startOrchestration(ids[n]?.[1] as string, 'x', null, { version: '1', ...options, queue: ours });
    });
    for (const [n, options] of starts.entries())
      await startBySql(ids[n]?.[2] as string, { version: '1', ...options, queue: bySql });
    const places = (name: string) =>
      query(
        store.address,
        `SELECT p.queue_key, p.version, p.priority, p.turn, p.place, i.wake_at, i.epoch, i.next_event_id
         FROM queue_places p JOIN instances i ON i.key = p.key WHERE p.queue = '${name}' ORDER BY p.key`,
      );
    expect(places(ours)).toEqual(places(theirs));
    expect(places(bySql)).toEqual(places(theirs));
    expect(places(theirs)).toHaveLength(starts.length);
    const limits = async (id: string) => (await client.getHistory(id))[0]?.meta?.timeLimit;
    for (const [first, ...others] of ids)
      for (const id of others) expect(await limits(id)).toEqual(await limits(first));
    expect(await limits(ids[5]?.[2] as string)).toEqual({ timeoutMs: 5_000, graceMs: 0 });
    expect((await client.queues.get(ours))?.delayed).toBe(2);
    expect(dueAfter(ids[4]?.[1] as string)).toBe(DAY_MS);
  });

  it('a rollback leaves no place, nor does a start that leaves an instance as it is', async () => {
    const name = await queue();
    const id = store.id();
    await user.run('BEGIN');
    await client.within(user.tx).startOrchestration(store.id(), 'nobody registers this', 1, { queue: name });
    await user.run('ROLLBACK');
    await client.startOrchestration(id, 'nobody registers this', 1);
    await committed(() =>
      client.within(user.tx).startOrchestration(id, 'x', 1, { queue: name, delay: '1d', onConflict: 'return' }),
    );
    expect(query(store.address, `SELECT key FROM queue_places WHERE queue = '${name}'`)).toEqual([]);
    expect(dueAfter(id)).toBeLessThan(DAY_MS / 2);
    await client.queues.delete(name);
  });

  it('a start runs after its delay, or at its time, with and without a queue', async () => {
    await store.start((runtime) => runtime.register(clock));
    const name = await queue({ concurrency: 5 });
    const from = Date.now();
    const at = new Date(from + 300);
    const started: Promise<string>[] = [];
    await committed(async () => {
      for (const place of [{}, { queue: name }])
        for (const options of [{ delay: 300 }, { startAt: at }, { startAt: at.toISOString() }])
          started.push(Promise.resolve(await client.within(user.tx).start(clock, undefined, { ...place, ...options })));
    });
    for (const id of await Promise.all(started)) expect(await result(id)).toBeGreaterThanOrEqual(from + 300 - SKEW_MS);
    const past = store.id();
    await committed(() => client.within(user.tx).start(clock, undefined, { id: past, startAt: new Date(0) }));
    await result(past);
  });

  it('a timeout cancels, and the grace period ends the cleanup', async () => {
    await store.start((runtime) => runtime.register(waiter, stubborn), { cachedInstancesMax: 0 });
    const [id, slow] = [store.id(), store.id()];
    await committed(async () => {
      await client.within(user.tx).start(waiter, undefined, { id, timeout: 200 });
      await client.within(user.tx).start(stubborn, undefined, { id: slow, timeout: '0.2s', gracePeriod: '50ms' });
    });
    expect((await client.waitForOrchestration(id, SOON)).error?.message).toContain('timed out after 200 ms');
    const ended = await client.waitForOrchestration(slow, SOON);
    expect((ended.error?.cause as Error).message).toContain('grace period');
  });

  // P25.
  it('a message of the transaction makes no start run earlier, and no cancellation is taken', async () => {
    await store.start((runtime) => runtime.register(waiter));
    const full = await queue({ concurrency: 1 });
    const first = store.id();
    await client.start(waiter, undefined, { id: first, queue: full });
    await eventually(20_000, 'it runs', async () => (await client.queues.get(full))?.running === 1);
    const within = client.within(user.tx);
    const [delayed, queued] = [store.id('delayed'), store.id('queued')];
    await committed(async () => {
      await within.start(waiter, undefined, { id: delayed, delay: '1d' });
      await within.start(waiter, undefined, { id: queued, queue: full });
      for (const id of [delayed, queued]) await within.raiseEvent(id, 'go', id);
    });
    await store.settled();
    for (const id of [delayed, queued]) expect((await client.getStatus(id))?.status).toBe('Pending');
    expect(dueAfter(delayed)).toBe(DAY_MS);
    await client.raiseEvent(first, 'go');
    expect(await result(queued)).toBe(queued);
    await client.cancelInstance(delayed);
    for (const options of [{ delay: '1d' }, { queue: full }, { startAt: new Date(Date.now() + DAY_MS) }] as const) {
      const id = store.id();
      await user.run('BEGIN');
      await within.start(waiter, undefined, { id, ...options });
      expect(await rejection(call(() => within.cancelInstance(id)))).toMatchObject({
        name: 'RuntimeStateError',
        message: expect.stringContaining(id),
      });
      await user.run('ROLLBACK');
    }
  });

  it('a queue that was not set is an error at once, also if the id is in use', async () => {
    const id = store.id();
    await client.startOrchestration(id, 'nobody registers this');
    const within = client.within(user.tx);
    for (const options of [{}, { onConflict: 'return' }] as const) {
      const start = () => within.startOrchestration(id, 'x', 1, { queue: "it's none", ...options });
      const error = await rejection(call(start));
      expect(error).toBeInstanceOf(QueueNotFoundError);
      expect(error).toMatchObject({
        queue: "it's none",
        message: "there is no queue 'it's none'; set its limits first, with client.queues.set",
      });
      expect(error.cause).toBeInstanceOf(Error);
      const theirs = client.startOrchestration(id, 'x', 1, { queue: "it's none", ...options });
      expect((await rejection(theirs)).message).toBe(error.message);
    }
    expect((await rejection(startBySql(store.id(), { queue: 'none' }))).message).toMatch(/there is no queue/);
  });

  it('wrong options are refused', async () => {
    const within = client.within(user.tx) as any;
    for (const [options, message] of [
      [{ key: 'a' }, /the option key needs the option queue/],
      [{ gracePeriod: 5 }, /the option gracePeriod needs the option timeout/],
      [{ delay: 0, startAt: new Date() }, /one of the options delay and startAt/],
      [{ queue: '' }, /queue: the value must not be empty/],
      [{ queue: 'a', key: 'x'.repeat(257) }, /key: the value must have at most 256/],
      [{ queue: 'a', key: '\0' }, /key: the value must not contain NUL/],
      [{ delay: '5 minutes' }, /delay must be a duration/],
      [{ delay: -1 }, /delay must be a duration/],
      [{ startAt: 5 }, /startAt must be a time/],
      [{ startAt: 'tomorrow' }, /startAt must be a time/],
      [{ timeout: 0 }, /timeout must be at least 1 ms/],
      [{ gracePeriod: Number.NaN, timeout: 5 }, /gracePeriod must be a duration/],
      [{ debounce: { delay: 5 } }, /the option debounce is not for a start in a transaction.* client\.start$/],
      [{ throttle: { per: 5 } }, /the option throttle is not for a start in a transaction/],
      [{ singleton: 'skip' }, /the option singleton is not for a start in a transaction/],
    ] as const)
      for (const make of [
        () => within.startOrchestration('a', 'x', 1, options),
        () => within.start(waiter, undefined, { id: 'a', ...options }),
      ]) {
        const error = await rejection(call(make));
        expect(error).toBeInstanceOf(TypeError);
        expect(error.message).toMatch(message);
      }
    const problems: string[] = [];
    for (const option of ['queue', 'key', 'delay', 'startAt', 'timeout', 'gracePeriod', 'singleton'])
      for (const [what, make] of WRONG_VALUES)
        try {
          await user.run('BEGIN');
          await within.start(waiter, undefined, { [option]: make() });
        } catch (error) {
          const problem = badError(error);
          if (problem !== undefined) problems.push(`${option}: ${what}: ${problem}`);
        } finally {
          await user.run('ROLLBACK');
        }
    expect(problems).toEqual([]);
    expect(await client.getStatus('a')).toBeNull();
  });

  it('SQL takes durations as ms or as text, and times as ms or as ISO text', async () => {
    const name = await queue();
    const delays = [
      [0, 0],
      [1.5, 2],
      ['250ms', 250],
      ['1.5s', 1_500],
      ['007m', 420_000],
      ['24h', DAY_MS],
      ['7d', 7 * DAY_MS],
    ] as const;
    const cases = delays.flatMap(([delay, ms]) => [
      { id: store.id(), options: { delay }, ms },
      { id: store.id(), options: { delay, queue: name, key: 'a' }, ms },
    ]);
    for (const { id, options } of cases) await startBySql(id, options);
    const found = dueAfterEach(cases.map(({ id }) => id));
    expect(cases.map((one, n) => ({ ...one, ms: found[n] }))).toEqual(cases);
    const at = Date.UTC(2100, 0, 31, 12, 0, 0, 500);
    const times = [
      at,
      '2100-01-31T12:00:00.500Z',
      '2100-01-31 12:00:00.5+00:00',
      '2100-01-31T14:30:00.500+02:30',
      '2100-01-31T06:00:00.500-06:00',
    ];
    const ids = times.map(() => store.id());
    for (const [n, startAt] of times.entries()) await startBySql(ids[n] as string, { startAt });
    const list = ids.map((id) => `'${id}'`).join();
    const rows = query(store.address, `SELECT wake_at FROM instances WHERE id IN (${list}) ORDER BY key`);
    expect(rows.map(({ wake_at }) => Number(wake_at))).toEqual(times.map(() => at));
    const nulls = { queue: null, key: null, delay: null, startAt: null, timeout: null, gracePeriod: null };
    const id = store.id();
    await startBySql(id, nulls);
    expect(dueAfter(id)).toBe(0);
  });

  it('SQL refuses wrong options', async () => {
    const name = await queue();
    const quote = isSqlite ? '' : "'";
    const option = (name: string) => `option ${quote}${name}${quote}`;
    const durations = [
      -1,
      8.64e15 + 2,
      '5',
      '5 m',
      '5w',
      '',
      'm',
      '1.2.3s',
      '.5s',
      '5.s',
      '5\u0001s',
      '-5s',
      true,
      [],
      {},
    ];
    const times = ['tomorrow', '2030-01-31', '2030-01-31T12:00:00', '2030-13-31T12:00:00Z', '12:00:00Z', 'Z', 9e15, {}];
    const cases: [object | string, string][] = [
      ...['delay', 'timeout', 'gracePeriod'].flatMap((span) =>
        durations.map((value): [object, string] => [
          { timeout: 5, [span]: value },
          `the ${option(span)} must be a duration`,
        ]),
      ),
      ...times.map((startAt): [object, string] => [{ startAt }, `the ${option('startAt')} must be a time`]),
      ...['queue', 'key'].flatMap((text) =>
        ['', 'x'.repeat(257), 5, {}].map((value): [object, string] => [
          { queue: name, [text]: value },
          `the ${option(text)} must be a string of 1 to 256 characters`,
        ]),
      ),
      [{ key: 'a' }, `the ${option('key')} needs the ${option('queue')}`],
      [{ gracePeriod: 5 }, `the ${option('gracePeriod')} needs the ${option('timeout')}`],
      [{ delay: 5, startAt: 5 }, `${isSqlite ? 'delay and startAt' : "'delay' and 'startAt'"}, not both`],
      ...[0, 0.4].map((timeout): [object, string] => [{ timeout }, 'at least 1 ms']),
      [{ singleton: 'skip' }, 'not for a start in a transaction'],
      [{ debounce: { delay: 5 } }, 'not for a start in a transaction'],
      [{ throttle: { per: 5 } }, 'not for a start in a transaction'],
      [{ que: 'a' }, 'the options are version, priority, tags, queue, key, delay, startAt, timeout, gracePeriod, '],
      ['[5]', 'the options must be a JSON object'],
    ];
    for (const [options, message] of cases) {
      const error: Error = await rejection(startBySql('wrong', options));
      expect(error.message, JSON.stringify(options)).toContain(message);
      if (!isSqlite) expect(error).toMatchObject({ code: '22023', hint: expect.any(String) });
    }
    expect(await client.getStatus('wrong')).toBeNull();
  });

  it('a trigger of a table of the user puts an instance into a queue', async () => {
    await store.start((runtime) => runtime.register(work));
    await client.queues.set('mails', { concurrency: 1, perKey: { concurrency: 1 }, fairness: 'key' });
    await user.run('CREATE TABLE mails (id text, customer text)');
    await user.run(
      isSqlite
        ? `CREATE TRIGGER mailed AFTER INSERT ON mails BEGIN
             INSERT INTO perdure_start (id, name, options)
             VALUES ('mail-' || NEW.id, 'work', json_object('queue', 'mails', 'key', NEW.customer, 'timeout', '1h'));
           END`
        : `CREATE FUNCTION mailed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             PERFORM start('mail-' || NEW.id, 'work', NULL,
               jsonb_build_object('queue', 'mails', 'key', NEW.customer, 'timeout', '1h',
                 'startAt', now() - interval '1 hour'));
             RETURN NULL;
           END $$;
           CREATE TRIGGER mailed AFTER INSERT ON mails FOR EACH ROW EXECUTE FUNCTION mailed()`,
    );
    await user.run("BEGIN; INSERT INTO mails VALUES ('lost', 'Ada'); ROLLBACK");
    await user.run("INSERT INTO mails VALUES ('1', 'Ada'), ('2', 'Ada'), ('3', 'Ada'), ('4', 'Bob')");
    for (const id of ['1', '2', '3', '4']) await result(`mail-${id}`);
    const begun = notes.filter(({ kind }) => kind === 'begin').map(({ id }) => id);
    expect(begun).toHaveLength(4);
    expect(begun.indexOf('mail-4')).toBeLessThan(begun.indexOf('mail-3'));
    expect(mostAtOnce(notes)).toBe(1);
  });
});
