// Parameters of requests and bodies of actions: parsed and checked, so that no invalid value gets any further.

import { LIST_OPTIONS, type ListOptions } from '../client/listing.ts';
import { LOGS_OPTIONS, type LogsOptions } from '../client/logs.ts';
import { BUILT_IN, isBuiltIn } from '../orchestration/definition.ts';
import { OVERLAPS } from '../schedules/schedule-data.ts';
import {
  bool,
  checkName,
  checkOptions,
  named,
  nested,
  type OptionTable,
  oneOf,
  priority,
  text,
  textsByName,
  time,
  whole,
} from '../util/options.ts';
import { isRecord, property, show } from '../util/show.ts';
import { uuidv7 } from '../util/uuid.ts';
import type { ActionBodies, BulkAction, ChangingAction, LogLevel, Question, QuestionBodies } from './answers.ts';
import { LEVELS, LINES, LINES_MAX } from './log-filter.ts';
import { badRequest, Refusal } from './refusal.ts';

/** Most rows of a page of the list. */
const ROWS_MAX = 200;

/** Most events of a page of a history. */
const EVENTS_MAX = 1_000;

/** Most characters of a text that lines are searched for. */
const SOUGHT_MAX = 200;

/**
 * Most bytes of the body of an action: the largest value that is stored by default, and as much again for its encoding.
 */
const BODY_MAX = 4 * 1024 * 1024;

/** Longest URL, in characters. */
export const URL_MAX = 8_192;

/** @throws Refusal with the message of the TypeError that `check` throws */
export function checked<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (error instanceof TypeError) throw badRequest(error.message);
    throw error;
  }
}

/** The parameters of a URL. A parameter that is read as one value must not be repeated. */
export class Query {
  readonly #params: URLSearchParams;

  constructor(url: URL) {
    this.#params = url.searchParams;
  }

  /** @throws Refusal when there is any other parameter */
  only(...names: readonly string[]): this {
    for (const name of this.#params.keys()) {
      if (names.includes(name)) continue;
      const known = names.length === 0 ? 'there are none' : `the parameters are ${names.join(', ')}`;
      throw badRequest(`unknown parameter '${name.slice(0, 60)}'; ${known}`);
    }
    return this;
  }

  text(name: string): string | undefined {
    const [value, second] = this.#params.getAll(name);
    if (second !== undefined) throw badRequest(`the parameter ${name} must be given once`);
    return value;
  }

  /** Returns the id of an instance. */
  id(): string {
    return this.#named('id');
  }

  /** Returns the name of a value, or of an orchestration. */
  name(): string {
    return this.#named('name');
  }

