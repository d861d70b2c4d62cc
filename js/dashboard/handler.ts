// The dashboard as one function from a request to its response.

import { Client } from '../client/client.ts';
import { consoleLogger, type Logger } from '../logging/logger.ts';
import { metricsResponse } from '../telemetry/prometheus.ts';
import { otherCopyNote } from '../util/copy.ts';
import { isInstance, show } from '../util/show.ts';
import { act, isChanging } from './actions.ts';
import type { ChangingAction } from './answers.ts';
import { assetAnswer, isAsset } from './assets.ts';
import { actOnPart } from './bulk.ts';
import { type Caller, Guard, makeToken } from './guard.ts';
import { LiveStreams } from './live.ts';
import { checkDashboardOptions, DASHBOARD_OPTIONS, type DashboardAction, type DashboardOptions } from './options.ts';
import { OrchestrationSampler } from './orchestrations.ts';
import { Presenter } from './presenter.ts';
import { bodyOf, bulkOf, type CheckedBody, jsonOf, Query, questionOf, URL_MAX } from './query.ts';
import { answerTo, isQuestion } from './questions.ts';
import { READS, WIDE_READS } from './reads.ts';
import { answerOf, Refusal, refusalOf } from './refusal.ts';
import type { RouteContext } from './route-context.ts';
import { Sampler } from './sampler.ts';

/** Answers the requests of a dashboard; {@link dashboardHandler} returns it. */
export interface DashboardHandler {
  (request: Request, caller?: Caller): Promise<Response>;
  /** The token that was made, if the options gave none. */
  readonly madeToken?: string;
}

/**
 * Security headers of every response: only resources of this server load, other sites can neither frame nor read a
 * response, and browsers do not guess content types.
 */
const HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
    "require-trusted-types-for 'script'; trusted-types 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
};

/** Path of the metrics for Prometheus, below the path of the dashboard. */
const METRICS = 'metrics';

/** Path of the JSON API, below the path of the dashboard. */
const API = 'api/v1/';

/**
 * Returns the dashboard of a store as a web-standard handler: Hono and Next take it as it is, Node's `http`, Express
 * and Fastify through {@link nodeListener}. Its only resource is the client. It answers every request, and never
 * throws.
 *
 * Access: a request needs the `token`. If none is given, one is made, and the logger says how to open the page with it.
 * With `token: false` and without `authorize`, only requests of this machine are answered. Three facts must show that:
 * the host in the URL and in the `Host` header, which must be `localhost`, `*.localhost` or a loopback address; the
 * `remoteAddress` of the second argument ({@link nodeListener} and {@link serveDashboard} pass it); and the headers of
 * proxies (`X-Forwarded-*` and the like). A proxy on this machine that sends no such headers, as nginx does by default,
 * looks like this machine.
 *
 * @throws TypeError when `client` is not a client, or an option is wrong
 *
 * @example
 * ```ts
 * const dashboard = dashboardHandler(client, { basePath: '/perdure', token: process.env['DASHBOARD_TOKEN'] });
 *
 * app.all('/perdure/*', (c) => dashboard(c.req.raw));                       // Hono
 * export { dashboard as GET, dashboard as POST };                           // Next, app/perdure/[[...path]]/route.ts
 * app.use('/perdure', nodeListener(dashboard));                             // Express
 * ```
 */
export function dashboardHandler(client: Client, options?: DashboardOptions): DashboardHandler {
  if (!isInstance(client, Client))
    throw new TypeError(`dashboardHandler takes a Client, got ${otherCopyNote(client) ?? show(client)}`);
  const checked = checkDashboardOptions(options, DASHBOARD_OPTIONS, 'dashboardHandler');
  const { token = makeToken(), basePath = '/', logger = consoleLogger } = checked;
  const dashboard = new Dashboard(client, checked, token);
  const answer = (request: Request, caller?: Caller): Promise<Response> => dashboard.answer(request, caller);
  if (token === false || token === checked.token) return answer;
  logger.warn(
    {},
    'the dashboard generated a token, because it was given none: ' +
      `open ${basePath.replace(/\/?$/, '/')}?token=${token} on the URL of its server`,
  );
  return Object.assign(answer, { madeToken: token });
}

