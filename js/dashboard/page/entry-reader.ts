// The shown entries of a stream: the last ones, and those that come while they are shown.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

import type { EntriesAnswer, EntryRow } from '../answers.ts';
import { get, type RequestError } from './api.ts';
import { queryOf } from './route.ts';

export interface ShownEntries {
  /** The last entries, the oldest first, with the markers before them; `undefined` until they are read. */
  readonly items: readonly EntryRow[] | undefined;
  readonly error: RequestError | undefined;
  /** Reads the entries that have come since the last reading. */
  again(): void;
}

/** @param next - index of the next entry of the stream: when it grows, the new entries are read */
export function useEntries(id: string, name: string, next: number): ShownEntries {
  const [shown, setShown] = useState<Omit<ShownEntries, 'again'>>({ items: undefined, error: undefined });
  const reader = useRef<EntryReader | undefined>(undefined);
  const again = useCallback(() => void reader.current?.read(), []);
  useEffect(() => {
    const opened = (reader.current = new EntryReader(id, name, (items, error) => setShown({ items, error })));
    return () => opened.stop();
  }, [id, name]);
  useEffect(again, [id, name, next]);
  return { ...shown, again };
}

/** Reads the entries of one stream, one request at a time. */
class EntryReader {
  readonly #id: string;
  readonly #name: string;
  readonly #onShown: (items: readonly EntryRow[] | undefined, error?: RequestError) => void;
  readonly #asking = new AbortController();
  #items: readonly EntryRow[] | undefined;
  #next = 0;
  #isReading = false;
  #isBehind = false;

  constructor(
    id: string,
    name: string,
    onShown: (items: readonly EntryRow[] | undefined, error?: RequestError) => void,
  ) {
    this.#id = id;
    this.#name = name;
    this.#onShown = onShown;
  }

  stop(): void {
    this.#asking.abort();
  }

  /** Reads the entries that have come since the last reading. A call during a reading makes that repeat itself. */
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
    const query = queryOf({ id: this.#id, name: this.#name, from: this.#next });
    const { items, first, next } = await get<EntriesAnswer>(`stream?${query}`, this.#asking.signal);
    this.#items = [...(this.#items ?? []), ...items].filter(({ index }) => index >= first);
    this.#next = next;
    this.#show();
  }

  #show(error?: RequestError): void {
    if (!this.#asking.signal.aborted) this.#onShown(this.#items, error);
  }
}
