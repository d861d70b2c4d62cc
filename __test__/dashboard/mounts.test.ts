// A dashboard in common servers. Each is a real server, asked over a real connection if it has one.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { type DashboardHandler, dashboardHandler, nodeListener } from 'perdure/dashboard';
import { describe, expect, it, onTestFinished } from 'vitest';

import { STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { ACTION } from './ask.ts';

/** The path at which each is mounted. */
const BASE = '/ops/perdure';

/** Used if the server does not tell the dashboard the caller. */
const TOKEN = 'a-token-that-nobody-guesses';

/** Serves the dashboard. Returns a function that requests a path of it. */
type Mount = (dashboard: DashboardHandler) => Promise<(path: string, init?: RequestInit) => Promise<Response>>;

/** Requests over the network, without following redirects. */
const over =
  (server: { address(): unknown }) =>
  (path: string, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, { redirect: 'manual', ...init });

async function listening(listener: Parameters<typeof createServer>[1]): Promise<ReturnType<typeof over>> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return over(server);
}

const MOUNTS: readonly [name: string, mount: Mount, needsToken?: boolean][] = [
  ["Node's http", (dashboard) => listening(nodeListener(dashboard))],
  [
    'Express',
    (dashboard) => {
      const app = express();
      app.use(BASE, nodeListener(dashboard));
      return listening(app);
    },
  ],
  [
    'Express behind a parser of JSON',
    (dashboard) => {
      const app = express();
      app.use(express.json(), express.text());
      app.use(BASE, nodeListener(dashboard));
      return listening(app);
    },
  ],
  [
    'Fastify',
    async (dashboard) => {
      const app = fastify();
      const listener = nodeListener(dashboard);
      app.register(async (scope) => {
        // The dashboard reads the bodies itself.
        scope.removeAllContentTypeParsers();
        scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
        for (const path of [BASE, `${BASE}/*`]) {
          scope.all(path, (request, reply) => {
            reply.hijack();
            listener(request.raw, reply.raw);
          });
        }
      });
      await app.listen({ port: 0, host: '127.0.0.1', listenTextResolver: () => '' });
      onTestFinished(async () => {
        app.server.closeAllConnections();
        await app.close();
      });
      return over(app.server);
    },
  ],
  [
    'Hono',
    async (dashboard) => {
      const app = new Hono();
      app.all(`${BASE}/*`, (c) => dashboard(c.req.raw));
      return async (path, init) => app.request(`http://localhost${path}`, init);
    },
    true,
  ],
  [
    "Next's route handlers",
    async (dashboard) => {
      // export { dashboard as GET, dashboard as POST }: called with a request and its parameters.
      const routes: Record<string, (request: Request, context: { params: Promise<object> }) => Promise<Response>> = {
        GET: (request) => dashboard(request),
        POST: (request) => dashboard(request),
      };
      return async (path, init) => {
        const request = new Request(`http://localhost:3000${path}`, {
          ...init,
          headers: { ...(init?.headers as object), 'x-forwarded-host': 'localhost:3000', 'x-forwarded-for': '::1' },
        });
        return (
          routes[request.method]?.(request, { params: Promise.resolve({}) }) ?? new Response(null, { status: 405 })
        );
      };
    },
    true,
  ],
];

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('says which basePath to pass if Express mounts it elsewhere', async () => {
    const app = express();
    app.use('/ops', nodeListener(dashboardHandler(store.client, { token: false })));
    const router = express.Router();
    router.use(BASE, nodeListener(dashboardHandler(store.client, { basePath: BASE, token: false })));
    app.use('/admin', router);
    const ask = await listening(app);
    for (const [path, mount, base] of [
      ['/ops/', '/ops', '/'],
      ['/ops/api/v1/overview', '/ops', '/'],
      [`/admin${BASE}/`, `/admin${BASE}`, `${BASE}/`],
    ] as const) {
      const response = await ask(path);
      expect([response.status, await response.json()]).toEqual([
        404,
        {
          error: {
            code: 'BASE_PATH',
            message:
              `the dashboard is mounted at '${mount}' but answers below '${base}': ` +
              `pass { basePath: '${mount}' } to dashboardHandler`,
          },
        },
      ]);
    }
  });

  it.each(MOUNTS)('is mounted in %s', async (_, mount, needsToken = false) => {
    const mounted = await mount(dashboardHandler(store.client, { basePath: BASE, token: needsToken && TOKEN }));
    const ask: typeof mounted = (path, init = {}) =>
      mounted(
        path,
        needsToken ? { ...init, headers: { ...(init.headers as object), authorization: `Bearer ${TOKEN}` } } : init,
      );
    const id = store.id('mounted');
    await store.client.startOrchestration(id, 'nobody registers it');

    const page = await ask(`${BASE}/`);
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    const [, script = ''] = /src="\.\/(assets\/page-[0-9a-f]+\.js)"/.exec(await page.text()) ?? [];
    expect((await ask(`${BASE}/${script}`)).status).toBe(200);
    const bare = await ask(BASE);
    expect([bare.status, bare.headers.get('location')]).toEqual([308, `${BASE}/`]);

    const list = await ask(`${BASE}/api/v1/instances?idPrefix=${id}&limit=1`);
    expect(await list.json()).toMatchObject({ items: [{ id, status: 'Pending' }] });
    const post = (action: string, body: string, headers: object = ACTION) =>
      ask(`${BASE}/api/v1/${action}`, { method: 'POST', body, headers: { ...headers } });
    expect(await (await post('raise', JSON.stringify({ id, name: 'go', data: { ä: [1, null] } }))).json()).toEqual({
      id,
    });
    expect((await store.client.stats()).messages).toBeGreaterThan(0);
    expect((await post('terminate', JSON.stringify({ id }), { 'content-type': 'text/plain' })).status).toBe(403);
    expect((await post('terminate', '{')).status).toBe(400);
    expect(await (await post('terminate', JSON.stringify({ id, reason: 'over' }))).json()).toEqual({ id });

    // One stream comes to its end, and one is cancelled.
    const stream = await (await ask(`${BASE}/api/v1/live?id=${id}`)).text();
    expect(stream).toMatch(
      /event: instance\n[^]*"status":"Terminated"[^]*event: history\n[^]*"ExecutionTerminated"[^]*event: end\n/,
    );
    const leaving = new AbortController();
    const live = await ask(`${BASE}/api/v1/live`, { signal: leaving.signal });
    const reader = live.body?.getReader();
    expect((await reader?.read())?.done).toBe(false);
    leaving.abort();
    await reader?.cancel().catch(() => {});
  });
});

it('hands over where a connection comes from', async () => {
  const seen: unknown[] = [];
  const ask = await listening(
    nodeListener(async (request, caller) => {
      seen.push(new URL(request.url).pathname, caller);
      return new Response(null);
    }),
  );
  await ask('/a/b?c');
  expect(seen).toEqual(['/a/b', { remoteAddress: '127.0.0.1' }]);
});
