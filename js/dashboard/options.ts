// What a dashboard is made with.

import { isIP } from 'node:net';

import { checkLogger, type Logger } from '../logging/logger.ts';
import { Runtime } from '../runtime/runtime.ts';
import { bool, checkOptions, type OptionTable } from '../util/options.ts';
import { isInstance, isList, show } from '../util/show.ts';

/** What somebody asks for: `'read'` is everything that changes nothing, `'start'` is to start an instance again. */
export type DashboardAction = 'read' | 'raise' | 'enqueue' | 'cancel' | 'terminate' | 'suspend' | 'resume' | 'start';

/** Where a value stands that {@link DashboardOptions.redact} is asked about. */
export interface ValuePlace {
  /** Of the instance that it is a value of. */
  readonly instanceId: string;
  /** Name of the orchestration; not known where a single event is read. */
  readonly orchestration?: string;
  /** What it is: `message` is what was raised, enqueued or sent, `reason` why something was cancelled, terminated or held. */
  readonly kind: 'input' | 'output' | 'error' | 'customStatus' | 'message' | 'reason';
  /** Of an event of the history: its number. */
  readonly eventId?: number;
  /** Of an event of the history: the name of its orchestration, activity, event or queue. */
  readonly name?: string;
}

/** Options of {@link dashboardHandler}. */
export interface DashboardOptions {
  /**
   * Path that the handler is mounted at, as it stands in the URL of a request: `'/perdure'`. Other paths are answered with 404. Default `'/'`.
   */
  basePath?: string;
  /**
   * What whoever wants to see anything must show, from everywhere: as `Authorization: Bearer …`, or once as `?token=…` of the page, which
   * becomes a cookie (HttpOnly, SameSite=Strict). 16 to 256 visible ASCII characters. Default: one is made, which ends with the process; it is
   * told by {@link ServedDashboard.url} or {@link DashboardHandler.madeToken}. `false`: none is needed. Then `authorize` decides it all; without
   * `authorize`, requests that come from the same machine are answered, which is whatever a reverse proxy on it lets through.
   */
  token?: string | false;
  /** Whether actions are refused. Default false. */
  readOnly?: boolean;
  /**
   * Asked before each answer but that with the page itself, which holds no data: whether this request may do that. What it throws is
   * logged, and refuses. `instanceId` is that of the instance, where it is about one. To start an instance again under another id is asked twice: with
   * the id of the instance, and with the other id.
   *
   * @example
   * ```ts
   * const authorize = async (request: Request, action: DashboardAction) => {
   *   const user = await userOf(request.headers.get('cookie'));
   *   return action === 'read' ? user !== null : user?.isOperator === true;
   * };
   * ```
   */
  authorize?: (request: Request, action: DashboardAction, instanceId: string | undefined) => boolean | Promise<boolean>;
  /**
   * What is shown instead of a value, before it leaves the server: an input, output, custom status, message, reason or error (an `Error`, or its
   * data in a history). Ids, names, versions and tags are shown as they are. Where it throws, nothing of the value is shown.
   *
   * @example
   * ```ts
   * const redact = (value: unknown, { kind }: ValuePlace) => (kind === 'input' ? '(hidden)' : value);
   * ```
   */
  redact?: (value: unknown, place: ValuePlace) => unknown;
  /** Names of hosts, besides those of the same machine, that may stand in the URL: `'ops.example.com'`, any port; with a port, that one. */
  allowedHosts?: readonly string[];
  /** A runtime of this process whose counters are shown, too. */
  runtime?: Runtime;
  /** Where errors of the hooks and of the store go. Default: stderr, as text. */
  logger?: Logger;
}

/** Path of letters that need no escape, so that it is the same however it is written. */
const BASE_PATH = /^\/(?:[\w.~-]+(?:\/[\w.~-]+)*\/?)?$/;

function basePath(value: unknown, path: string): void {
  if (typeof value !== 'string' || !BASE_PATH.test(value) || /(^|\/)\.{1,2}(\/|$)/.test(value)) {
    throw new TypeError(
      `${path} must be a path such as '/perdure', of letters, digits, and - . _ ~, got ${show(value)}`,
    );
  }
}

/** No shorter token: nobody guesses it. */
const TOKEN = /^[\x21-\x7e]{16,256}$/;

function token(value: unknown, path: string): void {
  // Without what was given: it is a secret, if a weak one.
  if (value !== false && (typeof value !== 'string' || !TOKEN.test(value))) {
    throw new TypeError(`${path} must be a string of 16 to 256 visible ASCII characters, or false`);
  }
}

function fn(value: unknown, path: string): void {
  if (typeof value !== 'function') throw new TypeError(`${path} must be a function, got ${show(value)}`);
}

/** A name and perhaps a port; the numbers of an IPv6 address are told apart before. */
const HOST = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?$/i;

function hosts(value: unknown, path: string): void {
  if (!isList(value)) throw new TypeError(`${path} must be a list of host names, got ${show(value)}`);
  for (const [i, host] of value.entries()) {
    if (typeof host === 'string' && (isIP(host) > 0 || HOST.test(host))) continue;
    throw new TypeError(
      `${path}[${i}] must be the name of a host, such as 'ops.example.com' or 'ops.example.com:8080', got ${show(host)}`,
    );
  }
}

function runtime(value: unknown, path: string): void {
  if (!isInstance(value, Runtime)) throw new TypeError(`${path} must be a Runtime, got ${show(value)}`);
}

export const DASHBOARD_OPTIONS = {
  basePath,
  token,
  readOnly: bool,
  authorize: fn,
  redact: fn,
  allowedHosts: hosts,
  runtime,
  logger: checkLogger,
} satisfies OptionTable;

/** @throws TypeError naming the option that is unknown or wrong, or that another one needs */
export function checkDashboardOptions<T extends DashboardOptions>(
  given: T | undefined,
  table: OptionTable,
  where: string,
): T {
  const options = checkOptions(given, table, where) ?? ({} as T);
  const { token, allowedHosts = [], authorize } = options;
  if (allowedHosts.length > 0 && token === false && authorize === undefined) {
    throw new TypeError(
      `${where}: allowedHosts needs a token, or an authorize that decides instead, because others than this machine can come by them`,
    );
  }
  return options;
}