  number(name: string, min: number, max = Number.MAX_SAFE_INTEGER): number | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    if (!/^\d{1,16}$/.test(value)) throw badRequest(`the parameter ${name} must be a whole number`);
    return checked(() => {
      whole(min, max)(Number(value), `the parameter ${name}`);
      return Number(value);
    });
  }

  filter(): ListOptions {
    this.only(
      'status',
      'name',
      'version',
      'tag',
      'parentId',
      'idPrefix',
      'createdAfter',
      'createdBefore',
      'system',
      'cursor',
      'limit',
    );
    const statuses = this.#params.getAll('status');
    const tags = this.#params.getAll('tag').map((tag) => {
      const at = tag.indexOf(':');
      if (at < 0) throw badRequest('the parameter tag must be a name and a value: tag=team:billing');
      return [tag.slice(0, at), tag.slice(at + 1)] as const;
    });
    const options: Record<string, unknown> = { limit: this.number('limit', 1, ROWS_MAX) ?? 50 };
    const system = this.flag('system');
    if (system !== undefined) options.system = system;
    if (statuses.length > 0) options.status = statuses;
    if (tags.length > 0) options.tags = Object.fromEntries(tags);
    for (const name of ['name', 'version', 'parentId', 'idPrefix', 'createdAfter', 'createdBefore', 'cursor']) {
      const value = this.text(name);
      if (value !== undefined) options[name] = value;
    }
    return checked(() => checkOptions(options as ListOptions, LIST_OPTIONS, 'the list'));
  }

  /** Returns the parameters that select a page of a list. */
  page(): { limit: number; cursor?: string } {
    const limit = this.number('limit', 1, ROWS_MAX) ?? 50;
    const cursor = this.text('cursor');
    if (cursor === undefined) return { limit };
    checked(() => checkOptions({ cursor }, LIST_OPTIONS, 'the list'));
    return { limit, cursor };
  }

  /** Returns a parameter that is `true` or `false`; `undefined` when it is not there. */
  flag(name: string): boolean | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    checked(() => oneOf('true', 'false')(value, `the parameter ${name}`));
    return value === 'true';
  }

  /** Returns the name of an orchestration, and the version that is asked for. */
  orchestration(): { name: string; version: string | undefined } {
    return { name: this.only('name', 'version').name(), version: this.text('version') };
  }

  /** Returns the parameters that select a part of a history. */
  part(): { id: string; executionId?: number; from: number; limit: number } {
    const executionId = this.number('execution', 1);
    return {
      id: this.id(),
      ...(executionId === undefined ? {} : { executionId }),
      from: this.number('from', 1) ?? 1,
      limit: this.number('limit', 1, EVENTS_MAX) ?? EVENTS_MAX,
    };
  }

  /** Returns the parameters that select logged lines. */
  lines(): LinesQuery {
    this.only('id', 'execution', 'level', 'text', 'after', 'limit');
    const executionId = this.number('execution', 1);
    const [level = 'debug', text = '', cursor] = [this.text('level'), this.text('text'), this.text('after')];
    if (text.length > SOUGHT_MAX) throw badRequest(`the parameter text must have at most ${SOUGHT_MAX} characters`);
    checked(() => {
      oneOf(...LEVELS)(level, 'the parameter level');
      if (cursor !== undefined) LOGS_OPTIONS.cursor?.(cursor, 'the parameter after');
    });
    return {
      id: this.id(),
      of: { ...(executionId === undefined ? {} : { executionId }), ...(cursor === undefined ? {} : { cursor }) },
      level: level as LogLevel,
      text,
      limit: this.number('limit', 1, LINES_MAX) ?? LINES,
    };
  }

  #named(parameter: 'id' | 'name'): string {
    const name: unknown = this.text(parameter);
    checked(() => checkName(name, parameter));
    return name as string;
  }
}

/** The lines that are asked for. */
export interface LinesQuery {
  readonly id: string;
  readonly of: Pick<LogsOptions, 'executionId' | 'cursor'>;
  /** The least severe level. */
  readonly level: LogLevel;
  /** Text that a line contains. */
  readonly text: string;
  readonly limit: number;
}

/** Checks the name of a handler, an event or a queue. Perdure's own messages are sent by actions of their own. */
function usersName(value: unknown, path: string): void {
  named(value, path);
  if (isBuiltIn(value as string))
    throw new TypeError(`${path} must not begin with '${BUILT_IN}', got ${show(value)}: such names are Perdure's own`);
}

const START = { name: named, version: named, input: () => {}, tags: textsByName, priority } satisfies OptionTable;

/** Checks the start of an instance by a message to it. */
function messageStart(value: unknown, path: string): void {
  nested(START)(value, path);
  if (property(value, 'name') === undefined) throw new TypeError(`${path}: name is missing`);
}

const REASON = { id: named, reason: text } satisfies OptionTable;

const BODIES: Readonly<Record<ChangingAction, { table: OptionTable; needs: readonly string[] }>> = {
  raise: { table: { id: named, name: usersName, data: () => {}, start: messageStart }, needs: ['id', 'name'] },
  enqueue: { table: { id: named, queue: usersName, data: () => {}, start: messageStart }, needs: ['id', 'queue'] },
  cancel: { table: REASON, needs: ['id'] },
  terminate: { table: REASON, needs: ['id'] },
  suspend: { table: REASON, needs: ['id'] },
  resume: { table: { id: named }, needs: ['id'] },
  delete: { table: { id: named }, needs: ['id'] },
  start: { table: { id: named, ...START }, needs: ['name'] },
  restart: { table: { id: named, newId: named, executionId: whole(1), version: named }, needs: ['id'] },
  resolveToken: { table: { id: named, token: named, value: () => {} }, needs: ['id', 'token'] },
  rejectToken: { table: { id: named, token: named, message: text }, needs: ['id', 'token', 'message'] },
  pauseSchedule: { table: { id: named, note: named }, needs: ['id'] },
  resumeSchedule: { table: { id: named }, needs: ['id'] },
  triggerSchedule: { table: { id: named }, needs: ['id'] },
  // The options are checked as those of a client.
  setSchedule: { table: { id: named, options: () => {}, isNew: bool, keepsInput: bool }, needs: ['id', 'options'] },
  deleteSchedule: { table: { id: named }, needs: ['id'] },
  backfillSchedule: {
    table: { id: named, from: time, to: time, overlap: oneOf(...OVERLAPS) },
    needs: ['id', 'from', 'to'],
  },
  pauseQueue: { table: { id: named }, needs: ['id'] },
  resumeQueue: { table: { id: named }, needs: ['id'] },
};

