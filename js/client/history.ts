// Histories for clients: as events, page by page, and as the JSON that a replay test keeps.

import type { StorePort } from '../store/providers.ts';
import type { HistoryPlace } from '../store/query-host.ts';
import { abortSignal } from '../util/abort.ts';
import { type OptionTable, whole } from '../util/options.ts';
import { isRecord } from '../util/show.ts';
import { statePath } from '../values/codec-context.ts';
import { fromPayload } from '../values/payload.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import { EventPlaces, type PlacedEvent } from './event-places.ts';
import type { StatusData } from './instance-status.ts';

/** Every kind of event, in the engine's order. */
export const HISTORY_EVENT_KINDS = [
  'ExecutionStarted',
  'ExecutionBegan',
  'ActivityScheduled',
  'ActivityCompleted',
  'ActivityAttemptFailed',
  'ActivityFailed',
  'TimerCreated',
  'TimerFired',
  'ChildScheduled',
  'ChildCompleted',
  'ChildFailed',
  'InstanceStarted',
  'EventSent',
  'QueueSent',
  'OperationConfirmed',
  'OperationRefused',
  'OperationCancelled',
  'PatchApplied',
  'EventReceived',
  'QueueReceived',
  'EventAbsent',
  'QueueEmpty',
  'CancelRequested',
  'ExecutionCompleted',
  'ExecutionFailed',
  'ExecutionCancelled',
  'ExecutionContinuedAsNew',
  'ExecutionTerminated',
] as const;

/** The kind of an event. */
export type HistoryEventKind = (typeof HISTORY_EVENT_KINDS)[number];

/** One recorded event of an instance. */
export interface HistoryEvent {
  /** Its number within the execution, from 1 without gap. */
  readonly eventId: number;
  readonly time: Date;
  readonly kind: HistoryEventKind;
  /** The event that this one answers: for a completion, the event that scheduled it. */
  readonly refId?: number;
  /** Name of the activity, event or queue. */
  readonly name?: string;
  /** The value of the event; an error as plain data. */
  readonly payload?: any;
  /**
   * Further facts, by the kind of the event: `fireAtMs` of a timer, `attempt` and `retryAtMs` of a failed attempt, `id`
   * of a started instance. For operations and messages of a fiber other than the main one, `fiber` is its number, from
   * 1 in the order in which the fibers were started.
   */
  readonly meta?: any;
}

/** Options of {@link Client.historyPage}. */
export interface HistoryPageOptions {
  /** Number of the execution, from 1. Default: the current or last one. */
  executionId?: number;
  /** Number of the first event. Default: 1. */
  from?: number;
  /** Most events of the page: 1 to 2 000. Default: 2 000. */
  limit?: number;
}

/** A page of the history of an execution. */
export interface HistoryPage {
  readonly executionId: number;
  /** The events, in order. */
  readonly events: readonly HistoryEvent[];
  /** The event to go on from, `historyPage(id, { executionId, from: next })`; `null` when there are no more events. */
  readonly next: number | null;
}

/** One event of a {@link HistoryExport}. */
export interface ExportedEvent {
  readonly eventId: number;
  /** Time of the event, ms since 1970. */
  readonly timeMs: number;
  readonly kind: HistoryEventKind;
  readonly refId?: number;
  readonly name?: string;
  /**
   * The value as it is stored: JSON text where it is plain JSON. In a store with a codec: the text that was given to
   * the codec.
   */
  readonly payload?: string;
  /** The metadata that the engine stores with the event. */
  readonly meta?: Readonly<Record<string, unknown>>;
}

