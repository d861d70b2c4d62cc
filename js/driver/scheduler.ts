// The scheduler of one instance's fibers: who is ready, what is pending, and what a delivery does.
//
// Between two deliveries it runs fibers until all of them wait. It knows no store, no thread and no clock: it talks to an
// EnginePort, and the same deliveries make it do the same things in the same order.
//
// Invariants:
//
//   S1. Fibers are advanced only by `runReady`, in the order in which they became ready. Channels that can hand something
//       over stand in the same queue.
//   S2. Deliveries come one by one, and only when no fiber is ready, so a replay makes the same choices whatever the turn
//       boundaries were (architecture: "Order is history's order").
//   S3. Once `refusal` is set no fiber is advanced any more; what user code makes of the exception has no effect.
//   S4. When the main fiber has settled no fiber is advanced any more, except that a cancelled instance goes on until its
//       uncancellable blocks are done.
//
// Of cancelling (cancelling.ts, docs/internals/scopes.md):
//
//   S5. Every fiber but the main one has an owner: the fiber that ran when it was made, or, once that has ended, the owner of that.
//   S6. To cancel a fiber is to tell it and all that it owns, each at most once and in order of creation; to cancel an instance is to tell
//       its main fiber. A block of `uncancellable` is not told, nor what it made. One that has not begun never begins.
//   S7. A fiber that was told gets the error at its `yield`, after all that is told under what it waits for, and the blocks there, have
//       ended. What else that `yield` waits for is given up, unless another waits for it, too.
//   S8. A fiber that was told settles when its function, what it owns that was told, its blocks and what those made have ended.
//   S9. A main fiber that nobody told settles when its function has ended; with `onEnd`, after what it owns has ended, which it cancels
//       before, if that says so.
//  S10. A combinator that gives branches up settles when those of them that were told have ended.

import { DeterminismError, LimitError, NondeterminismError, PayloadError } from '../errors/errors.ts';
import { CANCEL_GRACE, INTERRUPT_EVERY, type RuntimeLimits } from '../values/limits.ts';
import { fromPayload } from '../values/payload.ts';
import { byAge, Cancelling } from './cancelling.ts';
import type { Continuation } from './continuation.ts';
import { currentFiber } from './current.ts';
import {
  ACTIVITY_FAILED,
  CANCEL,
  CHILD_FAILED,
  type Delivery,
  type EnginePort,
  MESSAGE,
  REFUSED,
  SUCCEEDED,
} from './engine.ts';
import { Fiber, type FiberBody, UncancellableBlock } from './fiber.ts';
import { join, leave, reach } from './fiber-tree.ts';
import { type BaseFuture, PENDING } from './future.ts';
import { AwaitedMailboxes } from './mailbox.ts';
import { AwaitedOperations, type OperationFuture } from './operation.ts';
import { sourceHere } from './source.ts';

/** The engine refused to go on. */
export interface Refusal {
  readonly error: NondeterminismError | LimitError | PayloadError;
  /** The lines of user code that showed it, as in a stack; may be empty. */
  readonly source: string;
}

/** What stands in the queue of the ready. */
export interface Runnable {
  advance(): void;
}

/** Entries that were taken are cut off the queue when there are so many of them, and they are half of it. */
const COMPACT_AT = 1_024;

export class FiberScheduler {
  readonly port: EnginePort;
  readonly limits: Required<RuntimeLimits>;
  /** The `OrchestrationContext` of its code, which sets itself. */
  context: object | null = null;
  /** The main fiber: when it settles, the execution ends. */
  readonly main: Fiber<unknown>;
  /** The operations that have not settled, by id, in order of issue. */
  readonly operations = new Map<number, OperationFuture<unknown>>();
  readonly mailboxes = new AwaitedMailboxes();
  /** Timers and the like. */
  readonly onDemand = new AwaitedOperations();
  /** The deterministic time, ms since 1970: that of the last delivery. */
  now: number;
  /** Whether a cancellation of the instance came although the code did not wait: then its next `yield` throws, also one that would not wait. */
  isPressed = false;
  /** Set once a call into the engine was refused: the instance is to be suspended. */
  refusal: Refusal | null = null;
  readonly cancelling = new Cancelling(this);
  /** What this execution is to be followed by, if anything. */
  continuation: Continuation | null = null;
  channelsMade = 0;
  /** Uncancellable blocks that have not ended. */
  blocks = 0;

