// Mailboxes: events of a name and FIFO queues.
//
// To wait for a message is no command and leaves no trace. The engine is told which mailboxes are waited for when all
// fibers wait, and takes a message only from those: a wait that nobody looks at, or that lost a race, eats nothing.

import { currentFiber } from './current.ts';
import { CancelledError } from './errors.ts';
import { BaseFuture, FAILED } from './future.ts';
import type { FiberScheduler } from './scheduler.ts';

/** The next message of one mailbox. */
export class MailboxFuture<T> extends BaseFuture<T> {
  /** `'e' + name` for events, `'q' + name` for a queue. */
  readonly mailbox: string;
  /** Which fiber asked for it. */
  readonly fiber = currentFiber()?.id ?? 0;

  constructor(scheduler: FiberScheduler, mailbox: string) {
    super(scheduler);
    this.mailbox = mailbox;
  }

  /** A message is here. */
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

/** The mailboxes that are waited for, and by which futures, the longest waiting first. */
export class AwaitedMailboxes {
  private readonly awaited = new Map<string, Set<MailboxFuture<unknown>>>();
  private names: string[] | null = null;
  private changed = false;

  add(future: MailboxFuture<unknown>): void {
    const futures = this.awaited.get(future.mailbox);
    if (futures !== undefined) {
      futures.add(future);
    } else {
      this.awaited.set(future.mailbox, new Set([future]));
      this.changed = true;
    }
  }

  remove(future: MailboxFuture<unknown>): void {
    const futures = this.awaited.get(future.mailbox);
    if (futures !== undefined && futures.delete(future) && futures.size === 0) {
      this.awaited.delete(future.mailbox);
      this.changed = true;
    }
  }

  /** The future that a message of `mailbox` belongs to. */
  first(mailbox: string): MailboxFuture<unknown> | undefined {
    return this.awaited.get(mailbox)?.values().next().value;
  }

  /** Their names, `null` when there are none. Built anew only after a change. */
  list(): string[] | null {
    if (this.changed) {
      this.changed = false;
      this.names = this.awaited.size === 0 ? null : Array.from(this.awaited.keys());
    }
    return this.names;
  }
}