class Dashboard {
  readonly #context: RouteContext;
  readonly #guard: Guard;
  readonly #live: LiveStreams;
  readonly #logger: Logger;
  /** Base path, with a slash at its end. */
  readonly #base: string;

  constructor(client: Client, options: DashboardOptions, token: string | false) {
    const { basePath = '/', runtime, logger = consoleLogger } = options;
    this.#logger = logger;
    this.#base = basePath.replace(/\/?$/, '/');
    this.#context = {
      client,
      options,
      presenter: new Presenter(client, options, logger),
      orchestrations: new OrchestrationSampler(client),
      report: (refusal, error) => this.#report(refusal, error),
    };
    this.#guard = new Guard(options, token);
    this.#live = new LiveStreams(this.#context, new Sampler(client, runtime));
  }

  async answer(request: Request, caller: Caller | undefined): Promise<Response> {
    const response = await this.#answered(request, caller ?? {});
    for (const [name, value] of Object.entries(HEADERS)) response.headers.set(name, value);
    if (!response.headers.has('cache-control')) response.headers.set('cache-control', 'no-store');
    return response;
  }

  async #answered(request: Request, caller: Caller): Promise<Response> {
    try {
      return await this.#route(request, caller);
    } catch (error) {
      const refusal =
        refusalOf(error) ?? new Refusal(500, 'INTERNAL', 'an internal error occurred: see the log of the server');
      this.#report(refusal, error);
      return Response.json(answerOf(refusal), { status: refusal.status, headers: refusal.headers });
    }
  }

  #report({ status }: Refusal, error: unknown): void {
    if (status >= 500)
      this.#logger.error(
        { error: error instanceof Error ? (error.stack ?? error.message) : String(error) },
        'a request to the dashboard failed',
      );
  }

  async #route(request: Request, caller: Caller): Promise<Response> {
    if (request.url.length > URL_MAX) throw new Refusal(414, 'URL', `the URL must have at most ${URL_MAX} characters`);
    const url = new URL(request.url);
    const isRoot = `${url.pathname}/` === this.#base;
    const nothing = (): Refusal => this.#nothing(caller);
    const path = url.pathname.startsWith(this.#base) ? url.pathname.slice(this.#base.length) : undefined;
    this.#guard.checkOrigin(request, url, caller, isRoot || path === '');
    if (isRoot) {
      only(request, 'GET', 'HEAD');
      // The URLs in the page are relative to this one.
      return redirect(308, `${this.#base}${url.search}`);
    }
    if (path === undefined) throw nothing();
    if (isAsset(path)) {
      only(request, 'GET', 'HEAD');
      const token = path === '' ? url.searchParams.get('token') : null;
      return token === null ? assetAnswer(path, request) : this.#signIn(token, request, url);
    }
    if (path === METRICS) return this.#metrics(request, url);
    if (!path.startsWith(API)) throw nothing();
    return this.#api(path.slice(API.length), request, url);
  }

  /** Returns the answer to a request for a path that the dashboard does not have. */
  #nothing({ mountPath = '' }: Caller): Refusal {
    if (mountPath === '' || this.#base.startsWith(`${mountPath}/`)) return nothing();
    return new Refusal(
      404,
      'BASE_PATH',
      `the dashboard is mounted at '${mountPath}' but answers below '${this.#base}': ` +
        `pass { basePath: '${mountPath}' } to dashboardHandler`,
    );
  }

  /** Answers a scraper, which sends the token, if there is one, as `Authorization: Bearer`. */
  async #metrics(request: Request, url: URL): Promise<Response> {
    only(request, 'GET', 'HEAD');
    this.#guard.checkToken(request);
    new Query(url).only();
    await this.#authorize(request, 'read', undefined);
    const { client, options } = this.#context;
    const { status, headers, body } = await metricsResponse(client, options.runtime ?? []);
    return new Response(body, { status, headers });
  }

  /** Moves the token from the URL to a cookie. */
  #signIn(token: string, request: Request, url: URL): Response {
    const response = redirect(303, this.#base);
    // With a wrong token no cookie is set, and the page asks for the right one.
    if (this.#guard.isToken(token)) response.headers.set('set-cookie', this.#guard.cookie(request, url, this.#base));
    return response;
  }

  async #api(path: string, request: Request, url: URL): Promise<Response> {
    if (path === 'session') return this.#session(request, url);
    const read = Object.hasOwn(READS, path) ? READS[path] : undefined;
    const query = new Query(url);
    if (path === 'bulk') {
      const body = bulkOf(await this.#body(request, query));
      await this.#authorize(request, 'read', undefined);
      const authorize = (action: DashboardAction, id: string): Promise<void> => this.#authorize(request, action, id);
      return Response.json(await actOnPart(this.#context, body, authorize));
    }
    if (isChanging(path)) {
      const body = bodyOf(path, await this.#body(request, query));
      for (const id of new Set([body.id, newIdOf(body)])) await this.#authorize(request, path, id);
      await this.#authorizeStart(request, body);
      return Response.json(await act(this.#context, path, body));
    }
    if (isQuestion(path)) {
      const body = questionOf(path, await this.#body(request, query, path === 'query'));
      await this.#authorize(request, path, body.id);
      await this.#authorizeStart(request, body);
      return Response.json(await answerTo(this.#context, path, body, request.signal));
    }
    if (read === undefined && path !== 'live') throw nothing();
    only(request, 'GET', 'HEAD');
    this.#guard.checkToken(request);
    await this.#authorize(request, 'read', query.text('id'));
    if (WIDE_READS.has(path)) await this.#authorize(request, 'read', undefined);
    if (read !== undefined) return Response.json(await read(this.#context, query));
    if (request.method === 'HEAD') return new Response(null, { headers: EVENTS });
    return new Response(this.#live.open(query, request.signal), { headers: EVENTS });
  }

  /**
   * Returns the body of an action, if the dashboard and the token allow that.
   *
   * @param isReading - true if the action changes nothing, so that a dashboard that is read-only allows it
   */
  async #body(request: Request, query: Query, isReading = false): Promise<unknown> {
    only(request, 'POST');
    this.#guard.checkAction(request);
    this.#guard.checkToken(request);
    if (this.#context.options.readOnly === true && !isReading)
      throw new Refusal(403, 'READ_ONLY', 'this dashboard is read-only');
    query.only();
    return jsonOf(request);
  }

  /** Signs a browser in with the token that its user typed. */
  async #session(request: Request, url: URL): Promise<Response> {
    only(request, 'POST');
    this.#guard.checkAction(request);
    const body = (await jsonOf(request)) as { token?: unknown } | null;
    if (typeof body?.token !== 'string' || !this.#guard.isToken(body.token))
      throw new Refusal(401, 'TOKEN', 'the token is wrong');
    return Response.json({}, { headers: { 'set-cookie': this.#guard.cookie(request, url, this.#base) } });
  }

  /** A message that may start its instance needs the right to do so. */
  async #authorizeStart(request: Request, body: { readonly id: string; readonly start?: unknown }): Promise<void> {
    if (body.start !== undefined) await this.#authorize(request, 'start', body.id);
  }

  async #authorize(request: Request, action: DashboardAction, instanceId: string | undefined): Promise<void> {
    const { authorize } = this.#context.options;
    if (authorize === undefined) return;
    let mayDo: unknown = false;
    try {
      mayDo = await authorize(request, action, instanceId);
    } catch (error) {
      this.#logger.error({ action, error: String(error) }, 'the authorize hook of the dashboard threw an error');
    }
    if (mayDo !== true) throw new Refusal(403, 'NOT_AUTHORIZED', `not allowed: ${action}`);
  }
}

/** Returns the id under which an instance is started again: its own, unless another is given. */
function newIdOf(body: CheckedBody<ChangingAction>): string {
  return 'newId' in body && body.newId !== undefined ? body.newId : body.id;
}

/** Headers of an event stream. No proxy may cache or buffer it. */
const EVENTS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store, no-transform',
  'x-accel-buffering': 'no',
};

function only(request: Request, ...methods: readonly string[]): void {
  if (!methods.includes(request.method))
    throw new Refusal(405, 'METHOD', `method not allowed: use ${methods.join(' or ')}`, { allow: methods.join(', ') });
}

function nothing(): Refusal {
  return new Refusal(404, 'NOT_FOUND', 'not found');
}

function redirect(status: number, location: string): Response {
  return new Response(null, { status, headers: { location } });
}
