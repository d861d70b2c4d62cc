// Crawls a website: each page once, and no more pages at once and a second from each server than it is asked for.
//
//   node examples/crawler/main.mjs [https://example.com/] [--a-second 20] [--at-once 2]
//     [--store postgres://…] [--schema perdure_crawler] [--folder .perdure/crawler]
//
// Without an address, the program serves the documentation of this package itself. Run it several times at once, with a
// Postgres store: the limits hold over all processes. Kill it in the middle and start it again: it continues.

import { createHash } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Client, defineActivity, defineOrchestration, PostgresProvider, Runtime, SqliteProvider } from 'perdure';
import { serveSite } from './site.mjs';

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    'a-second': { type: 'string', default: '20' },
    'at-once': { type: 'string', default: '2' },
    store: { type: 'string' },
    schema: { type: 'string', default: 'perdure_crawler' },
    folder: { type: 'string', default: '.perdure/crawler' },
  },
});
mkdirSync(options.folder, { recursive: true });
const site = positionals.length === 0 ? await serveSite() : undefined;
const first = new URL(positionals[0] ?? site.address);

// Returns the addresses on this server to which the page has links, or the status of a page that cannot be had.
const load = defineActivity(
  'load',
  async (ctx, address) => {
    const response = await fetch(address, { signal: ctx.signal, redirect: 'follow' });
    if (response.status >= 500) throw new Error(`${address}: ${response.status}`); // tried again
    if (!response.ok) return { status: response.status, links: [] };
    const isHtml = response.headers.get('content-type')?.startsWith('text/html');
    const text = isHtml ? await response.text() : '';
    const links = new Set();
    for (const [, href] of text.matchAll(/<a\s[^>]*href="([^"#]+)/g)) {
      const url = URL.canParse(href, address) ? new URL(href, address) : undefined;
      if (url?.origin === first.origin) links.add(url.href);
    }
    return { status: response.status, links: [...links] };
  },
  { timeout: '30s' },
);

// The id of a page is made of its address, so each page is started once, however many pages have links to it.
const idOf = (address) => createHash('sha256').update(address).digest('hex');
const admission = (address) => ({ queue: 'pages', key: new URL(address).host });

const page = defineOrchestration('page', function* (ctx, address) {
  const { status, links } = yield* ctx.call(load, address);
  for (const link of links) yield* ctx.start(page, link, { id: idOf(link), onConflict: 'return', ...admission(link) });
  return { address, status, links: links.length };
});

const provider = options.store
  ? await PostgresProvider.connect(options.store, { schema: options.schema })
  : await SqliteProvider.open(join(options.folder, 'crawler.db'));
const runtime = new Runtime(provider);
runtime.register(load, page);
const limits = { concurrency: Number(options['at-once']), rate: { limit: Number(options['a-second']), per: '1s' } };
await runtime.start({ queues: { pages: { perKey: limits, fairness: 'key' } } });

const client = new Client(provider);
await client.start(page, first.href, { id: idOf(first.href), onConflict: 'return', ...admission(first.href) });
for (;;) {
  const { waiting, running } = await client.queues.get('pages');
  if (waiting + running === 0) break;
  console.log(`${running} pages are being read, ${waiting} wait`);
  await delay(500);
}

const found = { pages: 0, missing: [] };
for await (const { id, status } of client.listInstances({ name: 'page' })) {
  found.pages += 1;
  const read = status === 'Completed' ? await client.handle(page, id).result() : { address: id, status };
  if (read.status !== 200) found.missing.push(`${read.address}: ${read.status}`);
}
console.log(`${found.pages} pages, of which ${found.missing.length} cannot be had`);
for (const line of found.missing.sort()) console.log(line);

await runtime.shutdown();
await provider.close();
await site?.close();
