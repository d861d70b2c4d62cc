// The shown lines of an instance: the last ones, and those that come while the page is open.

import { useEffect, useRef, useState } from 'preact/hooks';

import type { LogRow, LogsAnswer } from '../answers.ts';
import { get, type RequestError } from './api.ts';
import { queryOf } from './route.ts';

export interface ShownLine extends LogRow {
  /** Identifies the line while it is shown. */
  readonly key: number;
}

export interface ShownLines {
  /** The last lines that match, the oldest first; `undefined` until they are read. */
  readonly lines: readonly ShownLine[] | undefined;
  /** True if lines are stored, whether they match or not. */
  readonly hasSome: boolean;
  readonly hasEarlier: boolean;
  readonly error: RequestError | undefined;
}

const NOTHING: ShownLines = { lines: undefined, hasSome: false, hasEarlier: false, error: undefined };

/** The parameters of `GET api/v1/logs` that select lines. */
export interface LinesFilter {
  readonly id: string;
  readonly execution: number | undefined;
  readonly level: string;
  readonly text: string;
  readonly limit: number;
}

/**
 * @param changes - grows with each change of the instance: its new lines are then read
 * @returns the lines; those of the filter before stay until the first ones of a new filter are read
 */
export function useLines(filter: LinesFilter, changes: number): ShownLines {
  const [shown, setShown] = useState(NOTHING);
  const reader = useRef<LogReader | undefined>(undefined);
  const { id, execution, level, text, limit } = filter;
  useEffect(() => {
    const opened = (reader.current = new LogReader(filter, setShown));
    return () => opened.stop();
  }, [id, execution, level, text, limit]);
  useEffect(() => void reader.current?.read(), [id, execution, level, text, limit, changes]);
  return shown;
}

/** Number of lines that the page has received. Each has a key of its own, under any filter. */
let received = 0;

/** Reads the lines of one filter, one request at a time. */
class LogReader {
  readonly #filter: LinesFilter;
  readonly #onShown: (shown: ShownLines) => void;
  readonly #asking = new AbortController();
  #lines: readonly ShownLine[] = [];
  #cursor: string | null = null;
  #hasEarlier = false;
  #isReading = false;
  #isBehind = false;

  constructor(filter: LinesFilter, onShown: (shown: ShownLines) => void) {
    this.#filter = filter;
    this.#onShown = onShown;
  }

  stop(): void {
    this.#asking.abort();
  }

  /** Reads the lines that have come since the last reading. A call during a reading makes that repeat itself. */
  async read(): Promise<void> {
    this.#isBehind = true;
    if (this.#isReading) return;
    this.#isReading = true;
    while (this.#isBehind && !this.#asking.signal.aborted) {
      this.#isBehind = false;
      await this.#readOn().catch((error: RequestError) => this.#show(error));
    }
    this.#isReading = false;
  }

  async #readOn(): Promise<void> {
    const query = queryOf({ ...this.#filter, after: this.#cursor ?? undefined });
    const { lines, cursor, hasEarlier } = await get<LogsAnswer>(`logs?${query}`, this.#asking.signal);
    const read = lines.map((line) => ({ ...line, key: (received += 1) }));
    const all = hasEarlier ? read : [...this.#lines, ...read];
    this.#lines = all.slice(-this.#filter.limit);
    this.#hasEarlier ||= hasEarlier || this.#lines.length < all.length;
    this.#cursor = cursor;
    this.#show();
  }

  #show(error?: RequestError): void {
    if (this.#asking.signal.aborted) return;
    this.#onShown({ lines: this.#lines, hasSome: this.#cursor !== null, hasEarlier: this.#hasEarlier, error });
  }
}
