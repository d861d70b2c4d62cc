// Mailboxes: events of a name and FIFO queues.
//
// Waiting for a message is no command and leaves no trace. When all fibers wait, the engine is told which mailboxes are
// awaited, and takes a message only from those. A wait without a waiting fiber, or one that lost a race, consumes
// nothing. A poll is a wait that also ends when the mailbox is empty, which history records.

import { CancelledError } from '../errors/errors.ts';
import { AwaitedChanges } from '../util/awaited-changes.ts';
import { LinkedList, type ListNode } from '../util/linked-list.ts';
import { currentFiber } from './current.ts';
import { BaseFuture, FAILED, OK, type SchedulerForFutures } from './future.ts';
import type { SourceMark } from './source.ts';
import type { AskedFor, Unawaited } from './unawaited.ts';
import { ASKS, describeMessage, type Mailbox, type WaitChanges } from './waits.ts';

/** The part of the scheduler that waits for messages use. */
export interface SchedulerForMailboxes extends SchedulerForFutures {
  readonly mailboxes: AwaitedMailboxes;
  readonly unawaited: Unawaited;
  setPolled(mailbox: Mailbox, isPolled: boolean): void;
}

/** The next message of one mailbox. */
export class MailboxFuture<T> extends BaseFuture<T> implements AskedFor {
  declare readonly scheduler: SchedulerForMailboxes;
  readonly mailbox: Mailbox;
  /** The fiber that asked for it. */
  readonly fiber = currentFiber();
  readonly place: number;
  readonly isWork = false;
  override readonly source: SourceMark | undefined;
  /** The node of the future among those that wait for the mailbox, while it does. */
  node: ListNode<MailboxFuture<unknown>> | null = null;
  /** True for a poll, which settles with `undefined` if the mailbox is empty. */
  readonly isPoll: boolean;

  constructor(scheduler: SchedulerForMailboxes, mailbox: Mailbox, source?: SourceMark, isPoll = false) {
    super(scheduler);
    this.mailbox = mailbox;
    this.source = source;
    this.isPoll = isPoll;
    this.place = scheduler.unawaited.nextPlace();
    scheduler.unawaited.keep(this);
  }

  /** Settles the future with a message. */
  deliver(payload: string | null): void {
    this.settleStored(payload, 'event');
  }

  /** Settles a poll whose mailbox is empty. */
  deliverEmpty(): void {
    this.settle(OK, undefined);
  }

  override abandon(reason: string | undefined): void {
    this.settle(FAILED, new CancelledError(reason));
  }

  override describe(): string {
    return describeMessage(this.mailbox);
  }

  protected override onUsed(): void {
    this.scheduler.unawaited.forget(this.place);
  }

  protected override onAwaited(): void {
    const { scheduler, mailbox } = this;
    scheduler.mailboxes.add(this);
    if (this.isPoll) scheduler.setPolled(mailbox, true);
  }

  protected override onForgotten(): void {
    const { scheduler, mailbox } = this;
    scheduler.mailboxes.remove(this);
    if (this.isPoll && scheduler.mailboxes.polls(mailbox).length === 0) scheduler.setPolled(mailbox, false);
  }
}

/** The awaited mailboxes of one kind, and the futures that wait for each, the longest waiting first. */
class AwaitedNames {
  /** The changes to the names since the engine was last told. */
  readonly changes = new AwaitedChanges<string>();
  private readonly awaited = new Map<string, LinkedList<MailboxFuture<unknown>>>();

  get isEmpty(): boolean {
    return this.awaited.size === 0;
  }

  add(future: MailboxFuture<unknown>): void {
    const { name } = future.mailbox;
    let futures = this.awaited.get(name);
    if (futures === undefined) {
      futures = new LinkedList();
      this.awaited.set(name, futures);
      this.changes.add(name);
    }
    future.node = futures.append(future);
  }

  remove(future: MailboxFuture<unknown>): void {
    const { mailbox, node } = future;
    const futures = this.awaited.get(mailbox.name);
    if (futures === undefined || node === null) return;
    future.node = null;
    futures.remove(node);
    if (futures.size > 0) return;
    this.awaited.delete(mailbox.name);
    this.changes.remove(mailbox.name);
  }

  first(name: string): MailboxFuture<unknown> | undefined {
    return this.awaited.get(name)?.first?.item;
  }

  polls(name: string): MailboxFuture<unknown>[] {
    const polls: MailboxFuture<unknown>[] = [];
    for (let node = this.awaited.get(name)?.first ?? null; node !== null; node = node.after) {
      if (node.item.isPoll) polls.push(node.item);
    }
    return polls;
  }
}

/** The awaited mailboxes. */
export class AwaitedMailboxes {
  private readonly events = new AwaitedNames();
  private readonly queues = new AwaitedNames();
  private awaitsAsks = false;

  get isEmpty(): boolean {
    return this.events.isEmpty && this.queues.isEmpty && !this.awaitsAsks;
  }

  /** Says if the code has handlers of asks, which wait without a future. */
  setAwaitsAsks(awaitsAsks: boolean): void {
    this.awaitsAsks = awaitsAsks;
    if (awaitsAsks) this.queues.changes.add(ASKS);
    else this.queues.changes.remove(ASKS);
  }

  add(future: MailboxFuture<unknown>): void {
    this.of(future.mailbox).add(future);
  }

  remove(future: MailboxFuture<unknown>): void {
    this.of(future.mailbox).remove(future);
  }

  /** Returns the future that gets the next message of `mailbox`. */
  first(mailbox: Mailbox): MailboxFuture<unknown> | undefined {
    return this.of(mailbox).first(mailbox.name);
  }

  /** Returns the awaited polls of `mailbox`, the longest waiting first. */
  polls(mailbox: Mailbox): MailboxFuture<unknown>[] {
    return this.of(mailbox).polls(mailbox.name);
  }

  /**
   * Returns the changes to the awaited mailboxes, and to the awaited `operations`, since the last call; `null` if there
   * are none.
   */
  takeChanges(operations: AwaitedChanges<number>): WaitChanges | null {
    const { events, queues } = this;
    if (events.changes.isEmpty && queues.changes.isEmpty && operations.isEmpty) return null;
    return {
      events: events.changes.takeMore(),
      queues: queues.changes.takeMore(),
      operations: operations.takeMore(),
      eventsGone: events.changes.takeGone(),
      queuesGone: queues.changes.takeGone(),
      operationsGone: operations.takeGone(),
    };
  }

  private of({ kind }: Mailbox): AwaitedNames {
    return kind === 'event' ? this.events : this.queues;
  }
}
