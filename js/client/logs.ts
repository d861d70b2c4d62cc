// The lines that an instance logged and that the runtime kept in the store.

import type { TraceLevel } from '../logging/fields.ts';
import type { StorePort } from '../store/providers.ts';
import { type OptionTable, whole } from '../util/options.ts';
import { show } from '../util/show.ts';

/** Options of {@link Client.logs}. */
export interface LogsOptions {
  /** Only the lines of this execution, from 1. Default: those of all executions. */
  executionId?: number;
  /** The `cursor` of an earlier page: only lines after it. Default: from the oldest line on. */
  cursor?: string | null;
  /** The most lines, up to 1 000. Default 100. */
  limit?: number;
}

/** A line that an orchestration logged. */
export interface LogLine {
  readonly executionId: number;
  /** Time at which the line was logged, by the clock of the worker. */
  readonly time: Date;
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  /** Values that were logged beside the message, as JSON holds them. Absent: none. */
  readonly fields?: Readonly<Record<string, any>>;
}

/** A page of the lines of an instance. */
export interface LogsPage {
  /** The lines, the oldest first. */
  readonly lines: readonly LogLine[];
  /** Cursor after the last line, also for lines that are yet to come. `null`: there are no lines so far. */
  readonly cursor: string | null;
}

/** Most lines of a page. */
const PAGE_MAX = 1_000;

/** @throws TypeError when `value` is no cursor of lines */
function cursor(value: unknown, path: string): void {
  if (value === null || (typeof value === 'string' && /^\d+\.\d+\.\d+\.\d+$/.test(value))) return;
  throw new TypeError(`${path} must be the cursor of an earlier page, got ${show(value)}`);
}

export const LOGS_OPTIONS: OptionTable = { executionId: whole(1), cursor, limit: whole(1, PAGE_MAX) };

interface LogsData {
  readonly lines: readonly {
    readonly executionId: number;
    readonly timeMs: number;
    readonly level: TraceLevel;
    readonly message: string;
    readonly fields: string | null;
  }[];
  readonly cursor: string | null;
}

/** Returns a page of lines; `null`: there is no instance of that id. */
export async function readLogs(port: StorePort, id: string, options: LogsOptions): Promise<LogsPage | null> {
  const { executionId = null, cursor = null, limit = 100 } = options;
  const reply = await port.request({ kind: 'logs', id, executionId, cursor, limit });
  const page = JSON.parse(reply ?? 'null') as LogsData | null;
  if (page === null) return null;
  const lines = page.lines.map(({ executionId, timeMs, level, message, fields }) => ({
    executionId,
    time: new Date(timeMs),
    level,
    message,
    ...(fields === null ? {} : { fields: JSON.parse(fields) as Record<string, unknown> }),
  }));
  return { lines, cursor: page.cursor };
}
