// Futures that the code asked for and has never waited for: in most cases `yield*` was forgotten.
//
// Invariants:
//
//   W1. An activity, a child, a timer or a wait for a message is reported if it is not used (future.ts, U3) at the end
//       of its execution. Starts and messages to other instances go out without a wait, so they are not reported.
//   W2. A future is reported only if its fiber has returned, and was not thrown an error since it asked for the future:
//       the error may have led the code past its `yield*`.
//   W3. Activities and children are work, which is given up or whose result is lost. A timer or a wait for a message
//       may be a deadline that was not needed, so it is reported only if its line is known: in development.
//   W4. Open operations are found in the scheduler. Other futures are kept here until they are used, at most KEPT_MAX.

import { OK, type State } from './future.ts';
import type { SourceMark } from './source.ts';

/** The number of futures that are kept. Further ones are not reported. */
const KEPT_MAX = 100;

/** A future that the code asked for. */
export interface AskedFor {
  /** The place among the futures that the code of the execution asked for, from 1. */
  readonly place: number;
  /** The fiber that asked for it. */
  readonly fiber: { readonly state: State; readonly thrownAfter: number } | null;
  readonly source?: SourceMark | undefined;
  /** True for an activity and a child. */
  readonly isWork: boolean;
  describe(): string;
}

/** An operation that the engine has not settled. */
interface OpenOperation extends AskedFor {
  readonly isUsed: boolean;
  readonly isReported: boolean;
}

export class Unawaited {
  /** The place of the last future that the code asked for. */
  last = 0;
  private readonly kept = new Map<number, AskedFor>();

  nextPlace(): number {
    this.last += 1;
    return this.last;
  }

  /** Keeps a future that is not used and is no open operation. */
  keep(future: AskedFor): void {
    if (this.kept.size < KEPT_MAX) this.kept.set(future.place, future);
  }

  /** Keeps a note of an operation that has settled, without its value. */
  keepNote(future: AskedFor): void {
    const { place, fiber, source, isWork } = future;
    const what = future.describe();
    this.keep({ place, fiber, source, isWork, describe: () => what });
  }

  /** Forgets a future that is used now. */
  forget(place: number): void {
    this.kept.delete(place);
  }

  /** Returns the futures to report at the end of an execution, in the order in which the code asked for them. */
  find(open: Iterable<OpenOperation>): AskedFor[] {
    const unused = [...this.kept.values()];
    for (const operation of open) if (!operation.isUsed && operation.isReported) unused.push(operation);
    return unused
      .filter(({ isWork, source }) => isWork || source !== undefined)
      .filter(({ place, fiber }) => fiber === null || (fiber.state === OK && place > fiber.thrownAfter))
      .sort((a, b) => a.place - b.place);
  }
}
