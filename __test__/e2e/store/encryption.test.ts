// A store behind a codec. Here it is real encryption, which encodes a value to another text each time.

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  type ActivityDefinition,
  Client,
  type Codec,
  type Duration,
  defineActivity,
  defineOrchestration,
  type OrchestrationDefinition,
  PayloadError,
  type Provider,
  Runtime,
  SqliteProvider,
} from 'perdure';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { fromErrorPayload } from '../../../js/values/payload.ts';
import { StoredTexts } from '../../../js/values/stored-text.ts';
import { NO_TYPES } from '../../../js/values/value-types.ts';
import { rejection } from '../../support/async.ts';
import { WAYS } from '../../support/delayed-codec.ts';
import { historyViolations } from '../../support/history.ts';
import { temporaryFolder } from '../../support/providers.ts';
import { SOON } from '../../support/store.ts';

/** AES-256-GCM with a new nonce for every text. */
function aes(key: Buffer): Codec {
  return {
    encode(text) {
      const nonce = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', key, nonce);
      const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64');
    },
    decode(text) {
      const bytes = Buffer.from(text, 'base64');
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12)).setAuthTag(bytes.subarray(12, 28));
      return decipher.update(bytes.subarray(28), undefined, 'utf8') + decipher.final('utf8');
    },
  };
}

/** Part of every value that a test hands over. */
const CANARY = 'canary-7f3a';

/** The way in which the codecs of a test answer. */
let answering = WAYS[0]!.of;
let folder: string;
let runtimes: Runtime[];
let providers: Provider[];

beforeEach(() => {
  folder = temporaryFolder();
  runtimes = [];
  providers = [];
});

afterEach(async () => {
  for (const runtime of runtimes) await runtime.shutdown();
  for (const provider of providers) await provider.close();
  rmSync(folder, { recursive: true });
});

/** Behaves like a user's codec that has a bug. */
const failing = (message: string) => (): never => {
  throw new Error(message);
};

async function provide(codec: Codec | undefined): Promise<Provider> {
  const provider = await SqliteProvider.open(
    join(folder, 'store.db'),
    codec === undefined ? {} : { codec: answering(codec) },
  );
  providers.push(provider);
  return provider;
}

async function deploy(
  codec: Codec | undefined,
  ...definitions: readonly (ActivityDefinition | OrchestrationDefinition)[]
): Promise<{ client: Client; stop(timeout?: Duration): Promise<void> }> {
  const provider = await provide(codec);
  const runtime = new Runtime(provider, { logLevel: 'silent', cachedInstancesMax: 0 });
  runtime.register(...definitions);
  runtimes.push(runtime);
  await runtime.start();
  return {
    client: new Client(provider),
    async stop(timeout) {
      await runtime.shutdown(timeout);
      await provider.close();
    },
  };
}

/** Returns all bytes on the disk, including those of the log. */
function bytes(): string {
  return readdirSync(folder)
    .map((file) => readFileSync(join(folder, file)).toString('latin1'))
    .join('\n');
}

const echo = defineActivity('echo', async (_, value: string) => `${value} back`);
const fail = defineActivity(
  'fail',
  async (ctx, value: string) => {
    if (ctx.attempt === 1) throw new TypeError(`${value} first`);
    throw Object.assign(new TypeError(`${value} failed`), { detail: value, cause: new Error(value) });
  },
  { retry: { maxAttempts: 2, initialInterval: 1 } },
);

/** Passes the canary to everything that is stored. */
const everywhere = defineOrchestration('everywhere', function* (ctx, input: { secret: string }) {
  const output = yield* ctx.call(echo, input.secret);
  ctx.setCustomStatus({ output });
  const failure: any = yield* ctx.spawn(function* () {
    try {
      yield* ctx.call(fail, input.secret);
    } catch (error) {
      return error;
    }
  });
  const event = yield* ctx.waitForEvent<string>('go');
  const message = yield* ctx.dequeueEvent<Map<string, string>>('tasks');
  ctx.setCustomStatus({ output });
  return { output, event, message, failure: failure.cause.detail, cause: failure.cause.cause.message };
});

const waiting = defineOrchestration('waiting', function* (ctx, input: string) {
  ctx.setCustomStatus(input);
  const event = yield* ctx.waitForEvent<string>('go');
  return [input, yield* ctx.call(echo, event)];
});

