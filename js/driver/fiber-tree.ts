// Ownership: the fibers of an instance as a tree whose root is the main fiber.
//
// A fiber is owned by the fiber that ran when it was made. The list of the fibers that a fiber owns is in order of
// creation, except for those that it inherited. Joining and leaving take the same short time at any length of the list.

/** A place in the tree. */
export interface TreeNode<N> {
  /** `null` for the root, and for a node that has left the tree. */
  owner: N | null;
  firstOwned: N | null;
  lastOwned: N | null;
  /** The nodes before and after this one among the nodes of its owner. */
  before: N | null;
  after: N | null;
}

/** Adds a node that is in no tree to the tree of its owner. */
export function join<N extends TreeNode<N>>(node: N, owner: N): void {
  const last = owner.lastOwned;
  node.owner = owner;
  node.before = last;
  if (last === null) owner.firstOwned = node;
  else last.after = node;
  owner.lastOwned = node;
}

/** Takes a node out of its tree. The nodes that it owns pass to its owner. */
export function leave<N extends TreeNode<N>>(node: N): void {
  const { owner } = node;
  if (owner === null) return;
  for (let owned = node.firstOwned; owned !== null; owned = node.firstOwned) {
    unlink(owned, node);
    join(owned, owner);
  }
  unlink(node, owner);
}

function unlink<N extends TreeNode<N>>(node: N, owner: N): void {
  const { before, after } = node;
  if (before === null) owner.firstOwned = after;
  else before.after = after;
  if (after === null) owner.lastOwned = before;
  else after.before = before;
  node.owner = null;
  node.before = null;
  node.after = null;
}

/**
 * Returns a node and the nodes below it, in no order. A node for which `isLeftOut` returns true is left out, together
 * with all nodes below it.
 */
export function reach<N extends TreeNode<N>>(root: N, isLeftOut?: (node: N) => boolean): N[] {
  const reached = [root];
  // A loop, because the tree may be deeper than the stack. Each node that is found is visited in its turn.
  for (const node of reached) {
    for (let owned = node.firstOwned; owned !== null; owned = owned.after) {
      if (isLeftOut?.(owned) !== true) reached.push(owned);
    }
  }
  return reached;
}
