// A client of a `pg` pool during one transaction of a step.

import type { Pool, PoolClient, QueryResult } from 'pg';

import { isThenable } from '../util/thenable.ts';
import { guarded } from './client-guard.ts';
import { type Execution, Pipeline, type PipelinedRow, sendAhead } from './pg-pipeline.ts';
import type { Promised } from './step.ts';

/** Longest wait for an answer of the server after an abort, ms. */
const SILENCE_MAX = 5_000;

/** The server does not answer. The connection counts as lost. */
class SilentServer extends Error {
  readonly code = 'ETIMEDOUT';

  constructor() {
    super(`the server has not answered for ${SILENCE_MAX} ms after the step was aborted`);
  }
}

/** Keeps an error of an idle connection from ending the process. The next use of the pool tells it. */
export function ignoreError(): void {}

/**
 * A client of the pool. It makes few promises, because a promise is dear where async hooks follow it, as they do in an
 * activity. Whatever it waits for, it has one listener at the signal.
 */
export class StepClient {
  /** The begin of the transaction by the server's clock, µs; `undefined` until the server has told it. */
  begun: string | undefined;
  /** Returns the statement that cancels the query of the transaction. */
  cancelling = (): string => '';
  /** The error to throw if the server ended the connection while no statement ran, or refused those sent ahead. */
  lost: unknown;
  connection!: PoolClient;
  private readonly pool: Pool;
  private readonly signal: AbortSignal | undefined;
  private readonly explain: (error: unknown) => unknown;
  private isBroken = false;
  private isSilent = false;
  /** Reacts to the abort of the signal, as the present wait needs it. */
  private onAborted: ((reason: unknown) => void) | undefined;
  /** True while the server has not answered the statements that were sent ahead. */
  private isAhead = false;
  private onAheadAnswered: ((error: Error | null) => void) | undefined;

  private constructor(pool: Pool, signal: AbortSignal | undefined, explain: (error: unknown) => unknown) {
    this.pool = pool;
    this.signal = signal;
    this.explain = explain;
    signal?.addEventListener('abort', this.aborted);
  }

  /**
   * Takes a client of the pool, unless the signal is aborted before there is one.
   *
   * @param explain - returns the error to throw for one of the pool or of a statement of the datasource
   */
  static take(pool: Pool, signal: AbortSignal | undefined, explain: (error: unknown) => unknown): Promise<StepClient> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const client = new StepClient(pool, signal, explain);
      let isGivenUp = false;
      client.onAborted = (reason) => {
        isGivenUp = true;
        reject(reason);
      };
      pool.connect((error, connection) => {
        client.onAborted = undefined;
        if (isGivenUp || connection === undefined) {
          client.stopListening();
          connection?.release();
          reject(explain(error));
        } else {
          client.connection = connection;
          connection.on('error', client.onError);
          resolve(client);
        }
      });
    });
  }

  /** Sends statements as one text, and returns the result of each. */
  query(text: string): Promise<QueryResult[]> {
    return this.answer((answered) => {
      this.connection.query(text, (error: Error | null, result: QueryResult | QueryResult[]) => {
        answered(error, Array.isArray(result) ? result : [result]);
      });
    });
  }

  /** Prepares statements, by their names. */
  prepare(texts: ReadonlyMap<string, string>): Promise<unknown> {
    return this.answer((answered) => this.connection.query(Pipeline.preparing(texts, answered)));
  }

  /** Runs prepared statements, and returns all their rows. */
  run(executions: readonly Execution[]): Promise<readonly PipelinedRow[]> {
    return this.answer((answered) => this.connection.query(Pipeline.running(executions, answered)));
  }

  /** Sends prepared statements with the first statement of the user's function. */
  runAhead(executions: readonly Execution[], answered: (rows: readonly PipelinedRow[]) => void): void {
    this.isAhead = true;
    sendAhead(this.connection, executions, (error, rows) => {
      this.isAhead = false;
      if (error === null) answered(rows);
      else this.onError(error);
      this.onAheadAnswered?.(error);
    });
  }

  /**
   * Waits until the statements that were sent ahead are answered.
   *
   * @throws the error of these statements, or that of a lost connection
   */
  aheadAnswered(): Promise<void> | undefined {
    if (!this.isAhead) return this.lost === undefined ? undefined : Promise.reject(this.lost);
    return this.answer((answered) => {
      this.onAheadAnswered = (error) => answered(error, undefined);
    });
  }

  /** Waits for an answer of the server, after an abort no longer than {@link SILENCE_MAX}. */
  private answer<T>(send: (answered: (error: Error | null, value: T) => void) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      let silence: NodeJS.Timeout | undefined;
      this.onAborted = () => {
        silence = setTimeout(() => {
          this.isSilent = true;
          this.isBroken = true;
          reject(new SilentServer());
        }, SILENCE_MAX);
      };
      if (this.signal?.aborted) this.onAborted(undefined);
      send((error, value) => {
        this.onAborted = undefined;
        clearTimeout(silence);
        if (error) reject(this.explain(error));
        else resolve(value);
      });
    });
  }

  /** Calls the user's function, until the signal is aborted. */
  call<T>(body: (tx: PoolClient) => Promised<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.signal?.throwIfAborted();
      const guard = guarded(this.connection);
      const settled =
        <V>(then: (value: V) => void) =>
        (value: V): void => {
          this.onAborted = undefined;
          guard.end();
          then(value);
        };
      const [succeeded, failed] = [settled(resolve), settled(reject)];
      this.onAborted = (reason) => {
        this.cancel().catch(ignoreError);
        failed(reason);
      };
      try {
        const result = body(guard.client);
        if (isThenable<PromiseLike<T>>(result)) result.then(succeeded, failed);
        else succeeded(result);
      } catch (error) {
        failed(error);
      }
    });
  }

  async rollback(): Promise<void> {
    try {
      if (!this.isSilent) await this.query('ROLLBACK');
    } catch {
      this.isBroken = true;
    }
  }

  private readonly aborted = (): void => this.onAborted?.(this.signal?.reason);

  private stopListening(): void {
    this.signal?.removeEventListener('abort', this.aborted);
  }

  release(): void {
    this.stopListening();
    this.connection.off('error', this.onError);
    this.connection.release(this.isBroken);
  }

  private readonly onError = (error: Error): void => {
    this.lost ??= this.explain(error);
    this.isBroken = true;
  };

  /** Cancels the statement that runs. It may arrive late, so the client is not used again. */
  private async cancel(): Promise<void> {
    this.isBroken = true;
    // The server tells its process and the begin of the transaction, which the cancellation names, by then.
    await this.aheadAnswered();
    const { constructor: Client } = this.connection as unknown as { constructor: new (options: object) => PoolClient };
    const other = new Client(this.pool.options);
    other.on('error', ignoreError);
    try {
      await other.connect();
      await other.query(this.cancelling());
    } finally {
      await other.end();
    }
  }
}
