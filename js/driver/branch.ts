// The types of branches, and of what combinators make of them.

import type { Future } from './future.ts';

/** A branch of a combinator: a future of any kind, or the result of calling a `function*`, which becomes a fiber. */
export type Branch = Future<any> | Generator<Future<any>, any, any>;

/** The value of a branch. */
export type BranchValue<B> = B extends Generator<any, infer R, any> ? R : B extends Future<infer T> ? T : never;

/** The values of a list of branches, in its order. */
export type BranchValues<B extends readonly Branch[]> = { -readonly [K in keyof B]: BranchValue<B[K]> };

/** The outcomes of a list of branches, in its order. */
export type BranchOutcomes<B extends readonly Branch[]> = {
  -readonly [K in keyof B]: PromiseSettledResult<BranchValue<B[K]>>;
};

/**
 * The result of `race`: the position of the branch that settled first, and its value. Check `index` to narrow `value`.
 */
export type RaceResult<B extends readonly Branch[]> = number extends B['length']
  ? { index: number; value: BranchValue<B[number]> }
  : { [K in keyof B]: { index: K extends `${infer N extends number}` ? N : number; value: BranchValue<B[K]> } }[number];

/** The result of `select`: the tag of the branch that settled first, and its value. Check `tag` to narrow `value`. */
export type SelectResult<B extends Readonly<Record<string, Branch>>> = {
  [K in keyof B]: { tag: K; value: BranchValue<B[K]> };
}[keyof B];

/** The result of `raceSettled`: the position of the branch that settled first, and its outcome. */
export type SettledRaceResult<B extends readonly Branch[]> = number extends B['length']
  ? { index: number } & PromiseSettledResult<BranchValue<B[number]>>
  : {
      [K in keyof B]: { index: K extends `${infer N extends number}` ? N : number } & PromiseSettledResult<
        BranchValue<B[K]>
      >;
    }[number];

/** The result of `selectSettled`: the tag of the branch that settled first, and its outcome. */
export type SettledSelectResult<B extends Readonly<Record<string, Branch>>> = {
  [K in keyof B]: { tag: K } & PromiseSettledResult<BranchValue<B[K]>>;
}[keyof B];

/** Last argument of `all`, `any`, `race`, `select`, `raceSettled` and `selectSettled`. */
export interface CombineOptions {
  /**
   * Cancels the branches that are still pending once the outcome is decided. The combinator then settles when they have
   * cleaned up. Default false: they go on. The outcome is decided when a fiber waits for the combinator. `'blocks'`
   * cancels only the branches that were given as a block of steps, for which no other code can wait. Futures go on, so
   * that the next round of a loop can wait for them again.
   */
  cancelLosers?: boolean | 'blocks';
  /**
   * With `cancelLosers`: no activity and no child is cut off. A loser that is an activity or a child goes on to its
   * end. A loser that is a block of steps goes on to the end of the activity or child that it waits for, gets its
   * result, and is cancelled at its next wait. The combinator settles when all of that has ended. So code after the
   * combinator, such as the compensation of a saga, runs beside none of it. Default false: an activity that runs is
   * told by its `signal` and is not awaited.
   */
  awaitLosers?: boolean;
}
