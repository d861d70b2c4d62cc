// One execution in memory: its engine, its fibers, and the turn that takes them from one wait to the next.
//
// Invariants:
//
//   I1. A turn ends with exactly one of: `rest`, `finish`, `suspend`.
//   I2. Entries that are kept outside under this instance's key are removed by `release` and by nothing else. `release`
//       runs once the execution ends, is suspended or is dropped.
//   I3. Dropping runs no user code (fiber.ts, B4).

import type { ActivityFunction } from '../activity/activity.ts';
import type { InstanceDescription } from '../binding/answers.ts';
import { CANCELLED, COMPLETED, CONTINUED_AS_NEW, FAILED_FOR_GOOD } from '../driver/command.ts';
import { deadlockError } from '../driver/deadlock.ts';
import type { EnginePort } from '../driver/engine.ts';
import { fiberWaits } from '../driver/fiber-waits.ts';
import { FAILED, OK, PENDING } from '../driver/future.ts';
import { InlineFuture, OperationFuture } from '../driver/operation.ts';
import type { QueryAnswer } from '../driver/queries.ts';
import { FiberScheduler } from '../driver/scheduler.ts';
import { sourceLines } from '../driver/source.ts';
import { forgetState, inheritState } from '../driver/state.ts';
import { forgetCustomStatus, inheritCustomStatus } from '../driver/status.ts';
import { CancelledError, LimitError, NondeterminismError, PayloadError, type PerdureError } from '../errors/errors.ts';
import type { RunnableOrchestration } from '../orchestration/definition.ts';
import { FiberContext } from '../orchestration/fiber-context.ts';
import type { OrchestrationFacts, OrchestrationHost } from '../orchestration/orchestration-host.ts';
import { forgetTrace } from '../tracing/trace.ts';
import { toErrorPayload, toPayload } from '../values/payload.ts';
import { warnOfUnawaited } from './unawaited-line.ts';

/** Result of a turn. */
export type TurnEnd = 'waiting' | 'completed' | 'failed' | 'cancelled' | 'continued' | 'suspended';

export class Instance {
  readonly facts: OrchestrationFacts;
  private readonly port: EnginePort;
  private readonly scheduler: FiberScheduler;
  private isReleased = false;
  private hasBegun = false;
  private isDeadlocked = false;

  constructor(
    port: EnginePort,
    description: InstanceDescription,
    orchestration: RunnableOrchestration,
    host: OrchestrationHost,
  ) {
    const { instanceId, executionId, name, version, input, parentId, customStatus, state, timeMs } = description;
    const { fn, cancelGraceMs, onEnd = 'drop' } = orchestration;
    this.port = port;
    this.facts = { instanceId, executionId, name, version, parentId: parentId ?? undefined };
    // The main fiber calls the function when it begins: the function is user code, and its input may be damaged.
    this.scheduler = new FiberScheduler(port, timeMs, host, () => fn(context, this.scheduler.read(input, 'input')));
    this.scheduler.cancelling.graceMs = cancelGraceMs;
    this.scheduler.cancelling.onEnd = onEnd;
    inheritCustomStatus(this.scheduler, customStatus);
    inheritState(this.scheduler, state);
    const context = new FiberContext(this.scheduler, this.facts, host);
  }

  /** Runs fibers and hands over deliveries until there are no more, or the execution ends. */
  turn(): TurnEnd {
    try {
      return this.drive();
    } catch (error) {
      this.scheduler.refused(error);
      if (this.scheduler.refusal === null) throw error;
      return this.suspend();
    }
  }

  /** Answers a query of the code, between turns. */
  query(name: string, input: unknown): QueryAnswer {
    return this.scheduler.queries.answer(name, input);
  }

  /** Returns the function of an inline activity that has not settled. */
  inlineFunction(operation: number): ActivityFunction | undefined {
    const future = this.scheduler.operations.get(operation);
    return future instanceof InlineFuture ? future.fn : undefined;
  }

  /** Removes the entries that are kept under this instance's key. The instance is not used after that. */
  release(): void {
    if (this.isReleased) return;
    this.isReleased = true;
    forgetCustomStatus(this.scheduler);
    forgetState(this.scheduler);
    forgetTrace(this.scheduler);
  }