/** The history of one execution, as plain JSON: `JSON.parse(JSON.stringify(exported))` equals `exported`. */
export interface HistoryExport {
  /** Version of this format. */
  readonly format: 1;
  readonly instanceId: string;
  /** Name of the orchestration. */
  readonly name: string;
  /** Version that this execution runs. */
  readonly version: string;
  readonly executionId: number;
  /**
   * True if the execution's code had run at the time of the export. A Pending instance has a start and has run no code.
   * Always true for an execution that followed another one or was suspended, even before its first turn.
   */
  readonly hasBegun: boolean;
  /** The events in order, from 1 without gap. The last one says how the execution ended, if it has. */
  readonly events: readonly ExportedEvent[];
}

/** An event as the store returns it. */
export interface EventData {
  readonly eventId: number;
  readonly timeMs: number;
  readonly kind: HistoryEventKind;
  readonly refId: number | null;
  readonly name: string | null;
  readonly payload: string | null;
  readonly meta: string | null;
}

interface PageData {
  /** The store's key of the instance. */
  readonly key: number;
  readonly executionId: number;
  readonly events: readonly EventData[];
  readonly isLast: boolean;
}

/**
 * Iterates over the pages of an execution's history. Each page is read on demand. All are of one instance and one
 * execution.
 */
async function* pages(
  port: StorePort,
  id: string,
  executionId: number | undefined,
  signal: AbortSignal | undefined,
  from = 1,
): AsyncGenerator<PageData, void> {
  let at: { key: number | null; executionId: number | null; from: number } = {
    key: null,
    executionId: executionId ?? null,
    from,
  };
  for (;;) {
    const reply = await port.request({ kind: 'history', id, ...at, limit: null }, null, signal);
    const page = JSON.parse(reply as string) as PageData;
    yield page;
    if (page.isLast) return;
    at = { key: page.key, executionId: page.executionId, from: at.from + page.events.length };
  }
}

export async function* historyEvents(
  port: StorePort,
  id: string,
  executionId: number | undefined,
  signal: AbortSignal | undefined,
): AsyncGenerator<HistoryEvent, void> {
  let places: EventPlaces | null = null;
  for await (const page of pages(port, id, executionId, signal)) {
    places ??= placesOf(port, id, page);
    for (const event of page.events) yield eventOf(event, port.texts, places);
  }
}

/** Options of {@link Client.getHistory}, {@link Client.historyEvents} and {@link Client.exportHistory}. */
export interface HistoryOptions {
  /** When aborted, ends the reading at once with the signal's reason. Default: none. */
  signal?: AbortSignal;
}

export const HISTORY_OPTIONS: OptionTable = { signal: abortSignal };

/** Most events that a store reads at once. */
const PAGE_MAX = 2_000;

export const HISTORY_PAGE_OPTIONS: OptionTable = { executionId: whole(1), from: whole(1), limit: whole(1, PAGE_MAX) };

export async function historyPage(
  port: StorePort,
  id: string,
  options: HistoryPageOptions,
  signal?: AbortSignal,
): Promise<HistoryPage> {
  const { executionId = null, from = 1, limit = PAGE_MAX } = options;
  const reply = await port.request({ kind: 'history', id, key: null, executionId, from, limit }, null, signal);
  const page = JSON.parse(reply as string) as PageData;
  const places = placesOf(port, id, page);
  if (places !== null) await noteChildren(port, id, page, places);
  const events = page.events.map((event) => eventOf(event, port.texts, places));
  return { executionId: page.executionId, events, next: page.isLast ? null : from + events.length };
}

/** Events further apart than this are read by requests of their own. */
const GAP_MAX = 100;

/**
 * Reads single events of an execution, by their numbers. Events that are close to each other are read together. An
 * event that is no longer there is left out.
 */
