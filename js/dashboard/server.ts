// The dashboard on Node's `http`: a listener for existing servers, and a server of its own.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, isIP } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';

import { type ClientAddress, createHeaders, createRequestListener, sendResponse } from '@remix-run/node-fetch-server';

import type { Client } from '../client/client.ts';
import { type OptionTable, text, whole } from '../util/options.ts';
import { property } from '../util/show.ts';
import { type Caller, isLocalHost, makeToken } from './guard.ts';
import { type DashboardHandler, dashboardHandler } from './handler.ts';
import { checkDashboardOptions, DASHBOARD_OPTIONS, type DashboardOptions } from './options.ts';

/**
 * Returns a listener of Node's `http` for a handler; Express and Fastify (`reply.raw`) take it, too. It passes the
 * address of the connection, restores the whole URL if a framework has cut off the mount path, and accepts a JSON body
 * that was parsed before.
 *
 * @example
 * ```ts
 * createServer(nodeListener(dashboardHandler(client))).listen(8080, '127.0.0.1');
 * ```
 */
export function nodeListener(handler: DashboardHandler): (request: IncomingMessage, response: ServerResponse) => void {
  const listenerAt = (mount: Caller): ReturnType<typeof createRequestListener> =>
    createRequestListener(
      (request: Request, { address }: ClientAddress) => handler(request, { remoteAddress: address, ...mount }),
      // The handler does not throw. An error means that the input was not a valid request, for example because of its
      // URL.
      {
        onError: () =>
          Response.json({ error: { code: 'BAD_REQUEST', message: 'the request is malformed' } }, { status: 400 }),
      },
    );
  return (incoming, outgoing) => {
    const whole = property(incoming, 'originalUrl');
    if (typeof whole === 'string') incoming.url = whole;
    // Express cuts this path off.
    const mountPath = property(incoming, 'baseUrl');
    const mount = typeof mountPath === 'string' && mountPath !== '' ? { mountPath } : {};
    const parsed = incoming.readableEnded ? property(incoming, 'body') : undefined;
    if (parsed === undefined) listenerAt(mount)(incoming, outgoing);
    else void answerParsed(handler, incoming, outgoing, { mount, body: JSON.stringify(parsed) });
  };
}

/** Answers a request whose body was parsed before, so that its stream is empty. */
async function answerParsed(
  handler: DashboardHandler,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { mount, body }: { readonly mount: Caller; readonly body: string },
): Promise<void> {
  const { remoteAddress } = incoming.socket;
  const { method = 'POST' } = incoming;
  const scheme = 'encrypted' in incoming.socket ? 'https' : 'http';
  const url = `${scheme}://${incoming.headers.host ?? 'localhost'}${incoming.url}`;
  try {
    const request = new Request(url, {
      method,
      headers: createHeaders(incoming),
      ...(method === 'GET' || method === 'HEAD' ? {} : { body }),
    });
    const caller = { ...mount, ...(remoteAddress === undefined ? {} : { remoteAddress }) };
    await sendResponse(outgoing, await handler(request, caller));
  } catch {
    // The input was not a valid request, or the client has disconnected.
    if (!outgoing.headersSent) outgoing.writeHead(400).end();
  }
}

/** Options of {@link serveDashboard}. */
export interface ServeOptions extends DashboardOptions {
  /**
   * Address or name to listen on. Any but a loopback one needs a `token`, which is made if none is given, or an
   * `authorize`. Default `'127.0.0.1'`.
   */
  host?: string;
  /** Port to listen on; 0 for any free one. Default 0. */
  port?: number;
}

const SERVE_OPTIONS = { ...DASHBOARD_OPTIONS, host: text, port: whole(0, 65_535) } satisfies OptionTable;

/** A running dashboard server. */
export interface ServedDashboard extends AsyncDisposable {
  /** URL of the page: `http://127.0.0.1:4321/`. If the token was made: `http://127.0.0.1:4321/?token=…`. */
  readonly url: string;
  /** Address that the server listens on. */
  readonly host: string;
  /** Port that the server listens on. */
  readonly port: number;
  /** Stops the server and closes all connections. A second call does nothing more. */
  close(): Promise<void>;
}

/**
 * Serves a dashboard on a server of its own.
 *
 * @throws TypeError when `client` is not a client, an option is wrong, or the host is not a loopback address and there
 *   is neither a token nor an `authorize`
 * @throws Error of Node when the server cannot listen there (`code` `'EADDRINUSE'`, …)
 *
 * @example
 * ```ts
 * await using dashboard = await serveDashboard(client, { port: 4700, readOnly: true });
 * console.log(dashboard.url);
 * ```
 */
export async function serveDashboard(client: Client, options?: ServeOptions): Promise<ServedDashboard> {
  const { host = '127.0.0.1', port = 0, ...others } = checkDashboardOptions(options, SERVE_OPTIONS, 'serveDashboard');
  const isLocal = isLocalHost(host);
  if (!isLocal && others.token === false && others.authorize === undefined)
    throw new TypeError(`serveDashboard: the host '${host}' can be reached from other machines: pass a token`);
  const token = others.token ?? makeToken();
  const allowedHosts = [...(others.allowedHosts ?? []), ...(isLocal ? [] : namesOf(host))];
  const server = createServer(
    nodeListener(dashboardHandler(client, { ...others, token, ...(allowedHosts.length > 0 ? { allowedHosts } : {}) })),
  );
  await listen(server, host, port);
  const address = server.address() as AddressInfo;
  const name = isIP(address.address) === 6 ? `[${address.address}]` : address.address;
  const path = (others.basePath ?? '/').replace(/\/?$/, '/');
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => (closing ??= end(server));
  const shown = token === others.token ? '' : `?token=${token}`;
  return {
    url: `http://${name}:${address.port}${path}${shown}`,
    host: address.address,
    port: address.port,
    close,
    [Symbol.asyncDispose]: close,
  };
}

/**
 * Returns the names by which browsers on other machines may reach the server: `host`, or, if it stands for all
 * addresses, each address and the name of the machine.
 */
function namesOf(host: string): string[] {
  if (!['0.0.0.0', '::', ''].includes(host)) return [host];
  const addresses = Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address));
  // A link-local address contains the name of an interface, which a URL cannot.
  return [...addresses.filter((address) => isIP(address) > 0 && !address.includes('%')), hostname()];
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function end(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
