// Messages that a schema checks before the code gets them.

import { parseSync, type StandardSchema } from '../values/schema.ts';
import { currentFiber, enter, leave } from './current.ts';
import { FAILED, OK, PENDING } from './future.ts';
import { MailboxFuture } from './mailbox.ts';
import type { FiberScheduler } from './scheduler.ts';
import type { SourceMark } from './source.ts';
import type { Mailbox } from './waits.ts';

/**
 * The next message of a mailbox, with the value that a schema makes of it. A message that the schema refuses is
 * consumed all the same, and the wait fails with the `PayloadError`.
 */
export class CheckedEventFuture<T> extends MailboxFuture<T> {
  declare readonly scheduler: FiberScheduler;
  private readonly schema: StandardSchema;

  constructor(
    scheduler: FiberScheduler,
    mailbox: Mailbox,
    schema: StandardSchema,
    source: SourceMark | undefined,
    isPoll = false,
  ) {
    super(scheduler, mailbox, source, isPoll);
    this.schema = schema;
  }

  override deliverEmpty(): void {
    super.settle(OK, undefined);
  }

  override settle(state: typeof OK | typeof FAILED, value: unknown): void {
    if (state === FAILED || this.state !== PENDING) {
      super.settle(state, value);
      return;
    }
    let parsed: unknown;
    try {
      parsed = parseMessage(this.scheduler, this.mailbox, this.schema, value);
    } catch (error) {
      super.settle(FAILED, error);
      return;
    }
    super.settle(OK, parsed);
  }
}

/**
 * Returns a schema's output for a message at its delivery.
 *
 * The schema is user code that runs when no fiber runs. The schema runs as the main fiber, which takes the place of no
 * other fiber (S2), so that the determinism guard holds for it: its output for a message must be the same in a replay.
 *
 * @throws PayloadError when the schema refuses the message
 * @throws TypeError when the schema is asynchronous
 */
export function parseMessage(
  scheduler: FiberScheduler,
  { kind, name }: Mailbox,
  schema: StandardSchema,
  value: unknown,
): unknown {
  const where = `${kind} '${name}'`;
  if (currentFiber() !== null) return parseSync(schema, value, 'event', where);
  enter(scheduler.main);
  try {
    return parseSync(schema, value, 'event', where);
  } finally {
    leave();
  }
}
