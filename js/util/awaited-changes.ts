// What has changed of a set since somebody was told last: to tell it costs what has changed, however large the set is.

/** What was added to a set and what was taken from it. What came and went in between is not told. */
export class AwaitedChanges<K> {
  private readonly more = new Set<K>();
  private readonly gone = new Set<K>();

  /** `key` was not in the set, and is now. */
  add(key: K): void {
    if (!this.gone.delete(key)) this.more.add(key);
  }

  /** `key` was in the set, and is not any more. */
  remove(key: K): void {
    if (!this.more.delete(key)) this.gone.add(key);
  }

  /** What was added, in that order; `null`: nothing. It is told once. */
  takeMore(): K[] | null {
    return taken(this.more);
  }

  /** What was taken away, in that order; `null`: nothing. It is told once. */
  takeGone(): K[] | null {
    return taken(this.gone);
  }
}

function taken<K>(keys: Set<K>): K[] | null {
  if (keys.size === 0) return null;
  const list = Array.from(keys);
  keys.clear();
  return list;
}