  private drive(): TurnEnd {
    const { port, scheduler } = this;
    const { main } = scheduler;
    const { mailboxes } = scheduler;
    const { changes: onDemand } = scheduler.onDemand;
    if (!this.hasBegun) {
      this.hasBegun = true;
      // Without this, executions that follow each other without a wait would never see a cancellation. The first
      // execution of an instance has no predecessor.
      if (this.facts.executionId > 1) scheduler.interrupt();
    }
    for (;;) {
      scheduler.runReady();
      if (scheduler.refusal !== null) return this.suspend();
      if (scheduler.isOver) return this.finish();
      if (scheduler.isStuck) {
        if (main.state !== PENDING) return this.finish();
        if (scheduler.cancelling.releaseHeld()) continue;
        const error = deadlockError(scheduler);
        if (this.isDeadlocked) return this.fail(error);
        // Thrown once, where the main fiber waits, so that its cleanup runs and can still be waited for.
        this.isDeadlocked = true;
        main.throwAtYield(error);
        continue;
      }
      const delivery = port.next(mailboxes.takeChanges(onDemand));
      if (delivery === null) {
        port.rest(fiberWaits(scheduler));
        return 'waiting';
      }
      scheduler.deliver(delivery);
    }
  }

  private finish(): TurnEnd {
    const { port, scheduler } = this;
    const { main, continuation, cancelling } = scheduler;
    scheduler.asks.rejectRunning();
    if (cancelling.overdue !== null) return this.fail(cancelling.overdue);
    if (continuation !== null && main.state === OK) {
      // A cancellation that the code has not seen yet must not be lost with this execution.
      if (main.interruption !== null) return this.fail(main.interruption);
      warnOfUnawaited(scheduler, this.facts);
      port.finish({ kind: CONTINUED_AS_NEW, input: continuation.input, version: continuation.version });
      this.release();
      return 'continued';
    }
    let error = main.value;
    let output: string | null = null;
    let isCompleted = main.state === OK;
    if (isCompleted) {
      try {
        output = toPayload(main.value, 'output', scheduler.limits, scheduler.types);
      } catch (unstorable) {
        error = unstorable;
        isCompleted = false;
      }
    }
    if (isCompleted) {
      warnOfUnawaited(scheduler, this.facts);
      port.finish({ kind: COMPLETED, payload: output });
      this.release();
      return 'completed';
    }
    return this.fail(error);
  }

  private fail(error: unknown): TurnEnd {
    const { port, scheduler } = this;
    const isCancelled = scheduler.cancelling.isRequested && error instanceof CancelledError;
    port.finish({ kind: isCancelled ? CANCELLED : FAILED_FOR_GOOD, payload: toErrorPayload(error, scheduler.types) });
    this.release();
    return isCancelled ? 'cancelled' : 'failed';
  }

  private suspend(): TurnEnd {
    const { refusal } = this.scheduler;
    const source = refusal?.source || this.waitingAt();
    this.release();
    this.port.suspend(source, reportOf(refusal?.error));
    return 'suspended';
  }

  /**
   * Returns the source lines where the main fiber waits, if they are known. They locate a refusal that no call of user
   * code caused.
   */
  private waitingAt(): string {
    const { main } = this.scheduler;
    const waitingOn = main.state === FAILED ? null : main.waitingOn;
    return waitingOn instanceof OperationFuture ? sourceLines(waitingOn.source) : '';
  }
}

/**
 * Returns the reason for a suspension as JSON, from which `client.getStatus` makes an error. A mismatch that the engine
 * has found is told by the engine. `null`: there is no other reason.
 */
export function reportOf(error: unknown): string | null {
  if (error instanceof NondeterminismError) return report(error, { report: error.report });
  if (error instanceof LimitError) return report(error, { limit: error.limit, max: error.max });
  // The cause is left out: it may quote values that must not be stored unencoded.
  if (error instanceof PayloadError) return report(error, { path: error.path });
  return null;
}

function report({ code, message }: PerdureError, details: object): string {
  return JSON.stringify({ code, message, details });
}
