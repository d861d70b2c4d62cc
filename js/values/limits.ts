// The limits on sizes and counts: the options, their defaults, and their checks.

import { nested, type OptionTable, whole } from '../util/options.ts';
import { DEFAULT_CODEC_LIMITS } from './codec.ts';

/** Limits of what a client or a runtime hands over to a store. */
export interface ClientLimits {
  /**
   * Length of the stored text of one value, bytes in UTF-8. A longer one throws `PayloadError`, in a replay too: do not
   * lower it below what running orchestrations have handed over. Stored values of any length can be read. Default 2
   * MiB.
   */
  payloadBytes?: number;
  /**
   * Events and messages that may wait for one instance, unread. At this number `raiseEvent` and `enqueueEvent` reject
   * with `LimitError`, and so do those of an orchestration's context, by the limit of its runtime. A cancellation
   * request is always accepted. Default 1 000 000.
   */
  mailboxMessages?: number;
}

/**
 * Limits of a runtime. An instance that would exceed `historyEvents`, `historyBytes`, `turnBytes`, `pendingActivities`
 * or `fibers` is suspended with a `LimitError`: nothing of that turn is stored, and the instance goes on with
 * `client.resume(id)` once the limit is raised. These five do not apply to replays, so they may be changed while
 * instances run. An instance with a cancellation request may exceed each number by 10 000, and `historyBytes` by 64
 * MiB, to clean up.
 */
export interface RuntimeLimits extends ClientLimits {
  /** Events in the history of one execution; `ctx.continueAsNew` begins another one. Default 1 000 000. */
  historyEvents?: number;
  /** Bytes of the values in the history of one execution, as text in UTF-8. Default 1 GiB. */
  historyBytes?: number;
  /**
   * Bytes of the values that one turn records, as text in UTF-8: the deliveries to the code and its commands until it
   * waits again, which are stored in one transaction. A single value passes even if it is larger. Default 256 MiB, at
   * most 384 MiB.
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

/** Number by which an instance with a cancellation request may exceed its limits, the same as in the engine. */
export const CANCEL_GRACE = 10_000;

/**
 * Commands without a wait after which the code checks for a cancellation request. Histories depend on this number: with
 * another one, a replay would look for a request where none was recorded.
 */
export const INTERRUPT_EVERY = 256;

/** The number of items that `ctx.map` has under way at a time, unless its `concurrency` says otherwise. */
export const MAP_CONCURRENCY = 64;

/** The highest number of messages that one `ctx.drainQueue` or `ctx.dequeueBatch` may ask for. */
export const GATHERED_MAX = 10_000;

/** The number of messages that `ctx.drainQueue` gives at most, unless it is told otherwise. */
export const DRAINED = 1_000;

/** The largest allowed `payloadBytes`: well below what a JavaScript string and a row of a store can hold. */
const PAYLOAD_BYTES_MAX = 256 * 1024 * 1024;

/**
 * The largest allowed `turnBytes`. With its messages to others a turn is written twice, and Postgres takes less than 1
 * GiB at once.
 */
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

/** Returns the given limits over the limits that otherwise apply. A limit that is `undefined` was not given. */
export function limitsOver<T extends ClientLimits>(given: ClientLimits | undefined, otherwise: T): T {
  const entries = Object.entries(given ?? {}).filter(([, value]) => value !== undefined);
  return { ...otherwise, ...Object.fromEntries(entries) };
}
