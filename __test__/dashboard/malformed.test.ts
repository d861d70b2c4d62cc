// A dashboard answers every input. It may refuse a request, but it never fails with an error of its own, and it answers
// the next request.

import { once } from 'node:events';
import { connect } from 'node:net';

import fc from 'fast-check';
import { Client } from 'perdure';
import { dashboardHandler, serveDashboard } from 'perdure/dashboard';
import { describe, expect, it } from 'vitest';

import { STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { ACTION, Asker, HERE } from './ask.ts';

/** Requests to the handler, in this process, over all stores. */
const REQUESTS = 100_000;

/** Connections to the server, over all stores. */
const SOCKETS = 3_000;

const SEED = 20_241;

const PATHS = [
  'about',
  'instances',
  'instance',
  'waits',
  'state',
  'streams',
  'stream',
  'takeovers',
  'tokens',
  'locks',
  'schedules',
  'schedule',
  'history',
  'value',
  'live',
  'session',
  'raise',
  'enqueue',
  'cancel',
  'terminate',
  'suspend',
  'resume',
  'delete',
  'start',
  'restart',
  'resolveToken',
  'rejectToken',
  'pauseSchedule',
  'resumeSchedule',
  'triggerSchedule',
  'setSchedule',
  'deleteSchedule',
  'backfillSchedule',
  'pauseQueue',
  'resumeQueue',
  // An update would wait for a worker, and there is none. Its body is checked as that of a query.
  'query',
  'bulk',
  'preview',
  'orchestrations',
  'startable',
  'form',
  'logs',
  'facts',
  'tree',
  'executions',
  '__proto__',
  'constructor',
  'toString',
  '',
];
const PARAMS = [
  'id',
  'execution',
  'from',
  'limit',
  'next',
  'event',
  'index',
  'of',
  'status',
  'name',
  'version',
  'tag',
  'parentId',
  'idPrefix',
  'createdAfter',
  'createdBefore',
  'system',
  'open',
  'cursor',
  'level',
  'text',
  'after',
  'token',
  '__proto__',
  'x',
];

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom(
    '',
    '0',
    '1',
    '-1',
    '1e9',
    '99999999999999999999',
    'NaN',
    'null',
    'known',
    'perdure.schedule/known',
    'Failed',
    'team:a',
    ':',
    '1.1',
    '2030-01-01',
    '2030-01-01T00:00:00Z',
    '%',
    '%00',
    '%ff',
    '%zz',
    '..',
    '../..',
    'x'.repeat(300),
    '\0',
    '\ud800',
    '\u202e',
    '<script>',
    "';--",
    'output',
    'error',
    'customStatus',
    'state',
    'stream',
  ),
);
const raw = fc.oneof(
  text.map((value) => encodeURIComponent(value.toWellFormed())),
  fc.constantFrom('%', '%00', '%ff', '%c0%80', '%ed%a0%80', '+', '&', '=', '#', '?', '%2e%2e', '%2F', '\\'),
);
const path = fc.oneof(
  fc.constantFrom(...PATHS).map((name) => `api/v1/${name}`),
  raw.map((one) => `api/v1/${one}`),
  fc.array(raw, { maxLength: 4 }).map((parts) => parts.join('/')),
  fc.constantFrom(
    '',
    'assets/',
    'assets/page.js',
    'assets/..%2f..%2fpackage.json',
    'api',
    'api/v1',
    '//',
    '/\\evil',
    '.',
  ),
);
const query = fc
  .array(fc.tuple(fc.oneof(fc.constantFrom(...PARAMS), raw), raw), { maxLength: 5 })
  .map((pairs) => pairs.map(([name, value]) => `${name}=${value}`).join('&'));
