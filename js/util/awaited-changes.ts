// The changes of a set since they were last told. Telling costs time by the number of changes, however large the set
// is.

/** The keys added to a set and the keys taken from it. A key that came and went in between is not told. */
export class AwaitedChanges<K> {
  private readonly more = new Set<K>();
  private readonly gone = new Set<K>();

  /** True if there is nothing to tell. */
  get isEmpty(): boolean {
    return this.more.size === 0 && this.gone.size === 0;
  }

  /** Records that `key`, which was not in the set, is in it now. */
  add(key: K): void {
    if (!this.gone.delete(key)) this.more.add(key);
  }

  /** Records that `key`, which was in the set, is not in it any more. */
  remove(key: K): void {
    if (!this.more.delete(key)) this.gone.add(key);
  }

  /** Returns the keys that were added, in that order; `null` if there are none. Each addition is told once. */
  takeMore(): K[] | null {
    return taken(this.more);
  }

  /** Returns the keys that were taken away, in that order; `null` if there are none. Each removal is told once. */
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
