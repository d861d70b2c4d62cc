// Lists of instances: filters and pages.

import { isBuiltIn } from '../orchestration/definition.ts';
import type { StorePort } from '../store/providers.ts';
import { abortSignal } from '../util/abort.ts';
import {
  bool,
  listOfNames,
  named,
  type OptionTable,
  oneOf,
  textsByName,
  time,
  timeOf,
  whole,
} from '../util/options.ts';
import { isList } from '../util/show.ts';
import { withInputs } from './inputs.ts';
import {
  ENDED_STATES,
  type EndedState,
  type InstanceState,
  type InstanceStatus,
  STATES,
  type StatusData,
  statusOf,
} from './instance-status.ts';

/** Instances of a page without `limit`. */
const PAGE = 100;

/** Instances that are read from the store at once. */
const READ_MAX = 200;

/** The most ids of a filter. */
const IDS_MAX = 1_000;

/** Conditions on instances. An instance matches when all given conditions hold. */
export interface InstanceFilter {
  /** One of these ids: 1 to 1 000. An id that is in no use matches nothing. */
  ids?: readonly string[];
  /** One of these states. Default: any. */
  status?: InstanceState | readonly InstanceState[];
  /** Name of the orchestration. */
  name?: string;
  /** Version that the current or last execution runs. */
  version?: string;
  /** Each of these tags, with its value. */
  tags?: Readonly<Record<string, string>>;
  /** Children of this instance, even if it was deleted meanwhile. */
  parentId?: string;
  /** Instances whose id begins with this. */
  idPrefix?: string;
  /** Started after this time: a `Date`, or ISO text. */
  createdAfter?: Date | string;
  /** Started before this time. */
  createdBefore?: Date | string;
  /**
   * `true`: instances of Perdure's own orchestrations, named `perdure.…`, match too. Default: `false` in a list, unless
   * it asks for ids or for such a name; `true` for `prune` and `pruneExecutions`.
   */
  system?: boolean;
}

/** Options of {@link Client.listInstances}. */
export interface ListOptions extends InstanceFilter {
  /** Most instances in all. Default: any number when iterated over, 100 for `page()`. */
  limit?: number;
  /** Cursor of the page to go on from. The filter should be the same. */
  cursor?: string;
  /**
   * `true`: each instance has its `input`, which costs another request to the store for each. Default: `false`.
   */
  input?: boolean;
  /**
   * When aborted, ends the reading at once: the iteration throws the signal's reason, and `page()` rejects with it.
   * Default: none.
   */
  signal?: AbortSignal;
}

/** Options of {@link Client.prune}. */
export interface PruneOptions extends Omit<InstanceFilter, 'status'> {
  /** One of these states. Default: any terminal one. */
  status?: EndedState | readonly EndedState[];
  /** Ended before this time: a `Date`, or ISO text. */
  completedBefore?: Date | string;
  /** Most instances to delete, the longest ended first. Default: any number. */
  limit?: number;
  /**
   * When aborted, ends the call at once: it rejects with the signal's reason. The deletion ends after the batch of at
   * most 200 instances that is under way, and what was deleted stays deleted. Default: none.
   */
  signal?: AbortSignal;
}

/** Options of {@link Client.pruneExecutions}. */
export interface PruneExecutionsOptions extends InstanceFilter {
  /** Ended before this time: a `Date`, or ISO text. */
  completedBefore?: Date | string;
  /** Number of last executions that each instance keeps, including the current one; at least 1. */
  keep: number;
  /**
   * When aborted, ends the call at once: it rejects with the signal's reason. The deletion ends after the step that is
   * under way, and what was deleted stays deleted. Default: none.
   */
  signal?: AbortSignal;
}

/** A page of a list of instances. */
export interface InstancePage {
  /** The instances, newest first. */
  readonly items: readonly InstanceStatus[];
  /** Cursor of the next page: `listInstances({ …, cursor })`. `null` when there are no more instances. */
  readonly cursor: string | null;
}

/** Returns a check that a value is one of `words`, or a list of one or more of them. */
function someOf(...words: readonly string[]): (value: unknown, path: string) => void {
  const one = oneOf(...words);
  return (value, path) => {
    if (!isList(value)) return one(value, path);
    if (value.length === 0) throw new TypeError(`${path} must name at least one of ${words.join(', ')}`);
    for (const [i, item] of value.entries()) one(item, `${path}[${i}]`);
  };
}

function ids(value: unknown, path: string): void {
  listOfNames(value, path);
  const { length } = value as readonly string[];
  if (length === 0) throw new TypeError(`${path} must name at least one instance; leave it out for all`);
  if (length > IDS_MAX) throw new TypeError(`${path} must have at most ${IDS_MAX} ids, got ${length}`);
}

