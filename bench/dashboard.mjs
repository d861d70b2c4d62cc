// How long each answer of the dashboard takes, with 100 000 instances and a history of 10 000 events:
//
//   node bench/dashboard.mjs                                                      on an SQLite file
//   node bench/dashboard.mjs --url postgres://postgres@127.0.0.1:5432/postgres    on a schema of its own there, which is dropped at the end
//
// Each line is the median and the longest of ten requests to the handler in this process, JSON made and read.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { Client, PostgresProvider, Runtime, SqliteProvider } from '../dist/index.js';
import { dashboardHandler } from '../dist/dashboard/index.js';
import pg from 'pg';

const { values: { url, instances: wanted } } = parseArgs({ options: { url: { type: 'string' }, instances: { type: 'string', default: '100000' } } });
const schema = `perdure_bench_dashboard_${process.pid}`;
const folder = mkdtempSync(join(tmpdir(), 'perdure-dashboard-'));
const provider = url === undefined ? await SqliteProvider.open(join(folder, 'store.db')) : await PostgresProvider.connect(url, { schema });
const client = new Client(provider);
const runtime = new Runtime(provider, { logLevel: 'silent' });
runtime.registerActivity('step', (_ctx, n) => ({ n, text: 'a value of some length, as they are' }));
runtime.registerOrchestration('short', function* (ctx, n) {
  if (n % 100 === 0) yield ctx.scheduleSubOrchestration('child', n);
  ctx.setCustomStatus({ n });
  return n;
});
runtime.registerOrchestration('child', function* (_ctx, n) {
  return n;
});
runtime.registerOrchestration('long', function* (ctx) {
  for (let n = 0; n < 4_999; n += 1) yield ctx.scheduleActivity('step', n);
  return 'done';
});
await runtime.start();
try {
  await seed(Number(wanted));
  await measure();
} finally {
  await runtime.shutdown();
  await provider.close();
  rmSync(folder, { recursive: true });
  if (url !== undefined) {
    const server = new pg.Client({ connectionString: url });
    await server.connect();
    await server.query(`DROP SCHEMA IF EXISTS "${schema}" CASCADE`);
    await server.end();
  }
}

async function seed(count) {
  await client.startOrchestration('long', 'long');
  for (let i = 0; i < count; i += 500) {
    const ids = Array.from({ length: Math.min(500, count - i) }, (_, k) => `order-${i + k}`);
    await Promise.all(ids.map((id, k) => client.startOrchestration(id, 'short', i + k, { tags: { team: k % 2 ? 'a' : 'b' } })));
    await Promise.all(ids.map((id) => client.waitForOrchestration(id)));
  }
  await client.waitForOrchestration('long');
}

async function measure() {
  const handler = dashboardHandler(client, { runtime });
  const get = async (path) => {
    const response = await handler(new Request(`http://localhost/${path}`));
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return path === '' ? response.text() : response.json();
  };
  const { cursor } = await get('api/v1/instances?limit=50');
  const whole = async () => {
    for (let from = 1; from !== null; ) ({ next: from } = await get(`api/v1/history?id=long&from=${from}`));
  };
  const cases = {
    'the page itself': () => get(''),
    'overview: one look': () => once(handler, 'live', 'sample'),
    'list: first page': () => get('api/v1/instances?limit=50'),
    'list: a later page': () => get(`api/v1/instances?limit=50&cursor=${cursor}`),
    'list: failed or suspended (there are none)': () => get('api/v1/instances?limit=5&status=Failed&status=Suspended'),
    'list: id begins with order-500 (the middle)': () => get('api/v1/instances?limit=50&idPrefix=order-500'),
    'list: id begins with nothing that is there': () => get('api/v1/instances?limit=50&idPrefix=zzz'),
    'list: a tag': () => get('api/v1/instances?limit=50&tag=team:a'),
    'children of one': () => get('api/v1/instances?limit=50&parentId=order-100'),
    'instance': () => get('api/v1/instance?id=long'),
    'history: first 1 000 of 10 000 events': () => get('api/v1/history?id=long'),
    'history: all 10 000 events': whole,
    'live: all 10 000 events, to the end': () => once(handler, 'live?id=long&from=1', 'end'),
    'a value': () => get('api/v1/value?id=long&event=9000'),
  };
  for (const [name, ask] of Object.entries(cases)) {
    await ask();
    const times = [];
    for (let i = 0; i < 10; i += 1) {
      const before = performance.now();
      await ask();
      times.push(performance.now() - before);
    }
    times.sort((a, b) => a - b);
    console.log(`${name.padEnd(46)} ${times[5].toFixed(1).padStart(8)} ms   at most ${times[9].toFixed(1)} ms`);
  }
}

/** A stream, until an event of that name. */
async function once(handler, path, event) {
  const { body } = await handler(new Request(`http://localhost/api/v1/${path}`));
  let text = '';
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    text = text.slice(-64) + decoder.decode(chunk, { stream: true });
    if (text.includes(`event: ${event}\n`)) return;
  }
}
