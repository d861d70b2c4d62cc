// The list of events. Only visible rows are in the page. It is a list box, because one event is selected.

import type { JSX } from 'preact';
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
  const [[top, height], setView] = useState([0, 400]);
  const look = (): void => {
    const { scrollTop = 0, clientHeight = 400 } = box.current ?? {};
    setView(([top, height]) =>
      top === scrollTop && height === clientHeight ? [top, height] : [scrollTop, clientHeight],
    );
  };
  useLayoutEffect(look, []);
  // The list follows new events while its end is visible, and scrolls to an event that was selected elsewhere.
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
  const first = Math.max(0, Math.floor(top / ROW) - BEYOND);
  const last = Math.min(events.length, Math.ceil((top + height) / ROW) + BEYOND);
  const begin = events[0]?.atMs ?? 0;
  const page = Math.max(1, Math.floor(height / ROW) - 1);
  const typed = (event: KeyboardEvent): void => {
    const to = {
      ArrowDown: (selected ?? 0) + 1,
      ArrowUp: (selected ?? 2) - 1,
      PageDown: (selected ?? 0) + page,
      PageUp: (selected ?? 1) - page,
      Home: 1,
      End: events.length,
    }[event.key];
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
      onKeyDown={typed}
    >
      {/* As high as all rows together, so that the scroll bar shows the position. */}
      <div role="presentation" class="all" style={{ height: `${events.length * ROW}px` }}>
        {events.slice(first, last).map(({ id, atMs, kind, ref, name, value, attempt }) => (
          <div
            key={id}
            id={`event-${id}`}
            role="option"
            class={`event ${toneOf(kind)}`}
            aria-selected={id === selected}
            aria-setsize={events.length}
            aria-posinset={id}
            style={{ top: `${(id - 1) * ROW}px` }}
            onClick={() => onSelect(id)}
          >
            <span class="number">{id}</span>
            <span class="at">+{duration(atMs - begin)}</span>
            <span class="kind">
              {words(kind)}
              {attempt === undefined ? '' : ` (${attempt})`}
            </span>
            <span class="what">{name ?? (ref === undefined ? '' : events[ref - 1]?.name)}</span>
            <span class="grow mono">{value?.text.slice(0, 120).replaceAll(/\s+/g, ' ')}</span>
          </div>
        ))}
      </div>
    </div>
  );
}

function toneOf(kind: string): string {
  if (kind.endsWith('Failed') || kind === 'OperationRefused') return 'bad';
  if (kind.endsWith('Completed') || kind === 'TimerFired') return 'good';
  return kind.startsWith('Execution') ? 'strong' : '';
}
