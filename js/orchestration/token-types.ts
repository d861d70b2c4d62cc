// The types of a token, as an orchestration makes it.

import type { Future } from '../driver/future.ts';
import type { Duration } from '../util/duration.ts';

/** Options of `ctx.token`. */
export interface TokenOptions {
  /**
   * The time after which the token can be resolved no longer. Its future then fails with `TimeoutError`. Default: none.
   */
  timeout?: Duration;
  /** A value for those who list the tokens, such as a question and who may answer it. Default: none. */
  data?: unknown;
}

/** A wait that another party ends, who was given the id: with a value, or with an error. */
export interface Token<out T> extends Future<T> {
  /**
   * The id, for `client.resolveToken` and `client.rejectToken`: 43 letters, digits, `-` and `_`. It has 128 random bits
   * besides those that find the token, so it may stand in a mail or a link. The same in every replay.
   */
  readonly id: string;
}