describe.each(WAYS)('a store with a codec that answers $way', ({ of }) => {
  beforeEach(() => {
    answering = of;
    return () => {
      answering = WAYS[0]!.of;
    };
  });

  it('holds no value as it was, and gives them all back in every replay', async () => {
    const { client, stop } = await deploy(aes(randomBytes(32)), everywhere, waiting, echo, fail);
    const handle = await client.start(everywhere, { secret: CANARY }, { id: 'i' });
    await handle.waitForStatusChange(0, undefined, SOON);
    await handle.raiseEvent('go', `${CANARY} event`);
    await handle.enqueueEvent('tasks', new Map([['key', CANARY]]));
    expect(await handle.result({ timeout: SOON })).toEqual({
      output: `${CANARY} back`,
      event: `${CANARY} event`,
      message: new Map([['key', CANARY]]),
      failure: CANARY,
      cause: CANARY,
    });
    expect(await handle.status()).toMatchObject({ customStatus: { output: `${CANARY} back` }, customStatusVersion: 1 });
    const history = await client.getHistory('i');
    expect(historyViolations(history, 'Completed')).toEqual([]);
    expect(history[0]).toMatchObject({ kind: 'ExecutionStarted', payload: { secret: CANARY } });
    expect(history.find(({ kind }) => kind === 'ActivityAttemptFailed')?.payload).toMatchObject({
      message: `${CANARY} first`,
    });

    for (const [id, end] of [
      ['c', 'cancelInstance'],
      ['t', 'terminateInstance'],
    ] as const) {
      const ending = await client.start(waiting, CANARY, { id });
      await ending.waitForStatusChange(0, undefined, SOON);
      await client[end](id, `${CANARY} reason`);
      expect((await client.waitForOrchestration(id, SOON)).error?.message).toMatch(new RegExp(`: ${CANARY} reason$`));
    }
    const failing = await client.start(everywhere, CANARY as never, { id: 'f' });
    await client.cancelInstance(failing.id, CANARY);
    await rejection(failing.result({ timeout: SOON }));

    const stored = bytes();
    expect(stored).toContain('everywhere');
    expect(stored).not.toContain(CANARY);
    await stop();
    expect(bytes()).not.toContain(CANARY);
  });

  it('holds nothing that an activity tells of its progress, and hands it to the next attempt', async () => {
    const beating = defineOrchestration('beating', function* (ctx, secret: string) {
      return yield* ctx.run(
        'beat',
        async ({ heartbeat, lastHeartbeat, attempt }) => {
          if (attempt === 2) return lastHeartbeat;
          heartbeat({ row: secret });
          throw new Error(secret);
        },
        { retry: { maxAttempts: 2, initialInterval: 1 } },
      );
    });
    const { client, stop } = await deploy(aes(randomBytes(32)), beating);
    const handle = await client.start(beating, CANARY, { id: 'i' });
    expect(await handle.result({ timeout: SOON })).toEqual({ row: CANARY });
    await stop();
    expect(bytes()).not.toContain(CANARY);
  });

  it('holds no value that instances hand to each other, or to their next execution', async () => {
    const child = defineOrchestration('child', function* (ctx, input: string) {
      const answer = yield* ctx.waitForEvent<string>('answer');
      if (input.endsWith('fails')) throw new RangeError(answer);
      return `${input} ${answer}`;
    });
    const parent = defineOrchestration('parent', function* (ctx, input: { secret: string; round: number }) {
      ctx.setCustomStatus(input.secret);
      if (input.round === 1) return yield* ctx.continueAsNew({ ...input, round: 2 });
      const children = [`${input.secret} ends`, `${input.secret} fails`].map((secret, i) =>
        ctx.callOrchestration(child, secret, { id: `child-${i}` }),
      );
      for (const i of [0, 1]) yield* ctx.raiseEvent(`child-${i}`, 'answer', `${input.secret} answer`);
      const [ends, fails] = yield* ctx.allSettled(children);
      return [ends, fails?.status === 'rejected' && fails.reason.cause.message, ctx.getCustomStatus()];
    });
    const { client, stop } = await deploy(aes(randomBytes(32)), parent, child);
    const handle = await client.start(parent, { secret: CANARY, round: 1 }, { id: 'p' });
    expect(await handle.result({ timeout: SOON })).toEqual([
      { status: 'fulfilled', value: `${CANARY} ends ${CANARY} answer` },
      `${CANARY} answer`,
      CANARY,
    ]);
    expect(await handle.status()).toMatchObject({ executionId: 2, customStatusVersion: 1 });
    await stop();
    expect(bytes()).not.toContain(CANARY);
  });

  it.each([
    ['another key', aes(randomBytes(32)), "the codec's decode threw"],
    ['no codec', undefined, 'it was stored through a codec, but the provider was opened without a codec'],
  ])('suspends an instance that is run with %s, and loses nothing', async (_, wrong, message) => {
    const right = aes(randomBytes(32));
    const first = await deploy(right, waiting, echo);
    await first.client.start(waiting, 'input', { id: 'i' });
    await first.client.waitForStatusChange('i', 0, undefined, SOON);
    await first.client.raiseEvent('i', 'other', 'not yet read');
    await first.stop();
    // Sent with the right key, and while no worker reads it.
    const sender = new Client(await provide(right));
    await sender.raiseEvent('i', 'go', 'event');
    const history = await sender.getHistory('i');

    const second = await deploy(wrong, waiting, echo);
    await expect.poll(async () => (await sender.getStatus('i'))?.status).toBe('Suspended');
    const status = await sender.getStatus('i');
    expect(status?.error).toBeInstanceOf(PayloadError);
    expect(status?.error).toMatchObject({ code: 'PAYLOAD', path: 'input', message: expect.stringContaining(message) });
    expect(await sender.getHistory('i')).toEqual(history);
    const error = await rejection(second.client.getHistory('i'));
    expect(error).toBeInstanceOf(PayloadError);
    expect((error as Error).message).toContain(message);
    await second.stop();

    const third = await deploy(right, waiting, echo);
    await third.client.resume('i');
    expect((await third.client.waitForOrchestration('i', SOON)).output).toEqual(['input', 'event back']);
  });

  it('suspends an instance that is handed an event of another key, and takes it when the key is there', async () => {
    const right = aes(randomBytes(32));
    const first = await deploy(right, waiting, echo);
    await first.client.start(waiting, 'input', { id: 'i' });
    await first.client.waitForStatusChange('i', 0, undefined, SOON);
    const otherKey = aes(randomBytes(32));
    await new Client(await provide(otherKey)).raiseEvent('i', 'go', 'event');
    await expect.poll(async () => (await first.client.getStatus('i'))?.status).toBe('Suspended');
    expect((await first.client.getStatus('i'))?.error).toMatchObject({ code: 'PAYLOAD', path: 'value' });
    await first.stop();

    // A key ring.
    const both: Codec = {
      ...right,
      decode(text, context) {
        try {
          return right.decode(text, context);
        } catch {
          return otherKey.decode(text, context);
        }
      },
    };
    const second = await deploy(both, waiting, echo);
    await second.client.resume('i');
    expect((await second.client.waitForOrchestration('i', SOON)).output).toEqual(['input', 'event back']);
  });

  it('reads values that were stored without a codec, and finds code that does not match', async () => {
    const first = await deploy(undefined, waiting, echo);
    for (const id of ['fits', 'changed']) {
      await first.client.start(waiting, 'input', { id });
      await first.client.waitForStatusChange(id, 0, undefined, SOON);
    }
    await first.stop();
    const key = aes(randomBytes(32));
    const second = await deploy(key, waiting, echo);
    await second.client.raiseEvent('fits', 'go', CANARY);
    expect((await second.client.waitForOrchestration('fits', SOON)).output).toEqual(['input', `${CANARY} back`]);
    await second.stop();

    const slow = defineActivity('echo', () => new Promise<string>(() => {}));
    const third = await deploy(key, waiting, slow);
    await third.client.raiseEvent('changed', 'go', CANARY);
    await expect.poll(async () => (await third.client.getHistory('changed')).length).toBe(3);
    await third.stop(0);
    const other = defineOrchestration('waiting', function* (ctx, input: string) {
      ctx.setCustomStatus(input);
      return [input, yield* ctx.call(echo, `${yield* ctx.waitForEvent<string>('go')} changed`)];
    });
    const fourth = await deploy(key, other, echo);
    await expect.poll(async () => (await fourth.client.getStatus('changed'))?.status).toBe('Suspended');
    const { error } = (await fourth.client.getStatus('changed')) ?? {};
    expect(error).toMatchObject({ code: 'NONDETERMINISM', report: { eventId: 3, field: { name: 'input' } } });
    expect(bytes()).not.toContain(CANARY);
  });
});

