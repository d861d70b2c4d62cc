// A doubly linked list: a queue from which any item may be removed.

/** An item of a {@link LinkedList}, by which it is removed. */
export interface ListNode<T> {
  readonly item: T;
  before: ListNode<T> | null;
  after: ListNode<T> | null;
}

/**
 * First in, first out. Appending, removing from anywhere and looking at the first item take the same short time at any
 * length.
 */
export class LinkedList<T> {
  private head: ListNode<T> | null = null;
  private tail: ListNode<T> | null = null;
  private length = 0;

  get size(): number {
    return this.length;
  }

  get first(): ListNode<T> | null {
    return this.head;
  }

  append(item: T): ListNode<T> {
    const node: ListNode<T> = { item, before: this.tail, after: null };
    if (this.tail === null) this.head = node;
    else this.tail.after = node;
    this.tail = node;
    this.length += 1;
    return node;
  }

  /** Removes a node. Call this once per node. */
  remove(node: ListNode<T>): void {
    const { before, after } = node;
    if (before === null) this.head = after;
    else before.after = after;
    if (after === null) this.tail = before;
    else after.before = before;
    node.before = null;
    node.after = null;
    this.length -= 1;
  }
}
