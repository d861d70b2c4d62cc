// Events that a schema checks before code gets them.

import { parseSync, type StandardSchema } from '../values/schema.ts';
import { currentFiber, enter, leave } from './current.ts';
import { FAILED, OK, PENDING } from './future.ts';
import { MailboxFuture } from './mailbox.ts';
import type { FiberScheduler } from './scheduler.ts';

/**
 * The next message of a mailbox, as a schema makes it of what was sent. One that it refuses is consumed all the same,
 * and the wait fails with the `PayloadError`.
 */
export class CheckedEventFuture<T> extends MailboxFuture<T> {
  private readonly schema: StandardSchema;
  private readonly what: string;

  /** @param what - names the mailbox, for the error */
  constructor(scheduler: FiberScheduler, mailbox: string, schema: StandardSchema, what: string) {
    super(scheduler, mailbox);
    this.schema = schema;
    this.what = what;
  }

  override settle(state: typeof OK | typeof FAILED, value: unknown): void {
    if (state === FAILED || this.state !== PENDING) {
      super.settle(state, value);
      return;
    }
    let parsed: unknown;
    try {
      parsed = this.parse(value);
    } catch (error) {
      super.settle(FAILED, error);
      return;
    }
    super.settle(OK, parsed);
  }

  /**
   * The schema is user code that runs at a delivery, where no fiber runs. It runs as the main fiber, which takes nothing
   * from anybody (S2), so that the determinism guard holds for it: what it makes of an event must be the same in a replay.
   */
  private parse(value: unknown): unknown {
    if (currentFiber() !== null) return parseSync(this.schema, value, 'event', this.what);
    enter(this.scheduler.main);
    try {
      return parseSync(this.schema, value, 'event', this.what);
    } finally {
      leave();
    }
  }
}
