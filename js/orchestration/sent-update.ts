// The update of another instance: `ctx.update`, an inline activity of Perdure's own.

import { neverRetry } from '../activity/activity.ts';
import type { ActivityContext } from '../activity/activity-context.ts';
import { recordedInline } from '../activity/activity-options.ts';
import type { Issued } from '../driver/command.ts';
import { InlineFuture, type SchedulerForOperations } from '../driver/operation.ts';
import { withCallerStack } from '../driver/source.ts';
import { ProviderError } from '../errors/errors.ts';
import { isInstance } from '../util/show.ts';

/** The name of the activity in a history. Part of the format, as {@link UpdateRequest} is. */
export const UPDATE = 'perdure.update';

/** The input of the activity, which a replay compares with that of the history. */
export interface UpdateRequest {
  readonly id: string;
  readonly update: string;
  /** Drawn once, so that each attempt waits for the same answer. */
  readonly updateId: string;
  readonly input?: unknown;
}

/** The number of attempts. The delays between them are the defaults of an activity, 102 s in all. */
const ATTEMPTS_MAX = 10;

/** The options of the activity, as its schedule records them. */
export const UPDATE_OPTIONS = recordedInline({ retry: { maxAttempts: ATTEMPTS_MAX } });

/** The answer of an update. It fails with the error of the update itself. */
export class SentUpdateFuture<T> extends InlineFuture<T> {
  private readonly request: UpdateRequest;

  constructor(scheduler: SchedulerForOperations, issued: Issued, request: UpdateRequest) {
    super(scheduler, issued, UPDATE, attempt);
    this.request = request;
  }

  override describe(): string {
    return `the answer of instance '${this.request.id}' to update '${this.request.update}'`;
  }

  protected override failure(cause: Error): Error {
    return withCallerStack(cause, undefined, this.source);
  }
}

/** Runs one attempt. Only an error of the store that may pass is followed by another. */
async function attempt(ctx: ActivityContext, { id, update, updateId, input }: UpdateRequest): Promise<unknown> {
  try {
    return await ctx.client.update(id, update, input, { updateId, signal: ctx.signal });
  } catch (error) {
    if (isInstance(error, ProviderError) && error.retryable) throw error;
    throw neverRetry(error as Error);
  }
}
