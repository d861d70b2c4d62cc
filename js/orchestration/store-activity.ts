// Inline activities of Perdure's own, which ask the store for something of another instance.

import { type ActivityFunction, neverRetry } from '../activity/activity.ts';
import type { ActivityContext } from '../activity/activity-context.ts';
import { recordedInline } from '../activity/activity-options.ts';
import { InlineFuture } from '../driver/operation.ts';
import { withCallerStack } from '../driver/source.ts';
import { ProviderError } from '../errors/errors.ts';
import { isInstance } from '../util/show.ts';

/** The number of attempts. The delays between them are the defaults of an activity, 102 s in all. */
const ATTEMPTS_MAX = 10;

/** The options of such an activity, as its schedule records them. */
export const STORE_ACTIVITY_OPTIONS = recordedInline({ retry: { maxAttempts: ATTEMPTS_MAX } });

/** The result of such an activity. It fails with the error of the request itself. */
export abstract class StoreActivityFuture<T> extends InlineFuture<T> {
  protected override failure(cause: Error): Error {
    return withCallerStack(cause, undefined, this.source);
  }
}

/**
 * Returns the function of such an activity. Only an error of the store that may pass is followed by another attempt.
 */
export function storeActivity<I>(run: (ctx: ActivityContext, input: I) => Promise<unknown>): ActivityFunction<I> {
  return async (ctx, input) => {
    try {
      return await run(ctx, input);
    } catch (error) {
      if (isInstance(error, ProviderError) && error.retryable) throw error;
      throw neverRetry(error as Error);
    }
  };
}