const headerText = fc.oneof(
  fc.string({ unit: fc.constantFrom(...'aZ09 =;,:/@[].*"\u00ff\t'), maxLength: 30 }),
  fc.constantFrom(
    'localhost',
    'http://localhost',
    'null',
    'same-origin',
    'cross-site',
    '1',
    'application/json',
    'Bearer',
    'Bearer x',
    'gzip',
    '::1',
    '[',
    '127.0.0.1:99999',
    '999999999999',
  ),
);
const headers = fc.dictionary(
  fc.constantFrom(
    'host',
    'origin',
    'content-type',
    'x-perdure-dashboard',
    'authorization',
    'cookie',
    'sec-fetch-site',
    'sec-fetch-mode',
    'x-forwarded-for',
    'x-forwarded-host',
    'forwarded',
    'accept-encoding',
    'if-none-match',
    'content-length',
  ),
  headerText,
  { maxKeys: 4 },
);
/** Options of a schedule that are nearly right. Right ones would wait for a worker. */
const options = fc.record(
  {
    cron: fc.oneof(text, fc.constant('30 2 * * *'), fc.jsonValue()),
    every: fc.oneof(text, fc.constant('10m')),
    at: fc.array(fc.oneof(text, fc.constant('2030-01-01T00:00:00Z'))),
    start: fc.record({ name: text, id: text, queue: text, input: fc.jsonValue(), x: fc.jsonValue() }),
    overlap: text,
    timeZone: text,
  },
  { requiredKeys: ['start'] },
);
const body = fc.oneof(
  fc.json(),
  fc.string({ unit: 'binary' }),
  fc
    .record(
      {
        id: fc.oneof(fc.constant('known'), text, fc.jsonValue()),
        name: fc.option(text, { nil: undefined }),
        queue: fc.option(text, { nil: undefined }),
        data: fc.jsonValue(),
        reason: fc.oneof(text, fc.jsonValue()),
        newId: text,
        token: fc.oneof(fc.constant('known'), text, fc.jsonValue()),
        message: fc.oneof(text, fc.jsonValue()),
        start: fc.oneof(fc.record({ name: text, version: text, input: fc.jsonValue() }), fc.jsonValue()),
        options: fc.oneof(options, fc.jsonValue()),
        isNew: fc.oneof(fc.boolean(), fc.jsonValue()),
        from: text,
        to: text,
        isRead: fc.oneof(fc.boolean(), fc.jsonValue()),
        executionId: fc.oneof(fc.integer(), fc.jsonValue()),
      },
      { requiredKeys: ['id'] },
    )
    .map((value) => JSON.stringify(value)),
  fc.constantFrom(
    '{',
    '[',
    '{"id":"known","__proto__":{}}',
    '{"id":"known","constructor":1}',
    '"',
    '\u0000',
    `${'['.repeat(50_000)}`,
    `{"id":"known","name":"e","data":${'['.repeat(20_000)}${']'.repeat(20_000)}}`,
  ),
);
const request = fc
  .record({
    path,
    query,
    headers,
    body,
    method: fc.constantFrom('GET', 'GET', 'GET', 'POST', 'POST', 'POST', 'PUT', 'HEAD', 'DELETE', 'OPTIONS', 'X'),
    isAction: fc.boolean(),
    type: fc.constantFrom('application/json', 'application/json', 'application/json', 'text/plain'),
  })
  // A string that is no URL cannot become a Request.
  .filter(({ path, query }) => URL.canParse(urlOf(path, query)));

