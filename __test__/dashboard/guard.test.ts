// Access to a dashboard: permitted callers and permitted requests.

import { createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';

import type { Logger } from 'perdure';
import { type DashboardOptions, dashboardHandler, serveDashboard, type ValuePlace } from 'perdure/dashboard';
import { describe, expect, it, onTestFinished } from 'vitest';

import { rejection } from '../support/async.ts';
import { STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { ACTION, Asker, verdict } from './ask.ts';

const TOKEN = 'a token that nobody guesses'.replaceAll(' ', '-');

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const asker = (options?: DashboardOptions, headers?: Record<string, string>) =>
    new Asker(dashboardHandler(store.client, { token: false, ...options }), headers);
  /** A logger that keeps its lines. */
  const kept = () => {
    const lines: string[] = [];
    const keep = (_: unknown, message: string) => void lines.push(message);
    return { lines, logger: { debug: keep, info: keep, warn: keep, error: keep } satisfies Logger };
  };
  const open = async (): Promise<string> => {
    const id = store.id('open');
    await store.client.startOrchestration(id, 'nobody registers it', { card: '4111', total: 12 });
    return id;
  };

  it.each([
    ['http://localhost/', '200'],
    ['http://localhost:80/', '200'],
    ['http://app.localhost:3000/', '200'],
    ['http://127.0.0.1:4700/', '200'],
    ['http://127.9.8.7/', '200'],
    ['http://[::1]:4700/', '200'],
    ['http://example.com/', '403 HOST'],
    ['http://localhost.example.com/', '403 HOST'],
    ['http://127.0.0.1.nip.io/', '403 HOST'],
    ['http://192.168.1.4/', '403 HOST'],
    ['http://0.0.0.0/', '403 HOST'],
    ['http://[::2]/', '403 HOST'],
  ])('with token: false answers at %s: %s', async (url, expected) => {
    expect(await verdict(asker().ask(`${url}api/v1/about`))).toBe(expected);
    expect(await verdict(asker().ask(url))).toBe(expected);
  });

  it.each([['evil.example'], ['localhost@evil.example'], ['evil.example#localhost'], ['localhost/x'], [':::']])(
    'refuses the Host header %s with any URL',
    async (host) => {
      expect(await verdict(asker({}, { host }).ask('api/v1/about'))).toBe('403 HOST');
    },
  );

  it('with token: false answers no other address, under any host name', async () => {
    const about = (caller: { remoteAddress?: string }, headers = {}) =>
      verdict(asker({}, headers).ask('api/v1/about', {}, caller));
    expect(await about({ remoteAddress: '127.0.0.1' })).toBe('200');
    expect(await about({ remoteAddress: '::ffff:127.0.0.1' })).toBe('200');
    expect(await about({ remoteAddress: '::1' })).toBe('200');
    expect(await about({ remoteAddress: '10.0.0.7' })).toBe('403 TOKEN_NEEDED');
    expect(await about({ remoteAddress: '::ffff:10.0.0.7' })).toBe('403 TOKEN_NEEDED');
    // A caller with an unknown address may be anywhere, with any Host header.
    expect(await about({})).toBe('403 TOKEN_NEEDED');
    // A proxy on this machine names the caller for which it forwards.
    expect(await about({ remoteAddress: '127.0.0.1' }, { 'x-forwarded-for': '10.0.0.7' })).toBe('403 TOKEN_NEEDED');
    expect(await about({ remoteAddress: '127.0.0.1' }, { 'x-forwarded-for': '127.0.0.1, 10.0.0.7' })).toBe(
      '403 TOKEN_NEEDED',
    );
    expect(await about({ remoteAddress: '127.0.0.1' }, { 'x-real-ip': '10.0.0.7' })).toBe('403 TOKEN_NEEDED');
    expect(await about({ remoteAddress: '127.0.0.1' }, { 'x-forwarded-host': 'ops.example.com' })).toBe(
      '403 TOKEN_NEEDED',
    );
    expect(await about({ remoteAddress: '127.0.0.1' }, { forwarded: 'for=10.0.0.7' })).toBe('403 TOKEN_NEEDED');
    expect(await about({ remoteAddress: '127.0.0.1' }, { via: '1.1 proxy' })).toBe('403 TOKEN_NEEDED');
    expect(
      await about({ remoteAddress: '127.0.0.1' }, { 'x-forwarded-for': '::1', 'x-forwarded-host': 'localhost:3000' }),
    ).toBe('200');
  });

  // A proxy need not name the caller's address: callers through a proxy that sent only the protocol were once let in.
  it.each([
    ['x-forwarded-proto', 'https'],
    ['x-forwarded-port', '443'],
    ['X-Forwarded-Server', 'proxy-1'],
    ['x-forwarded-prefix', '/ops'],
    ['x-forwarded-', ''],
    ['x-client-ip', '10.0.0.7'],
    ['true-client-ip', '10.0.0.7'],
    ['cf-connecting-ip', '10.0.0.7'],
  ])('with token: false refuses a caller for which a proxy sends %s', async (header, said) => {
    const about = (headers: Record<string, string>) =>
      verdict(asker({}, headers).ask('api/v1/about', {}, { remoteAddress: '127.0.0.1' }));
    expect(await about({ [header]: said })).toBe('403 TOKEN_NEEDED');
    expect(await about({ [header]: said, 'x-forwarded-for': '127.0.0.1' })).toBe('403 TOKEN_NEEDED');
    expect(await about({ [header]: '127.0.0.1' })).toBe('200');
  });

  it('with a token answers each caller that sends it, at the allowed hosts', async () => {
    const options = {
      token: TOKEN,
      allowedHosts: ['ops.example.com', 'other.example.com:8080', '10.0.0.7', 'fd00::7'],
    };
    const about = (host: string, headers: Record<string, string> = { authorization: `Bearer ${TOKEN}` }) =>
      verdict(asker(options, headers).ask(`http://${host}/api/v1/about`, {}, { remoteAddress: '10.0.0.9' }));
    for (const host of [
      'ops.example.com',
      'OPS.example.com:4700',
      'other.example.com:8080',
      '10.0.0.7:4700',
      '[fd00::7]:4700',
      'localhost',
    ])
      expect(await about(host), host).toBe('200');
    for (const host of ['example.com', 'other.example.com:8081', 'other.example.com', 'xops.example.com', '10.0.0.8'])
      expect(await about(host), host).toBe('403 HOST');
    for (const authorization of [
      '',
      'Bearer',
      `Bearer ${TOKEN}x`,
      `Bearer ${TOKEN.slice(1)}`,
      `Basic ${TOKEN}`,
      TOKEN,
      `Bearer ${TOKEN} x`,
    ]) {
      expect(await about('ops.example.com', { authorization }), authorization).toBe('401 TOKEN');
      // This holds for callers on this machine, too.
      expect(await about('localhost', { authorization }), authorization).toBe('401 TOKEN');
    }
  });

  it('accepts the token once in the URL of the page, and sets a cookie that does not reveal it', async () => {
    const there = asker({ token: TOKEN, basePath: '/perdure' });
    const answer = await there.ask(`perdure/?token=${TOKEN}`);
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/perdure/']);
    const cookie = answer.headers.get('set-cookie') ?? '';
    expect(cookie).toMatch(
      /^perdure_[0-9a-f]{12}=[\w-]{43}; Path=\/perdure\/; Max-Age=\d+; HttpOnly; SameSite=Strict$/,
    );
    expect(cookie).not.toContain(TOKEN);
    const [pair = ''] = cookie.split(';');
    const signedIn = asker({ token: TOKEN, basePath: '/perdure' }, { cookie: `other=1; ${pair}; more=2` });
    expect(await verdict(signedIn.ask('perdure/api/v1/about'))).toBe('200');
    expect(await verdict(asker({ token: `${TOKEN}-new` }, { cookie: pair }).ask('api/v1/about'))).toBe('401 TOKEN');
    expect(await verdict(asker({ token: TOKEN }, { cookie: `${pair}x` }).ask('api/v1/about'))).toBe('401 TOKEN');
    const wrong = await there.ask('perdure/?token=wrong');
    expect([wrong.status, wrong.headers.get('set-cookie')]).toEqual([303, null]);
    expect((await there.ask(`https://localhost/perdure/?token=${TOKEN}`)).headers.get('set-cookie')).toMatch(
      /; Secure$/,
    );
    // The page itself contains no data, and asks for the token.
    expect((await there.ask('perdure/')).status).toBe(200);
  });

  it('signs in by a form of the page', async () => {
    const there = asker({ token: TOKEN });
    const right = await there.post('session', { token: TOKEN });
    expect(right.headers.get('set-cookie')).toMatch(/^perdure_/);
    for (const body of [{ token: 'wrong' }, { token: 7 }, {}, null, []])
      expect(await verdict(there.post('session', body))).toBe('401 TOKEN');
    // Without a token, signing in is refused.
    expect(await verdict(asker().post('session', { token: '' }))).toBe('401 TOKEN');
  });

  it('refuses requests of other sites, by Origin and by Sec-Fetch-Site', async () => {
    const about = (headers: Record<string, string>) => verdict(asker({}, headers).ask('api/v1/about'));
    expect(await about({ origin: 'http://localhost:4700' })).toBe('200');
    for (const origin of [
      'http://localhost:4701',
      'http://evil.example',
      'null',
      'x',
      'http://localhost:4700.evil.example',
    ])
      expect(await about({ origin }), origin).toBe('403 ORIGIN');
    expect(await about({ 'sec-fetch-site': 'same-origin' })).toBe('200');
    expect(await about({ 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate' })).toBe('200');
    for (const site of ['cross-site', 'same-site', 'anything'])
      expect(await about({ 'sec-fetch-site': site, 'sec-fetch-mode': 'navigate' }), site).toBe('403 CROSS_SITE');
    // A link to the page is permitted. A script of another site that loads the page is not.
    expect(await verdict(asker({}, { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }).ask(''))).toBe(
      '200',
    );
    expect(await verdict(asker({}, { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }).ask(''))).toBe(
      '403 CROSS_SITE',
    );
  });

  it('takes an action only as its page sends it', async () => {
    const id = await open();
    const there = asker();
    const body = JSON.stringify({ id });
    const cancel = (init: RequestInit) => verdict(there.ask('api/v1/cancel', { method: 'POST', body, ...init }));
    expect(await cancel({ headers: { 'x-perdure-dashboard': '1' } })).toBe('415 CONTENT_TYPE');
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', 'application/json5'])
      expect(await cancel({ headers: { ...ACTION, 'content-type': type } })).toBe('415 CONTENT_TYPE');
    expect(await cancel({ headers: { 'content-type': 'application/json' } })).toBe('403 ACTION_HEADER');
    expect(await cancel({ headers: { ...ACTION, origin: 'http://evil.example' } })).toBe('403 ORIGIN');
    expect(await cancel({ headers: { ...ACTION, 'sec-fetch-site': 'same-site' } })).toBe('403 CROSS_SITE');
    for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])
      expect(await verdict(there.ask('api/v1/cancel', { method, headers: ACTION })), method).toMatch(/^405/);
    expect((await store.client.getStatus(id))?.status).toBe('Pending');
    expect(await cancel({ headers: { ...ACTION, 'content-type': 'application/json; charset=utf-8' } })).toBe('200');
    // Read-only paths refuse POST, and preflight requests are not answered.
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS'])
      expect(await verdict(there.ask('api/v1/about', { method, headers: ACTION })), method).toBe('405 METHOD');
    expect((await there.ask('api/v1/about', { method: 'HEAD' })).status).toBe(200);
  });

  it('refuses bodies that are too long, no JSON, or not of the action', async () => {
    const id = await open();
    const there = asker();
    const raise = (body: string | Uint8Array<ArrayBuffer> | ReadableStream, more: RequestInit = {}) =>
      verdict(there.ask('api/v1/raise', { method: 'POST', headers: ACTION, body, ...more }));
    expect(await raise('{')).toBe('400 BAD_REQUEST');
    expect(await raise('')).toBe('400 BAD_REQUEST');
    expect(await raise(new Uint8Array([0x22, 0xff, 0x22]))).toBe('400 BAD_REQUEST');
    for (const body of [
      null,
      [],
      'text',
      7,
      {},
      { id },
      { id, name: '' },
      { id, name: 7 },
      { id: 'x'.repeat(257), name: 'e' },
      { id, name: 'e', more: 1 },
      { id, name: 'a\0b' },
      { id, name: '\ud800' },
    ]) {
      expect(await raise(JSON.stringify(body)), JSON.stringify(body)).toBe('400 BAD_REQUEST');
    }
    expect(await (await there.post('raise', { id, nmae: 'e' })).json()).toEqual({
      error: { code: 'BAD_REQUEST', message: 'raise: unknown option `nmae`; did you mean `name`?' },
    });
    const long = JSON.stringify({ id, name: 'e', data: 'x'.repeat(4 * 1024 * 1024) });
    expect(await raise(long)).toBe('413 BODY');
    // This also holds if the length is not announced.
    const pieces = new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(64 * 1024).fill(0x20)) });
    expect(await raise(pieces, { duplex: 'half' } as RequestInit)).toBe('413 BODY');
    // A payload that the store refuses.
    expect(await raise(JSON.stringify({ id, name: 'e', data: 'x'.repeat(3 * 1024 * 1024) }))).toBe('422 PAYLOAD');
    expect(await verdict(there.ask(`api/v1/instance?id=${'x'.repeat(9_000)}`))).toBe('414 URL');
  });

  it('takes no action when it is read-only', async () => {
    const id = await open();
    const actions = ['raise', 'enqueue', 'cancel', 'terminate', 'suspend', 'resume', 'delete', 'start', 'restart'];
    const schedules = ['pause', 'resume', 'trigger', 'set', 'delete', 'backfill'].map((verb) => `${verb}Schedule`);
    const others = ['update', 'resolveToken', 'rejectToken', 'pauseQueue', 'resumeQueue'];
    for (const action of [...actions, ...schedules, ...others])
      expect(await verdict(asker({ readOnly: true }).post(action, { id })), action).toBe('403 READ_ONLY');
    expect((await store.client.getStatus(id))?.status).toBe('Pending');
  });

  it('asks the authorize hook before each answer, and takes nothing but true for yes', async () => {
    const id = await open();
    const asked: unknown[] = [];
    const there = asker(
      {
        authorize: async (request, action, instanceId) => {
          asked.push([action, instanceId, request.headers.get('x-user')]);
          return action !== 'terminate';
        },
      },
      { 'x-user': 'ada' },
    );
    await there.get('about');
    await there.get(`instance?id=${id}`);
    expect(await verdict(there.post('suspend', { id }, { headers: { ...ACTION } }))).toBe('200');
    expect(await verdict(there.post('terminate', { id }))).toBe('403 NOT_AUTHORIZED');
    expect(asked).toEqual([
      ['read', undefined, 'ada'],
      ['read', id, 'ada'],
      ['suspend', id, 'ada'],
      ['terminate', id, 'ada'],
    ]);
    expect((await store.client.getStatus(id))?.status).toBe('Suspended');
    const { lines, logger } = kept();
    for (const authorize of [
      () => false,
      () => undefined,
      () => 'yes',
      () => 1,
      () => Promise.reject(new Error('no')),
      () => {
        throw new Error('no');
      },
    ]) {
      const closed = asker({ authorize: authorize as () => boolean, logger });
      for (const path of [
        'about',
        'instances',
        `instance?id=${id}`,
        `history?id=${id}`,
        `value?id=${id}&event=1`,
        'live',
        `live?id=${id}`,
      ])
        expect(await verdict(closed.ask(`api/v1/${path}`)), path).toBe('403 NOT_AUTHORIZED');
      expect(await verdict(closed.post('resume', { id }))).toBe('403 NOT_AUTHORIZED');
    }
    expect(new Set(lines)).toEqual(new Set(['the authorize hook of the dashboard threw an error']));
  });

  it('with token: false leaves everything to authorize, where there is one', async () => {
    const there = asker(
      {
        token: false,
        authorize: (request) => request.headers.get('x-user') === 'ada',
        allowedHosts: ['ops.example.com'],
      },
      { 'x-user': 'ada' },
    );
    expect(await verdict(there.ask('http://ops.example.com/api/v1/about', {}, { remoteAddress: '10.0.0.7' }))).toBe(
      '200',
    );
    expect(await verdict(there.ask('http://evil.example/api/v1/about'))).toBe('403 HOST');
  });

  it('asks authorize about both ids, where an instance is started again under another one', async () => {
    const [id, mine, others] = [await open(), store.id('mine'), store.id('others')];
    const asked: unknown[] = [];
    const there = asker({
      authorize(_, action, instanceId) {
        asked.push([action, instanceId]);
        return instanceId !== others;
      },
    });
    expect(await verdict(there.post('restart', { id, newId: others }))).toBe('403 NOT_AUTHORIZED');
    expect(await store.client.getStatus(others)).toBeNull();
    expect(await verdict(there.post('restart', { id, newId: mine }))).toBe('200');
    expect(asked).toEqual([
      ['restart', id],
      ['restart', others],
      ['restart', id],
      ['restart', mine],
    ]);
  });

  // nginx with only `proxy_pass http://127.0.0.1:4700;`: the request comes from this machine, names this machine as its
  // host, and has no header that names the caller. Any client that reached nginx could see and do everything.
  it('requires the generated token behind a proxy that sends no headers', async () => {
    await using served = await serveDashboard(store.client);
    const [url, token = ''] = served.url.split('?token=') as [string, string?];
    expect(token).toMatch(/^[\w-]{32}$/);
    const proxy = createServer((incoming, outgoing) => {
      const { host: _, ...headers } = incoming.headers;
      const onward = forward(
        new URL(incoming.url ?? '', url),
        { method: incoming.method, headers: { ...headers, host: new URL(url).host } },
        (answer) => {
          outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(outgoing);
        },
      );
      incoming.pipe(onward);
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => {
      proxy.close();
      proxy.closeAllConnections();
    });
    const at = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/`;
    const id = await open();
    expect(await verdict(fetch(`${at}api/v1/about`))).toBe('401 TOKEN');
    expect(await verdict(fetch(`${at}metrics`))).toBe('401 TOKEN');
    expect(
      await verdict(fetch(`${at}api/v1/terminate`, { method: 'POST', headers: ACTION, body: JSON.stringify({ id }) })),
    ).toBe('401 TOKEN');
    const signedIn = await fetch(`${at}?token=${token}`, { redirect: 'manual' });
    expect([signedIn.status, signedIn.headers.get('location'), signedIn.headers.get('referrer-policy')]).toEqual([
      303,
      '/',
      'no-referrer',
    ]);
    const [cookie = ''] = (signedIn.headers.get('set-cookie') ?? '').split(';');
    expect(await verdict(fetch(`${at}api/v1/about`, { headers: { cookie } }))).toBe('200');
  });

  it('makes a token for a handler that is given none, and says once how the page is opened with it', async () => {
    const { lines, logger } = kept();
    const handler = dashboardHandler(store.client, { basePath: '/perdure', logger });
    const { madeToken = '' } = handler;
    expect(madeToken).toMatch(/^[\w-]{32}$/);
    expect(lines).toEqual([
      'the dashboard generated a token, because it was given none: ' +
        `open /perdure/?token=${madeToken} on the URL of its server`,
    ]);
    expect(await verdict(new Asker(handler).ask('perdure/api/v1/about'))).toBe('401 TOKEN');
    expect(
      await verdict(new Asker(handler, { authorization: `Bearer ${madeToken}` }).ask('perdure/api/v1/about')),
    ).toBe('200');
    expect(dashboardHandler(store.client, { logger }).madeToken).not.toBe(madeToken);
    for (const token of [TOKEN, false] as const)
      expect(dashboardHandler(store.client, { token }).madeToken).toBeUndefined();
  });

  it('redacts each value before it leaves', async () => {
    const id = store.id('secret');
    await store.start((runtime) => {
      runtime.registerActivity(
        'charge',
        () => {
          throw new Error('card visa-4111 was refused');
        },
        { retry: { maxAttempts: 1 } },
      );
      runtime.registerOrchestration('pays', function* (ctx, input) {
        ctx.setCustomStatus({ card: input.card });
        ctx.state.set('paid with', { card: input.card });
        ctx.stream('payments').write({ card: input.card });
        yield ctx.waitForEvent('go');
        yield ctx.scheduleActivity('charge', { card: input.card });
      });
    });
    // The secret that must not appear anywhere is no number: digits alone may be part of a time.
    await store.client.startOrchestration(id, 'pays', { card: 'visa-4111' });
    await store.client.raiseEvent(id, 'go', 'with visa-4111');
    await store.client.waitForOrchestration(id);
    const places: ValuePlace[] = [];
    const there = asker({
      redact(_value, place) {
        places.push(place);
        return place.kind === 'error' ? new Error('an error') : '(hidden)';
      },
    });
    const paths = [
      'instances',
      `instance?id=${id}`,
      `state?id=${id}`,
      `streams?id=${id}`,
      `stream?id=${id}&name=payments`,
      `history?id=${id}`,
      `value?id=${id}&event=1`,
      `value?id=${id}&of=error`,
      `value?id=${id}&of=customStatus`,
      `value?id=${id}&of=state&name=paid+with`,
      `value?id=${id}&of=stream&name=payments&index=0`,
    ];
    for (const path of paths) expect(JSON.stringify(await there.get(path)), path).not.toContain('visa-4111');
    for await (const { data } of there.events(`live?id=${id}`)) expect(JSON.stringify(data)).not.toContain('visa-4111');
    expect(new Set(places.filter(({ instanceId }) => instanceId === id).map(({ kind }) => kind))).toEqual(
      new Set(['customStatus', 'error', 'input', 'message', 'state', 'stream']),
    );
    expect(places).toContainEqual({ instanceId: id, kind: 'input', eventId: 3, name: 'charge' });
    expect(places).toContainEqual({ instanceId: id, orchestration: 'pays', kind: 'state', name: 'paid with' });
    expect(places).toContainEqual({ instanceId: id, orchestration: 'pays', kind: 'stream', name: 'payments' });
    // A hook that throws shows nothing.
    const { lines, logger } = kept();
    const broken = asker({
      redact: () => {
        throw new Error('visa-4111');
      },
      logger,
    });
    for (const path of paths) expect(JSON.stringify(await broken.get(path)), path).not.toContain('visa-4111');
    expect(new Set(lines)).toEqual(new Set(['the redact hook of the dashboard threw an error']));
    // An instance that is started again gets its true input.
    const again = store.id('again');
    expect(await verdict(there.post('restart', { id, newId: again }))).toBe('200');
    expect((await store.client.getHistory(again))[0]?.payload).toEqual({ card: 'visa-4111' });
  });

  it('keeps to its base path', async () => {
    const there = asker({ basePath: '/ops/perdure' });
    const bare = await there.ask('ops/perdure?x=1');
    expect([bare.status, bare.headers.get('location')]).toEqual([308, '/ops/perdure/?x=1']);
    expect(await verdict(there.ask('ops/perdure/api/v1/about'))).toBe('200');
    for (const path of [
      '',
      'api/v1/about',
      'ops/perdurex',
      'ops',
      'ops/perdure/api/v1/',
      'ops/perdure/api/v2/about',
      'ops/perdure/api/v1/toString',
      'ops/perdure/assets/../../x',
    ])
      expect(await verdict(there.ask(path)), path).toBe('404 NOT_FOUND');
  });

  it('limits its streams, and ends each when its reader leaves', async () => {
    const there = asker();
    const controllers = Array.from({ length: 64 }, () => new AbortController());
    const streams = await Promise.all(controllers.map(({ signal }) => there.ask('api/v1/live', { signal })));
    expect(streams.every(({ status }) => status === 200)).toBe(true);
    const refused = await there.ask('api/v1/live');
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '5']);
    // One stream is ended by its signal, the other by cancelling the body.
    const ended = streams[0]?.text();
    controllers[0]?.abort();
    await ended?.catch(() => {});
    await streams[1]?.body?.cancel();
    for (let i = 0; i < 2; i += 1)
      expect((await there.ask('api/v1/live', { signal: (controllers[i] = new AbortController()).signal })).status).toBe(
        200,
      );
    for (const controller of controllers) controller.abort();
  });

  it('names a wrong option and suggests the right one', () => {
    const made = (options: object) => () => dashboardHandler(store.client, options as DashboardOptions);
    expect(made({ tokn: TOKEN })).toThrow(
      new TypeError('dashboardHandler: unknown option `tokn`; did you mean `token`?'),
    );
    expect(made({ readonly: true })).toThrow(/did you mean `readOnly`/);
    expect(made({ token: 'short' })).toThrow(/token must be a string of 16 to 256 visible ASCII characters, or false$/);
    expect(made({ token: true })).toThrow(TypeError);
    expect(made({ token: false, allowedHosts: ['ops.example.com'] })).toThrow(
      /allowedHosts needs a token or authorize/,
    );
    for (const host of ['http://ops', 'ops/', '*', 'a b', '', 7])
      expect(made({ token: TOKEN, allowedHosts: [host] }), String(host)).toThrow(
        /allowedHosts\[0\] must be the name of a host/,
      );
    for (const basePath of ['perdure', '/a//b', '/../x', '/a/..', '/%70', '/a?b', '', 7])
      expect(made({ basePath }), String(basePath)).toThrow(/basePath must be a path/);
    expect(made({ authorize: 'yes' })).toThrow(/authorize must be a function/);
    expect(made({ redact: {} })).toThrow(/redact must be a function/);
    expect(made({ runtime: {} })).toThrow(/runtime must be a Runtime/);
    expect(made({ entities: [{}] })).toThrow(/entities\[0\] must be what defineEntity returned/);
    expect(made({ logger: {} })).toThrow(/logger must have the methods/);
    expect(() => dashboardHandler({} as never)).toThrow(/takes a Client, got an object/);
  });

  it('serves loopback alone, when there is neither a token nor an authorize', async () => {
    for (const host of ['0.0.0.0', '::', '192.168.1.4', 'ops.example.com', ''])
      expect(await rejection(serveDashboard(store.client, { host, token: false })), host).toBeInstanceOf(TypeError);
    expect((await rejection<Error>(serveDashboard(store.client, { prot: 1 } as object))).message).toMatch(
      /did you mean `port`/,
    );
    await using own = await serveDashboard(store.client, { token: TOKEN });
    expect(own.url).not.toContain(TOKEN);
    expect(own.host).toBe('127.0.0.1');
    expect((await fetch(own.url)).status).toBe(200);
    expect(await rejection(serveDashboard(store.client, { port: own.port }))).toMatchObject({ code: 'EADDRINUSE' });
    await using wide = await serveDashboard(store.client, { host: '0.0.0.0', token: TOKEN });
    const address = `http://127.0.0.1:${wide.port}/api/v1/about`;
    expect(await verdict(fetch(address))).toBe('401 TOKEN');
    expect(await verdict(fetch(address, { headers: { authorization: `Bearer ${TOKEN}` } }))).toBe('200');
    await own.close();
    await own.close();
    await rejection(fetch(own.url));
  });
});