export async function eventsByIds(
  port: StorePort,
  id: string,
  executionId: number,
  eventIds: readonly number[],
): Promise<Map<number, EventData>> {
  const runs: { from: number; to: number }[] = [];
  for (const eventId of [...eventIds].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last !== undefined && eventId - last.to <= GAP_MAX) last.to = eventId;
    else runs.push({ from: eventId, to: eventId });
  }
  const wanted = new Set(eventIds);
  const found = new Map<number, EventData>();
  const read = async (from: number, to: number): Promise<void> => {
    while (from <= to) {
      const limit = to - from + 1;
      const reply = await port.request({ kind: 'history', id, key: null, executionId, from, limit });
      const { events, isLast } = JSON.parse(reply as string) as PageData;
      for (const event of events) if (wanted.has(event.eventId)) found.set(event.eventId, event);
      if (isLast || events.length === 0) return;
      from += events.length;
    }
  };
  await Promise.all(runs.map(({ from, to }) => read(from, to)));
  return found;
}

export async function exportHistory(
  port: StorePort,
  id: string,
  executionId: number | undefined,
  signal: AbortSignal | undefined,
): Promise<HistoryExport> {
  // Read the status before the history. An instance that is Pending at this point has one event, and later events do
  // not matter.
  const reply = await port.request({ kind: 'status', id }, null, signal);
  const status = JSON.parse(reply ?? 'null') as StatusData | null;
  const { events, executionId: execution } = await tailFrom(port, id, executionId, 1, signal);
  return {
    format: 1,
    instanceId: id,
    ...codeOf(events),
    executionId: execution,
    hasBegun: events.length > 1 || status?.status !== 'Pending',
    events,
  };
}

/** The end of the history of a current execution. */
export interface HistoryTail extends HistoryPlace {
  readonly events: readonly ExportedEvent[];
}

/**
 * Reads the history of the current execution after a place. Returns all of it if the place is of another execution, or
 * `null`.
 */
export async function historyTail(
  port: StorePort,
  id: string,
  after: HistoryPlace | null,
  signal: AbortSignal | undefined,
): Promise<HistoryTail> {
  // A codec decodes the values of a child by the event that scheduled it, which may be any earlier one.
  if (after !== null && !port.texts.hasCodec) {
    const tail = await tailFrom(port, id, undefined, after.next, signal);
    if (tail.key === after.key && tail.executionId === after.executionId) return tail;
  }
  return tailFrom(port, id, undefined, 1, signal);
}

/** Reads the history of an execution from an event on, all in memory. */
async function tailFrom(
  port: StorePort,
  id: string,
  execution: number | undefined,
  from: number,
  signal: AbortSignal | undefined,
): Promise<HistoryTail> {
  const events: ExportedEvent[] = [];
  let [key, executionId] = [0, 0];
  let places: EventPlaces | null = null;
  for await (const page of pages(port, id, execution, signal, from)) {
    ({ key, executionId } = page);
    places ??= placesOf(port, id, page);
    for (const event of page.events) events.push(exportedOf(event, port.texts, places));
  }
  return { key, executionId, events, next: from + events.length };
}

/** Returns the name and the version of the orchestration of an execution; an empty version: none was chosen yet. */
export function codeOf(events: readonly ExportedEvent[]): { readonly name: string; readonly version: string } {
  const version = versionIn(events);
  return { name: events[0]?.name ?? '', version: typeof version === 'string' ? version : '' };
}

/** Returns the version that an execution runs: its start records it, or else its first turn does. */
export function versionIn([first, second]: readonly Pick<ExportedEvent, 'kind' | 'meta'>[]): unknown {
  return first?.meta?.version || (second?.kind === 'ExecutionBegan' ? second.meta?.version : undefined) || '';
}

/** Returns the places of an execution's values, which only a codec needs; `null` without a codec. */
function placesOf({ texts }: StorePort, id: string, { executionId }: PageData): EventPlaces | null {
  return texts.hasCodec ? new EventPlaces(id, executionId) : null;
}

function placed({ meta, ...event }: EventData): PlacedEvent {
  return { ...event, meta: JSON.parse(meta ?? '{}') as PlacedEvent['meta'] };
}