  /** Fibers that have not ended. */
  private fibersAlive = 0;
  private readonly queue: Runnable[] = [];
  private head = 0;
  /** Commands since the last delivery. */
  private commands = 0;
  private fibersMade = 0;
  private lastOrder = 0;

  constructor(port: EnginePort, now: number, limits: Required<RuntimeLimits>, main: FiberBody<unknown>) {
    this.port = port;
    this.now = now;
    this.limits = limits;
    this.main = this.spawn(main);
  }

  /** Start a fiber. It runs when those that are ready before it have. */
  spawn<T>(body: FiberBody<T>): Fiber<T> {
    const owner = currentFiber();
    // What an uncancellable block starts is part of it.
    return this.start(new Fiber<T>(this, this.fibersMade, body, owner?.isShielded === true), owner);
  }

  /** Start a fiber that cannot be cancelled. */
  spawnUncancellable<T>(body: FiberBody<T>): Fiber<T> {
    this.blocks += 1;
    return this.start(new UncancellableBlock<T>(this, this.fibersMade, body), currentFiber());
  }

  /** Fibers that have not ended, in order of creation. */
  get liveFibers(): Fiber<unknown>[] {
    return reach(this.main)
      .filter((fiber) => fiber.state === PENDING)
      .sort(byAge);
  }

  ready(runnable: Runnable): void {
    this.queue.push(runnable);
  }

  ended(fiber: Fiber<unknown>): void {
    this.fibersAlive -= 1;
    leave(fiber);
  }

  /** Whether the execution ends here. */
  get isOver(): boolean {
    if (this.cancelling.overdue !== null) return true;
    return this.main.state !== PENDING && !(this.cancelling.isRequested && this.blocks > 0);
  }

  /**
   * Whether all that wait, do so for each other: no delivery could wake any of them. Asked when no fiber is ready. A timer
   * (a detached start, a sent message) that nobody waits for is never delivered.
   */
  get isStuck(): boolean {
    const { operations, onDemand, mailboxes, cancelling } = this;
    // The timer that ends the cleanup wakes nobody.
    const others = onDemand.awaited - (cancelling.isTimed ? 1 : 0);
    return operations.size === onDemand.pending && others === 0 && mailboxes.isEmpty;
  }

  nextOrder(): number {
    this.lastOrder += 1;
    return this.lastOrder;
  }

  /** Run fibers until all wait, the main one has ended, or the engine refused something. */
  runReady(): void {
    const { queue } = this;
    while (this.head < queue.length && !this.isOver && this.refusal === null) {
      const next = queue[this.head] as Runnable;
      this.head += 1;
      if (this.head >= COMPACT_AT && this.head * 2 >= queue.length) {
        queue.splice(0, this.head);
        this.head = 0;
      }
      next.advance();
      if (this.cancelling.isDue && !this.isOver && this.refusal === null) this.runCancels();
    }
    // Most deliveries to a combinator make no fiber ready: to set a length costs, even where it is that already.
    if (this.head > 0 && this.head >= queue.length) {
      queue.length = 0;
      this.head = 0;
    }
  }

  /** Hand one delivery over: futures settle and fibers become ready. */
  deliver(delivery: Delivery): void {
    this.commands = 0;
    this.now = delivery.timeMs;
    this.dispatch(delivery);
    this.runCancels();
  }

  /** Give a future up, unless it has settled. */
  cancel(future: BaseFuture<unknown>, reason: string | undefined): void {
    this.cancelling.soon(future, reason);
    this.cancelling.run();
  }

  /** Give up what is to be given up. Returns whether there was any. */
  runCancels(): boolean {
    return this.cancelling.run();
  }

