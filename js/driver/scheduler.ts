// The scheduler of one instance's fibers: the ready queue, the pending operations, and the effect of each delivery.
//
// Between two deliveries it runs fibers until all of them wait. It knows no store, no thread and no clock: it talks to
// an EnginePort, and the same deliveries make it do the same things in the same order.
//
// Invariants:
//
//   S1. Only `runReady` advances fibers, in the order in which they became ready. Channels that can hand over a value
//       stand in the same queue.
//   S2. Deliveries come one by one, and only when no fiber is ready. So a replay makes the same choices wherever the
//       turn boundaries were (architecture: "Order is history's order").
//   S3. Once `refusal` is set, no fiber is advanced any more. User code that handles the exception has no effect.
//   S4. Once the main fiber has settled, no fiber is advanced any more. The exception is a cancelled instance, which
//       goes on until its uncancellable blocks are done.
//
// Invariants of cancelling (cancelling.ts, docs/internals/scopes.md):
//
//   S5. Every fiber but the main one has an owner: the fiber that ran when it was made. When an owner ends, its fibers
//       pass to its own owner.
//   S6. To cancel a fiber is to tell it and all fibers that it owns, each at most once and in order of creation. To
//       cancel an instance is to tell its main fiber. A block of `uncancellable` is not told, nor are the fibers that
//       it made. A told fiber that has not begun never begins.
//   S7. A told fiber gets the error at its `yield`, after the told fibers under the future that it waits for, and the
//       blocks there, have ended. The rest of that future is abandoned, unless it has another waiter.
//   S8. A told fiber settles when its function, the told fibers that it owns, its blocks and the fibers that those made
//       have ended.
//   S9. A main fiber that was not told settles when its function has ended. With `onEnd` set to `'join'` or `'cancel'`,
//       it settles after the fibers that it owns have ended; `'cancel'` cancels them first.
//  S10. A combinator that abandons branches settles when the told fibers at or under those branches have ended.
//  S11. Where steps are finished (`awaitLosers`, sagas), a told fiber that waits for an activity or a child gets the
//       result first, and its error at the next wait. An activity or a child that is a loser goes on, and its end is
//       awaited with that of the told fibers.

import { DeterminismError, LimitError, NondeterminismError, PayloadError } from '../errors/errors.ts';
import { isUnreadable } from '../values/codec.ts';
import { CANCEL_GRACE, INTERRUPT_EVERY, type RuntimeLimits } from '../values/limits.ts';
import { fromPayload } from '../values/payload.ts';
import type { TypeRegistry } from '../values/value-types.ts';
import { Asks } from './asks.ts';
import { byAge, Cancelling, type SchedulerForCancelling } from './cancelling.ts';
import { CANCEL_OPERATION, type Command, type Issued } from './command.ts';
import type { Continuation, SchedulerForContinuations } from './continuation.ts';
import { currentFiber } from './current.ts';
import {
  ACTIVITY_FAILED,
  ASKED,
  CANCEL,
  CHILD_FAILED,
  type Delivery,
  MAILBOX_EMPTY,
  MESSAGE,
  REFUSED,
  SUCCEEDED,
} from './delivery.ts';
import type { EnginePort } from './engine.ts';
import { Fiber, type FiberBody, UncancellableBlock } from './fiber.ts';
import { join, leave, reach } from './fiber-tree.ts';
import { type BaseFuture, PENDING } from './future.ts';
import { AwaitedMailboxes, type SchedulerForMailboxes } from './mailbox.ts';
import { AwaitedOperations, type OperationFuture } from './operation.ts';
import { Queries, type SchedulerForQueries } from './queries.ts';
import { sourceHere } from './source.ts';
import { Unawaited } from './unawaited.ts';
import { ASKS, type Mailbox } from './waits.ts';

/** A refusal of the engine to go on. */
export interface Refusal {
  readonly error: NondeterminismError | LimitError | PayloadError;
  /** The lines of user code that led to it, as in a stack; may be empty. */
  readonly source: string;
}

/** An entry of the ready queue. */
export interface Runnable {
  advance(): void;
}

/** The number of taken entries from which the queue is compacted, if they also make up half of it. */
const COMPACT_AT = 1_024;

