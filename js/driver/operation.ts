// Operations of the engine as futures: activities, timers, and the base that they share with others.

import type { ActivityFunction } from '../activity/activity.ts';
import { ActivityError, CancelledError } from '../errors/errors.ts';
import { AwaitedChanges } from '../util/awaited-changes.ts';
import { fromErrorPayload } from '../values/payload.ts';
import type { Issued } from './command.ts';
import { currentFiber } from './current.ts';
import { ACTIVITY_FAILED, type Delivery } from './delivery.ts';
import { BaseFuture, FAILED, OK, PENDING, type SchedulerForFutures } from './future.ts';
import { type SourceMark, withCallerStack } from './source.ts';
import type { AskedFor, Unawaited } from './unawaited.ts';

/** The part of the scheduler that operations use. */
export interface SchedulerForOperations extends SchedulerForFutures {
  readonly operations: Map<number, OperationFuture<unknown>>;
  readonly onDemand: AwaitedOperations;
  readonly unawaited: Unawaited;
  cancelOperation(operation: number): void;
}

/** An operation that the engine works on under an id. Pending until it is delivered or cancelled. */
export abstract class OperationFuture<T> extends BaseFuture<T> implements AskedFor {
  declare readonly scheduler: SchedulerForOperations;
  /** The id that the engine gave it. */
  readonly operation: number;
  /** True if history says that it succeeded, before anything else happened. */
  readonly succeedsNext: boolean;
  override source: SourceMark | undefined = undefined;
  /** The fiber that asked for it. */
  readonly fiber = currentFiber();
  readonly place: number;

  constructor(scheduler: SchedulerForOperations, { operation, succeedsNext }: Issued) {
    super(scheduler);
    this.place = scheduler.unawaited.nextPlace();
    this.operation = operation;
    this.succeedsNext = succeedsNext;
    scheduler.operations.set(operation, this);
  }

  /** Records where the operation was asked for, if that matters. */
  askedAt(source: SourceMark | undefined): this {
    this.source = source;
    return this;
  }

  /** True if it was asked for in an `uncancellable` block: a cancellation of the instance passes it by. */
  get isShielded(): boolean {
    return this.fiber?.isShielded === true;
  }

  get isWork(): boolean {
    return true;
  }

  /** True if the operation is reported when the code never waits for it. */
  get isReported(): boolean {
    return true;
  }

  /** Takes the engine's result. */
  abstract deliver(delivery: Delivery): void;

  override abandon(reason: string | undefined): void {
    this.scheduler.operations.delete(this.operation);
    this.scheduler.cancelOperation(this.operation);
    this.settle(FAILED, new CancelledError(reason));
  }

  override describe(): string {
    return `operation ${this.operation}`;
  }

  protected override onUsed(): void {
    if (this.state !== PENDING) this.scheduler.unawaited.forget(this.place);
  }
}

/** An activity that was scheduled. */
export class ActivityFuture<T> extends OperationFuture<T> {
  readonly name: string;

  constructor(scheduler: SchedulerForOperations, issued: Issued, name: string) {
    super(scheduler, issued);
    this.name = name;
  }

  override deliver(delivery: Delivery): void {
    if (delivery.kind === ACTIVITY_FAILED) {
      const cause = fromErrorPayload(delivery.value, this.scheduler.types);
      this.settle(FAILED, this.failure(cause, delivery.detail));
      return;
    }
    this.settleStored(delivery.value, `output of activity '${this.name}'`);
  }

  override get isStep(): boolean {
    return true;
  }

  override describe(): string {
    return `activity '${this.name}'`;
  }

  /** Returns the error that the code gets for that of the last attempt. */
  protected failure(cause: Error, attempt: number): Error {
    const times = attempt === 1 ? 'at its first attempt' : `after ${attempt} attempts`;
    const error = new ActivityError(`activity '${this.name}' failed ${times}: ${cause.message}`, {
      activityName: this.name,
      attempt,
      cause,
    });
    return withCallerStack(error, cause, this.source);
  }
}

/**
 * An inline activity. Its function is part of the state that the orchestration holds in memory; each replay makes it
 * anew.
 */
export class InlineFuture<T> extends ActivityFuture<T> {
  readonly fn: ActivityFunction;

  constructor(scheduler: SchedulerForOperations, issued: Issued, name: string, fn: ActivityFunction) {
    super(scheduler, issued, name);
    this.fn = fn;
  }
}

/** An operation that settles only while a fiber waits for it. The engine is told which of these are awaited. */
export abstract class OnDemandFuture<T> extends OperationFuture<T> {
  constructor(scheduler: SchedulerForOperations, issued: Issued) {
    super(scheduler, issued);
    scheduler.onDemand.pending += 1;
  }

  override settle(state: typeof OK | typeof FAILED, value: unknown): void {
    if (this.state === PENDING) this.scheduler.onDemand.pending -= 1;
    super.settle(state, value);
  }

  protected override onAwaited(): void {
    this.scheduler.onDemand.add(this);
  }

  protected override onForgotten(): void {
    this.scheduler.onDemand.remove(this);
  }
}

/** A durable timer. */
export class TimerFuture extends OnDemandFuture<void> {
  override get isWork(): boolean {
    return false;
  }

  override deliver(): void {
    this.settle(OK, undefined);
  }

  override describe(): string {
    return 'a timer';
  }
}

/** The operations that settle on demand and are awaited. */
export class AwaitedOperations {
  /** The number of such operations that have not settled, awaited or not. */
  pending = 0;
  /** The changes to the ids of awaited operations since the engine was last told. */
  readonly changes = new AwaitedChanges<number>();
  /** The number of awaited operations. */
  awaited = 0;

  add(future: OnDemandFuture<unknown>): void {
    this.awaited += 1;
    this.changes.add(future.operation);
  }

  remove(future: OnDemandFuture<unknown>): void {
    this.awaited -= 1;
    this.changes.remove(future.operation);
  }
}
