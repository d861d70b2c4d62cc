// Waits for several messages of a queue: those that are there, or those that come within a time.

import type { StandardSchema } from '../values/schema.ts';
import { parseMessage } from './checked-event.ts';
import { FAILED, OK, PENDING, type Waiter } from './future.ts';
import { MailboxFuture } from './mailbox.ts';
import type { TimerFuture } from './operation.ts';
import type { FiberScheduler } from './scheduler.ts';
import type { SourceMark } from './source.ts';
import type { Mailbox } from './waits.ts';

/** A queue to take messages from. */
interface GatheredQueue extends Mailbox {
  readonly schema: StandardSchema | undefined;
}

/**
 * The messages that a queue holds, up to a number. Settles when it has that many, or the queue is empty. Fails with the
 * first message that the schema of the queue refuses.
 */
export class DrainFuture<T> extends MailboxFuture<T[]> {
  declare readonly scheduler: FiberScheduler;
  protected readonly messages: T[] = [];
  private readonly max: number;
  private readonly schema: StandardSchema | undefined;

  constructor(
    scheduler: FiberScheduler,
    queue: GatheredQueue,
    max: number,
    source: SourceMark | undefined,
    isPoll = true,
  ) {
    super(scheduler, queue, source, isPoll);
    this.max = max;
    this.schema = queue.schema;
  }

  override deliver(payload: string | null): void {
    const { schema } = this;
    try {
      const value = this.scheduler.read(payload, 'event');
      this.messages.push(
        (schema === undefined ? value : parseMessage(this.scheduler, this.mailbox, schema, value)) as T,
      );
    } catch (error) {
      this.settle(FAILED, error);
      return;
    }
    if (this.messages.length >= this.max) this.settle(OK, this.messages);
  }

  override deliverEmpty(): void {
    this.settle(OK, this.messages);
  }

  override describe(): string {
    return `messages of queue '${this.mailbox.name}'`;
  }
}

/** Messages of a queue, up to a number. Settles when it has that many, or when its timer fires. */
export class BatchFuture<T> extends DrainFuture<T> implements Waiter {
  readonly wakeRank = 1;
  private readonly timer: TimerFuture;

  constructor(
    scheduler: FiberScheduler,
    queue: GatheredQueue,
    max: number,
    source: SourceMark | undefined,
    timer: TimerFuture,
  ) {
    super(scheduler, queue, max, source, false);
    this.timer = timer;
    timer.use();
  }

  wake(): void {
    this.settle(OK, this.messages);
  }

  override settle(state: typeof OK | typeof FAILED, value: unknown): void {
    super.settle(state, value);
    if (this.timer.state === PENDING) this.scheduler.cancel(this.timer, 'the batch is complete');
  }

  protected override onAwaited(): void {
    super.onAwaited();
    if (this.timer.state === PENDING) this.timer.subscribe(this);
  }

  protected override onForgotten(): void {
    super.onForgotten();
    if (this.timer.state === PENDING) this.timer.unsubscribe(this);
  }
}
