// Prepared statements of `pg` that are sent together, as one message to the server with one wait for its answers. The
// server parses no text then, and describes no rows.

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
  const wire = property(client, 'connection');
  const isWhole = ['parse', 'bind', 'execute', 'sync'].every((name) => typeof property(wire, name) === 'function');
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
    return new Pipeline((wire) => {
      for (const { name, values } of executions) {
        wire.bind({ statement: name, values: values.map(textOfValue) }, true);
        wire.execute({}, true);
      }
    }, callback);
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

  /** The server does not name the columns, because it describes no row. */
  handleDataRow({ fields }: { readonly fields: readonly unknown[] }): void {
    const [attempt, output, error, begun, pid] = fields;
    this.rows.push({ attempt, output, error, begun, pid } as PipelinedRow);
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

function textOfValue(value: string | number | null): string | null {
  return typeof value === 'number' ? String(value) : value;
}
