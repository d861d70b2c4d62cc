// Prepared statements of `pg` that are sent together, as one message to the server with one wait for its answers, or in
// one message with the next query. The server parses no text then, and describes no rows.

import type { Connection, PoolClient, Submittable } from 'pg';

import { property } from '../util/show.ts';

/** A statement that the connection has prepared, with the values of its parameters. */
export interface Execution {
  readonly name: string;
  readonly values: readonly (string | number | null)[];
}

/** A row of a statement that looks for a step, as the texts of its columns. */
export interface PipelinedRow {
  readonly attempt: string | null;
  readonly output: string | null;
  readonly error: string | null;
  readonly begun: string;
  readonly pid: string;
}

/** Gets the rows of all statements, or the error of the first one that failed. Those behind it have not run. */
type Answered = (error: Error | null, rows: readonly PipelinedRow[]) => void;

/** True for a client that takes a {@link Pipeline}: one without `libpq`, and not in the pipeline mode of `pg`. */
export function canPipeline(client: PoolClient): boolean {
  const wire = wireOf(client);
  const parts = ['parse', 'bind', 'execute', 'flush', 'sync', 'emit'];
  const isWhole = parts.every((name) => typeof property(wire, name) === 'function');
  return isWhole && property(client, 'pipeline') !== true;
}

/** Statements that the client sends at once. They run in the order in which they were added, until one fails. */
export class Pipeline implements Submittable {
  /** `pg` replaces it when it has a timeout of its own. */
  callback: Answered;
  private readonly send: (wire: Connection) => void;
  private readonly rows: PipelinedRow[] = [];

  private constructor(send: (wire: Connection) => void, callback: Answered) {
    this.send = send;
    this.callback = callback;
  }

  /** Prepares statements, by their names. */
  static preparing(texts: ReadonlyMap<string, string>, callback: Answered): Pipeline {
    return new Pipeline((wire) => {
      for (const [name, text] of texts) wire.parse({ name, text, types: [] }, true);
    }, callback);
  }

  /** Runs prepared statements. */
  static running(executions: readonly Execution[], callback: Answered): Pipeline {
    return new Pipeline((wire) => execute(wire, executions), callback);
  }

  submit(wire: Connection): void {
    wire.stream.cork();
    try {
      this.send(wire);
      wire.sync();
    } finally {
      wire.stream.uncork();
    }
  }

  handleDataRow(row: DataRow): void {
    this.rows.push(rowOf(row));
  }

  handleError(error: Error): void {
    this.callback(error, this.rows);
  }

  handleReadyForQuery(): void {
    this.callback(null, this.rows);
  }

  handleRowDescription(): void {}
  handleCommandComplete(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
}

/** True for a client that has no query to send or to wait for, as {@link sendAhead} needs it. */
export function isIdle(client: PoolClient): boolean {
  return property(client, 'readyForQuery') === true;
}

/**
 * Sends prepared statements of an idle client ahead of its next query: in one message with that query if it is sent
 * before the next tick. The server answers these statements at once, and they have no round trip of their own.
 *
 * They have no `Sync`, because the answer to it would tell `pg` that the query has ended. So `pg` does not see their
 * answers, and the connection is closed if one of them fails: the server would skip all that follows.
 */
export function sendAhead(client: PoolClient, executions: readonly Execution[], answered: Answered): void {
  const wire = wireOf(client) as Connection;
  const { emit, stream } = wire;
  const rows: PipelinedRow[] = [];
  let left = executions.length;
  const end = (error: Error | null): void => {
    wire.emit = emit;
    answered(error, rows);
  };
  wire.emit = (event: string, ...args: unknown[]): boolean => {
    switch (event) {
      case 'bindComplete':
        return true;
      case 'dataRow':
        rows.push(rowOf(args[0] as DataRow));
        return true;
      case 'commandComplete':
        left -= 1;
        if (left === 0) end(null);
        return true;
      case 'errorMessage':
        end(args[0] as Error);
        stream.destroy();
        return true;
      case 'error':
      case 'end':
        end(event === 'error' ? (args[0] as Error) : new Error('Connection terminated unexpectedly'));
    }
    return emit.call(wire, event, ...args);
  };
  stream.cork();
  execute(wire, executions);
  wire.flush();
  process.nextTick(() => stream.uncork());
}

function execute(wire: Connection, executions: readonly Execution[]): void {
  for (const { name, values } of executions) {
    wire.bind({ statement: name, values: values.map(textOfValue) }, true);
    wire.execute({}, true);
  }
}

function wireOf(client: PoolClient): unknown {
  return property(client, 'connection');
}

/** The message with a row. It does not name the columns of statements that are not described. */
interface DataRow {
  readonly fields: readonly unknown[];
}

function rowOf({ fields: [attempt, output, error, begun, pid] }: DataRow): PipelinedRow {
  return { attempt, output, error, begun, pid } as PipelinedRow;
}

function textOfValue(value: string | number | null): string | null {
  return typeof value === 'number' ? String(value) : value;
}
