// Who owns whom: the fibers of an instance as a tree, whose root is the main fiber.
//
// A fiber is owned by the one that ran when it was made. The list of what a fiber owns is in order of creation but for
// those that it inherited. To join and to leave take the same short time at any length.

/** A place in the tree. */
export interface TreeNode<N> {
  /** `null` for the root, and for what has left. */
  owner: N | null;
  firstOwned: N | null;
  lastOwned: N | null;
  /** The one before it and the one behind it among those of its owner. */
  before: N | null;
  after: N | null;
}

/** A node that is in no tree joins that of its owner. */
export function join<N extends TreeNode<N>>(node: N, owner: N): void {
  const last = owner.lastOwned;
  node.owner = owner;
  node.before = last;
  if (last === null) owner.firstOwned = node;
  else last.after = node;
  owner.lastOwned = node;
}

/** A node leaves its tree. What it owns is its owner's from then on. */
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

/** A node and all below it that it reaches, in no order. `isLeftOut` says of a node that neither it nor what is below it counts. */
export function reach<N extends TreeNode<N>>(root: N, isLeftOut?: (node: N) => boolean): N[] {
  const reached = [root];
  // A loop, because the tree may be deeper than the stack. What is found is looked at in its turn.
  for (const node of reached) {
    for (let owned = node.firstOwned; owned !== null; owned = owned.after) {
      if (isLeftOut?.(owned) !== true) reached.push(owned);
    }
  }
  return reached;
}
