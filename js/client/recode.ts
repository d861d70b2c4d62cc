// Encodes all texts of a store anew with the key that its codec writes with, page by page, while workers run.
//
// Invariants:
//
//   R1. A text is replaced by one of the same value and the same place, and only if it has not changed since it was
//       read. A text that a worker writes meanwhile stays.
//   R2. At every end, also after a kill, the store is consistent, and a second run goes on with the rest: each text
//       names its key.
//   R3. The run is done when a walk over all tables has found no text of another key. A walk goes over the tables in
//       the order in which values move between them. The next walk finds a value that moved past this one.

import { PayloadError } from '../errors/errors.ts';
import type { StorePort } from '../store/providers.ts';
import { abortSignal, untilAborted } from '../util/abort.ts';
import { bool, func, type OptionTable } from '../util/options.ts';
import { isInstance } from '../util/show.ts';
import { Place } from '../values/codec-context.ts';
import { keyIdOf, keyPrefix, type StoredTexts } from '../values/stored-text.ts';
import { checkedEntry, joinEntries, splitEntries } from '../values/stream-entries.ts';
import { EventPlaces } from './event-places.ts';
import type { HistoryEventKind } from './history.ts';

/** Options of {@link Client.recode}. */
export interface RecodeOptions {
  /** Only counts, and changes nothing. Default `false`. */
  dryRun?: boolean;
  /** Called after each page, which holds at most 500 rows and some 1 MiB. */
  onProgress?: (progress: RecodeProgress) => void;
  /**
   * When aborted, ends the call at once: it rejects with the signal's reason. At most the page that is under way is
   * still encoded anew, and texts that were encoded anew stay so. Default: none.
   */
  signal?: AbortSignal;
}

/** The progress of a run. */
export interface RecodeProgress {
  /** Number of the current walk over the store, from 1. */
  readonly walk: number;
  /** Rows that this walk has read. */
  readonly rows: number;
  /** Texts encoded anew, in all walks. */
  readonly recoded: number;
}

/** The result of a run. */
export interface Recoded {
  /** The key that the codec writes with. */
  readonly keyId: string;
  /** Texts encoded anew. */
  readonly recoded: number;
  /**
   * Numbers of texts by their keys, as the last walk found them. Texts of `keyId` are counted only in a dry run. `'#'`
   * stands for a codec that named no key, and `'plain'` for plain text.
   */
  readonly found: Readonly<Record<string, number>>;
  /** Number of texts that stay as they are, because the codec cannot read them. `failures` holds the first 100. */
  readonly unreadable: number;
  readonly failures: readonly RecodeFailure[];
}

/** A text that could not be encoded anew. */
export interface RecodeFailure {
  readonly instance: string;
  readonly execution: number | null;
  readonly place: string;
  readonly error: PayloadError;
}

export const RECODE_OPTIONS: OptionTable = {
  dryRun: bool,
  onProgress: func,
  signal: abortSignal,
};

/** The tables, in the order in which values move from one to the next. */
const TABLES = ['messages', 'heartbeats', 'state', 'asks', 'stream_chunks', 'instances', 'history'] as const;
type Table = (typeof TABLES)[number];

/** Most failures that are kept. */
const FAILURES_MAX = 100;
/** Characters of a text that are read in a dry run; they hold its key. */
const HEAD = 300;
/** Walks before the run gives up. If texts of other keys still appear then, a worker or client uses another codec. */
const WALKS_MAX = 20;

/** Texts of a row, as the addon sends them. */
interface TextData {
  readonly row: string;
  readonly instance: string;
  readonly execution: number;
  readonly number: number;
  readonly kind: string | null;
  readonly name: string | null;
  readonly refId: number | null;
  readonly scheduled: string | null;
  readonly text: string | null;
  readonly other: string | null;
}

interface PageData {
  readonly texts: readonly TextData[];
  readonly walked: number;
  readonly next: string | null;
}

interface Change {
  readonly row: string;
  readonly isOther: boolean;
  readonly before: string;
  readonly after: string;
  /** Number of the values in it that are encoded anew. */
  readonly values: number;
}

/** The state of one run. */
class Recoding {
  readonly keyId: string;
  recoded = 0;
  rows = 0;
  walk = 0;
  found: Record<string, number> = {};
  unreadable = 0;
  failures: RecodeFailure[] = [];
  private readonly port: StorePort;
  private readonly texts: StoredTexts;
  private readonly options: RecodeOptions;

  constructor(port: StorePort, keyId: string, options: RecodeOptions) {
    this.port = port;
    this.texts = port.texts;
    this.keyId = keyId;
    this.options = options;
  }

