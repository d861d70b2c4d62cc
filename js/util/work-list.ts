// A list of work in place of recursion.

interface Entry<T> {
  readonly item: T;
  readonly rank: number;
  /** The number of entries that were added before it. */
  readonly place: number;
}

/**
 * Work that makes more of its kind. The first caller of `run` does all of it, one by one: lower ranks first, then in
 * the order in which it was added. A call from within leaves the work to that first caller.
 */
export class WorkList<T> {
  /** A heap: entry n comes before entries 2n + 1 and 2n + 2. */
  private readonly heap: Entry<T>[] = [];
  private added = 0;
  private isRunning = false;
  private readonly work: (item: T) => void;

  constructor(work: (item: T) => void) {
    this.work = work;
  }

  add(item: T, rank = 0): void {
    const { heap } = this;
    const entry = { item, rank, place: this.added };
    this.added += 1;
    let at = heap.length;
    heap.push(entry);
    while (at > 0) {
      const above = (at - 1) >> 1;
      const other = heap[above] as Entry<T>;
      if (comesBefore(other, entry)) break;
      heap[at] = other;
      at = above;
    }
    heap[at] = entry;
  }

  run(): void {
    if (!this.isRunning && this.heap.length > 0) this.runFrom(this.take());
  }

  /** Calls `add` and `run`. Most often there is no other work, and nothing has to be put into an order. */
  do(item: T, rank = 0): void {
    if (!this.isRunning && this.heap.length === 0) {
      this.runFrom(item);
      return;
    }
    this.add(item, rank);
    this.run();
  }

  private runFrom(first: T): void {
    const { heap } = this;
    this.isRunning = true;
    try {
      this.work(first);
      while (heap.length > 0) this.work(this.take());
    } finally {
      // Entries are left only after a throw.
      if (heap.length > 0) heap.length = 0;
      this.added = 0;
      this.isRunning = false;
    }
  }

  private take(): T {
    const { heap } = this;
    const { item } = heap[0] as Entry<T>;
    const last = heap.pop() as Entry<T>;
    const { length } = heap;
    if (length === 0) return item;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= length) break;
      if (below + 1 < length && comesBefore(heap[below + 1] as Entry<T>, heap[below] as Entry<T>)) below += 1;
      const other = heap[below] as Entry<T>;
      if (comesBefore(last, other)) break;
      heap[at] = other;
      at = below;
    }
    heap[at] = last;
    return item;
  }
}

function comesBefore<T>(one: Entry<T>, other: Entry<T>): boolean {
  return one.rank === other.rank ? one.place < other.place : one.rank < other.rank;
}