function tags(value: unknown, path: string): void {
  textsByName(value, path);
  for (const text of Object.entries(value as Record<string, string>).flat()) {
    if (!text.isWellFormed()) throw new TypeError(`${path} must not contain a lone surrogate`);
  }
}

/** Checks a cursor. It marks the end of a page by a time and the store's key of an instance. */
function cursor(value: unknown, path: string): void {
  if (typeof value === 'string' && /^-?\d{1,18}\.\d{1,18}$/.test(value)) return;
  throw new TypeError(`${path} must be the cursor of a page`);
}

const FILTER = {
  ids,
  name: named,
  version: named,
  tags,
  parentId: named,
  idPrefix: named,
  createdAfter: time,
  createdBefore: time,
  system: bool,
} satisfies OptionTable;

export const LIST_OPTIONS: OptionTable = {
  status: someOf(...STATES),
  ...FILTER,
  limit: whole(1),
  cursor,
  input: bool,
  signal: abortSignal,
};

export const PRUNE_OPTIONS: OptionTable = {
  status: someOf(...ENDED_STATES),
  ...FILTER,
  completedBefore: time,
  limit: whole(1),
  signal: abortSignal,
};

export const PRUNE_EXECUTIONS_OPTIONS: OptionTable = {
  status: someOf(...STATES),
  ...FILTER,
  completedBefore: time,
  keep: whole(1),
  signal: abortSignal,
};

/** Returns the filter as the addon takes it. The options must have been checked, and have `system`. */
export function storeFilter(
  options: ListOptions & Pick<PruneOptions, 'completedBefore'> & { readonly system: boolean },
): object {
  const {
    ids,
    status = [],
    name,
    version,
    tags,
    parentId,
    idPrefix,
    createdAfter,
    createdBefore,
    completedBefore,
    system,
  } = options;
  const at = (value: Date | string | undefined): number | undefined =>
    value === undefined ? undefined : timeOf(value, 'time');
  return {
    ids,
    statuses: typeof status === 'string' ? [status] : status,
    name,
    version,
    tags,
    parentId,
    idPrefix,
    createdAfter: at(createdAfter),
    createdBefore: at(createdBefore),
    completedBefore: at(completedBefore),
    hidesBuiltIn: !system,
  };
}

/** True if a list shows the instances of Perdure's own orchestrations. */
function showsBuiltIn({ system, ids, name }: InstanceFilter): boolean {
  return system ?? (ids !== undefined || (name !== undefined && isBuiltIn(name)));
}

/**
 * The instances that match, newest first. Each iteration reads anew, page by page. It skips instances that are started
 * meanwhile, and returns none twice.
 *
 * @example
 * ```ts
 * for await (const { id, error } of client.listInstances({ status: 'Failed' })) console.log(id, error?.message);
 * const { items, cursor } = await client.listInstances({ name: 'order', limit: 20 }).page();
 * ```
 */
export class InstanceList implements AsyncIterable<InstanceStatus> {
  readonly #port: StorePort;
  readonly #filter: object;
  readonly #cursor: string | null;
  readonly #limit: number | undefined;
  readonly #hasInputs: boolean;
  readonly #signal: AbortSignal | undefined;

  /** @internal */
  constructor(port: StorePort, options: ListOptions) {
    this.#port = port;
    this.#filter = storeFilter({ ...options, system: showsBuiltIn(options) });
    this.#cursor = options.cursor ?? null;
    this.#limit = options.limit;
    this.#hasInputs = options.input === true;
    this.#signal = options.signal;
  }

  /** Returns `limit` instances, or fewer if there are no more, and the cursor to go on from. */
  async page(): Promise<InstancePage> {
    const items: InstanceStatus[] = [];
    const limit = this.#limit ?? PAGE;
    for await (const page of this.#pages(limit)) {
      items.push(...page.items);
      if (page.cursor === null || items.length >= limit) return { items, cursor: page.cursor };
    }
    return { items, cursor: null };
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<InstanceStatus, void> {
    for await (const { items } of this.#pages(this.#limit ?? Infinity)) yield* items;
  }

  /** Iterates over pages as the store returns them, up to `limit` instances in all. */
  async *#pages(limit: number): AsyncGenerator<InstancePage, void> {
    let cursor = this.#cursor;
    for (let left = limit; left > 0; ) {
      const count = Math.min(left, READ_MAX);
      const request = { kind: 'list', filter: this.#filter, cursor, limit: count } as const;
      const reply = await this.#port.request(request, null, this.#signal);
      const page = JSON.parse(reply as string) as { items: StatusData[]; cursor: string | null };
      const items = page.items.map((data) => statusOf(data, this.#port.texts));
      yield { items: this.#hasInputs ? await withInputs(this.#port, items, this.#signal) : items, cursor: page.cursor };
      ({ cursor } = page);
      if (cursor === null) return;
      left -= page.items.length;
    }
  }
}