  /** Walks over all tables. Returns `true` when nothing was found that could be encoded anew. */
  async walkOnce(): Promise<boolean> {
    this.walk += 1;
    this.rows = this.unreadable = 0;
    this.found = {};
    this.failures = [];
    const before = this.recoded;
    let isDone = true;
    for (const table of TABLES) {
      for (let after: string | null = null; ; ) {
        const page: PageData = await this.page(table, after);
        isDone = (await this.recode(table, page.texts)) && isDone;
        this.rows += page.walked;
        this.options.onProgress?.({ walk: this.walk, rows: this.rows, recoded: this.recoded });
        after = page.next;
        if (after === null) break;
      }
    }
    return isDone && this.recoded === before;
  }

  private async page(table: Table, after: string | null): Promise<PageData> {
    const { dryRun = false } = this.options;
    // A dry run also counts the texts of the codec's key. No stored text begins with `!`, so none is left out.
    const except = dryRun ? '!' : keyPrefix(this.keyId);
    const head = dryRun ? HEAD : null;
    const request = { kind: 'texts', table, after, except, head } as const;
    return JSON.parse((await this.port.request(request, null, this.options.signal)) as string) as PageData;
  }

  /**
   * Encodes texts of a table anew. Returns `false` when another walk must follow, because a row was changed meanwhile.
   */
  private async recode(table: Table, texts: readonly TextData[]): Promise<boolean> {
    const changes: Change[] = [];
    for (const data of texts) {
      this.options.signal?.throwIfAborted();
      for await (const change of this.changesOf(table, data)) changes.push(change);
    }
    if (changes.length === 0) return true;
    const request = { kind: 'replaceTexts', table } as const;
    const replaced = Number(await this.port.request(request, JSON.stringify(changes), this.options.signal));
    const isDone = replaced === changes.length;
    // Where a worker came first, the next walk finds the rest.
    this.recoded += isDone ? changes.reduce((sum, { values }) => sum + values, 0) : replaced;
    return isDone;
  }

  private async *changesOf(table: Table, data: TextData): AsyncGenerator<Change> {
    const { row, text, other } = data;
    if (text !== null && table === 'stream_chunks') {
      const anew = await this.entriesAnew(text, placeOf(table, data));
      if (anew !== null) yield { row, isOther: false, before: text, ...anew };
    } else if (text !== null) {
      const after = await this.anew(text, placeOf(table, data));
      if (after !== null) yield { row, isOther: false, before: text, after, values: 1 };
    }
    if (other === null) return;
    const anew = await this.otherAnew(table, data.instance, other);
    if (anew !== null) yield { row, isOther: true, before: other, ...anew };
  }

  /**
   * Returns the entries of a chunk encoded anew, and the number of those that have changed; `null` when there is
   * nothing to change. A dry run has only the beginning of the text, and counts its first entry for all.
   */
  private async entriesAnew(text: string, place: Place): Promise<Pick<Change, 'after' | 'values'> | null> {
    const entries = splitEntries(text);
    if (this.options.dryRun === true) {
      const [first] = entries.filter((entry) => entry !== null);
      if (first !== undefined) await this.anew(first, place);
      return null;
    }
    let values = 0;
    for (const [n, entry] of entries.entries()) {
      const after = entry === null ? null : await this.anew(entry, place);
      if (after === null) continue;
      entries[n] = checkedEntry(after, place.place);
      values += 1;
    }
    return values > 0 ? { after: joinEntries(entries), values } : null;
  }

  /**
   * Returns the report of a suspension with its reason encoded anew, or the metadata of an event with its custom status
   * and its state encoded anew, and the number of the values; `null` when there is nothing to change.
   */
  private async otherAnew(
    table: Table,
    instance: string,
    text: string,
  ): Promise<Pick<Change, 'after' | 'values'> | null> {
    let json: Record<string, unknown>;
    try {
      json = JSON.parse(text) as Record<string, unknown>;
    } catch {
      // The store's own report is plain text.
      return null;
    }
    let values = 0;
    for (const [holder, field, place] of valuesIn(table, instance, json)) {
      const value = holder[field];
      const after = typeof value === 'string' ? await this.anew(value, place) : null;
      if (after === null) continue;
      holder[field] = after;
      values += 1;
    }
    return values > 0 ? { after: JSON.stringify(json), values } : null;
  }

