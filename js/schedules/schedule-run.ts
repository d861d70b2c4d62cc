// The watcher of a run: a built-in orchestration whose child is the instance that a schedule starts. So the schedule is
// told of the end, however the run ends, and needs no child of its own.

import type { Future } from '../driver/future.ts';
import { CancelledError, InstanceExistsError, type SubOrchestrationError } from '../errors/errors.ts';
import { defineBuiltIn } from '../orchestration/definition.ts';
import type { OrchestrationContext } from '../orchestration/orchestration-context.ts';
import { isInstance, property } from '../util/show.ts';
import { type DueRecord, type RunStart, SCHEDULE } from './schedule-data.ts';

/** The name of the orchestration. */
export const RUN = `${SCHEDULE}.run` as const;

/** The input of the orchestration. Part of the format. */
export interface RunInput {
  /** The instance of the schedule. */
  readonly schedule: string;
  readonly dueMs: number;
  /** The id of the instance that is started. */
  readonly runId: string;
  readonly start: RunStart;
}

/** The name of the event that cancels a run, and of the queue of the schedule that is told of its end. */
export const STOP = `${RUN}.stop`;
export const ENDED = `${RUN}.ended`;

/** The name of the value that is there from the same commit on as the run. */
export const RUN_STATE = 'run';

/** The message that tells a schedule of the end of a run. Part of the format. */
export type RunEnd = Pick<DueRecord, 'outcome' | 'error'> & {
  /** The orchestration that tells it. */
  readonly watcher: string;
};

export const runOrchestration = defineBuiltIn(RUN, function* run(ctx: OrchestrationContext, input: RunInput): Generator<
  Future<any>,
  void,
  any
> {
  const { schedule, runId, start } = input;
  ctx.state.set(RUN_STATE, runId);
  const end = yield* endOf(ctx, runId, start);
  ctx.enqueueEvent<RunEnd>(schedule, ENDED, { watcher: ctx.instanceId, ...end });
});

function* endOf(ctx: OrchestrationContext, id: string, start: RunStart): Generator<any, Omit<RunEnd, 'watcher'>, any> {
  const { name, input, ...others } = start;
  const options = { ...others, id };
  try {
    const run = ctx.scheduleSubOrchestration(name, input, options);
    const first = yield* ctx.race(run, ctx.waitForEvent(STOP));
    if (first.index === 1) {
      // The schedule waits for the end, not for the request.
      yield* ctx.run(STOP, ({ client }) => client.cancelInstance(id, 'its schedule is due again'));
      yield* run;
    }
    return { outcome: 'completed' };
  } catch (error) {
    const { cause } = error as SubOrchestrationError;
    if (isInstance(cause, InstanceExistsError)) return { outcome: 'exists' };
    if (isInstance(cause, CancelledError)) return { outcome: 'cancelled' };
    return { outcome: 'failed', error: String(property(cause, 'message') ?? error) };
  }
}