export class FiberScheduler
  implements SchedulerForCancelling, SchedulerForContinuations, SchedulerForMailboxes, SchedulerForQueries
{
  readonly port: EnginePort;
  readonly limits: Required<RuntimeLimits>;
  readonly types: TypeRegistry;
  /** The `OrchestrationContext` of the instance's code, which sets itself. */
  context: object | null = null;
  /** The main fiber. When it settles, the execution ends. */
  readonly main: Fiber<unknown>;
  /** The operations that have not settled, by id, in order of issue. */
  readonly operations = new Map<number, OperationFuture<unknown>>();
  readonly mailboxes = new AwaitedMailboxes();
  /** The operations that settle only while a fiber waits for them, such as timers. */
  readonly onDemand = new AwaitedOperations();
  /** The futures that the code has asked for and has not waited for. */
  readonly unawaited = new Unawaited();
  /** The deterministic time, in ms since 1970: the time of the last delivery. */
  now: number;
  /**
   * True if a cancellation of the instance came although the code did not wait. The next `yield` then throws, even one
   * that would not wait.
   */
  isPressed = false;
  /** Set once a call into the engine was refused: the instance is to be suspended. */
  refusal: Refusal | null = null;
  readonly cancelling: Cancelling = new Cancelling(this);
  readonly asks: Asks = new Asks(this);
  readonly queries: Queries = new Queries(this);
  /** The code that runs outside of all fibers and may only read: `the handler of query 'total'`; `null`: none. */
  reader: string | null = null;
  /** The continuation that follows this execution, if there is one. */
  continuation: Continuation | null = null;
  channelsMade = 0;
  /** Bytes of the entries that were written to streams since the last delivery. */
  streamBytes = 0;
  /** The number of uncancellable blocks that have not ended. */
  blocks = 0;
  /** The number of fibers that have not ended. */
  fibersAlive = 0;

  private readonly queue: Runnable[] = [];
  private head = 0;
  /** The number of commands since the last delivery. */
  private commands = 0;
  private fibersMade = 0;
  private lastOrder = 0;

  constructor(
    port: EnginePort,
    now: number,
    { limits, types }: { readonly limits: Required<RuntimeLimits>; readonly types: TypeRegistry },
    main: FiberBody<unknown>,
  ) {
    this.port = port;
    this.now = now;
    this.limits = limits;
    this.types = types;
    this.main = this.spawn(main);
  }

  /** True while a fiber of this instance runs. */
  get isRunning(): boolean {
    return currentFiber()?.scheduler === this;
  }

  /** Starts a fiber. The fiber runs after those that are ready before it. */
  spawn<T>(body: FiberBody<T>): Fiber<T> {
    const owner = currentFiber();
    // A fiber that an uncancellable block starts is part of the block.
    return this.start(new Fiber<T>(this, this.fibersMade, body, owner?.isShielded === true), owner);
  }

  /** Starts a fiber that cannot be cancelled. */
  spawnUncancellable<T>(body: FiberBody<T>): Fiber<T> {
    this.blocks += 1;
    return this.start(new UncancellableBlock<T>(this, this.fibersMade, body), currentFiber());
  }

  /** The fibers that have not ended, in order of creation. */
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

  /** True if the execution ends here. */
  get isOver(): boolean {
    if (this.cancelling.overdue !== null) return true;
    return this.main.state !== PENDING && !(this.cancelling.isRequested && this.blocks > 0);
  }

  /**
   * True if all waiting fibers wait for each other, so that no delivery could wake any of them. Asked when no fiber is
   * ready. A timer (a detached start, a sent message) without a waiter is never delivered.
   */
  get isStuck(): boolean {
    const { operations, onDemand, mailboxes, cancelling } = this;
    // The timer that ends the cleanup wakes no fiber.
    const others = onDemand.awaited - (cancelling.isTimed ? 1 : 0);
    return operations.size === onDemand.pending && others === 0 && mailboxes.isEmpty;
  }

  nextOrder(): number {
    this.lastOrder += 1;
    return this.lastOrder;
  }

  /** Runs fibers until all wait, the main fiber has ended, or the engine has refused a call. */
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
    // Most deliveries to a combinator make no fiber ready. Setting a length takes time even if the queue has that
    // length already.
    if (this.head > 0 && this.head >= queue.length) {
      queue.length = 0;
      this.head = 0;
    }
  }

  /** Applies one delivery: futures settle and fibers become ready. */
  deliver(delivery: Delivery): void {
    this.streamBytes = 0;
    this.commands = 0;
    this.now = delivery.timeMs;
    this.dispatch(delivery);
    this.runCancels();
  }

  /** Abandons a future, unless it has settled. */
  cancel(future: BaseFuture<unknown>, reason: string | undefined): void {
    this.cancelling.soon(future, reason);
    this.cancelling.run();
  }

  /** Abandons the futures that are due. Returns true if there were any. */
  runCancels(): boolean {
    return this.cancelling.run();
  }

  /**
   * Returns a stored value.
   *
   * @throws PayloadError when the text is damaged; also when a class is not registered here, which suspends the
   *   instance until code comes that can read the value
   */
  read(text: string | null, what: string): unknown {
    try {
      return fromPayload(text, what, this.types);
    } catch (error) {
      throw isUnreadable(error) ? this.refused(error) : error;
    }
  }

  /** Issues a command for the running fiber. */
  issue(command: Command): Issued {
    const { port } = this;
    try {
      const issued = port.issue(command);
      const fiber = currentFiber()?.id ?? 0;
      if (fiber !== 0) port.ofFiber(fiber);
      this.commands += 1;
      if (this.commands % INTERRUPT_EVERY === 0) this.interrupt();
      return issued;
    } catch (error) {
      throw this.refused(error);
    }
  }

  /** Delivers a request to cancel, if one has come although the code does not wait. */
  interrupt(): void {
    const delivery = this.port.interrupt();
    if (delivery === null) return;
    this.isPressed = true;
    this.deliver(delivery);
  }

  setPolled(mailbox: Mailbox, isPolled: boolean): void {
    this.port.setPolled(mailbox, isPolled);
  }

  /** Issues the command that cancels an operation. */
  cancelOperation(operation: number): void {
    this.ask((port) => port.issue({ kind: CANCEL_OPERATION, operation }));
  }

  /** Makes a call of the engine for user code, which gets the error of a refusal. */
  ask<T>(call: (port: EnginePort) => T): T {
    try {
      return call(this.port);
    } catch (error) {
      throw this.refused(error);
    }
  }

  /** Records the error of an engine that refused to go on. Returns the error to throw into user code. */
  refused(error: unknown): unknown {
    if (this.refusal === null && isRefusal(error)) {
      this.refusal = { error, source: currentFiber() === null ? '' : sourceHere() };
    }
    return error;
  }

  /**
   * Throws unless a fiber of this instance is running. `method` is the method of a context or of a future that the user
   * called.
   */
  assertRunning(method: string, of: 'ctx' | 'future' = 'ctx'): void {
    const scheduler = currentFiber()?.scheduler;
    if (scheduler === this) return;
    const called = `${of}.${method}`;
    if (this.reader !== null) {
      throw new DeterminismError(`${called} was called in ${this.reader}, which only reads variables`, {
        called,
        instead: `call ${called} in the function* of the orchestration, and keep its result in a variable`,
      });
    }
    const where =
      scheduler === undefined
        ? 'while its orchestration was not running (in a promise callback, a timer or an activity?)'
        : 'from another orchestration';
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
    // The main fiber does not count.
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

  /** Throws unless there may be another fiber although there are as many as the limit allows. */
  private checkFibers(): void {
    const { port, fibersAlive } = this;
    const max = this.limits.fibers;
    if (port.isReplaying() || (port.isCancelling() && fibersAlive <= max + CANCEL_GRACE)) return;
    throw this.refused(
      new LimitError(
        `this execution has reached its limit of ${max} fibers (limits.fibers). Start fewer fibers at once, ` +
          'for example fibers that receive their work from a ctx.channel, or raise the limit. ' +
          'Then call client.resume(id)',
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
        if (!future.isUsed && future.isReported) this.unawaited.keepNote(future);
        return;
      }
      case ASKED:
        return this.asks.offered(delivery.value);
      case MESSAGE: {
        if (isOfAsks(delivery.mailbox)) return this.asks.recorded(delivery.value);
        const future = delivery.mailbox === null ? undefined : this.mailboxes.first(delivery.mailbox);
        if (future === undefined) return;
        const asker = future.fiber?.id ?? 0;
        if (asker !== 0) this.port.ofFiber(asker);
        future.deliver(delivery.value);
        return;
      }
      case MAILBOX_EMPTY: {
        const polls = delivery.mailbox === null ? [] : this.mailboxes.polls(delivery.mailbox);
        const fiber = polls[0]?.fiber?.id ?? 0;
        if (fiber !== 0) this.port.ofFiber(fiber);
        for (const poll of polls) poll.deliverEmpty();
        return;
      }
      case CANCEL:
        this.cancelling.all(
          delivery.detail > 0
            ? `timed out after ${delivery.detail} ms`
            : (fromPayload(delivery.value, 'reason', this.types) as string | undefined),
        );
        return;
      default:
        delivery.kind satisfies never;
    }
  }
}

function isOfAsks(mailbox: Mailbox | null): boolean {
  return mailbox?.name === ASKS && mailbox.kind === 'queue';
}

function isRefusal(error: unknown): error is Refusal['error'] {
  return error instanceof NondeterminismError || error instanceof LimitError || error instanceof PayloadError;
}
