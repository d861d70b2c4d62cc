// A line: first come, first served, and any member may leave.

/** A place in a {@link Line}, for leaving it. */
export interface Place<T> {
  readonly item: T;
  before: Place<T> | null;
  after: Place<T> | null;
}

/**
 * First in, first out. Joining, leaving from anywhere and looking at the first member take the same short time at any
 * length.
 */
export class Line<T> {
  private head: Place<T> | null = null;
  private tail: Place<T> | null = null;
  private length = 0;

  get size(): number {
    return this.length;
  }

  get first(): Place<T> | null {
    return this.head;
  }

  join(item: T): Place<T> {
    const place: Place<T> = { item, before: this.tail, after: null };
    if (this.tail === null) this.head = place;
    else this.tail.after = place;
    this.tail = place;
    this.length += 1;
    return place;
  }

  /** Leaves the line. Call this once per place. */
  leave(place: Place<T>): void {
    const { before, after } = place;
    if (before === null) this.head = after;
    else before.after = after;
    if (after === null) this.tail = before;
    else after.before = before;
    place.before = null;
    place.after = null;
    this.length -= 1;
  }
}
