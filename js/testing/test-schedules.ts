// The schedules that a test registers. Its runtime is started already, so each is set in the store at once. The
// requests that the test makes meanwhile wait, so the test finds the schedules of a runtime that has started.

import { AsyncLocalStorage } from 'node:async_hooks';

import { currentActivity } from '../activity/activity-context.ts';
import { nativeError } from '../binding/native-error.ts';
import type { DeclaredSchedules } from '../runtime/declared-schedules.ts';
import type { ScheduleDefinition } from '../schedules/schedule.ts';
import type { StorePort } from '../store/providers.ts';
import type { TestTime } from './test-time.ts';

/** The parts of a test runtime that its schedules need. */
export interface TestScheduleParts {
  readonly declared: DeclaredSchedules;
  readonly port: StorePort;
}

/** A request that waits until all schedules are set. */
interface HeldRequest {
  readonly request: number;
  /** True if the test makes it, and not an activity. */
  readonly isOfTest: boolean;
  make(): void;
}

export class TestSchedules {
  private readonly time: TestTime;
  /** They are made later than this. */
  private readonly parts: () => TestScheduleParts;
  /** Marks the requests that set schedules, and those that explain why a test is stuck. */
  private readonly passing = new AsyncLocalStorage<true>();
  /** The number of schedules that are being set. */
  private setting = 0;
  private held: HeldRequest[] = [];
  /** The reason why a schedule could not be set, until the test was told of it. */
  private failure: Error | undefined;
  private isOver = false;

  constructor(time: TestTime, parts: () => TestScheduleParts) {
    this.time = time;
    this.parts = parts;
  }

  /**
   * Begins to set a schedule.
   *
   * @throws RuntimeStateError when the id is taken
   */
  add(definition: ScheduleDefinition): void {
    const { declared } = this.parts();
    declared.add(definition);
    this.setting += 1;
    this.pass(() => declared.set(definition)).then(
      () => this.settled(undefined),
      (error: Error) => this.settled(error),
    );
  }

  /** Calls a function whose requests do not wait for schedules. */
  pass<T>(then: () => T): T {
    return this.passing.run(true, then);
  }

  /** Makes a request, as soon as all schedules are set. */
  request(request: number, make: () => void): void {
    if (this.isOver || this.passing.getStore() === true) return make();
    const isOfTest = currentActivity() === undefined;
    if (this.setting > 0) this.held.push({ request, isOfTest, make });
    else if (this.failure !== undefined && isOfTest) this.parts().port.refuse(request, this.takeFailure() as Error);
    else make();
  }

  /** @throws the reason why a schedule could not be set, unless the test was told of it */
  check(): void {
    const failure = this.takeFailure();
    if (failure !== undefined) throw failure;
  }

  /** Lets all requests go on: the runtime is about to stop, and sets no schedule any more. */
  end(): void {
    this.isOver = true;
    this.release(undefined);
  }

  private settled(error: Error | undefined): void {
    if (this.isOver) return;
    this.setting -= 1;
    this.failure ??= error;
    if (this.setting === 0) this.release(this.failure);
  }

  private release(failure: Error | undefined): void {
    const { port } = this.parts();
    const held = this.held.splice(0);
    let isTold = failure !== undefined && this.time.giveUp(failure);
    for (const { request, isOfTest, make } of held) {
      if (!port.isOpen(request)) continue;
      if (failure !== undefined && isOfTest) {
        port.refuse(request, failure);
        isTold = true;
        continue;
      }
      try {
        make();
      } catch (error) {
        port.refuse(request, nativeError(error) as Error);
      }
    }
    if (isTold) this.failure = undefined;
    this.time.stir();
  }

  private takeFailure(): Error | undefined {
    const { failure } = this;
    this.failure = undefined;
    return failure;
  }
}
