// Measures each answer of the dashboard, with 100 000 instances and a history of 10 000 events:
//
//   node bench/dashboard.mjs
//   node bench/dashboard.mjs --url postgres://postgres@127.0.0.1:5432/postgres
//
// The first runs on an SQLite file, the second on a schema of its own, which is dropped at the end.
//
// Each line is the median and the longest of ten requests to the handler in this process, JSON made and read. Then,
// with a Chromium (PERDURE_TEST_CHROMIUM or one in /usr/bin), it measures the time from a click to the answer on the
// page, and the longest time between two frames while the timeline is zoomed and the history scrolled.

import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { chromium } from 'playwright-core';
import { dashboardHandler, serveDashboard } from '../dist/dashboard/index.js';
import { Client, PostgresProvider, Runtime, SqliteProvider } from '../dist/index.js';

const {
  values: { url, instances: wanted },
} = parseArgs({ options: { url: { type: 'string' }, instances: { type: 'string', default: '100000' } } });
const schema = `perdure_bench_dashboard_${process.pid}`;
const folder = mkdtempSync(join(tmpdir(), 'perdure-dashboard-'));
const provider =
  url === undefined
    ? await SqliteProvider.open(join(folder, 'store.db'))
    : await PostgresProvider.connect(url, { schema });
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
runtime.registerOrchestration('wide', function* (ctx) {
  yield ctx.all(Array.from({ length: 4_999 }, (_, n) => ctx.scheduleActivity('step', n)));
});
await runtime.start();
try {
  await seed(Number(wanted));
  await measure();
  await browse();
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
  await client.startOrchestration('wide', 'wide');
  for (let i = 0; i < count; i += 500) {
    const ids = Array.from({ length: Math.min(500, count - i) }, (_, k) => `order-${i + k}`);
    await Promise.all(
      ids.map((id, k) => client.startOrchestration(id, 'short', i + k, { tags: { team: k % 2 ? 'a' : 'b' } })),
    );
    await Promise.all(ids.map((id) => client.waitForOrchestration(id)));
  }
  await client.waitForOrchestration('long');
  await client.waitForOrchestration('wide');
}

async function measure() {
  const handler = dashboardHandler(client, { runtime, token: false });
  const get = async (path) => {
    const response = await handler(new Request(`http://localhost/${path}`), { remoteAddress: '127.0.0.1' });
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
    instance: () => get('api/v1/instance?id=long'),
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

async function browse() {
  const executablePath =
    process.env.PERDURE_TEST_CHROMIUM ??
    ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path));
  if (executablePath === undefined) return console.log('no Chromium: the page is not measured');
  const { url, close } = await serveDashboard(client, { runtime, token: false });
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(url);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  const cases = [
    ['browser: overview', '', '[aria-labelledby=workers] tbody'],
    ['browser: list', 'instances', '.rows tbody'],
    ['browser: a short instance', 'instance?id=order-7', '.event'],
    ['browser: 10 000 events one after the other', 'instance?id=long', '.event'],
    ['  until all of them are there', 'instance?id=long', '.head', '10,000 events'],
    ['browser: 5 000 activities side by side', 'instance?id=wide', '.event'],
    ['  until all of them are there', 'instance?id=wide', '.head', '10,000 events'],
  ];
  for (const [name, hash, selector, text = ''] of cases) {
    const times = [];
    for (let i = 0; i < 5; i += 1) {
      await page.goto(`${url}#/${hash === 'instances' ? '' : 'instances'}`);
      await page.getByRole('heading', { level: 1, name: hash === 'instances' ? 'Overview' : 'Instances' }).waitFor();
      times.push(await page.evaluate(until(`#/${hash}`, selector, text)));
    }
    times.sort((a, b) => a - b);
    const apart = hash.startsWith('instance?') ? `, frames at most ${(await frames(page)).toFixed(1)} ms apart` : '';
    console.log(`${name.padEnd(46)} ${times[2].toFixed(1).padStart(8)} ms   at most ${times[4].toFixed(1)} ms${apart}`);
  }
  await browser.close();
  await close();
}

/** The code that the page runs: it goes to a place, and returns the ms until the text that it looks for is drawn. */
function until(hash, selector, text) {
  return `new Promise((resolve) => {
    const begin = performance.now();
    location.hash = ${JSON.stringify(hash)};
    (function look() {
      const found = [...document.querySelectorAll(${JSON.stringify(selector)})];
      const isThere = found.some((one) => one.textContent.includes(${JSON.stringify(text)}));
      if (isThere) resolve(performance.now() - begin);
      else requestAnimationFrame(look);
    })();
  })`;
}

/** The longest time between two frames while the page is zoomed and scrolled. */
async function frames(page) {
  await page.evaluate(
    `window.gap = 0;
    (function frame(last) {
      requestAnimationFrame((now) => {
        if (last) window.gap = Math.max(window.gap, now - last);
        frame(now);
      });
    })(0)`,
  );
  await page.locator('.picture canvas').hover({ position: { x: 300, y: 40 } });
  await page.keyboard.down('Control');
  for (let i = 0; i < 20; i += 1) await page.mouse.wheel(0, i < 10 ? -200 : 200);
  await page.keyboard.up('Control');
  await page.locator('.events').hover();
  for (let i = 0; i < 20; i += 1) await page.mouse.wheel(0, 700);
  return page.evaluate('window.gap');
}

/** Reads a stream until an event of that name. */
async function once(handler, path, event) {
  const { body } = await handler(new Request(`http://localhost/api/v1/${path}`));
  let text = '';
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    text = text.slice(-64) + decoder.decode(chunk, { stream: true });
    if (text.includes(`event: ${event}\n`)) return;
  }
}
