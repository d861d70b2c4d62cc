// Random numbers that a seed decides.

import { seeded } from '../support/worker-parts.mjs';

export class Dice {
  readonly #next: () => number;

  /** Consecutive seeds give independent streams, and so do the stream numbers of one seed. */
  constructor(seed: number, stream = 0) {
    this.#next = seeded(Math.imul(seed, 0x9e37_79b1) ^ Math.imul(stream + 1, 0x85eb_ca6b));
  }

  /** Returns a whole number from `least` to `most`, both included. */
  between(least: number, most: number): number {
    return least + Math.floor(this.#next() * (most - least + 1));
  }

  /** Returns true in one of `many` cases, on average. */
  oneIn(many: number): boolean {
    return this.between(1, many) === 1;
  }

  pick<T>(list: readonly T[]): T {
    const picked = list[this.between(0, list.length - 1)];
    if (picked === undefined) throw new Error('there is nothing to pick from');
    return picked;
  }

  shuffled<T>(list: readonly T[]): T[] {
    const rest = [...list];
    return list.map(() => rest.splice(this.between(0, rest.length - 1), 1)[0] as T);
  }

  /** Makes `count` elements, each with a call of its own. */
  times<T>(count: number, make: (i: number) => T): T[] {
    return Array.from({ length: count }, (_, i) => make(i));
  }
}
