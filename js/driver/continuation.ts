// continueAsNew: the end of an execution, from which the next one of the same instance goes on.
//
// The scheduler keeps the request. The request takes effect when the main fiber ends in any way but with an error.
// Waiting for the future ends the execution: the main fiber leaves its function, through its `finally` blocks.

import { CancelledError } from '../errors/errors.ts';
import { BaseFuture, FAILED, type SchedulerForFutures } from './future.ts';

/** The part of the scheduler that a continuation uses. */
export interface SchedulerForContinuations extends SchedulerForFutures {
  readonly main: { leave(): void };
  continuation: Continuation | null;
}

/** The next execution, which this one never sees. */
export class Continuation extends BaseFuture<never> {
  declare readonly scheduler: SchedulerForContinuations;
  /** Codec text. */
  readonly input: string | null;
  /** `null` for the version of this execution. */
  readonly version: string | null;

  constructor(scheduler: SchedulerForContinuations, input: string | null, version: string | null) {
    super(scheduler);
    this.input = input;
    this.version = version;
    scheduler.continuation = this;
  }

  override abandon(reason: string | undefined): void {
    if (this.scheduler.continuation === this) this.scheduler.continuation = null;
    this.settle(FAILED, new CancelledError(reason));
  }

  override describe(): string {
    return 'the next execution';
  }

  protected override onAwaited(): void {
    this.scheduler.main.leave();
  }
}
