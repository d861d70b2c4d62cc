// Mailboxes: events of a name and FIFO queues.
//
// Waiting for a message is no command and leaves no trace. When all fibers wait, the engine is told which mailboxes are
// awaited, and takes a message only from those. A wait without a waiting fiber, or one that lost a race, consumes
// nothing.

import { CancelledError } from '../errors/errors.ts';
import { AwaitedChanges } from '../util/awaited-changes.ts';
import { Line, type Place } from '../util/line.ts';
import { currentFiber } from './current.ts';
import { BaseFuture, FAILED } from './future.ts';
import type { FiberScheduler } from './scheduler.ts';

/** The next message of one mailbox. */
export class MailboxFuture<T> extends BaseFuture<T> {
  /** `'e' + name` for events, `'q' + name` for a queue. */
  readonly mailbox: string;
  /** The id of the fiber that asked for it; 0 is the main fiber. */
  readonly fiber = currentFiber()?.id ?? 0;
  /** The future's place among those that wait for the mailbox, while it does. */
  place: Place<MailboxFuture<unknown>> | null = null;

  constructor(scheduler: FiberScheduler, mailbox: string) {
    super(scheduler);
    this.mailbox = mailbox;
  }

  /** Settles the future with a message. */
  deliver(payload: string | null): void {
    this.settleStored(payload, 'event');
  }

  override abandon(reason: string | undefined): void {
    this.settle(FAILED, new CancelledError(reason));
  }

  override describe(): string {
    return `${this.mailbox[0] === 'e' ? 'event' : 'a message of queue'} '${this.mailbox.slice(1)}'`;
  }

  protected override onAwaited(): void {
    this.scheduler.mailboxes.add(this);
  }

  protected override onForgotten(): void {
    this.scheduler.mailboxes.remove(this);
  }
}

/** The awaited mailboxes, and the futures that wait for each, the longest waiting first. */
export class AwaitedMailboxes {
  /** The changes to the names of awaited mailboxes since the engine was last told. */
  readonly changes = new AwaitedChanges<string>();
  private readonly awaited = new Map<string, Line<MailboxFuture<unknown>>>();

  get isEmpty(): boolean {
    return this.awaited.size === 0;
  }

  add(future: MailboxFuture<unknown>): void {
    const { mailbox } = future;
    let futures = this.awaited.get(mailbox);
    if (futures === undefined) {
      futures = new Line();
      this.awaited.set(mailbox, futures);
      this.changes.add(mailbox);
    }
    future.place = futures.join(future);
  }

  remove(future: MailboxFuture<unknown>): void {
    const { mailbox, place } = future;
    const futures = this.awaited.get(mailbox);
    if (futures === undefined || place === null) return;
    future.place = null;
    futures.leave(place);
    if (futures.size > 0) return;
    this.awaited.delete(mailbox);
    this.changes.remove(mailbox);
  }

  /** Returns the future that gets the next message of `mailbox`. */
  first(mailbox: string): MailboxFuture<unknown> | undefined {
    return this.awaited.get(mailbox)?.first?.item;
  }
}
