// The list of events. Only visible rows are in the page. It is a list box, because one event is selected.

import type { JSX, RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

import type { EventRow } from '../answers.ts';
import { duration, words } from './format.ts';

/** Height of a row, as in the style sheet, px. */
const ROW = 26;

/** Rows that are rendered above and below the visible ones. */
const BEYOND = 8;

interface EventListProps {
  readonly events: readonly EventRow[];
  readonly version: number;
  readonly selected: number | undefined;
  onSelect(event: number): void;
}

export function EventList({ events, version, selected, onSelect }: EventListProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const { top, height, scrolled } = useScrolling(box, version, selected);
  const first = Math.max(0, Math.floor(top / ROW) - BEYOND);
  const last = Math.min(events.length, Math.ceil((top + height) / ROW) + BEYOND);
  const page = Math.max(1, Math.floor(height / ROW) - 1);
  const pressed = (event: KeyboardEvent): void => {
    const to = eventAfterKey(event.key, selected, page, events.length);
    if (to === undefined || events.length === 0) return;
    event.preventDefault();
    onSelect(Math.min(events.length, Math.max(1, to)));
  };
  return (
    <div
      ref={box}
      class="events"
      role="listbox"
      tabIndex={0}
      aria-labelledby="history"
      aria-activedescendant={selected === undefined ? undefined : `event-${selected}`}
      onScroll={scrolled}
      onKeyDown={pressed}
    >
      {/* As high as all rows together, so that the scroll bar shows the position. */}
      <div role="presentation" class="all" style={{ height: `${events.length * ROW}px` }}>
        {events.slice(first, last).map((event) => (
          <Row key={event.id} event={event} events={events} isSelected={event.id === selected} onSelect={onSelect} />
        ))}
      </div>
    </div>
  );
}

/** Returns the number of the event that a key selects, before it is limited to those of the list. */
function eventAfterKey(key: string, selected: number | undefined, page: number, last: number): number | undefined {
  return {
    ArrowDown: (selected ?? 0) + 1,
    ArrowUp: (selected ?? 2) - 1,
    PageDown: (selected ?? 0) + page,
    PageUp: (selected ?? 1) - page,
    Home: 1,
    End: last,
  }[key];
}

interface RowProps {
  readonly event: EventRow;
  readonly events: readonly EventRow[];
  readonly isSelected: boolean;
  onSelect(event: number): void;
}

function Row({ event, events, isSelected, onSelect }: RowProps): JSX.Element {
  const { id, atMs, kind, ref, name, title = name, value, attempt } = event;
  return (
    <div
      id={`event-${id}`}
      role="option"
      class={`event ${toneOf(kind)}`}
      aria-selected={isSelected}
      aria-setsize={events.length}
      aria-posinset={id}
      style={{ top: `${(id - 1) * ROW}px` }}
      onClick={() => onSelect(id)}
    >
      <span class="number">{id}</span>
      <span class="at">+{duration(atMs - (events[0]?.atMs ?? 0))}</span>
      <span class="kind">
        {words(kind)}
        {attempt === undefined ? '' : ` (${attempt})`}
      </span>
      <span class="what">{title ?? (ref === undefined ? '' : (events[ref - 1]?.title ?? events[ref - 1]?.name))}</span>
      <span class="grow mono">{value?.text.slice(0, 120).replaceAll(/\s+/g, ' ')}</span>
    </div>
  );
}

interface Scrolling {
  /** The visible part of the list, px. */
  readonly top: number;
  readonly height: number;
  /** Handles a scroll event. */
  scrolled(): void;
}

/** The list follows new events while its end is visible, and scrolls to an event that was selected elsewhere. */
function useScrolling(box: RefObject<HTMLDivElement | null>, version: number, selected: number | undefined): Scrolling {
  const [[top, height], setView] = useState([0, 400]);
  const look = (): void => {
    const { scrollTop = 0, clientHeight = 400 } = box.current ?? {};
    setView(([top, height]) =>
      top === scrollTop && height === clientHeight ? [top, height] : [scrollTop, clientHeight],
    );
  };
  useLayoutEffect(look, []);
  const wasAtEnd = useRef(false);
  useLayoutEffect(() => {
    const list = box.current;
    if (list !== null && wasAtEnd.current && list.scrollTop > 0) list.scrollTop = list.scrollHeight;
  }, [version]);
  useEffect(() => {
    const list = box.current;
    if (list === null || selected === undefined) return;
    const at = (selected - 1) * ROW;
    if (at < list.scrollTop) list.scrollTop = at;
    else if (at + ROW > list.scrollTop + list.clientHeight) list.scrollTop = at + ROW - list.clientHeight;
    look();
  }, [selected]);
  const scrolled = (): void => {
    const list = box.current;
    if (list !== null) wasAtEnd.current = list.scrollTop + list.clientHeight >= list.scrollHeight - ROW;
    look();
  };
  return { top, height, scrolled };
}

function toneOf(kind: string): string {
  if (kind.endsWith('Failed') || kind === 'OperationRefused') return 'bad';
  if (kind.endsWith('Completed') || kind === 'TimerFired') return 'good';
  return kind.startsWith('Execution') ? 'strong' : '';
}
