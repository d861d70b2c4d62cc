// The read of another instance's values: `ctx.readState`, an inline activity of Perdure's own.

import { neverRetry } from '../activity/activity.ts';
import type { ActivityContext } from '../activity/activity-context.ts';
import { recordedInline } from '../activity/activity-options.ts';
import type { Issued } from '../driver/command.ts';
import { InlineFuture, type SchedulerForOperations } from '../driver/operation.ts';
import { withCallerStack } from '../driver/source.ts';
import { InstanceNotFoundError, ProviderError } from '../errors/errors.ts';
import { isInstance } from '../util/show.ts';

/** The name of the activity in a history. Part of the format, as {@link StateRead} is. */
export const READ_STATE = 'perdure.readState';

/** The input of the activity, which a replay compares with that of the history. */
export interface StateRead {
  readonly id: string;
  /** Without a name, all values are read. */
  readonly name?: string;
}

/** The number of attempts of a read. The delays between them are the defaults of an activity, 102 s in all. */
const READ_ATTEMPTS_MAX = 10;

/** The options of the activity, as its schedule records them. */
export const READ_STATE_OPTIONS = recordedInline({ retry: { maxAttempts: READ_ATTEMPTS_MAX } });

/** A read. It fails with the error of the read itself. */
export class StateReadFuture<T> extends InlineFuture<T> {
  private readonly id: string;

  constructor(scheduler: SchedulerForOperations, issued: Issued, id: string) {
    super(scheduler, issued, READ_STATE, attempt);
    this.id = id;
  }

  override describe(): string {
    return `the state of instance '${this.id}'`;
  }

  protected override failure(cause: Error): Error {
    return withCallerStack(cause, undefined, this.source);
  }
}

/** Runs one attempt. Only an error of the store that may pass is followed by another. */
async function attempt(ctx: ActivityContext, { id, name }: StateRead): Promise<unknown> {
  try {
    return await (name === undefined ? valuesOf(ctx, id) : valueOf(ctx, id, name));
  } catch (error) {
    if (isInstance(error, ProviderError) && error.retryable) throw error;
    throw neverRetry(error as Error);
  }
}

async function valuesOf({ client }: ActivityContext, id: string): Promise<Map<string, unknown>> {
  const state = await client.getState(id);
  if (state === null) throw notFound(id);
  return new Map(Array.from(state, ([name, { value }]) => [name, value]));
}

async function valueOf({ client }: ActivityContext, id: string, name: string): Promise<unknown> {
  const found = await client.getState(id, name);
  if (found === null && (await client.getStatus(id)) === null) throw notFound(id);
  return found?.value;
}

function notFound(instanceId: string): InstanceNotFoundError {
  return new InstanceNotFoundError(`there is no instance '${instanceId}'`, { instanceId });
}