function urlOf(path: string, query: string): string {
  return `http://localhost/${path}${query === '' ? '' : `?${query}`}`;
}

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('answers malformed requests in this process', { timeout: 300_000 }, async () => {
    await store.client.startOrchestration('known', 'nobody registers it', { a: 1 });
    const there = new Asker(dashboardHandler(store.client, { token: false }));
    const seen = new Map<number, number>();
    await fc.assert(
      fc.asyncProperty(request, async ({ path, query, headers, body, method, isAction, type }) => {
        const all = { ...headers, ...(isAction ? { ...ACTION, 'content-type': type } : {}) };
        const url = urlOf(path, query);
        const answer = await there.handler(
          new Request(url, {
            method,
            headers: isAction ? { ...all, host: 'localhost' } : all,
            ...(method === 'GET' || method === 'HEAD' ? {} : { body }),
          }),
          HERE,
        );
        // A stream would not end.
        if (answer.headers.get('content-type')?.startsWith('text/event-stream')) await answer.body?.cancel();
        else await answer.arrayBuffer();
        seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1);
        expect(answer.status, `${method} ${url}`).toBeLessThan(500);
      }),
      { numRuns: Math.ceil(REQUESTS / STORES.length), seed: SEED, endOnFailure: true },
    );
    // The requests reached many kinds of answers, including successful ones.
    for (const status of [200, 400, 401, 403, 404, 405, 415])
      expect(seen.get(status) ?? 0, String(status)).toBeGreaterThan(0);
    expect(await there.get('about')).toMatchObject({ readOnly: false });
  });

  it('answers broken connections, and later ones', { timeout: 300_000 }, async () => {
    const client = new Client(store.provider);
    await using served = await serveDashboard(client, { token: false });
    const line = fc.oneof(
      fc
        .tuple(
          fc.constantFrom('GET', 'POST', 'TRACE', 'CONNECT', 'OPTIONS', 'get', ''),
          fc.oneof(
            raw,
            path.map((one) => `/${one}`),
            fc.constantFrom('*', 'http://evil.example/', '//', 'localhost:80', ' ', '/\u0000'),
          ),
          fc.constantFrom('HTTP/1.1', 'HTTP/1.0', 'HTTP/2', 'HTTP/9.9', ''),
        )
        .map((parts) => parts.join(' ')),
      fc.string({ unit: 'binary', maxLength: 60 }),
    );
    const header = fc.oneof(
      fc.constantFrom(
        'Host: localhost',
        'Host: localhost',
        'Host:',
        'Host: a b',
        'Host: [',
        'Host: localhost:99999',
        'Content-Length: 5',
        'Content-Length: -1',
        'Content-Length: 5, 6',
        'Transfer-Encoding: chunked',
        'Transfer-Encoding: x',
        'Expect: 100-continue',
        'Connection: upgrade',
        'Upgrade: websocket',
        'X-Perdure-Dashboard: 1',
        'Content-Type: application/json',
        `X: ${'x'.repeat(20_000)}`,
        ': x',
        'no colon',
        'Null: a\u0000b',
      ),
      fc.string({ unit: 'binary', maxLength: 40 }),
    );
    const bytes = fc.oneof(
      fc
        .tuple(line, fc.array(header, { maxLength: 5 }), body)
        .map(([first, lines, rest]) => Buffer.from(`${first}\r\n${lines.join('\r\n')}\r\n\r\n${rest.slice(0, 2_000)}`)),
      fc.uint8Array({ maxLength: 200 }).map((raw) => Buffer.from(raw)),
    );
    let [answered, refused] = [0, 0];
    await fc.assert(
      fc.asyncProperty(bytes, async (sent) => {
        const text = await exchange(served.port, sent);
        const statuses = [...text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => Number(status));
        if (statuses.length > 0) answered += 1;
        if (statuses.some((status) => status >= 400)) refused += 1;
        for (const status of statuses)
          expect(status, JSON.stringify(sent.toString('latin1').slice(0, 500))).toBeLessThan(500);
      }),
      { numRuns: Math.ceil(SOCKETS / STORES.length), seed: SEED, endOnFailure: true },
    );
    expect(answered).toBeGreaterThan(SOCKETS / STORES.length / 4);
    expect(refused).toBeGreaterThan(0);
    expect((await fetch(`${served.url}api/v1/about`)).status).toBe(200);
  });
});

/** Sends these bytes and no more, and returns everything that comes back. */
async function exchange(port: number, bytes: Buffer): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' });
  const parts: Buffer[] = [];
  socket.on('data', (part) => {
    parts.push(part);
    // A stream of events has no end.
    if (part.includes('text/event-stream')) socket.destroy();
  });
  socket.on('error', () => {});
  socket.end(bytes);
  await once(socket, 'close');
  return Buffer.concat(parts).toString('latin1');
}
