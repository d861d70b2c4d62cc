// The panel of the streams of an instance. The last entries of a stream are read while its row is open.

import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';

import type { EntryRow, StreamsAnswer } from '../answers.ts';
import { useEntries } from './entry-reader.ts';
import { count, time } from './format.ts';
import { useFollowing } from './logs.tsx';
import { Problem } from './problem.tsx';
import { queryOf } from './route.ts';
import { Value } from './value.tsx';

/** Rows that are shown before the user asks for the others. */
const ROWS_SHOWN = 12;

interface StreamsProps {
  readonly id: string;
  readonly streams: StreamsAnswer;
  /** True if the instance has ended. */
  readonly isEnded: boolean;
}

/** Shows nothing if the instance has no streams. */
export function Streams({ id, streams: { items, others }, isEnded }: StreamsProps): JSX.Element | null {
  const [isUnfolded, setUnfolded] = useState(false);
  if (items.length === 0) return null;
  const shown = isUnfolded ? items : items.slice(0, ROWS_SHOWN);
  return (
    <section class="panel" aria-labelledby="streams">
      <h2 id="streams">Streams</h2>
      <ul class="waits published streams">
        {shown.map((one) => (
          <Row key={one.name} id={id} of={one} isEnded={isEnded} />
        ))}
      </ul>
      {shown.length === items.length ? null : (
        <button type="button" class="quiet" onClick={() => setUnfolded(true)}>
          Show {count(items.length - shown.length)} more
        </button>
      )}
      {others === 0 ? null : <p class="faint">and {count(others)} streams that are not listed</p>}
    </section>
  );
}

interface RowProps {
  readonly id: string;
  readonly of: StreamsAnswer['items'][number];
  readonly isEnded: boolean;
}

function Row({ id, of, isEnded }: RowProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const { name, first, next, isClosed } = of;
  const left = next - first;
  return (
    <li>
      <span class="name">
        <button
          type="button"
          class="quiet"
          aria-expanded={isOpen}
          aria-label={`Entries of ${name}`}
          onClick={() => setOpen(!isOpen)}
        >
          {isOpen ? '▾' : '▸'}
        </button>{' '}
        <span class="mono">{name}</span>
      </span>
      <div class="wait-facts">
        <span>
          {count(left)} {left === 1 ? 'entry' : 'entries'}
        </span>
        {first === 0 ? null : <span class="faint">the first {count(first)} were deleted</span>}
        <span class="badge">{isClosed ? 'closed' : isEnded ? 'not closed' : 'open'}</span>
      </div>
      {isOpen ? <Entries id={id} of={of} /> : null}
    </li>
  );
}

function Entries({ id, of: { name, first, next } }: Pick<RowProps, 'id' | 'of'>): JSX.Element {
  const { items, error, again } = useEntries(id, name, next);
  // Entries may have been deleted since they were read.
  const left = items?.filter(({ index }) => index >= first);
  return (
    <div class="entries">
      {error === undefined ? null : <Problem error={error} again={again} />}
      {left === undefined ? (
        error === undefined ? (
          <p class="faint">Loading…</p>
        ) : null
      ) : left.length > 0 ? (
        <List id={id} name={name} items={left} hasEarlier={(left[0]?.index ?? first) > first} />
      ) : (
        <p class="faint">{first === next ? 'No entries' : 'Loading…'}</p>
      )}
    </div>
  );
}

interface ListProps {
  readonly id: string;
  readonly name: string;
  readonly items: readonly EntryRow[];
  readonly hasEarlier: boolean;
}

function List({ id, name, items, hasEarlier }: ListProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const scrolled = useFollowing(box, items, 0);
  return (
    <div ref={box} class="logs" role="log" aria-label={`Last entries of ${name}`} tabIndex={0} onScroll={scrolled}>
      {hasEarlier ? (
        <p class="earlier faint">Earlier entries are left out. The command perdure stream prints all.</p>
      ) : null}
      <ol>
        {items.map((one) => (
          <Entry key={`${one.index} ${one.resetFrom ?? ''}`} id={id} name={name} of={one} />
        ))}
      </ol>
    </div>
  );
}

interface EntryProps {
  readonly id: string;
  readonly name: string;
  readonly of: EntryRow;
}

function Entry({ id, name, of: { index, atMs, activity, attempt, value, resetFrom } }: EntryProps): JSX.Element {
  return (
    <li>
      <span class="at">{time(atMs)}</span>
      {resetFrom === undefined ? <span class="index">{index}</span> : <span />}
      {resetFrom === undefined ? (
        <div class="said">
          {attempt === undefined ? null : (
            <span class="badge" title={`activity ${activity}`}>
              attempt {attempt}
            </span>
          )}
          {value === undefined ? (
            <span class="faint">hidden</span>
          ) : (
            <Value
              label={`Entry ${index} of ${name}`}
              shown={value}
              whole={`value?${queryOf({ id, of: 'stream', name, index })}`}
            />
          )}
        </div>
      ) : (
        <div class="said" title={`activity ${activity}`}>
          <span>attempt {attempt} begins anew</span>
          <span class="faint">in place of its entries from {resetFrom} on</span>
        </div>
      )}
    </li>
  );
}
