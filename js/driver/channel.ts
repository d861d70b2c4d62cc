// Channels: values from fiber to fiber, in memory.
//
// A channel is no part of the history: a replay runs the same fibers in the same order, and so fills it the same way.
//
// Invariants:
//
//   H1. Values are received in the order in which they were sent, by receives in the order in which fibers began to
//       wait.
//   H2. A receive is demand driven, like every wait: it takes a value only while a fiber waits for it. A receive that
//       lost a race takes no value. A send acts at once, and goes on with or without a waiter.
//   H3. Sends stand in line only while the buffer is full, so the values in the buffer were sent before those in line.
//   H4. Values are handed over by `advance`, from the queue of ready fibers, and nowhere else. By then the sending
//       fiber has gone on until it waits, and waiters that have given up meanwhile have left the line.

import { CancelledError, PerdureError } from '../errors/errors.ts';
import { LinkedList, type ListNode } from '../util/linked-list.ts';
import { BaseFuture, FAILED, type Future, OK } from './future.ts';
import { describeValue, isGenerator } from './generator.ts';
import type { FiberScheduler, Runnable } from './scheduler.ts';
import { captureSource, type SourceMark, sourceLines } from './source.ts';

/**
 * The result of a receive once its channel is closed and empty.
 *
 * @example
 * ```ts
 * let job: Job | typeof CLOSED;
 * while ((job = yield* jobs.receive()) !== CLOSED) yield* ctx.call(work, job);
 * ```
 */
export const CLOSED: unique symbol = Symbol('perdure.CLOSED');

/** The type of {@link CLOSED}. */
export type Closed = typeof CLOSED;

/**
 * A channel between the fibers of one orchestration, as `ctx.channel` makes it. Values are handed over as they are and
 * are not stored: a replay sends them again.
 *
 * Any number of fibers may send and receive. Each value goes to one receive. The value that was sent first goes to the
 * receive that has waited longest.
 *
 * @example
 * ```ts
 * const jobs = ctx.channel<Order>();
 * for (const order of orders) jobs.send(order);
 * jobs.close();
 * // Three at a time.
 * yield* ctx.all([1, 2, 3].map(() => jobs.forEach(function* (order) {
 *   yield* ctx.call(charge, order);
 * })));
 * ```
 */
export interface Channel<T> {
  /** True once the channel was closed. */
  readonly isClosed: boolean;

  /**
   * Sends a value. The future settles as soon as the channel has room for the value. Without a capacity that is at
   * once; with capacity 0, when the value is received. The value is sent whether or not a fiber waits for the future.
   * Cancelling the future before it settles takes the value back.
   *
   * @throws PerdureError with code `'CHANNEL_CLOSED'` when the channel is closed
   *
   * @example
   * ```ts
   * yield* jobs.send(order);   // goes on when there is room
   * ```
   */
  send(value: T): Future<void>;

  /**
   * Receives the next value, or {@link CLOSED} when the channel is closed and everything that was sent has been
   * received. The future takes a value only while a fiber waits for it. A receive that lost a race takes no value and
   * can be waited for again.
   *
   * @example
   * ```ts
   * const next = yield* ctx.race(jobs.receive(), ctx.sleep('1m'));
   * ```
   */
  receive(): Future<T | Closed>;

  /**
   * Closes the channel: nothing more can be sent. Values that were sent before, waiting sends included, can still be
   * received.
   */
  close(): void;

  /**
   * Runs a block for each value until the channel is closed and empty. Run the result here with `yield*`, or make it a
   * fiber: as a branch, or with `ctx.spawn`. To stop before that, use {@link receive}.
   *
   * @param body - a `function*`; an error that it throws ends the loop
   * @throws TypeError when `body` is no `function*`
   *
   * @example
   * ```ts
   * yield* jobs.forEach(function* (job) {
   *   yield* ctx.call(work, job);
   * });
   * ```
   */
  forEach(body: (value: T) => Generator<Future<any>, unknown, any>): Generator<Future<any>, void, any>;

  /** `yield* channel` is short for `yield* channel.receive()`. */
  [Symbol.iterator](): Iterator<Future<unknown>, T | Closed, any>;
}

export class FiberChannel<T> implements Channel<T>, Runnable {
  /** The channel's number within the instance, from 1. */
  readonly id: number;
  readonly scheduler: FiberScheduler;
  readonly receivers = new LinkedList<ReceiveFuture<T>>();
  readonly senders = new LinkedList<SendFuture<T>>();
  private readonly buffer = new LinkedList<T>();
  private readonly capacity: number;
  /** The place where the channel was made. A stack for each value would cost more than handing the value over. */
  private readonly source: SourceMark | undefined;
  private closed = false;
  private isReady = false;

  /** @throws TypeError when `capacity` is neither a whole number >= 0 nor `Infinity` */
  constructor(scheduler: FiberScheduler, capacity: number, marksSource: boolean) {
    if (capacity !== Number.POSITIVE_INFINITY && !(Number.isSafeInteger(capacity) && capacity >= 0)) {
      const got = typeof capacity === 'number' ? String(capacity) : describeValue(capacity);
      throw new TypeError(`ctx.channel: the capacity must be a whole number >= 0, or Infinity; got ${got}`);
    }
    scheduler.channelsMade += 1;
    this.id = scheduler.channelsMade;
    this.scheduler = scheduler;
    this.capacity = capacity;
    this.source = marksSource ? captureSource() : undefined;
  }

