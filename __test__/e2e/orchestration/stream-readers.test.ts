// Readers of streams that are slow, or that stop reading: the process that serves them reads little ahead, and they
// miss nothing.

import { createServer, type IncomingMessage, request, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { createAdaptorServer } from '@hono/node-server';
import { defineActivity, defineOrchestration, eventStream, type Runtime } from 'perdure';
import { afterEach, describe, expect, it } from 'vitest';

import { eventually } from '../../support/async.ts';
import { ANY_STORE, STORES, temporaryFolder } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const WITHIN_MS = 45_000;

/** The stream has 16 MiB. */
const ENTRIES = 1_024;
const ENTRY = 'x'.repeat(16 * 1024);
/** Most entries between the server and a client that does not read: they take 4 MiB, in buffers of both systems. */
const AHEAD_MAX = 256;
/** Clients that stop reading at the same time. */
const CLIENTS = 3;

/** Entries of another stream, and the first of them that deletes others. */
const [WRITTEN, KEPT] = [300, 150];

const fills = defineActivity('fills', async (ctx) => {
  const stream = ctx.stream('s');
  for (let n = 0; n < ENTRIES; n += 1) {
    stream.write(`${n} ${ENTRY}`);
    if (n % 256 === 0) await stream.flush();
  }
});

const filled = defineOrchestration('filled', function* (ctx) {
  yield* ctx.call(fills);
  ctx.setCustomStatus('filled');
  yield* ctx.waitForEvent('end');
});

/** Writes an entry with each turn. The later ones leave the last 10 alone. */
const forgets = defineOrchestration('forgets', function* (ctx) {
  for (let n = 0; n < WRITTEN; n += 1) {
    ctx.stream('s', n < KEPT ? {} : { maxEntries: 10 }).write(n);
    if (n === KEPT - 1) {
      ctx.setCustomStatus('filled');
      yield* ctx.waitForEvent('go');
    }
    yield* ctx.run('step', async () => undefined);
  }
});

function register(runtime: Runtime): void {
  runtime.register(fills, filled, forgets);
}

/** Makes a server that answers each request with the response of `serve`. */
type MakeServer = (serve: (request: Request) => Response) => Server;

const hono: MakeServer = (serve) => createAdaptorServer({ fetch: serve }) as Server;

const piped: MakeServer = (serve) =>
  createServer((_, response) => {
    const { headers, body } = serve(new Request('http://localhost/'));
    response.writeHead(200, Object.fromEntries(headers));
    const sent = Readable.fromWeb(body as ReadableStream);
    sent.pipe(response);
    response.once('close', () => sent.destroy());
  });

/** Returns the indexes of the entries in server-sent events. Throws at an entry that is not whole. */
function indexesIn(text: string): number[] {
  return [...text.matchAll(/^id: (\d+)\ndata: (.*)$/gm)].map(([, id, data]) => {
    if (data !== JSON.stringify(`${id} ${ENTRY}`)) throw new Error(`entry ${id} is not whole`);
    return Number(id);
  });
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const endings: (() => Promise<void>)[] = [];

  afterEach(async () => {
    for (const end of endings.splice(0).reverse()) await end();
  });

  async function filledStream(name: 'filled' | 'forgets'): Promise<string> {
    await store.start(register);
    const id = store.id();
    await store.client.startOrchestration(id, name);
    await store.client.waitForStatusChange(id, 0, { timeout: SOON });
    return id;
  }

  /**
   * Serves the stream of an instance at a path of this machine, whose buffers are small. Returns the readers that it
   * has made, with the number of entries that each has read and true once it was told to stop.
   */
  async function serving(id: string, make: MakeServer) {
    const readers: { read: number; isStopped: boolean }[] = [];
    const sockets: Socket[] = [];
    const server = make(() => {
      const reader = store.client.readStream(id, 's');
      const seen = { read: 0, isStopped: false };
      readers.push(seen);
      const { next, return: stop } = reader;
      reader.next = () => {
        seen.read += 1;
        return next.call(reader);
      };
      reader.return = () => {
        seen.isStopped = true;
        return stop.call(reader);
      };
      return eventStream(reader);
    });
    server.on('connection', (socket: Socket) => sockets.push(socket));
    const folder = temporaryFolder();
    const path = process.platform === 'win32' ? `\\\\.\\pipe\\${folder}` : join(folder, 's');
    await new Promise<void>((resolve) => server.listen(path, resolve));
    endings.push(
      () =>
        new Promise((resolve) => {
          server.close(() => resolve());
          server.closeAllConnections();
        }),
    );
    return { path, readers, sockets };
  }

  /** Asks for the stream, and reads nothing but the headers. */
  async function stalled(socketPath: string): Promise<IncomingMessage> {
    return await new Promise((resolve, reject) => {
      request({ socketPath, agent: false }, resolve).on('error', reject).end();
    });
  }

  describe.each([
    ['a Hono server', hono],
    ['a pipe of Node', piped],
  ] as const)('through %s', (_, make) => {
    it('clients that stop reading hold up no more than their buffers, and later get everything in order', async () => {
      const id = await filledStream('filled');
      const { path, readers, sockets } = await serving(id, make);
      const clients = await Promise.all(Array.from({ length: CLIENTS }, () => stalled(path)));
      await eventually(WITHIN_MS, 'the servers wait for their clients', () =>
        sockets.every(({ writableNeedDrain }) => writableNeedDrain),
      );
      // A reader that nothing holds up has read the whole stream meanwhile.
      let others = 0;
      for await (const { index } of store.client.readStream(id, 's', { live: false }))
        others += index === others ? 1 : 0;
      expect(others).toBe(ENTRIES);
      expect(readers).toHaveLength(CLIENTS);
      for (const { read } of readers) expect(read).toBeLessThan(AHEAD_MAX);
      for (const { writableLength } of sockets) expect(writableLength).toBeLessThan(AHEAD_MAX * ENTRY.length);

      await store.client.raiseEvent(id, 'end');
      const texts = await Promise.all(clients.map(textOf));
      for (const text of texts) {
        expect(indexesIn(text)).toEqual(Array.from({ length: ENTRIES }, (_, n) => n));
        expect(text.endsWith('event: end\ndata: {}\n\n')).toBe(true);
      }
    });

    it('a client that stops reading and goes away ends its reader', async () => {
      const id = await filledStream('filled');
      const { path, readers, sockets } = await serving(id, make);
      const client = await stalled(path);
      await eventually(WITHIN_MS, 'the server waits', () => sockets[0]?.writableNeedDrain === true);
      client.destroy();
      await eventually(WITHIN_MS, 'the reader is stopped', () => readers[0]?.isStopped === true);
      expect(readers[0]?.read).toBeLessThan(AHEAD_MAX);
    });
  });

  it('a slow reader holds a page of old entries, and goes on with those that are left', async () => {
    const id = await filledStream('forgets');
    const reader = store.client.readStream<number>(id, 's');
    const indexes: number[] = [(await reader.next()).value?.index ?? -1];
    await store.client.raiseEvent(id, 'go');
    await store.client.waitForOrchestration(id, SOON);
    for await (const { index, value } of reader) {
      expect(value).toBe(index);
      indexes.push(index);
    }
    const gap = indexes.findIndex((index, n) => index !== n);
    // A page has at most 100 chunks, and each turn writes one.
    expect(gap).toBeGreaterThan(1);
    expect(gap).toBeLessThanOrEqual(101);
    const left = indexes.slice(gap);
    expect(left[0]).toBeGreaterThan(WRITTEN - 20);
    expect(left).toEqual(Array.from(left, (_, n) => WRITTEN - left.length + n));
  });
});

describe(`on ${ANY_STORE.name}, a reader`, () => {
  const store = useStore(ANY_STORE);

  it('of 1 000 000 entries gets each of them, in order', async () => {
    const count = 1_000_000;
    const counts = defineActivity('counts', async (ctx) => {
      for (let n = 0; n < count; n += 1) {
        ctx.stream('s').write(n);
        if (n % 5_000 === 0) await ctx.stream('s').flush();
      }
    });
    const counted = defineOrchestration('counted', function* (ctx) {
      yield* ctx.call(counts);
    });
    await store.start((runtime) => runtime.register(counts, counted));
    const { id } = await store.client.start(counted, undefined, { id: store.id() });
    let next = 0;
    // The reader follows the activity.
    for await (const { index, value } of store.client.readStream(id, 's')) {
      if (index !== next || value !== next) throw new Error(`entry ${index} is ${value}, and ${next} was next`);
      next += 1;
    }
    expect(next).toBe(count);
    expect(await store.client.listStreams(id)).toEqual([{ name: 's', first: 0, next: count, isClosed: false }]);
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Completed' });
  });
});

async function textOf(response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}
