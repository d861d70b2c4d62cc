import { type Duration, parseDuration } from '../util/duration.ts';
import { property } from '../util/show.ts';
import { type ErrorJson, errorJson } from './error-json.ts';

/** The last argument of every error. `cause` is the error or value that led to this one. */
export interface PerdureErrorOptions {
  cause?: unknown;
}

/**
 * The base of every error that Perdure throws.
 *
 * `code` is stable over versions, so programs should look at it or at the class, never at the message.
 */
export class PerdureError extends Error {
  /** The kind of failure, as a constant such as `'INSTANCE_NOT_FOUND'`. */
  readonly code: string;

  constructor(message: string, code: string, options?: PerdureErrorOptions) {
    super(message, options);
    this.code = code;
  }

  /**
   * Returns the error as plain JSON, which `JSON.stringify` takes: name, message, code, own fields and causes, without
   * stacks.
   *
   * @example
   * ```ts
   * response.json({ error });   // {"error":{"name":"ActivityError","message":"…","code":"ACTIVITY",…,"cause":{…}}}
   * ```
   */
  toJSON(): ErrorJson {
    return errorJson(this);
  }
}

/** An instance was started under an id that is in use, with `onConflict: 'error'`. */
export class InstanceExistsError extends PerdureError {
  /** The id in use. */
  readonly instanceId: string;

  constructor(message: string, fields: { instanceId: string } & PerdureErrorOptions) {
    super(message, 'INSTANCE_EXISTS', fields);
    this.instanceId = fields.instanceId;
  }
}

/** An operation named an instance that the store does not hold. */
export class InstanceNotFoundError extends PerdureError {
  /** The id that was asked for. */
  readonly instanceId: string;

  constructor(message: string, fields: { instanceId: string } & PerdureErrorOptions) {
    super(message, 'INSTANCE_NOT_FOUND', fields);
    this.instanceId = fields.instanceId;
  }
}

/** A start, or a deletion, named a queue of instances that the store does not hold. Nothing was started. */
export class QueueNotFoundError extends PerdureError {
  /** The name of the queue. */
  readonly queue: string;

  constructor(message: string, fields: { queue: string } & PerdureErrorOptions) {
    super(message, 'QUEUE_NOT_FOUND', fields);
    this.queue = fields.queue;
  }
}

/** An instance was addressed by a definition, and runs another orchestration. */
export class WrongDefinitionError extends PerdureError {
  /** Id of the instance. */
  readonly instanceId: string;
  /** Name of the orchestration that the definition is of. */
  readonly expected: string;
  /** Name of the orchestration that the instance runs. */
  readonly actual: string;

  constructor(message: string, fields: { instanceId: string; expected: string; actual: string } & PerdureErrorOptions) {
    super(message, 'WRONG_DEFINITION', fields);
    this.instanceId = fields.instanceId;
    this.expected = fields.expected;
    this.actual = fields.actual;
  }
}

/**
 * A name was used that no runtime here has registered, or an update or a query of a name that the orchestration does
 * not handle.
 */
export class NotRegisteredError extends PerdureError {
  /** The kind of definition that is missing. */
  readonly kind: 'activity' | 'orchestration' | 'update' | 'query';
  /** The name that is not registered. */
  readonly missing: string;
  /** The version that was asked for; absent when any version would have done. */
  declare readonly version?: string;

  constructor(
    message: string,
    fields: {
      kind: 'activity' | 'orchestration' | 'update' | 'query';
      missing: string;
      version?: string;
    } & PerdureErrorOptions,
  ) {
    super(message, 'NOT_REGISTERED', fields);
    this.kind = fields.kind;
    this.missing = fields.missing;
    if (fields.version !== undefined) this.version = fields.version;
  }
}

/**
 * A value cannot be stored, or a stored value cannot be read. Thrown where the value was handed over, before anything
 * is stored.
 */
export class PayloadError extends PerdureError {
  /** The place in the value: `input.items[3].price`. */
  readonly path: string;

  constructor(message: string, fields: { path: string } & PerdureErrorOptions) {
    super(message, 'PAYLOAD', fields);
    this.path = fields.path;
  }
}

/** Something did not happen within its time: a client's wait, an activity's attempt, a `withTimeout` block. */
export class TimeoutError extends PerdureError {
  /** The time limit, in ms; absent where it is not known. */
  declare readonly timeoutMs?: number;
  /** The reason for which an instance that a client waited for does not go on; absent where it is not known. */
  declare readonly reason?: string;

  constructor(message: string, fields: { timeoutMs?: number; reason?: string } & PerdureErrorOptions = {}) {
    super(message, 'TIMEOUT', fields);
    if (fields.timeoutMs !== undefined) this.timeoutMs = fields.timeoutMs;
    if (fields.reason !== undefined) this.reason = fields.reason;
  }
}

/**
 * The work was cancelled: by a client, by its parent, or by `future.cancel()`. The error can be caught. An
 * orchestration that lets it out ends as Cancelled.
 */
