// Checks of exported histories, which come from files and from users. They run before an export is used.

import { type ExportedEvent, HISTORY_EVENT_KINDS, type HistoryExport, versionIn } from '../client/history.ts';
import { PerdureError, type PerdureErrorOptions } from '../errors/errors.ts';
import { nearest } from '../util/options.ts';
import { isList, isRecord, property, show } from '../util/show.ts';

/** Format of exports that can be read here. */
const FORMAT = 1;

/**
 * The given history is not valid: it was cut off or changed, or a newer Perdure wrote it. Its `code` is `'HISTORY'`.
 *
 * @example
 * ```ts
 * try {
 *   replay(text, order);
 * } catch (error) {
 *   if (error instanceof HistoryError) console.error(`no history, at ${error.path}: ${error.message}`);
 * }
 * ```
 */
export class HistoryError extends PerdureError {
  /** Path in the export: `events[3].kind`; empty for the whole export. */
  readonly path: string;

  constructor(message: string, fields: { path: string } & PerdureErrorOptions) {
    super(message, 'HISTORY', fields);
    this.path = fields.path;
  }
}

Object.defineProperty(HistoryError.prototype, 'name', { value: 'HistoryError', writable: true, configurable: true });

/** Returns the error for a problem at a path of an export. */
function wrong(path: string, what: string, cause?: unknown): HistoryError {
  const message = `${path === '' ? 'the export' : path} ${what}`;
  return new HistoryError(message, cause === undefined ? { path } : { path, cause });
}

/**
 * Returns the exports of one instance that a user hands over: one, several, or their JSON text.
 *
 * @param where - the beginning of the error message
 * @throws HistoryError when it is anything else
 */
export function exportsOf(history: unknown, where: string): readonly HistoryExport[] {
  try {
    return checkExports(history);
  } catch (error) {
    if (!(error instanceof HistoryError)) throw error;
    const { message, path, cause } = error;
    throw new HistoryError(`${where}the history cannot be replayed: ${message}`, {
      path,
      ...(cause === undefined ? {} : { cause }),
    });
  }
}

function checkExports(history: unknown): readonly HistoryExport[] {
  const parsed = typeof history === 'string' ? parse(history) : history;
  const list = isList(parsed) ? parsed : [parsed];
  if (list.length === 0) throw wrong('', 'is an empty list');
  const prefix = (i: number): string => (isList(parsed) ? `[${i}]` : '');
  const exports = list.map((one, i) => exportOf(one, prefix(i)));
  const [first] = exports;
  for (const [i, { instanceId }] of exports.entries()) {
    if (instanceId === first?.instanceId) continue;
    throw wrong(at(prefix(i), 'instanceId'), `is '${instanceId}', another instance than '${first?.instanceId}'`);
  }
  return exports;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw wrong('', `is not JSON: ${(cause as Error).message}`, cause);
  }
}

function exportOf(value: unknown, path: string): HistoryExport {
  if (!isRecord(value)) throw wrong(path, `must be a result of client.exportHistory, got ${show(value)}`);
  const format = property(value, 'format');
  if (format !== FORMAT) {
    const what =
      format === undefined
        ? 'is missing: this is not what client.exportHistory returns'
        : `is ${show(format)}, and this Perdure reads ${FORMAT}`;
    throw wrong(at(path, 'format'), what);
  }
  for (const key of ['instanceId', 'name', 'version']) check(value, key, path, isText, TEXT);
  check(value, 'executionId', path, isCount, 'a whole number >= 1');
  check(value, 'hasBegun', path, (field) => typeof field === 'boolean', 'true or false');
  const events = property(value, 'events');
  if (!isList(events) || events.length === 0)
    throw wrong(at(path, 'events'), `must be a list of events, got ${isList(events) ? 'none' : show(events)}`);
  for (const [i, event] of events.entries()) checkEvent(event, i, at(path, `events[${i}]`));
  const exported = value as HistoryExport;
  checkStart(exported, path);
  return exported;
}

function checkEvent(event: unknown, i: number, path: string): void {
  if (!isRecord(event)) throw wrong(path, `must be an event, got ${show(event)}`);
  const eventId = property(event, 'eventId');
  if (eventId !== i + 1)
    throw wrong(
      at(path, 'eventId'),
      `is ${show(eventId)} where ${i + 1} was expected: events are missing, or in another order`,
    );
  check(event, 'timeMs', path, Number.isSafeInteger, 'a whole number of ms');
  const kind = property(event, 'kind');
  if (!HISTORY_EVENT_KINDS.includes(kind as ExportedEvent['kind'])) {
    const [near] = typeof kind === 'string' ? nearest(kind, HISTORY_EVENT_KINDS) : [];
    const hint = near === undefined ? '' : `; did you mean '${near}'?`;
    throw wrong(
      at(path, 'kind'),
      `is ${show(kind)}, which is not a kind of event that this version of Perdure knows${hint}`,
    );
  }
  check(event, 'refId', path, optional(isCount), 'the number of an event');
  check(event, 'name', path, optional(isText), TEXT);
  check(event, 'payload', path, optional(isText), TEXT);
  check(event, 'meta', path, optional(isRecord), 'an object');
}

/** Checks that the head of an export agrees with its first event. */
function checkStart({ name, version, events }: HistoryExport, path: string): void {
  const [first] = events;
  if (first?.kind !== 'ExecutionStarted')
    throw wrong(at(path, 'events[0].kind'), `is '${first?.kind}', and an execution begins with 'ExecutionStarted'`);
  for (const [key, said, found] of [
    ['name', name, first.name],
    ['version', version, versionIn(events)],
  ] as const) {
    if (said !== found) throw wrong(at(path, key), `is ${show(said)}, and its first event says ${show(found)}`);
  }
}

function check(value: object, key: string, path: string, fits: (field: unknown) => boolean, what: string): void {
  const field = property(value, key);
  if (!fits(field)) throw wrong(at(path, key), `must be ${what}, got ${show(field)}`);
}

function at(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`;
}

const TEXT = 'a string without lone surrogates';

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.isWellFormed();
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}

function optional(fits: (field: unknown) => boolean): (field: unknown) => boolean {
  return (field) => field === undefined || fits(field);
}
