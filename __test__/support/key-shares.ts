// The shares of the keys of a queue with `fairness: 'key'`, by the order in which its instances begin.

/** An instance of a key. */
export interface Keyed {
  readonly id: string;
  readonly key: string;
}

/** The most by which the share of a key may differ from an equal one. */
const UNFAIR_MIN = 0.2;

/** Returns 1 000 instances of 10 keys with 55 to 145 each. All of the key with the most come first, then the next. */
export function loadOfKeys(): Keyed[] {
  return Array.from({ length: 10 }, (_, n) => 9 - n).flatMap((n) =>
    Array.from({ length: 55 + 10 * n }, (_, i) => ({ id: `key ${n}/${i}`, key: `key ${n}` })),
  );
}

/**
 * Returns the keys whose share is not within 20 % of an equal one, of those that began before the first key had nothing
 * left in line.
 */
export function unfairShares(begun: readonly string[], load: readonly Keyed[]): string[] {
  const keys = new Map(load.map(({ id, key }) => [id, key]));
  const left = new Map<string, number>();
  for (const { key } of load) left.set(key, (left.get(key) ?? 0) + 1);
  const shares = new Map([...left.keys()].map((key) => [key, 0]));
  let count = 0;
  for (const id of begun) {
    const key = keys.get(id) as string;
    shares.set(key, (shares.get(key) ?? 0) + 1);
    left.set(key, (left.get(key) ?? 0) - 1);
    count += 1;
    if (left.get(key) === 0) break;
  }
  const equal = count / shares.size;
  return [...shares].flatMap(([key, share]) =>
    Math.abs(share - equal) > UNFAIR_MIN * equal ? [`${share} of ${count} began of '${key}'`] : [],
  );
}