describe('a codec that does not work', () => {
  const plain: Codec = { encode: (text) => text, decode: (text) => text };

  it('reports its error to the client, and nothing is stored', async () => {
    const client = new Client(await provide({ ...plain, encode: failing('no key') }));
    const error = await rejection(client.startOrchestration('i', 'waiting', 'input'));
    expect(error).toBeInstanceOf(PayloadError);
    expect(error).toMatchObject({
      message: "input cannot be stored: the codec's encode threw",
      path: 'input',
      cause: new Error('no key'),
    });
    expect(await client.getStatus('i')).toBeNull();
  });

  it.each([
    ['a promise', async () => 'text'],
    ['NUL', () => 'a\0'],
    ['a lone surrogate', () => '\ud800'],
  ])('is refused when it gives %s', async (_, encode) => {
    const client = new Client(await provide({ ...plain, encode: encode as () => string }));
    await expect(client.startOrchestration('i', 'waiting', 'input')).rejects.toThrow(
      "input cannot be stored: the codec's encode did not return a string without NUL and lone surrogates",
    );
  });

  it('suspends the instance whose value it cannot write, and an attempt is tried again', async () => {
    let broken = '';
    const codec: Codec = {
      encode(text) {
        if (broken !== '' && text.includes(broken)) throw new Error(`cannot encode ${text}`);
        return Buffer.from(text).toString('base64');
      },
      decode: (text) => Buffer.from(text, 'base64').toString(),
    };
    const { client } = await deploy(codec, waiting, echo);
    await client.start(waiting, 'input', { id: 'i' });
    await client.waitForStatusChange('i', 0, undefined, SOON);
    broken = 'event';
    const other = new Client(await provide({ ...codec, encode: (text) => Buffer.from(text).toString('base64') }));
    await other.raiseEvent('i', 'go', 'event');
    await expect.poll(async () => (await client.getStatus('i'))?.status).toBe('Suspended');
    expect((await client.getStatus('i'))?.error).toMatchObject({
      code: 'PAYLOAD',
      path: 'input',
      message: expect.stringMatching(
        /^input cannot be stored: the codec's encode threw\n {4}at .*encryption\.test\.ts/,
      ),
    });
    // The input can be encoded now. The encoding of the output fails at the first attempt, and that error shows nothing
    // of it.
    broken = 'event back';
    let attempts = 0;
    const encode = codec.encode;
    codec.encode = (text, context) => {
      if (text.includes(broken)) attempts += 1;
      if (attempts === 1 && text.includes(broken)) return encode(text, context);
      return Buffer.from(text).toString('base64');
    };
    await client.resume('i');
    expect((await client.waitForOrchestration('i', SOON)).output).toEqual(['input', 'event back']);
    const failed = (await client.getHistory('i')).find(({ kind }) => kind === 'ActivityAttemptFailed');
    expect(failed?.payload).toMatchObject({
      type: 'PayloadError',
      message: "output cannot be stored: the codec's encode threw",
    });
  });

  it('lets an error be stored, without its message', () => {
    const texts = new StoredTexts({ ...plain, encode: failing(CANARY) });
    const text = texts.writeError(JSON.stringify({ name: 'Error', message: CANARY }), null);
    expect(text).not.toContain(CANARY);
    expect(fromErrorPayload(text, NO_TYPES)).toMatchObject({
      name: 'PayloadError',
      code: 'PAYLOAD',
      path: 'error',
      message: "error cannot be stored: the codec's encode failed",
    });
  });

  it.each([
    [
      { encode: () => '' },
      'SqliteProvider.inMemory: codec must be an object with the functions encode and decode: decode is missing',
    ],
    [null, 'SqliteProvider.inMemory: codec must be an object with the functions encode and decode: encode is missing'],
  ])('is refused when it is none: %o', async (codec, message) => {
    await expect(SqliteProvider.inMemory({ codec: codec as never })).rejects.toThrow(new TypeError(message));
    const slip = { coded: plain } as never;
    await expect(SqliteProvider.inMemory(slip)).rejects.toThrow('did you mean `codec`?');
  });
});