export class CancelledError extends PerdureError {
  /** The reason that was given for the cancellation, if one was. */
  declare readonly reason?: string;

  constructor(reason?: string, options: PerdureErrorOptions = {}) {
    super(reason === undefined ? 'cancelled' : `cancelled: ${reason}`, 'CANCELLED', options);
    if (reason !== undefined) this.reason = reason;
  }
}

/** An activity failed for good. `cause` is the error of its last attempt. */
export class ActivityError extends PerdureError {
  /** The activity's registered name, or the name given to `ctx.run`. */
  readonly activityName: string;
  /** The attempt that failed last, counted from 1. */
  readonly attempt: number;
  /** The error of the last attempt. A thrown value that was no error is the `cause` of an `Error`. */
  declare readonly cause: Error;

  constructor(message: string, fields: { activityName: string; attempt: number; cause: Error }) {
    super(message, 'ACTIVITY', fields);
    this.activityName = fields.activityName;
    this.attempt = fields.attempt;
  }
}

/** A child orchestration failed, was cancelled or was terminated. `cause` is the error that it ended with. */
export class SubOrchestrationError extends PerdureError {
  /** The child's registered name. */
  readonly orchestrationName: string;
  /** The child's id. */
  readonly instanceId: string;
  /** The error that the child ended with, or the reason for which it could not be started. */
  declare readonly cause: Error;

  constructor(message: string, fields: { orchestrationName: string; instanceId: string; cause: Error }) {
    super(message, 'SUB_ORCHESTRATION', fields);
    this.orchestrationName = fields.orchestrationName;
    this.instanceId = fields.instanceId;
  }
}

/**
 * Thrown by an activity to say that another attempt is useless.
 *
 * @example
 * ```ts
 * if (response.status === 404) throw new NonRetryableError('no such customer', { cause: response.status });
 * ```
 */
export class NonRetryableError extends PerdureError {
  constructor(message: string, options?: PerdureErrorOptions) {
    super(message, 'NON_RETRYABLE', options);
  }
}

/**
 * Thrown by an activity to set the delay before its next attempt, in place of the policy's.
 *
 * @example
 * ```ts
 * if (response.status === 429) throw new RetryAfterError('30s', 'rate limited');
 * ```
 */
export class RetryAfterError extends PerdureError {
  /** The delay, in ms. */
  readonly retryAfterMs: number;

