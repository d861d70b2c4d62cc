// Options of a dashboard, and their checks.

import { isIP } from 'node:net';

import { checkLogger, type Logger } from '../logging/logger.ts';
import type { EntityDefinition } from '../orchestration/entities.ts';
import { isEntity } from '../orchestration/entity-calls.ts';
import { Runtime } from '../runtime/runtime.ts';
import { otherCopyNote } from '../util/copy.ts';
import { bool, checkOptions, type OptionTable } from '../util/options.ts';
import { isInstance, isList, show } from '../util/show.ts';

/**
 * The kind of a request. `'read'` is every request for stored data. `'query'` asks the code of an instance, or reads an
 * entity: it changes nothing, and a dashboard that is `readOnly` allows it. `'update'` sends an update, or calls an
 * entity. `'resolveToken'` and `'rejectToken'` end a token of an instance. `'pauseSchedule'`, `'resumeSchedule'`,
 * `'setSchedule'` and `'deleteSchedule'` change a schedule, and `'triggerSchedule'` and `'backfillSchedule'` run it.
 * `'setSchedule'` also creates one, which starts any orchestration with any input. `'pauseQueue'` and `'resumeQueue'`
 * change a queue. `'start'` starts a new instance, and `'restart'` starts an instance again, with its input.
 */
export type DashboardAction =
  | 'read'
  | 'raise'
  | 'enqueue'
  | 'cancel'
  | 'terminate'
  | 'suspend'
  | 'resume'
  | 'delete'
  | 'start'
  | 'restart'
  | 'update'
  | 'query'
  | 'resolveToken'
  | 'rejectToken'
  | 'pauseSchedule'
  | 'resumeSchedule'
  | 'triggerSchedule'
  | 'setSchedule'
  | 'deleteSchedule'
  | 'backfillSchedule'
  | 'pauseQueue'
  | 'resumeQueue';

/** The place of a value that {@link DashboardOptions.redact} receives. */
export interface ValuePlace {
  /** Id of the instance that the value belongs to. */
  readonly instanceId: string;
  /**
   * Name of the orchestration; not known when a single event or a logged line is read. For the input of the runs of a
   * schedule, and for the error of a run: the orchestration that is started.
   */
  readonly orchestration?: string;
  /**
   * Kind of the value. `message` is the data of an event or message that was raised, enqueued or sent; `reason` is the
   * reason of a cancellation, termination or suspension, or the note of a schedule that is paused; `heartbeat` is the
   * details of the last heartbeat of an open activity; `logMessage` and `logFields` are the message and the fields of a
   * line that an orchestration logged; `state` is a value that an orchestration published with `ctx.state`; `stream` is
   * an entry of a stream; `answer` is the answer of an update or a query, or of a call or a read of an entity. The data
   * of a token is an `input`, and so is the input of the runs of a schedule.
   */
  readonly kind:
    | 'input'
    | 'output'
    | 'error'
    | 'customStatus'
    | 'message'
    | 'reason'
    | 'heartbeat'
    | 'logMessage'
    | 'logFields'
    | 'state'
    | 'stream'
    | 'answer';
  /** For an event of the history: its number. For an open activity: the number of the event that scheduled it. */
  readonly eventId?: number;
  /**
   * For an event of the history: the name of its orchestration, activity, event or queue. For an open activity or a
   * published value: its name. For an entry: the name of its stream. For an answer, or an error as one: the name of its
   * handler. For the data of a token: `'perdure.token'`.
   */
  readonly name?: string;
}

