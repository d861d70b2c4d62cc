// One attempt of a transactional step: runs the user's function and its row in one transaction, or returns the outcome
// that is recorded. The invariants are G1 to G5 of docs/internals/datasources.md.

import { setTimeout as delay } from 'node:timers/promises';

import { neverRetry } from '../activity/activity.ts';
import type { ActivityContext } from '../activity/activity-context.ts';
import { DatasourceError, kindOfError } from '../errors/errors.ts';
import { property } from '../util/show.ts';
import { isThenable } from '../util/thenable.ts';
import { fromErrorPayload, fromPayload, toErrorPayload, toPayload } from '../values/payload.ts';
import { connectionLost, isConflict, messageOf } from './database-errors.ts';
import { type Isolation, type Promised, type StepDatabase, StepTaken, type TransactionFacts } from './step.ts';
import { foundIn, type StepAttempt, type StepRow } from './steps-table.ts';

/** Most runs of one attempt's transaction that the database rolls back because of other transactions. */
const CONFLICT_TRIES = 20;
/** Most times that one attempt begins again after it has lost its connection. */
const CONNECTION_TRIES = 5;
/** Longest delay after the first conflict, ms. It doubles with each conflict, up to the largest. */
const CONFLICT_DELAY = 2;
const CONFLICT_DELAY_MAX = 250;
/** Delay after a lost connection, ms. */
const CONNECTION_DELAY = 200;
/** Longest time in which the failure of an attempt is tried to be written, ms. */
const SETTLE_MAX = 30_000;
/** Longest time from the beginning of an attempt to that of its last transaction, ms (G5). */
const ATTEMPT_MAX = 3_600_000;

/** Isolation level and access of the transactions of an activity. */
type Facts = Omit<TransactionFacts, 'signal'>;

/** Runs an attempt that only reads. */
export function runRead<Tx, T>(
  database: StepDatabase<Tx>,
  facts: Facts,
  ctx: ActivityContext,
  call: (tx: Tx) => Promised<T>,
): Promise<T> {
  const transaction = new StepFacts(facts, ctx);
  return withRetries(ctx, () => database.read(transaction, call));
}

/**
 * The properties of an attempt's transaction. The signal is read late: its controller is made when it is read first,
 * and takes a third of the time of Perdure's code in a step on a synchronous connection, which has no use for it.
 */
class StepFacts implements TransactionFacts {
  readonly isolation: Isolation | undefined;
  readonly isReadOnly: boolean;
  private readonly ctx: ActivityContext;

  constructor({ isolation, isReadOnly }: Facts, ctx: ActivityContext) {
    this.isolation = isolation;
    this.isReadOnly = isReadOnly;
    this.ctx = ctx;
  }

  get signal(): AbortSignal {
    return this.ctx.signal;
  }
}

/**
 * Runs an attempt that writes. Returns the output of the function, or the recorded one.
 *
 * @throws the recorded error, or the error of the function, once that is recorded (G3)
 */
export async function runStep<Tx>(
  database: StepDatabase<Tx>,
  facts: Facts,
  ctx: ActivityContext,
  call: (tx: Tx) => unknown,
): Promise<unknown> {
  const { values } = ctx;
  const step: StepAttempt = {
    key: ctx.idempotencyKey,
    store: await ctx.client.storeId(),
    instanceId: ctx.instanceId,
    executionId: ctx.executionId,
    attempt: ctx.attempt,
  };
  let output: { readonly value: unknown } | null = null;
  const encoded = (value: unknown): string | null => {
    const text = toPayload(value, 'output', values.limits, values.types);
    output = { value };
    return text;
  };
  const body = (tx: Tx): Promised<string | null> => {
    const result = call(tx) as Promised<unknown>;
    // A function that is not asynchronous must not become so: SQLite's transactions are of one piece.
    return isThenable(result) ? result.then(encoded) : encoded(result);
  };
  const transaction = Object.assign(new StepFacts(facts, ctx), { step, isUntried: ctx.isUntried });
  const transact = (): Promise<StepRow> => {
    output = null;
    const row = database.transact(transaction, body);
    transaction.isUntried = false;
    return row;
  };
  let row: StepRow;
  try {
    row = await withRetries(ctx, transact);
  } catch (error) {
    if (isGivenUp(ctx.signal)) throw error;
    row = await settleFailure(database, step, ctx, error);
  }
  const own = output as { readonly value: unknown } | null;
  return own !== null && row.error === null ? own.value : recorded(row, ctx);
}