  /** @throws TypeError when `duration` is no duration */
  constructor(duration: Duration, message?: string, options?: PerdureErrorOptions) {
    const retryAfterMs = parseDuration(duration, 'duration');
    super(message ?? `to be retried in ${retryAfterMs} ms`, 'RETRY_AFTER', options);
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * An orchestration called something whose result a replay cannot repeat, such as `setTimeout` or `fetch`, yielded
 * something that is no future, or used a future in the place of its value.
 */
export class DeterminismError extends PerdureError {
  /** The call that was made. */
  readonly called: string;
  /** The call to make in its place. */
  readonly instead: string;

  constructor(message: string, fields: { called: string; instead: string } & PerdureErrorOptions) {
    super(message, 'DETERMINISM', fields);
    this.called = fields.called;
    this.instead = fields.instead;
  }
}

/** The point where an orchestration and its history differ. */
export interface NondeterminismReport {
  /** The event at which they differ, counted from 1. */
  eventId: number;
  /** The entry of the history there. */
  recorded: string;
  /** The action of the code in its place. */
  attempted: string;
  /** The field that differs, if both are of the same kind. */
  field?: { name: string; recorded: string; attempted: string };
  /** The most frequent cause. */
  hint?: string;
  /** The line of the orchestration that attempted it. */
  source?: string;
}

/**
 * The code of an orchestration no longer fits its history. Nothing was changed. The instance is Suspended until code
 * that fits comes.
 */
export class NondeterminismError extends PerdureError {
  /** The recorded action against the attempted one. */
  readonly report: NondeterminismReport;

  constructor(message: string, fields: { report: NondeterminismReport } & PerdureErrorOptions) {
    super(message, 'NONDETERMINISM', fields);
    this.report = fields.report;
  }
}

/**
 * The result of an instance was asked for, and the instance is Suspended: it does not go on until code that fits comes,
 * or until `client.resume(id)`. `cause` is the reason of the suspension, such as a {@link NondeterminismError}.
 */
export class SuspendedError extends PerdureError {
  /** Id of the instance. */
  readonly instanceId: string;
  /** The reason of the suspension; absent where it is not known. */
  declare readonly cause?: Error;

  constructor(message: string, fields: { instanceId: string; cause?: Error }) {
    super(message, 'SUSPENDED', fields);
    this.instanceId = fields.instanceId;
  }
}

/** A named limit of the runtime (its `limits` option) was reached. */
export class LimitError extends PerdureError {
  /** The limit's name. */
  readonly limit: string;
  /** The limit's value. */
  readonly max: number;

  constructor(message: string, fields: { limit: string; max: number } & PerdureErrorOptions) {
    super(message, 'LIMIT', fields);
    this.limit = fields.limit;
    this.max = fields.max;
  }
}

/** An entry was written to a stream that is closed. Nothing was stored. */
export class StreamClosedError extends PerdureError {
  /** Name of the stream. */
  readonly stream: string;

  constructor(message: string, fields: { stream: string } & PerdureErrorOptions) {
    super(message, 'STREAM_CLOSED', fields);
    this.stream = fields.stream;
  }
}

/** The store failed or refused the call. The message holds no payload and no password. */
export class ProviderError extends PerdureError {
  /** True if the same call may work later. */
  readonly retryable: boolean;
  /**
   * The state of the call's write. `'not committed'`: the write has not taken effect, and it will not; the call may be
   * repeated. `'unknown'`: the write may have taken effect, or may be found to have after a crash. Look before the call
   * is repeated, or repeat a start with `onConflict: 'return'`. Without meaning for a call that only reads.
   */
  readonly outcome: 'not committed' | 'unknown';

  constructor(
    message: string,
    fields: { retryable: boolean; outcome?: 'not committed' | 'unknown' } & PerdureErrorOptions,
  ) {
    super(message, 'PROVIDER', fields);
    this.retryable = fields.retryable;
    this.outcome = fields.outcome ?? 'not committed';
  }
}

/** A datasource could not run a transactional step, or the function of the step used its transaction wrongly. */
export class DatasourceError extends PerdureError {
  /** False if no further attempt follows. */
  readonly retryable: boolean;
  /** The state of the writes of the step: `'unknown'` if they may have been committed. */
  readonly outcome: 'not committed' | 'unknown';

  constructor(
    message: string,
    fields: { retryable: boolean; outcome: 'not committed' | 'unknown' } & PerdureErrorOptions,
  ) {
    super(message, 'DATASOURCE', fields);
    this.retryable = fields.retryable;
    this.outcome = fields.outcome;
  }
}

/**
 * The store was written by a newer Perdure, or by an older one and is not to be changed (`migrate: false`). Nothing was
 * touched.
 */
export class SchemaVersionError extends PerdureError {
  /** The schema version of the store. */
  readonly found: number;
  /** The newest schema version that this Perdure knows. */
  readonly supported: number;

  constructor(message: string, fields: { found: number; supported: number } & PerdureErrorOptions) {
    super(message, 'SCHEMA_VERSION', fields);
    this.found = fields.found;
    this.supported = fields.supported;
  }
}

/**
 * A runtime, client or provider was asked for something that its state does not allow, such as a second start or use
 * after it was closed.
 */
export class RuntimeStateError extends PerdureError {
  constructor(message: string, options?: PerdureErrorOptions) {
    super(message, 'RUNTIME_STATE', options);
  }
}

/** An item of `ctx.map` failed. `cause` is its error. */
export class MapItemError extends PerdureError {
  /** The position of the item, from 0. */
  readonly index: number;
  /** The name of the item, if `ctx.map` was given `key`. */
  declare readonly key?: string;

  constructor(message: string, fields: { index: number; key?: string } & PerdureErrorOptions) {
    super(message, 'MAP_ITEM', fields);
    this.index = fields.index;
    if (fields.key !== undefined) this.key = fields.key;
  }
}

/** A saga has failed, and so have compensations of it. `cause` is the error that the saga failed with. */
export class CompensationError extends PerdureError {
  /** The errors of the compensations that failed, in the order in which they ran. The others have succeeded. */
  readonly errors: readonly unknown[];

  constructor(message: string, fields: { errors: readonly unknown[] } & PerdureErrorOptions) {
    super(message, 'COMPENSATION', fields);
    this.errors = fields.errors;
  }
}

/** All error classes by name. A stored error is restored from them. */
export const ERROR_CLASSES = {
  PerdureError,
  InstanceExistsError,
  InstanceNotFoundError,
  QueueNotFoundError,
  WrongDefinitionError,
  NotRegisteredError,
  PayloadError,
  TimeoutError,
  CancelledError,
  ActivityError,
  SubOrchestrationError,
  NonRetryableError,
  RetryAfterError,
  DeterminismError,
  NondeterminismError,
  SuspendedError,
  LimitError,
  StreamClosedError,
  ProviderError,
  DatasourceError,
  SchemaVersionError,
  RuntimeStateError,
  MapItemError,
  CompensationError,
} as const;

/** Key under which a prototype of {@link ERROR_CLASSES} has its name, in every copy of this package. */
const KIND = Symbol.for('perdure.error');

/** Returns the name of the nearest class of {@link ERROR_CLASSES}, of this or another copy of this package. */
export function kindOfError(value: unknown): unknown {
  return property(value, KIND);
}

// Names are on the prototypes, as those of the built-in errors are: they show in stacks and survive minification.
for (const [name, type] of Object.entries(ERROR_CLASSES)) {
  Object.defineProperty(type.prototype, KIND, { value: name });
  Object.defineProperty(type.prototype, 'name', { value: name, writable: true, configurable: true });
}
