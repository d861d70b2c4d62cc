// Chance that a seed decides.

import { seeded } from '../crash/random.ts';

export class Dice {
  readonly #next: () => number;

  /** Seeds in a row give streams that have nothing to do with each other, and so do the numbers of one seed. */
  constructor(seed: number, stream = 0) {
    this.#next = seeded(Math.imul(seed, 0x9e37_79b1) ^ Math.imul(stream + 1, 0x85eb_ca6b));
  }

  /** A whole number from `least` to `most`, both included. */
  between(least: number, most: number): number {
    return least + Math.floor(this.#next() * (most - least + 1));
  }

  /** True in one of so many. */
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

  /** So many, each made anew. */
  times<T>(count: number, make: (i: number) => T): T[] {
    return Array.from({ length: count }, (_, i) => make(i));
  }
}
