// Operations of the engine as futures: activities and timers.

import { currentFiber } from './current.ts';
import type { Delivery } from './engine.ts';
import { ACTIVITY_FAILED } from './engine.ts';
import { ActivityError, CancelledError } from './errors.ts';
import { BaseFuture, FAILED, OK } from './future.ts';
import { fromErrorPayload, fromPayload } from './payload.ts';
import type { FiberScheduler } from './scheduler.ts';
import { activityFrames, type SourceMark, sourceLines } from './source.ts';

/** Something the engine works on under an id; pending until it is delivered or cancelled. */
export abstract class OperationFuture<T> extends BaseFuture<T> {
  /** The id that the engine gave it. */
  readonly operation: number;
  override readonly source: SourceMark | undefined;
  /** Whether it was asked for in an `uncancellable` block: a cancellation of the instance passes it by. */
  readonly isShielded: boolean;

  constructor(scheduler: FiberScheduler, operation: number, source: SourceMark | undefined) {
    super(scheduler);
    this.operation = operation;
    this.source = source;
    this.isShielded = currentFiber()?.isShielded === true;
    scheduler.operations.set(operation, this);
  }

  /** The engine has a result for it. */
  abstract deliver(delivery: Delivery): void;

  override abandon(reason: string | undefined): void {
    this.scheduler.operations.delete(this.operation);
    this.scheduler.cancelOperation(this.operation);
    this.settle(FAILED, new CancelledError(reason));
  }

  override describe(): string {
    return `operation ${this.operation}`;
  }
}

/** An activity that was scheduled. */
export class ActivityFuture<T> extends OperationFuture<T> {
  readonly name: string;

  constructor(scheduler: FiberScheduler, operation: number, name: string, source: SourceMark | undefined) {
    super(scheduler, operation, source);
    this.name = name;
  }

  override deliver(delivery: Delivery): void {
    if (delivery.kind === ACTIVITY_FAILED) {
      this.settle(FAILED, this.failure(delivery));
      return;
    }
    let value: unknown;
    try {
      value = fromPayload(delivery.value, `output of activity '${this.name}'`);
    } catch (error) {
      this.settle(FAILED, error);
      return;
    }
    this.settle(OK, value);
  }

  override describe(): string {
    return `activity '${this.name}'`;
  }

  private failure(delivery: Delivery): ActivityError {
    const { attempt } = delivery;
    const cause = fromErrorPayload(delivery.value);
    const times = attempt === 1 ? 'at its first attempt' : `after ${attempt} attempts`;
    const error = new ActivityError(`activity '${this.name}' failed ${times}: ${cause.message}`, {
      activityName: this.name,
      attempt,
      cause,
    });
    // The stack of this very object would show the driver. What a reader looks for is where the activity threw, and then
    // the line that waited for it, as after an `await`.
    const lines = [`${error.name}: ${error.message}`, ...activityFrames(cause.stack)];
    const source = sourceLines(this.source);
    if (source !== '') lines.push(source);
    Object.defineProperty(error, 'stack', { value: lines.join('\n'), writable: true, configurable: true });
    return error;
  }
}

/** A durable timer. The engine hears of it only while a fiber waits for it. */
export class TimerFuture extends OperationFuture<void> {
  constructor(scheduler: FiberScheduler, operation: number, source: SourceMark | undefined) {
    super(scheduler, operation, source);
    scheduler.timers.pending += 1;
  }

  override deliver(): void {
    this.scheduler.timers.pending -= 1;
    this.settle(OK, undefined);
  }

  override abandon(reason: string | undefined): void {
    this.scheduler.timers.pending -= 1;
    super.abandon(reason);
  }

  override describe(): string {
    return 'a timer';
  }

  protected override onAwaited(): void {
    this.scheduler.timers.add(this);
  }

  protected override onForgotten(): void {
    this.scheduler.timers.remove(this);
  }
}

/** The timers that are waited for. */
export class AwaitedTimers {
  /** Timers that have not settled, waited for or not. */
  pending = 0;
  private readonly awaited = new Set<TimerFuture>();
  private ids: number[] | null = null;
  private changed = false;

  add(timer: TimerFuture): void {
    this.awaited.add(timer);
    this.changed = true;
  }

  remove(timer: TimerFuture): void {
    if (this.awaited.delete(timer)) this.changed = true;
  }

  /** Their operations, `null` when there are none. Built anew only after a change. */
  list(): number[] | null {
    if (this.changed) {
      this.changed = false;
      this.ids = this.awaited.size === 0 ? null : Array.from(this.awaited, (timer) => timer.operation);
    }
    return this.ids;
  }
}
