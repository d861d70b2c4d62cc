// An instance and its descendants: read as a tree, and deleted together.

import { InstanceNotFoundError, LimitError } from '../errors/errors.ts';
import type { StorePort } from '../store/providers.ts';
import { abortSignal } from '../util/abort.ts';
import { bool, type OptionTable, whole } from '../util/options.ts';
import { fromNative } from '../values/error-data.ts';
import { hasEnded, type InstanceStatus, type StatusData, statusOf } from './instance-status.ts';
import { InstanceList, storeFilter } from './listing.ts';

/** Instances of a tree without `limit`. */
const INSTANCES = 1_000;
/** The most instances of a tree. */
const INSTANCES_MAX = 10_000;
/** Levels of a tree without `depth`. */
const DEPTH = 10;
/** The most levels of a tree. */
const DEPTH_MAX = 100;
/** Instances whose children are read at the same time. */
const READS = 8;
/** The most instances that one call deletes with an instance. */
const DESCENDANTS_MAX = 100_000;
/** Descendants that one request deletes. */
const DELETE_BATCH = 1_000;

/** An instance with its children and theirs. */
export interface InstanceTree {
  readonly instance: InstanceStatus;
  /** Its children, in the order in which they were started. */
  readonly children: readonly InstanceTree[];
  /** True if it has more children: the limit or the depth of the tree left them out. */
  readonly hasMore: boolean;
}

/** Options of {@link Client.tree}. */
export interface TreeOptions {
  /** Most levels below the instance: 0 to 100. Default: 10. */
  depth?: number;
  /** Most instances in all, the upper levels first: 1 to 10 000. Default: 1 000. */
  limit?: number;
  /** When aborted, ends the reading at once: the call rejects with the signal's reason. Default: none. */
  signal?: AbortSignal;
}

export const TREE_OPTIONS: OptionTable = {
  depth: whole(0, DEPTH_MAX),
  limit: whole(1, INSTANCES_MAX),
  signal: abortSignal,
};

/** Options of {@link Client.deleteInstance}. */
export interface DeleteOptions {
  /** True: also all descendants of the instance, at most 100 000. Default: false, they stay. */
  descendants?: boolean;
  /**
   * When aborted, ends the call at once: it rejects with the signal's reason. At most the batch of 1 000 instances that
   * is under way is still deleted. The lowest are deleted first, so the call can be repeated. Default: none.
   */
  signal?: AbortSignal;
}

export const DELETE_OPTIONS: OptionTable = { descendants: bool, signal: abortSignal };

interface GrowingTree extends InstanceTree {
  readonly children: GrowingTree[];
  hasMore: boolean;
}

export async function readTree(port: StorePort, id: string, options: TreeOptions): Promise<InstanceTree> {
  const { depth = DEPTH, limit = INSTANCES, signal } = options;
  const top = treeOf(await readStatus(port, id, signal));
  const seen = new Set([id]);
  let level = [top];
  for (let below = depth; level.length > 0; below -= 1) {
    const next: GrowingTree[] = [];
    for (const parents of groups(level, READS)) {
      const most = below === 0 ? 0 : limit - seen.size;
      const pages = await Promise.all(parents.map(({ instance }) => newestChildren(port, instance.id, most, signal)));
      for (const [at, parent] of parents.entries()) {
        const { items, hasMore } = pages[at] as (typeof pages)[number];
        // An id that was used again may be above and below another.
        const unseen = items.filter((child) => !seen.has(child.id));
        const taken = unseen.slice(0, below === 0 ? 0 : limit - seen.size);
        for (const child of taken) seen.add(child.id);
        parent.hasMore = hasMore || taken.length < unseen.length;
        parent.children.push(...taken.reverse().map(treeOf));
        next.push(...parent.children);
      }
    }
    level = next;
  }
  return top;
}

function treeOf(instance: InstanceStatus): GrowingTree {
  return { instance, children: [], hasMore: false };
}

/** Returns up to `most` children, the newest first. */
async function newestChildren(
  port: StorePort,
  parentId: string,
  most: number,
  signal: AbortSignal | undefined,
): Promise<{ items: readonly InstanceStatus[]; hasMore: boolean }> {
  const options = { parentId, system: true, limit: Math.max(most, 1), ...(signal === undefined ? {} : { signal }) };
  const { items, cursor } = await new InstanceList(port, options).page();
  return most > 0 ? { items, hasMore: cursor !== null } : { items: [], hasMore: items.length > 0 };
}

/**
 * Deletes an instance and all its descendants. An instance that has ended starts no more children, so none is missed.
 * The lowest are deleted first: a call that fails on the way can be repeated.
 *
 * @returns the number of deleted instances
 */
export async function deleteTree(port: StorePort, id: string, signal: AbortSignal | undefined): Promise<number> {
  const top = await readStatus(port, id, signal);
  checkEnded(top, id);
  const ids = new Set([id]);
  let level = [id];
  while (level.length > 0) {
    const next: string[] = [];
    for (const parents of groups(level, READS)) {
      await Promise.all(
        parents.map(async (parentId) => {
          const options = { parentId, system: true, ...(signal === undefined ? {} : { signal }) };
          for await (const child of new InstanceList(port, options)) {
            checkEnded(child, id);
            if (ids.has(child.id)) continue;
            if (ids.size > DESCENDANTS_MAX) throw tooMany(id);
            ids.add(child.id);
            next.push(child.id);
          }
        }),
      );
    }
    level = next;
  }
  let deleted = 0;
  for (const batch of groups([...ids].slice(1).reverse(), DELETE_BATCH)) {
    const request = { kind: 'prune', filter: storeFilter({ ids: batch, system: true }), limit: null } as const;
    const reply = await port.request(request, null, signal);
    deleted += Number(reply);
  }
  await port.request({ kind: 'delete', id }, null, signal);
  return deleted + 1;
}

function checkEnded({ id, status }: InstanceStatus, top: string): void {
  if (hasEnded(status)) return;
  const whose = id === top ? '' : `, a descendant of '${top}',`;
  throw fromNative({
    code: 'RUNTIME_STATE',
    message: `instance '${id}'${whose} is ${status}, and nothing was deleted. Cancel or terminate it first`,
    details: { instanceId: id, status },
  });
}

function tooMany(id: string): LimitError {
  return new LimitError(
    `instance '${id}' has more than ${DESCENDANTS_MAX} descendants; nothing was deleted. Prune its children first: ` +
      'client.prune({ parentId })',
    { limit: 'descendants', max: DESCENDANTS_MAX },
  );
}

async function readStatus(port: StorePort, id: string, signal: AbortSignal | undefined): Promise<InstanceStatus> {
  const reply = await port.request({ kind: 'status', id }, null, signal);
  const data = JSON.parse(reply ?? 'null') as StatusData | null;
  if (data === null) throw new InstanceNotFoundError(`there is no instance '${id}'`, { instanceId: id });
  return statusOf(data, port.texts);
}

function* groups<T>(items: readonly T[], size: number): Generator<readonly T[]> {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size);
}
