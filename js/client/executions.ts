// The executions of an instance, the newest first.

import type { StorePort } from '../store/providers.ts';
import { abortSignal } from '../util/abort.ts';
import { type OptionTable, whole } from '../util/options.ts';
import { Place } from '../values/codec-context.ts';
import { cancellationError, fromErrorPayload, fromPayload, terminationError } from '../values/payload.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import { type EventData, versionIn } from './history.ts';
import type { EndedState, InstanceState } from './instance-status.ts';

/** Executions of a page without `limit`. */
const PAGE = 100;

/** Executions that are read from the store at once. */
const READ_MAX = 500;

/** One execution of an instance: one pass of its code, up to its end or a `continueAsNew`. */
export interface ExecutionInfo {
  /** Number of the execution, from 1. */
  readonly executionId: number;
  /** Version of the orchestration that it runs. Empty until a worker has acquired a start without a version. */
  readonly version: string;
  /** `ContinuedAsNew` when the next execution followed; else the status of the instance. */
  readonly status: InstanceState | 'ContinuedAsNew';
  readonly startedAt: Date;
  /** Absent while the execution goes on. */
  readonly endedAt?: Date;
  /** Number of events of its history. */
  readonly events: number;
  readonly input?: any;
  /** Output of the orchestration, when Completed. */
  readonly output?: any;
  /** The error, when Failed or Cancelled; the reason of the termination, when Terminated. */
  readonly error?: Error;
}

/** Options of {@link Client.executions}. */
export interface ExecutionsOptions {
  /** Number of the newest execution to list. Default: the current or last one. */
  from?: number;
  /** Most executions in all. Default: any number when iterated over, 100 for `page()`. */
  limit?: number;
  /**
   * When aborted, ends the reading at once: the iteration throws the signal's reason, and `page()` rejects with it.
   * Default: none.
   */
  signal?: AbortSignal;
}

export const EXECUTIONS_OPTIONS: OptionTable = { from: whole(1), limit: whole(1), signal: abortSignal };

/** A page of the executions of an instance. */
export interface ExecutionsPage {
  /** The executions, newest first. */
  readonly items: readonly ExecutionInfo[];
  /** The execution to go on from, `executions(id, { from: next })`; `null` when there are no more executions. */
  readonly next: number | null;
}

interface PageData {
  /** The store's key of the instance. */
  readonly key: number;
  readonly status: InstanceState;
  readonly version: string;
  readonly currentId: number;
  /** The first event, the second one if it is `ExecutionBegan`, and the last one. */
  readonly executions: readonly {
    readonly executionId: number;
    readonly events: readonly [EventData, ...EventData[]];
  }[];
  readonly next: number | null;
}

/**
 * The executions of an instance whose histories are stored, newest first. Each iteration reads anew, page by page.
 * Executions that begin meanwhile are skipped.
 *
 * @example
 * ```ts
 * for await (const { executionId, startedAt, events } of client.executions('monitor-1'))
 *   console.log(executionId, startedAt, events);
 * const { items, next } = await client.executions('monitor-1', { limit: 20 }).page();
 * ```
 */
export class ExecutionList implements AsyncIterable<ExecutionInfo> {
  readonly #port: StorePort;
  readonly #id: string;
  readonly #from: number | null;
  readonly #limit: number | undefined;
  readonly #signal: AbortSignal | undefined;

  /** @internal */
  constructor(port: StorePort, id: string, options: ExecutionsOptions) {
    this.#port = port;
    this.#id = id;
    this.#from = options.from ?? null;
    this.#limit = options.limit;
    this.#signal = options.signal;
  }

  /**
   * Returns `limit` executions, or fewer if there are no more, and the execution to go on from.
   *
   * @throws InstanceNotFoundError when there is no instance of that id
   */
  async page(): Promise<ExecutionsPage> {
    const items: ExecutionInfo[] = [];
    let next: number | null = null;
    for await (const page of this.#pages(this.#limit ?? PAGE)) {
      items.push(...page.items);
      ({ next } = page);
    }
    return { items, next };
  }

  /** The iteration throws `InstanceNotFoundError` when there is no instance of that id. */
  async *[Symbol.asyncIterator](): AsyncGenerator<ExecutionInfo, void> {
    for await (const { items } of this.#pages(this.#limit ?? Infinity)) yield* items;
  }

  /** Iterates over pages as the store returns them, up to `limit` executions in all. */
  async *#pages(limit: number): AsyncGenerator<ExecutionsPage, void> {
    let key: number | null = null;
    let from = this.#from;
    for (let left = limit; left > 0; ) {
      const request = { kind: 'executions', id: this.#id, key, from, limit: Math.min(left, READ_MAX) } as const;
      const page = JSON.parse((await this.#port.request(request, null, this.#signal)) as string) as PageData;
      const items = page.executions.flatMap((execution) => infoOf(this.#id, execution, page, this.#port.texts) ?? []);
      yield { items, next: page.next };
      if (page.next === null) return;
      ({ key, next: from } = page);
      left -= items.length;
    }
  }
}

/** Returns `undefined` for a former execution whose end is gone: its history is being pruned. */
function infoOf(
  id: string,
  { executionId, events }: PageData['executions'][number],
  page: PageData,
  texts: StoredTexts,
): ExecutionInfo | undefined {
  const [first] = events;
  const last = events.at(-1) ?? first;
  const end = endOf(id, last, texts);
  if (end === null && executionId < page.currentId) return undefined;
  const version = versionIn(events.map(({ kind, meta }) => ({ kind, meta: JSON.parse(meta ?? '{}') })));
  const input = texts.read(first.payload, 'input', Place.input(id, executionId));
  return {
    executionId,
    version: version === '' && executionId === page.currentId ? page.version : String(version),
    startedAt: new Date(first.timeMs),
    events: last.eventId,
    ...(input === null ? {} : { input: fromPayload(input, 'input', texts.types) }),
    ...(end === null ? { status: page.status } : { ...end, endedAt: new Date(last.timeMs) }),
  };
}

/** Returns the end that an event says; `null` if the event is no end. */
function endOf(
  id: string,
  { kind, payload }: EventData,
  texts: StoredTexts,
): { status: EndedState | 'ContinuedAsNew'; output?: unknown; error?: Error } | null {
  const read = (what: 'output' | 'error' | 'termination') => texts.read(payload, what, Place.end(id, what));
  switch (kind) {
    case 'ExecutionCompleted':
      return { status: 'Completed', output: fromPayload(read('output'), 'output', texts.types) };
    case 'ExecutionFailed':
      return { status: 'Failed', error: fromErrorPayload(read('error'), texts.types) };
    case 'ExecutionCancelled':
      return { status: 'Cancelled', error: cancellationError(read('error'), id, texts.types) };
    case 'ExecutionTerminated':
      return { status: 'Terminated', error: terminationError(read('termination'), id) };
    case 'ExecutionContinuedAsNew':
      return { status: 'ContinuedAsNew' };
    default:
      return null;
  }
}