/** Reads and notes the events before a page that scheduled the children of its events. */
async function noteChildren(
  port: StorePort,
  id: string,
  { key, executionId, events }: PageData,
  places: EventPlaces,
): Promise<void> {
  const scheduling = events.filter(({ kind }) => kind === 'ChildScheduled');
  for (const event of scheduling) places.note(placed(event));
  const first = events[0]?.eventId ?? 0;
  for (;;) {
    const missing = events
      .map((event) => places.missing(event))
      .filter((ref) => ref !== undefined && ref < first) as number[];
    if (missing.length === 0) return;
    const from = Math.min(...missing);
    const reply = await port.request({ kind: 'history', id, key, executionId, from, limit: null });
    const found = (JSON.parse(reply as string) as PageData).events;
    for (const event of found) if (event.kind === 'ChildScheduled') places.note(placed(event));
    // The history was changed outside Perdure. Without this check the loop would not end.
    if (found[0]?.kind !== 'ChildScheduled') return;
  }
}

function eventOf(data: EventData, texts: StoredTexts, places: EventPlaces | null): HistoryEvent {
  const { eventId, timeMs, kind, refId, name, meta } = data;
  const path = `payload of event ${eventId}`;
  return {
    eventId,
    time: new Date(timeMs),
    kind,
    ...(refId === null ? {} : { refId }),
    ...(name === null ? {} : { name }),
    ...readPayload(data, texts, places, path),
    ...(meta === null ? {} : { meta: JSON.parse(meta) as HistoryEvent['meta'] }),
  };
}

function readPayload(
  data: EventData,
  texts: StoredTexts,
  places: EventPlaces | null,
  path: string,
): { payload?: unknown } {
  const place = places?.of(placed(data)) ?? null;
  return data.payload === null
    ? {}
    : { payload: fromPayload(texts.read(data.payload, path, place), path, texts.types) };
}

/** Converts an event of an export to an event of a history. `places` is given for an export whose texts are encoded. */
export function readEvent(exported: ExportedEvent, texts: StoredTexts, places: EventPlaces | null): HistoryEvent {
  const { timeMs, payload, ...event } = exported;
  const path = `payload of event ${event.eventId}`;
  const place = places?.of({ ...exported, meta: exported.meta ?? {} }) ?? null;
  return {
    ...event,
    time: new Date(timeMs),
    ...(payload === undefined ? {} : { payload: fromPayload(texts.read(payload, path, place), path, texts.types) }),
  };
}

function exportedOf(data: EventData, texts: StoredTexts, places: EventPlaces | null): ExportedEvent {
  const { eventId, timeMs, kind, refId, name, payload, meta } = data;
  const place = places?.of(placed(data)) ?? null;
  return {
    eventId,
    timeMs,
    kind,
    ...(refId === null ? {} : { refId }),
    ...(name === null ? {} : { name }),
    ...(payload === null ? {} : { payload: texts.read(payload, `payload of event ${eventId}`, place) as string }),
    ...(meta === null ? {} : { meta: exportedMeta(meta, texts, places) }),
  };
}

/** The only user values in the metadata are the custom status and the state that an execution begins with. */
function exportedMeta(text: string, texts: StoredTexts, places: EventPlaces | null): Record<string, unknown> {
  const meta = JSON.parse(text) as Record<string, unknown>;
  const { customStatus, state } = meta;
  return {
    ...meta,
    ...(typeof customStatus === 'string' && {
      customStatus: texts.read(customStatus, 'status', places?.status ?? null),
    }),
    ...(isRecord(state) && { state: exportedState(state as Texts, texts, places) }),
  };
}

/** Codec texts by name. */
type Texts = Readonly<Record<string, string | null>>;

function exportedState(state: Texts, texts: StoredTexts, places: EventPlaces | null): Texts {
  const exported = (name: string, text: string | null): string | null =>
    texts.read(text, statePath(name), places?.stateOf(name) ?? null);
  return Object.fromEntries(Object.entries(state).map(([name, text]) => [name, exported(name, text)]));
}