const QUESTION = { id: named, name: usersName, input: () => {} } satisfies OptionTable;

const QUESTIONS: Readonly<Record<Question, OptionTable>> = {
  update: { ...QUESTION, updateId: named, isCall: bool, isOneWay: bool, start: messageStart },
  query: { ...QUESTION, isRead: bool },
};

/** A body whose id is known. */
export type CheckedQuestion<Q extends Question> = QuestionBodies[Q] & { readonly id: string };

/** @throws Refusal when `body` is not the body of that question */
export function questionOf<Q extends Question>(question: Q, body: unknown): CheckedQuestion<Q> {
  const options = checkedBody(question, body, QUESTIONS[question], ['id', 'name']);
  return { ...options, id: options.id ?? uuidv7() } as unknown as CheckedQuestion<Q>;
}

/** A body whose id is known: that of a start may be made. */
export type CheckedBody<A extends ChangingAction> = ActionBodies[A] & { readonly id: string };

/** @throws Refusal when `body` is not a body of that action */
export function bodyOf<A extends ChangingAction>(action: A, body: unknown): CheckedBody<A> {
  const { table, needs } = BODIES[action];
  const options = checkedBody(action, body, table, needs);
  return { ...options, id: options.id ?? uuidv7() } as unknown as CheckedBody<A>;
}

/** @throws Refusal when a value of `body` is wrong or missing. An id may be missing where an instance is started */
function checkedBody(
  action: string,
  body: unknown,
  table: OptionTable,
  needs: readonly string[],
): Record<string, unknown> {
  if (!isRecord(body)) throw badRequest('the body must be a JSON object');
  return checked(() => {
    const options = checkOptions(body as Record<string, unknown>, table, action);
    for (const name of needs)
      if (options[name] === undefined && (name !== 'id' || options.start === undefined))
        throw badRequest(`${action}: ${name} is missing`);
    return options;
  });
}

/** The checked body of an action on many instances. */
export interface BulkBody {
  readonly action: BulkAction;
  readonly filter: ListOptions;
  readonly cursor: string | undefined;
  readonly values: Readonly<Record<string, unknown>>;
}

const BULK = {
  action: oneOf('raise', 'enqueue', 'cancel', 'terminate', 'suspend', 'resume', 'delete' satisfies BulkAction),
  filter: text,
  cursor: text,
  values: (value, path) => {
    if (!isRecord(value)) throw new TypeError(`${path} must be an object`);
  },
} satisfies OptionTable;

/** @throws Refusal when `body` is not the body of an action on many instances */
export function bulkOf(body: unknown): BulkBody {
  if (!isRecord(body)) throw badRequest('the body must be a JSON object');
  const {
    action,
    filter,
    cursor,
    values = {},
  } = checked(() => checkOptions(body as Partial<Record<keyof BulkBody, unknown>>, BULK, 'bulk'));
  if (action === undefined || filter === undefined) throw badRequest('bulk: action or filter is missing');
  const url = new URL('http://localhost/');
  url.search = `${filter as string}${cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor as string)}`}`;
  const { limit: _, cursor: from, ...options } = new Query(url).filter();
  const each = values as BulkBody['values'];
  if (each.start !== undefined) throw badRequest('bulk: the instances are there, so a message takes no start');
  // An id that stands for all of them, so that wrong values are refused once.
  bodyOf(action as BulkAction, { ...each, id: 'each' });
  return { action: action as BulkAction, filter: options, cursor: from, values: each };
}

/**
 * Returns the JSON of a body.
 *
 * @throws Refusal when the body is too long or not JSON
 */
export async function jsonOf(request: Request): Promise<unknown> {
  const tooLong = (): Refusal => new Refusal(413, 'BODY', `the body must have at most ${BODY_MAX} bytes`);
  if (Number(request.headers.get('content-length') ?? 0) > BODY_MAX) throw tooLong();
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const chunk of request.body ?? []) {
      length += chunk.byteLength;
      if (length > BODY_MAX) throw tooLong();
      chunks.push(chunk);
    }
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)));
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw badRequest('the body is not valid JSON');
  }
}
