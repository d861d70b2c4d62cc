// The end of fibers as a future: of those that were told to cancel, before the error of their parent goes on, and of
// those that the end of an execution waits for.

import { CancelledError } from '../errors/errors.ts';
import { BaseFuture, FAILED, OK, type Waiter } from './future.ts';

/** The number of fibers that a message names. */
const FIBERS_SHOWN = 3;

/** Settles when all of its fibers have settled, at the place of the last one. Cannot be cancelled. */
export class Cleanup extends BaseFuture<void> implements Waiter {
  /** Woken before all of its waiters. */
  readonly wakeRank = 1;
  private readonly fibers: readonly BaseFuture<unknown>[];
  private readonly what: 'cleanup' | 'end';
  private remaining: number;

  /**
   * @param fibers - pending fibers, at least one, each listed once
   * @param what - the name of it for people
   */
  constructor(fibers: readonly [BaseFuture<unknown>, ...BaseFuture<unknown>[]], what: 'cleanup' | 'end' = 'cleanup') {
    super(fibers[0].scheduler);
    this.fibers = fibers;
    this.what = what;
    this.remaining = fibers.length;
    for (const fiber of fibers) fiber.subscribe(this);
  }

  wake(source: BaseFuture<unknown>): void {
    this.remaining -= 1;
    if (this.remaining === 0) this.settleAt(OK, undefined, source.order);
  }

  override abandon(): void {}

  /** The errors of the fibers that failed, except for cancellations. */
  get failures(): unknown[] {
    return this.fibers
      .filter(({ state, value }) => state === FAILED && !(value instanceof CancelledError))
      .map(({ value }) => value);
  }

  /**
   * Returns the error for a waiter: `error`. A `CancelledError` gets the failures of the cleanup as its cause, if there
   * are any.
   */
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
    return `the ${this.what} of ${shown.join(', ')}`;
  }
}