/** Options of {@link dashboardHandler}. */
export interface DashboardOptions {
  /**
   * Path that the handler is mounted at, as it appears in the URL of a request: `'/perdure'`. Other paths are answered
   * with 404. Default `'/'`.
   */
  basePath?: string;
  /**
   * Token that every request for data needs, from any machine: as `Authorization: Bearer …`, or once as `?token=…` of
   * the page, which becomes a cookie (HttpOnly, SameSite=Strict). 16 to 256 visible ASCII characters. Default: one is
   * made, which is valid until the process ends; {@link ServedDashboard.url} or {@link DashboardHandler.madeToken}
   * shows it. `false`: no token is needed. Then `authorize` decides alone. Without `authorize`, requests that come from
   * the same machine are answered, including all that a reverse proxy on it forwards.
   */
  token?: string | false;
  /** True if actions are refused, except for `'query'`, which changes nothing. Default false. */
  readOnly?: boolean;
  /**
   * Called before each response with data or action, to decide if the request is allowed. It is not called for the
   * files of the page, which hold no data. If it throws, the error is logged and the request refused. `instanceId` is
   * the id of the instance, if the request is about one; for a schedule, `perdure.schedule/` and the id of the
   * schedule. For a restart under another id, it is called twice: with the id of the instance, and with the other id.
   * For a message that may start its instance, it is called twice, too: the second time with the action `'start'`. For
   * an action on many instances, it is called for each of them.
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
   * Returns the value to show instead of `value`, before it leaves the server: an input, output, custom status,
   * published value, entry of a stream, message, reason, heartbeat, logged line, answer or error (an `Error`, or its
   * data in a history). Ids, names, versions and tags are shown as they are. If it throws, nothing of the value is
   * shown.
   *
   * @example
   * ```ts
   * const redact = (value: unknown, { kind }: ValuePlace) => (kind === 'input' ? '(hidden)' : value);
   * ```
   */
  redact?: (value: unknown, place: ValuePlace) => unknown;
  /**
   * Host names, besides those of the same machine, that a URL may have: `'ops.example.com'` with any port; with a port,
   * only that one.
   */
  allowedHosts?: readonly string[];
  /** A runtime of this process whose counters are also shown. */
  runtime?: Runtime;
  /**
   * Definitions of entities, as `defineEntity` returns them. The pages of these entities offer their handlers by name,
   * and their reads, which run in this process. Default: none.
   */
  entities?: readonly EntityDefinition[];
  /** Logger for errors of the hooks and of the store. Default: stderr, as text. */
  logger?: Logger;
}

/** Path of characters that need no escape, so that it has only one spelling. */
const BASE_PATH = /^\/(?:[\w.~-]+(?:\/[\w.~-]+)*\/?)?$/;

function basePath(value: unknown, path: string): void {
  if (typeof value !== 'string' || !BASE_PATH.test(value) || /(^|\/)\.{1,2}(\/|$)/.test(value)) {
    throw new TypeError(
      `${path} must be a path such as '/perdure', of letters, digits, and - . _ ~, got ${show(value)}`,
    );
  }
}

/** The minimum of 16 characters makes a token hard to guess. */
const TOKEN = /^[\x21-\x7e]{16,256}$/;

function token(value: unknown, path: string): void {
  // The message does not show the value, because it may be a secret, if a weak one.
  if (value !== false && (typeof value !== 'string' || !TOKEN.test(value))) {
    throw new TypeError(`${path} must be a string of 16 to 256 visible ASCII characters, or false`);
  }
}

function fn(value: unknown, path: string): void {
  if (typeof value !== 'function') throw new TypeError(`${path} must be a function, got ${show(value)}`);
}

/** A host name with an optional port. IP addresses are recognized before. */
const HOST = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?$/i;

function hosts(value: unknown, path: string): void {
  if (!isList(value)) throw new TypeError(`${path} must be a list of host names, got ${show(value)}`);
  for (const [i, host] of value.entries()) {
    if (typeof host === 'string' && (isIP(host) > 0 || HOST.test(host))) continue;
    throw new TypeError(
      `${path}[${i}] must be the name of a host, such as 'ops.example.com' or 'ops.example.com:8080', ` +
        `got ${show(host)}`,
    );
  }
}

function runtime(value: unknown, path: string): void {
  if (!isInstance(value, Runtime))
    throw new TypeError(`${path} must be a Runtime, got ${otherCopyNote(value) ?? show(value)}`);
}

function entities(value: unknown, path: string): void {
  if (!isList(value)) throw new TypeError(`${path} must be a list of entities, got ${show(value)}`);
  for (const [i, one] of value.entries())
    if (!isEntity(one)) throw new TypeError(`${path}[${i}] must be what defineEntity returned, got ${show(one)}`);
}

export const DASHBOARD_OPTIONS = {
  basePath,
  token,
  readOnly: bool,
  authorize: fn,
  redact: fn,
  allowedHosts: hosts,
  runtime,
  entities,
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
      `${where}: allowedHosts needs a token or authorize, because other machines can send requests to these hosts`,
    );
  }
  return options;
}