  get isClosed(): boolean {
    return this.closed;
  }

  send(value: T): Future<void> {
    const { scheduler } = this;
    scheduler.assertRunning('channel().send');
    if (this.closed) throw new PerdureError(`channel ${this.id} is closed: nothing more can be sent`, 'CHANNEL_CLOSED');
    const hasRoom = this.buffer.size < this.capacity;
    const future = new SendFuture(this, value);
    if (hasRoom) {
      this.buffer.append(value);
      future.settle(OK, undefined);
    } else {
      future.node = this.senders.append(future);
    }
    this.handOverSoon();
    return future;
  }

  receive(): Future<T | Closed> {
    this.scheduler.assertRunning('channel().receive');
    return new ReceiveFuture<T>(this);
  }

  /** Describes the channel for a message. */
  describe(): string {
    const [frame = ''] = sourceLines(this.source).split('\n');
    return `channel ${this.id}${frame === '' ? '' : ` (made ${frame.trim()})`}`;
  }

  close(): void {
    this.scheduler.assertRunning('channel().close');
    this.closed = true;
    this.handOverSoon();
  }

  forEach(body: (value: T) => Generator<Future<any>, unknown, any>): Generator<Future<any>, void, any> {
    if (typeof body !== 'function')
      throw new TypeError(`channel.forEach takes a function*, not ${describeValue(body)}`);
    return forEach(this, body);
  }

  [Symbol.iterator](): Iterator<Future<unknown>, T | Closed, any> {
    return this.receive()[Symbol.iterator]();
  }

  /** Puts the channel into the ready queue if a waiting receive could be served. */
  handOverSoon(): void {
    if (this.isReady || this.receivers.size === 0) return;
    if (this.buffer.size === 0 && this.senders.size === 0 && !this.closed) return;
    this.isReady = true;
    this.scheduler.ready(this);
  }

  advance(): void {
    this.isReady = false;
    const { receivers, senders, buffer, scheduler } = this;
    for (let receiver = receivers.first; receiver !== null; receiver = receivers.first) {
      const buffered = buffer.first;
      const sender = senders.first;
      let value: T | Closed;
      if (buffered !== null) {
        buffer.remove(buffered);
        value = buffered.item;
        if (sender !== null) buffer.append(sender.item.message);
      } else if (sender !== null) {
        value = sender.item.message;
      } else if (this.closed) {
        value = CLOSED;
      } else {
        return;
      }
      receiver.item.settle(OK, value);
      sender?.item.accepted();
      // Futures that this value made lose a race leave the line before the next value is handed over.
      scheduler.runCancels();
    }
  }
}

function* forEach<T>(
  channel: Channel<T>,
  body: (value: T) => Generator<Future<any>, unknown, any>,
): Generator<Future<any>, void, any> {
  for (let value = yield* channel.receive(); value !== CLOSED; value = yield* channel.receive()) {
    const block = body(value);
    if (!isGenerator(block)) {
      throw new TypeError(`channel.forEach takes a function*, but the function returned ${describeValue(block)}`);
    }
    yield* block;
  }
}

/** The next value of a channel. */
class ReceiveFuture<T> extends BaseFuture<T | Closed> {
  private readonly channel: FiberChannel<T>;
  private node: ListNode<ReceiveFuture<T>> | null = null;

  constructor(channel: FiberChannel<T>) {
    super(channel.scheduler);
    this.channel = channel;
  }

  override abandon(reason: string | undefined): void {
    this.settle(FAILED, new CancelledError(reason));
  }

  override describe(): string {
    return `a value from ${this.channel.describe()}`;
  }

  protected override onAwaited(): void {
    this.node = this.channel.receivers.append(this);
    this.channel.handOverSoon();
  }

  protected override onForgotten(): void {
    if (this.node === null) return;
    this.channel.receivers.remove(this.node);
    this.node = null;
  }
}

/** A value on its way into a channel. */
class SendFuture<T> extends BaseFuture<void> {
  readonly message: T;
  /** The node of the send among the senders, while it waits. */
  node: ListNode<SendFuture<T>> | null = null;
  private readonly channel: FiberChannel<T>;

  constructor(channel: FiberChannel<T>, message: T) {
    super(channel.scheduler);
    this.channel = channel;
    this.message = message;
  }

  /** Settles the send: its value was received, or is in the buffer now. */
  accepted(): void {
    this.leave();
    this.settle(OK, undefined);
  }

  override abandon(reason: string | undefined): void {
    this.leave();
    this.settle(FAILED, new CancelledError(reason));
    // This send may have been the last that kept a closed channel from being empty.
    this.channel.handOverSoon();
  }

  override describe(): string {
    return `room in ${this.channel.describe()}`;
  }

  private leave(): void {
    if (this.node === null) return;
    this.channel.senders.remove(this.node);
    this.node = null;
  }
}
