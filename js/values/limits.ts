// How large things may grow: the options, their defaults, and how they are checked.

import { nested, type OptionTable, whole } from '../util/options.ts';
import { DEFAULT_CODEC_LIMITS } from './codec.ts';

/** Limits of what is handed over to a store. */
export interface ClientLimits {
  /**
   * Length of the text that is stored of one value, bytes in UTF-8. A longer one throws `PayloadError`, in a replay too: do not lower it
   * below what the orchestrations that run have handed over. What is stored can be read whatever its length. Default 2 MiB.
   */
  payloadBytes?: number;
  /**
   * Events and messages that may wait for one instance, unread. `raiseEvent` and `enqueueEvent` reject with `LimitError` when there
   * are as many, and so do those of an orchestration's context, by the limit of its runtime; a request to cancel is always taken. Default 1 000 000.
   */
  mailboxMessages?: number;
}

/**
 * Limits of a runtime. An instance that would exceed `historyEvents`, `historyBytes`, `turnBytes`, `pendingActivities` or `fibers` is
 * suspended with a `LimitError`: nothing of that turn is stored, and it goes on with `client.resume(id)` once the limit is raised. Replays
 * are not measured by these five, so they may be changed while instances run. An instance that is asked to cancel may exceed each number by
 * 10 000, and `historyBytes` by 64 MiB, to clean up.
 */
export interface RuntimeLimits extends ClientLimits {
  /** Events in the history of one execution; `ctx.continueAsNew` begins another one. Default 1 000 000. */
  historyEvents?: number;
  /** Bytes of the values in the history of one execution, as text in UTF-8. Default 1 GiB. */
  historyBytes?: number;
  /**
   * Bytes of the values that one turn records, as text in UTF-8: what the code is handed and what it asks for until it waits again, which is
   * stored in one transaction. One value passes however large it is. Default 256 MiB, at most 384 MiB.
   */
  turnBytes?: number;
  /** Activities of one instance that have not settled. Default 100 000. */
  pendingActivities?: number;
  /** Fibers of one instance that have not ended, besides the main one. Default 100 000. */
  fibers?: number;
}

export const DEFAULT_LIMITS: Required<RuntimeLimits> = {
  payloadBytes: DEFAULT_CODEC_LIMITS.payloadBytes,
  mailboxMessages: 1_000_000,
  historyEvents: 1_000_000,
  historyBytes: 1024 * 1024 * 1024,
  turnBytes: 256 * 1024 * 1024,
  pendingActivities: 100_000,
  fibers: 100_000,
};

/** By how much an instance that is asked to cancel may exceed its limits; that of the engine is the same. */
export const CANCEL_GRACE = 10_000;

/**
 * Commands without a wait after which code is asked whether it is to cancel. Histories depend on it: another number would look for a
 * request to cancel where none was recorded.
 */
export const INTERRUPT_EVERY = 256;

/** Longest value that can be allowed, bytes: well below what a JavaScript string and a row of a store can hold. */
const PAYLOAD_BYTES_MAX = 256 * 1024 * 1024;

/** Most that a turn can be allowed, bytes: with what it sends to others it is written twice, and Postgres takes less than 1 GiB at once. */
const TURN_BYTES_MAX = 384 * 1024 * 1024;

const CLIENT_TABLE = { payloadBytes: whole(16, PAYLOAD_BYTES_MAX), mailboxMessages: whole(1) } satisfies OptionTable;

/** Checks the `limits` option of a client. */
export const checkClientLimits = nested(CLIENT_TABLE);

/** Checks the `limits` option of a runtime. */
export const checkRuntimeLimits = nested({
  ...CLIENT_TABLE,
  historyEvents: whole(1),
  historyBytes: whole(1),
  turnBytes: whole(1, TURN_BYTES_MAX),
  pendingActivities: whole(1),
  fibers: whole(1),
});

/** The limits given over those that hold otherwise; one that is `undefined` was not given. */
export function limitsOver<T extends ClientLimits>(given: ClientLimits | undefined, otherwise: T): T {
  const entries = Object.entries(given ?? {}).filter(([, value]) => value !== undefined);
  return { ...otherwise, ...Object.fromEntries(entries) };
}
