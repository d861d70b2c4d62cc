// The end of fibers that were told to cancel, as a future: what a parent waits for before its own error goes on.

import { CancelledError } from '../errors/errors.ts';
import { BaseFuture, FAILED, OK, type Waiter } from './future.ts';

/** So many fibers are named in a message. */
const FIBERS_SHOWN = 3;

/** Settles when all of its fibers have, at the place of the last one. Nothing cancels it. */
export class Cleanup extends BaseFuture<void> implements Waiter {
  /** Before all that waits for it. */
  readonly wakeRank = 1;
  private readonly fibers: readonly BaseFuture<unknown>[];
  private remaining: number;

  /** @param fibers - pending ones, at least one, each once */
  constructor(fibers: readonly [BaseFuture<unknown>, ...BaseFuture<unknown>[]]) {
    super(fibers[0].scheduler);
    this.fibers = fibers;
    this.remaining = fibers.length;
    for (const fiber of fibers) fiber.subscribe(this);
  }

  wake(source: BaseFuture<unknown>): void {
    this.remaining -= 1;
    if (this.remaining === 0) this.settleAt(OK, undefined, source.order);
  }

  override abandon(): void {}

  /** What fibers failed with, besides that they were cancelled. */
  get failures(): unknown[] {
    return this.fibers
      .filter(({ state, value }) => state === FAILED && !(value instanceof CancelledError))
      .map(({ value }) => value);
  }

  /** The error for whoever waited: `error`, and where a cleanup failed, its failure as the cause. */
  errorFor(error: Error): Error {
    if (!(error instanceof CancelledError)) return error;
    const { failures } = this;
    if (failures.length === 0) return error;
    const cause =
      failures.length === 1 ? failures[0] : new AggregateError(failures, `${failures.length} cleanups failed`);
    return new CancelledError(error.reason, { cause });
  }

  override describe(): string {
    const shown = this.fibers.slice(0, FIBERS_SHOWN).map((fiber) => fiber.describe());
    if (this.fibers.length > FIBERS_SHOWN) shown.push(`${this.fibers.length - FIBERS_SHOWN} more`);
    return `the cleanup of ${shown.join(', ')}`;
  }
}