  /** Returns the text encoded with the key that the codec writes with; `null` when the stored text stays. */
  private async anew(text: string, place: Place): Promise<string | null> {
    const keyId = keyIdOf(text);
    const name = keyId === undefined ? 'plain' : (keyId ?? '#');
    if (this.options.dryRun === true) {
      this.found[name] = (this.found[name] ?? 0) + 1;
      return null;
    }
    if (keyId === this.keyId) return null;
    this.found[name] = (this.found[name] ?? 0) + 1;
    let after: string;
    try {
      after = await this.texts.encoded(await this.texts.decoded(text, place.place, place), place.place, place);
    } catch (error) {
      if (!isInstance(error, PayloadError)) throw error;
      this.unreadable += 1;
      const { instance, execution } = place;
      if (this.failures.length < FAILURES_MAX) this.failures.push({ instance, execution, place: place.place, error });
      return null;
    }
    if (keyIdOf(after) === this.keyId) return after;
    throw new PayloadError(
      `the codec names key '${keyIdOf(after)}' now, and '${this.keyId}' before: it must write with one key`,
      { path: place.place },
    );
  }
}

type Holder = Record<string, unknown>;

/** Returns the fields of a report or of an event's metadata that may hold values, with the objects that have them. */
function valuesIn(table: Table, instance: string, json: Holder): [holder: Holder, field: string, place: Place][] {
  if (table !== 'history') {
    const details = json?.details as Holder | undefined;
    return details === undefined ? [] : [[details, 'reason', Place.ofInstance(instance, 'suspension')]];
  }
  const state = (json.state ?? {}) as Holder;
  return [
    [json, 'customStatus', Place.ofInstance(instance, 'status')],
    ...Object.keys(state).map((name) => [state, name, Place.ofState(instance, name)] as [Holder, string, Place]),
  ];
}

function placeOf(table: Table, data: TextData): Place {
  const { instance, execution, number, kind, name } = data;
  switch (table) {
    case 'messages':
      return placeOfMessage(data);
    case 'heartbeats':
      return Place.activity(instance, execution, number, 'heartbeat');
    case 'state':
      return Place.ofState(instance, name ?? '');
    case 'asks':
      return Place.ofAsk(instance, name ?? '', kind === 'Error' ? 'error' : 'output');
    case 'stream_chunks':
      return Place.ofStream(instance, name ?? '');
    case 'instances':
      return Place.ofInstance(instance, 'status');
    case 'history': {
      const places = new EventPlaces(instance, execution);
      const { refId } = data;
      if (refId !== null && data.scheduled !== null)
        places.note({ eventId: refId, kind: 'ChildScheduled', meta: metaOf(data.scheduled) });
      return places.of({ eventId: number, kind: kind as HistoryEventKind, refId, name, meta: metaOf(data.other) });
    }
    default:
      return table satisfies never;
  }
}

function placeOfMessage({ instance, execution, kind, name, refId, scheduled }: TextData): Place {
  const child = String(metaOf(scheduled).id ?? '');
  switch (kind) {
    case 'Event':
      return Place.mail(instance, { kind: 'event', name: name ?? '' });
    case 'Queue':
      return Place.mail(instance, { kind: 'queue', name: name ?? '' });
    case 'Attempted':
      return Place.activity(instance, execution, refId ?? 0, metaOf(name).errorName === undefined ? 'output' : 'error');
    case 'ChildCompleted':
      return Place.end(child, 'output');
    case 'ChildFailed':
    case 'ChildCancelled':
      return Place.end(child, 'error');
    case 'ChildTerminated':
      return Place.end(child, 'termination');
    default:
      return Place.ofInstance(instance, 'cancellation');
  }
}

function metaOf(text: string | null): Record<string, unknown> {
  return JSON.parse(text ?? '{}') as Record<string, unknown>;
}

/** Encodes anew all texts of a store whose key is not the one that its codec writes with. */
export function recode(port: StorePort, options: RecodeOptions): Promise<Recoded> {
  // Each request ends by the signal, and so does the wait for the codec here.
  return untilAborted(options.signal, () => ({ reply: recodeAll(port, options), abandon() {} }));
}

async function recodeAll(port: StorePort, options: RecodeOptions): Promise<Recoded> {
  const { dryRun = false } = options;
  const keyId = keyIdOf(
    port.texts.hasCodec ? await port.texts.encoded('null', 'probe', new Place('', null, 'probe')) : '',
  );
  if (typeof keyId !== 'string') {
    throw new TypeError(
      "client.recode: the provider's codec must name its key, or it could not be told which texts have it: " +
        'encode returns { text, keyId }',
    );
  }
  const recoding = new Recoding(port, keyId, options);
  // Texts that deleted instances have left are swept first, so that they need not be read.
  if (!dryRun) await port.request({ kind: 'sweep' }, null, options.signal);
  while (!(await recoding.walkOnce())) {
    if (recoding.walk < WALKS_MAX) continue;
    throw new PayloadError(
      `after ${WALKS_MAX} walks over the store there are still new texts of other keys: ` +
        `every worker and client must write with '${keyId}'`,
      { path: 'store' },
    );
  }
  const { recoded, found, unreadable, failures } = recoding;
  return { keyId, recoded, found, unreadable, failures };
}
