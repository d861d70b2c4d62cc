// A list of work in place of recursion.

/**
 * Work that makes more of its kind. Whoever calls `run` first does all of it, one by one: lower ranks first, then in the
 * order in which it was added; a call from within leaves it to that one.
 */
export class WorkList<T> {
  private readonly items: { readonly item: T; readonly rank: number }[] = [];
  private isRunning = false;
  private readonly work: (item: T) => void;

  constructor(work: (item: T) => void) {
    this.work = work;
  }

  add(item: T, rank = 0): void {
    const { items } = this;
    let at = items.length;
    while (at > 0 && (items[at - 1]?.rank ?? 0) > rank) at -= 1;
    if (at === items.length) items.push({ item, rank });
    else items.splice(at, 0, { item, rank });
  }

  run(): void {
    if (this.isRunning) return;
    const { items } = this;
    this.isRunning = true;
    try {
      for (let next = items.shift(); next !== undefined; next = items.shift()) this.work(next.item);
    } finally {
      // Only after a throw is something left.
      if (items.length > 0) items.length = 0;
      this.isRunning = false;
    }
  }
}