  /** The command of the fiber that runs. Returns the operation's id. */
  issue(command: (port: EnginePort) => number): number {
    const { port } = this;
    try {
      const operation = command(port);
      const fiber = currentFiber()?.id ?? 0;
      if (fiber !== 0) port.ofFiber(fiber);
      this.commands += 1;
      if (this.commands % INTERRUPT_EVERY === 0) this.interrupt();
      return operation;
    } catch (error) {
      throw this.refused(error);
    }
  }

  /** The code does not wait: hand over a request to cancel that has come all the same. */
  interrupt(): void {
    const delivery = this.port.interrupt();
    if (delivery === null) return;
    this.isPressed = true;
    this.deliver(delivery);
  }

  /** The command that gives an operation up. */
  cancelOperation(operation: number): void {
    try {
      this.port.cancelOperation(operation);
    } catch (error) {
      throw this.refused(error);
    }
  }

  /** Note what the engine threw, if it refused to go on. Returns the error to throw into user code. */
  refused(error: unknown): unknown {
    if (this.refusal === null && isRefusal(error)) {
      this.refusal = { error, source: currentFiber() === null ? '' : sourceHere() };
    }
    return error;
  }

  /** Throws unless a fiber of this instance is running. `method` is what the user called, of a context or of a future. */
  assertRunning(method: string, of: 'ctx' | 'future' = 'ctx'): void {
    const scheduler = currentFiber()?.scheduler;
    if (scheduler === this) return;
    const where =
      scheduler === undefined
        ? 'while its orchestration was not running (in a promise callback, a timer or an activity?)'
        : 'from another orchestration';
    const called = `${of}.${method}`;
    const [rule, own] =
      of === 'ctx'
        ? ['a context works only inside its own function*', 'was given this ctx']
        : ['a future belongs to its own function*', 'made this future'];
    throw new DeterminismError(`${called} was called ${where}: ${rule}`, {
      called,
      instead: `call ${called} directly in the function* that ${own}`,
    });
  }

  private start<T>(fiber: Fiber<T>, owner: Fiber<unknown> | null): Fiber<T> {
    // The main fiber is one more.
    if (this.fibersAlive > this.limits.fibers) this.checkFibers();
    this.fibersMade += 1;
    this.fibersAlive += 1;
    if (owner !== null) {
      join(fiber as Fiber<unknown>, owner);
      fiber.locals = owner.locals;
    }
    this.ready(fiber);
    return fiber;
  }

  /** There are as many fibers as the limit allows: whether there may be another one. */
  private checkFibers(): void {
    const { port, fibersAlive } = this;
    const max = this.limits.fibers;
    if (port.isReplaying() || (port.isCancelling() && fibersAlive <= max + CANCEL_GRACE)) return;
    throw this.refused(
      new LimitError(
        `this execution has reached its limit of ${max} fibers (limits.fibers). Let the code start fewer at once, for instance some that ` +
          'receive their work from a ctx.channel, or raise the limit; then call client.resume(id)',
        { limit: 'fibers', max },
      ),
    );
  }

  private dispatch(delivery: Delivery): void {
    switch (delivery.kind) {
      case SUCCEEDED:
      case ACTIVITY_FAILED:
      case CHILD_FAILED:
      case REFUSED: {
        const future = this.operations.get(delivery.operation);
        if (future === undefined) return;
        this.operations.delete(delivery.operation);
        future.deliver(delivery);
        return;
      }
      case MESSAGE: {
        const future = this.mailboxes.first(delivery.mailbox ?? '');
        if (future === undefined) return;
        if (future.fiber !== 0) this.port.ofFiber(future.fiber);
        future.deliver(delivery.value);
        return;
      }
      case CANCEL:
        this.cancelling.all(fromPayload(delivery.value, 'reason') as string | undefined);
        return;
      default:
        delivery.kind satisfies never;
    }
  }
}

function isRefusal(error: unknown): error is Refusal['error'] {
  return error instanceof NondeterminismError || error instanceof LimitError || error instanceof PayloadError;
}
