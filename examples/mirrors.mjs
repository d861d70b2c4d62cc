// Fetches files from two mirrors, and keeps the copy that is complete first.
//
//   node examples/mirrors.mjs [--limit 1m] [--folder .perdure/mirrors]
//
// Each file is a race of two blocks of steps: read the size, fetch part by part, check the sum. The loser is cancelled
// and cleans up. The mirrors are two small HTTP servers in this process. The near one is fast, but its copy of one file
// is damaged. The far one is slow. Kill the program in the middle and start it again: fetched parts are not fetched
// again.

import { createHash } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { open, readFile, rename, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Client, defineActivity, defineOrchestration, Runtime, SqliteProvider } from 'perdure';

const FILES = ['airports.csv', 'cars.json', 'seattle-weather.csv', 'stocks.csv', 'us-employment.csv'];
const PART_BYTES = 16 * 1024;

const { values: options } = parseArgs({
  options: { limit: { type: 'string', default: '1m' }, folder: { type: 'string', default: '.perdure/mirrors' } },
});
mkdirSync(options.folder, { recursive: true });

const mirrors = {
  near: await startMirror({ delayMs: 1, damaged: 'airports.csv' }),
  far: await startMirror({ delayMs: 50 }),
};
const partOf = (mirror, file) => join(options.folder, `${file}.${mirror}`);

// Inputs of activities name a mirror, and the activity looks up its address here. The history must stay valid, and the
// ports are different when the program runs again.

const inspect = defineActivity('inspect', async (ctx, { mirror, file }) => {
  const response = await fetch(new URL(file, mirrors[mirror].url), { method: 'HEAD', signal: ctx.signal });
  return Number(response.headers.get('content-length'));
});

const fetchPart = defineActivity('fetch-part', async (ctx, { mirror, file, at }) => {
  const range = `bytes=${at}-${at + PART_BYTES - 1}`;
  const response = await fetch(new URL(file, mirrors[mirror].url), { headers: { range }, signal: ctx.signal });
  if (response.status !== 206) throw new Error(`${mirror} answers ${response.status}`);
  const bytes = new Uint8Array(await response.arrayBuffer());
  ctx.signal.throwIfAborted();
  // Writes at the position of the part, so a second run has no effect.
  const part = await open(partOf(mirror, file), at === 0 ? 'w' : 'r+');
  try {
    await part.write(bytes, 0, bytes.length, at);
  } finally {
    await part.close();
  }
});

const check = defineActivity(
  'check',
  async (ctx, { mirror, file }) => {
    const response = await fetch(new URL('sums.json', mirrors[mirror].url), { signal: ctx.signal });
    const sums = await response.json();
    if (sumOf(await readFile(partOf(mirror, file))) !== sums[file])
      throw new Error(`${file} of mirror ${mirror} is damaged`);
  },
  { retry: { maxAttempts: 1 } },
);

const discard = defineActivity('discard', (ctx, { mirror, file }) => rm(partOf(mirror, file), { force: true }));

const keep = defineActivity('keep', async (ctx, { mirror, file }) => {
  const target = join(options.folder, file);
  // An earlier attempt, whose result was lost, may have moved the file already.
  await rename(partOf(mirror, file), target).catch((error) => {
    if (error.code !== 'ENOENT') throw error;
  });
  return sumOf(await readFile(target));
});

const fetchFile = defineOrchestration('fetch-file', function* (ctx, { file, limit }) {
  function* from(mirror) {
    try {
      const size = yield* ctx.call(inspect, { mirror, file });
      for (let at = 0; at < size; at += PART_BYTES) yield* ctx.call(fetchPart, { mirror, file, at });
      yield* ctx.call(check, { mirror, file });
      return mirror;
    } catch (error) {
      // This block has failed, or has lost the race and is cancelled.
      yield* ctx.call(discard, { mirror, file });
      throw error;
    }
  }
  const blocks = ['near', 'far'].map((mirror) => ctx.spawn(from(mirror)));
  const whole = ctx.any(blocks, { cancelLosers: true });
  const first = yield* ctx.race(whole, ctx.sleep(limit), { cancelLosers: true });
  // The return of an orchestration drops running fibers, so wait until the losers have cleaned up.
  yield* ctx.allSettled(blocks);
  if (first.index === 1) throw new Error(`${file} took longer than ${limit}`);
  return { mirror: first.value, sha256: yield* ctx.call(keep, { mirror: first.value, file }) };
});

const provider = await SqliteProvider.open(join(options.folder, 'mirrors.db'));
const runtime = new Runtime(provider);
runtime.register(inspect, fetchPart, check, discard, keep, fetchFile);
await runtime.start();

const client = new Client(provider);
const { limit } = options;
const downloads = await Promise.all(
  FILES.map((file) => client.start(fetchFile, { file, limit }, { id: file, onConflict: 'return' })),
);
await Promise.all(
  downloads.map(async (download) => {
    try {
      const { mirror, sha256 } = await download.result();
      console.log(`${download.id} from the ${mirror} mirror, sha256 ${sha256}`);
    } catch (error) {
      console.error(`${download.id}: ${error.message}`);
      process.exitCode = 1;
    }
  }),
);
await runtime.shutdown();
await provider.close();
for (const { server } of Object.values(mirrors)) server.close().closeAllConnections();

/** Starts an HTTP server of the files with support for ranges. It delays each answer. */
async function startMirror({ delayMs, damaged }) {
  const contents = new Map();
  for (const file of FILES)
    contents.set(`/${file}`, await readFile(new URL(`../data/${file}`, import.meta.resolve('vega-datasets'))));
  const sums = Object.fromEntries(FILES.map((file) => [file, sumOf(contents.get(`/${file}`))]));
  contents.set('/sums.json', Buffer.from(JSON.stringify(sums)));
  if (damaged !== undefined) contents.get(`/${damaged}`).writeUInt8(0, 100);

  const server = createServer(async (request, response) => {
    await delay(delayMs);
    const content = contents.get(request.url);
    const [, begin, end] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    const body = begin === undefined ? content : content?.subarray(Number(begin), Number(end) + 1);
    const status = content === undefined ? 404 : begin === undefined ? 200 : 206;
    response.writeHead(status, { 'content-length': body?.length ?? 0 });
    response.end(request.method === 'HEAD' ? undefined : body);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, url: `http://127.0.0.1:${server.address().port}/` };
}

function sumOf(bytes) {
  return createHash('sha256').update(bytes).digest('hex');
}
