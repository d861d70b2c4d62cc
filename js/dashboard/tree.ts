// The relatives of an instance: its ancestors and its descendants, up to a number of each.

import type { InstanceStatus } from '../client/instance-status.ts';
import type { InstanceTree } from '../client/tree.ts';
import type { Relative, Tree, TreeAnswer } from './answers.ts';
import type { Query } from './query.ts';
import type { RouteContext } from './route-context.ts';

/** Most ancestors of an answer. */
const ANCESTORS_MAX = 20;

/** Most instances of a tree, with the one at its top. */
const TREE_MAX = 200;

export async function tree({ client }: RouteContext, query: Query): Promise<TreeAnswer> {
  const id = query.only('id').id();
  const top = await client.tree(id, { limit: TREE_MAX });
  const ancestors: Relative[] = [];
  // An id that was used again may be above and below another.
  const seen = new Set([id]);
  let next = top.instance.parentId;
  while (next !== undefined && !seen.has(next) && ancestors.length < ANCESTORS_MAX) {
    seen.add(next);
    const status = await client.getStatus(next);
    if (status === null) return { ancestors, hasMoreAncestors: false, top: treeOf(top) };
    ancestors.push(relative(status));
    next = status.parentId;
  }
  return { ancestors, hasMoreAncestors: next !== undefined && !seen.has(next), top: treeOf(top) };
}

function treeOf({ instance, children, hasMore }: InstanceTree): Tree {
  return { instance: relative(instance), children: children.map(treeOf), hasMore };
}

function relative({ id, name, status, createdAt, completedAt }: InstanceStatus): Relative {
  return {
    id,
    name,
    status,
    createdAtMs: createdAt.getTime(),
    ...(completedAt === undefined ? {} : { completedAtMs: completedAt.getTime() }),
  };
}