/** True if the result of an attempt is not used any more, so that another worker may run the same attempt. */
function isGivenUp({ aborted, reason }: AbortSignal): boolean {
  return aborted && kindOfError(reason) !== 'TimeoutError';
}

/** Returns the output of a recorded success. Throws the error of a recorded failure. */
function recorded({ error, output }: StepRow, { values }: ActivityContext): unknown {
  if (error === null) return fromPayload(output, 'output', values.types);
  const failure = fromErrorPayload(error, values.types);
  throw isFinal(failure) ? neverRetry(failure) : failure;
}

/** True if no other attempt may follow. */
function isFinal(error: unknown): boolean {
  return kindOfError(error) === 'DatasourceError' && property(error, 'retryable') === false;
}

/** The parts of an attempt that end its retries. */
type Ending = Pick<ActivityContext, 'signal' | 'isOutOfTime'>;

/**
 * Runs `work` again while the database rolls it back because of other transactions, or the connection is lost. An
 * attempt that is aborted for another reason than its total timeout still runs `work` once, which looks at the signal
 * itself if it waits. Otherwise it is as if the abort had come a moment later.
 */
export async function withRetries<T>(ending: Ending, work: () => Promise<T>): Promise<T> {
  const [began, beganMonotonic] = [Date.now(), performance.now()];
  let [conflicts, losses] = [0, 0];
  for (;;) {
    if (ending.isOutOfTime || conflicts + losses > 0) ending.signal.throwIfAborted();
    if (Math.max(Date.now() - began, performance.now() - beganMonotonic) > ATTEMPT_MAX) throw tooOld();
    try {
      return await work();
    } catch (error) {
      const { signal } = ending;
      // After an abort, the error is that of the cancelled query.
      signal.throwIfAborted();
      // What a datasource found wrong stays wrong, also if a lost connection is the cause.
      if (kindOfError(error) === 'DatasourceError') throw error;
      const isLost = connectionLost(error);
      if (isLost) losses += 1;
      else if (error instanceof StepTaken || isConflict(error)) conflicts += 1;
      else throw error;
      if (losses >= CONNECTION_TRIES || conflicts >= CONFLICT_TRIES) throw error;
      const longest = isLost ? CONNECTION_DELAY : Math.min(CONFLICT_DELAY * 2 ** (conflicts - 1), CONFLICT_DELAY_MAX);
      await delay(isLost ? longest : Math.random() * longest, undefined, { signal }).catch(() => undefined);
    }
  }
}

function tooOld(): DatasourceError {
  return new DatasourceError(
    'the process stood still for more than an hour, so another worker may have run this attempt and its record may ' +
      'be deleted; the attempt begins no transaction',
    { retryable: true, outcome: 'not committed' },
  );
}

/**
 * Writes the failure of an attempt. Returns the row that was in its way, if there is one.
 *
 * @throws `error`, once it is recorded
 * @throws DatasourceError when it cannot be recorded for {@link SETTLE_MAX}
 */
async function settleFailure<Tx>(
  database: StepDatabase<Tx>,
  step: StepAttempt,
  { values }: ActivityContext,
  error: unknown,
): Promise<StepRow> {
  const { table } = database;
  const failure = toErrorPayload(error, values.types);
  const until = AbortSignal.timeout(SETTLE_MAX);
  for (;;) {
    let written: readonly object[];
    try {
      written = await database.run([table.fail(step, failure)], until);
      if (written.length === 0) {
        const { row } = foundIn(await database.run([table.find(step)], until));
        if (row !== undefined) return row;
      }
    } catch (problem) {
      const mayPass = isConflict(problem) || connectionLost(problem);
      if (!mayPass || until.aborted) throw unsettled(table.name, error, problem);
      await delay(CONNECTION_DELAY);
      continue;
    }
    if (written.length > 0) throw isFinal(error) ? neverRetry(error as object) : error;
  }
}

/** Returns the error of an attempt whose failure cannot be recorded. */
function unsettled(table: string, error: unknown, problem: unknown): unknown {
  // The table cannot be used: the same error ended the attempt before its function was called.
  if (kindOfError(error) === 'DatasourceError') return error;
  return new DatasourceError(
    `the attempt failed, and the failure cannot be recorded in the table "${table}": ${messageOf(problem)}. ` +
      'The outcome of its transaction is unknown until the next attempt',
    { retryable: true, outcome: 'unknown', cause: error },
  );
}
