// Log lines of failures: each failed attempt, failed instance and suspended instance is logged once, with its fields.

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

import { Client, type Codec, type Runtime } from 'perdure';
import { describe, expect, it } from 'vitest';

import { collectLines } from '../../support/log-lines.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, type TestStore, useStore } from '../../support/store.ts';

const key = randomBytes(32);
/** Encrypts each value for its place. */
const sealing: Codec = {
  required: true,
  encode(text, { aad }) {
    const iv = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(aad));
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64');
  },
  decode(text, { aad }) {
    const bytes = Buffer.from(text, 'base64');
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12)).setAAD(Buffer.from(aad));
    decipher.setAuthTag(bytes.subarray(12, 28));
    return decipher.update(bytes.subarray(28), undefined, 'utf8') + decipher.final('utf8');
  },
};

/** Registers an activity whose third attempt succeeds. */
const flaky = (runtime: Runtime): void => {
  runtime
    .registerActivity(
      'charge',
      (ctx) => {
        if (ctx.attempt < 3) throw new RangeError(`the bank refused attempt ${ctx.attempt}`);
        return 'charged';
      },
      { retry: { initialInterval: 10, jitter: 0 } },
    )
    .registerOrchestration('order', function* (ctx) {
      return yield ctx.scheduleActivity('charge');
    });
};

/** Runs an instance to its end, and shuts its runtime down: then every line has come. */
async function finish(store: TestStore, runtime: Runtime, name: string, client = store.client) {
  const id = store.id(name);
  await client.startOrchestration(id, name);
  const status = await client.waitForOrchestration(id, SOON);
  await runtime.shutdown();
  return { id, status };
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('a failed attempt is a warning that names the next one', async () => {
    const { lines, logger } = collectLines();
    const runtime = await store.start(flaky, { logger, logLevel: 'warn' });
    const { id, status } = await finish(store, runtime, 'order');
    expect(status).toMatchObject({ output: 'charged' });
    expect(lines).toMatchObject([
      {
        level: 'warn',
        message:
          `attempt 1 of 3 of activity 'charge' of instance '${id}' failed; the next attempt begins in 10 ms: ` +
          'RangeError: the bank refused attempt 1',
        fields: {
          instanceId: id,
          executionId: 1,
          orchestrationName: 'order',
          version: '1.0.0',
          activityName: 'charge',
          attempt: 1,
          eventId: 3,
          error: { name: 'RangeError', stack: expect.stringContaining('failure-lines.test.ts') },
        },
      },
      { level: 'warn', fields: { attempt: 2, eventId: 4 } },
    ]);
  });

  it('a failed instance is an error, after the last attempt', async () => {
    const { lines, logger } = collectLines();
    const runtime = await store.start(
      (code) =>
        code
          .registerActivity('fails', () => Promise.reject(new TypeError('no')), { retry: { maxAttempts: 1 } })
          .registerOrchestration('order', function* (ctx) {
            yield ctx.scheduleActivity('fails');
          }),
      { logger, logLevel: 'warn' },
    );
    const { id, status } = await finish(store, runtime, 'order');
    expect(status).toMatchObject({ status: 'Failed' });
    expect(lines.map(({ level, message }) => ({ level, message: message.split('\n')[0] }))).toEqual([
      {
        level: 'warn',
        message: `attempt 1 of 1 of activity 'fails' of instance '${id}' failed; no attempt follows: TypeError: no`,
      },
      {
        level: 'error',
        message: expect.stringMatching(
          new RegExp(`^instance '${id}' of orchestration 'order' failed: ActivityError: .*no`),
        ),
      },
    ]);
    expect(lines[1]?.fields).toMatchObject({ instanceId: id, eventId: 4, version: '1.0.0' });
  });

  it('a suspended instance is an error with the whole report', async () => {
    const { lines, logger } = collectLines();
    const first = await store.start((runtime) =>
      runtime
        .registerActivity('a', () => 'done')
        .registerOrchestration('edited', function* (ctx) {
          yield ctx.scheduleActivity('a');
          yield ctx.waitForEvent('go');
        }),
    );
    const id = store.id('edited');
    await store.client.startOrchestration(id, 'edited');
    await first.shutdown();
    const second = await store.start(
      (code) =>
        code.registerOrchestration('edited', function* (ctx) {
          yield ctx.scheduleActivity('b');
        }),
      { logger, logLevel: 'warn' },
    );
    await store.client.raiseEvent(id, 'go');
    await store.suspended(id);
    await second.shutdown();
    store.errors.splice(0);
    const line = lines.find(({ level }) => level === 'error');
    expect(line?.message).toMatch(new RegExp(`^instance '${id}' is suspended: `));
    expect(line?.message).toContain("'a'");
    expect(line?.message).toContain("'b'");
    expect(line?.fields).toMatchObject({ instanceId: id, orchestrationName: 'edited' });
  });

  it('errors that a codec encrypted are readable', async () => {
    const { lines, logger } = collectLines();
    const provider = await store.open({ codec: sealing });
    const runtime = await store.start(flaky, { logger, logLevel: 'warn' }, provider);
    await finish(store, runtime, 'order', new Client(provider));
    expect(lines[0]?.message).toMatch(/RangeError: the bank refused attempt 1$/);
  });

  it('thousands of failures make a limited number of lines', async () => {
    const { lines, logger } = collectLines();
    const runtime = await store.start(
      (code) =>
        code
          .registerActivity('fails', () => Promise.reject(new Error('down')), { retry: { maxAttempts: 1 } })
          .registerOrchestration('many', function* (ctx) {
            yield ctx.allSettled(Array.from({ length: 1_000 }, () => ctx.scheduleActivity('fails')));
          }),
      { logger, logLevel: 'warn' },
    );
    await finish(store, runtime, 'many');
    expect(lines.length).toBeGreaterThanOrEqual(100);
    expect(lines.length).toBeLessThan(500);
  });
});

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('an attempt on another worker is logged by the owner of the instance', async () => {
    const owner = collectLines();
    const other = collectLines();
    const runtime = await store.start(
      (code) =>
        code.registerOrchestration('remote', function* (ctx) {
          return yield ctx.scheduleActivity('charge', null, { queue: 'bank', retry: { initialInterval: 10 } });
        }),
      { logger: owner.logger, logLevel: 'warn' },
    );
    await store.start(flaky, { logger: other.logger, logLevel: 'warn', queues: ['bank'] }, await store.open());
    const { id, status } = await finish(store, runtime, 'remote');
    expect(status).toMatchObject({ output: 'charged' });
    const failures = owner.lines.filter(({ fields }) => fields.attempt !== undefined);
    expect(other.lines).toEqual([]);
    expect(failures.map(({ fields }) => [fields.instanceId, fields.attempt])).toEqual([
      [id, 1],
      [id, 2],
    ]);
  });
});
