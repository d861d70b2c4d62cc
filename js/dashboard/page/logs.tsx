// The panel of the lines that an instance logged and that a runtime keeps in the store.

import type { JSX, RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

import type { LogRow } from '../answers.ts';
import { fieldsLine, LEVELS, LINES, LINES_MAX } from '../log-filter.ts';
import { count, time } from './format.ts';
import { type LinesFilter, type ShownLines, useLines } from './log-reader.ts';
import { Problem } from './problem.tsx';
import { Value } from './value.tsx';

/** Delay after the last key before the filter applies, ms. */
const TYPED_MS = 250;

/** Most characters of fields that stand beside their message. Longer fields open on request. */
const BESIDE = 120;

/** Distance from the end at which the list still follows new lines, px. */
const SLACK = 24;

interface LogsProps {
  readonly id: string;
  /** Number of the shown execution. */
  readonly execution: number;
  /** Number of the current or last execution. */
  readonly lastExecution: number;
  /** Grows with each change of the instance. */
  readonly changes: number;
}

/** What the user has chosen. */
interface Choice {
  readonly level: string;
  readonly text: string;
  readonly isOfAll: boolean;
  readonly limit: number;
}

const ALL: Choice = { level: 'debug', text: '', isOfAll: false, limit: LINES };

export function Logs({ id, execution, lastExecution, changes }: LogsProps): JSX.Element {
  const [choice, setChoice] = useState(ALL);
  const { level, text, isOfAll, limit } = choice;
  const filter: LinesFilter = { id, execution: isOfAll ? undefined : execution, level, text, limit };
  const shown = useLines(filter, changes);
  const { lines, hasSome, error } = shown;
  const choose = (part: Partial<Choice>): void => setChoice((choice) => ({ ...choice, limit: LINES, ...part }));
  const isFiltered = level !== ALL.level || text !== '';
  return (
    <section class="panel" aria-labelledby="logs">
      <div class="head">
        <h2 id="logs">Logs</h2>
        <span class="faint" role="status">
          {lines === undefined || !hasSome ? '' : countText(shown, isFiltered)}
        </span>
      </div>
      {hasSome || isFiltered || lastExecution > 1 ? (
        <Filters choice={choice} execution={execution} hasMany={lastExecution > 1} onChoose={choose} />
      ) : null}
      {error === undefined ? null : <Problem error={error} />}
      {lines === undefined ? (
        error === undefined ? (
          <p class="faint">Loading…</p>
        ) : null
      ) : lines.length > 0 ? (
        <Lines shown={shown} limit={limit} isOfAll={isOfAll} onMore={() => choose({ limit: LINES_MAX })} />
      ) : (
        <p class="faint none">{emptyText(hasSome, lastExecution > 1 && !isOfAll)}</p>
      )}
    </section>
  );
}

function countText({ lines = [], hasEarlier }: ShownLines, isFiltered: boolean): string {
  const what = `${isFiltered ? 'matching ' : ''}${lines.length === 1 ? 'line' : 'lines'}`;
  return `${hasEarlier ? 'the last ' : ''}${count(lines.length)} ${what}`;
}

function emptyText(hasSome: boolean, isOfOne: boolean): string {
  if (hasSome) return 'No lines match.';
  if (isOfOne) return 'No lines of this execution are stored.';
  return (
    'No lines are stored. A runtime with the option keepLogs stores the lines of ctx.traceInfo and its like, ' +
    'in a store without a codec.'
  );
}

interface FiltersProps {
  readonly choice: Choice;
  readonly execution: number;
  readonly hasMany: boolean;
  onChoose(part: Partial<Choice>): void;
}

function Filters({ choice: { level, isOfAll }, execution, hasMany, onChoose }: FiltersProps): JSX.Element {
  return (
    <form class="fields" aria-label="Filter of the logs" onSubmit={(event) => event.preventDefault()}>
      <label class="field">
        Level
        <select value={level} onChange={({ currentTarget: { value } }) => onChoose({ level: value })}>
          {LEVELS.map((name, at) => (
            <option key={name} value={name}>
              {at === 0 ? 'all' : at === LEVELS.length - 1 ? name : `${name} and above`}
            </option>
          ))}
        </select>
      </label>
      <SearchField onText={(text) => onChoose({ text })} />
      {hasMany ? (
        <label class="field">
          Execution
          <select
            value={isOfAll ? 'all' : 'one'}
            onChange={({ currentTarget: { value } }) => onChoose({ isOfAll: value === 'all' })}
          >
            <option value="one">{execution}</option>
            <option value="all">all</option>
          </select>
        </label>
      ) : null}
    </form>
  );
}

function SearchField({ onText }: { onText(text: string): void }): JSX.Element {
  const timer = useRef<number | undefined>(undefined);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const typed = (text: string): void => {
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => onText(text), TYPED_MS);
  };
  return (
    <label class="field">
      Contains
      <input
        type="text"
        maxLength={200}
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget: { value } }) => typed(value)}
      />
    </label>
  );
}

interface LinesProps {
  readonly shown: ShownLines;
  readonly limit: number;
  readonly isOfAll: boolean;
  onMore(): void;
}

function Lines({ shown: { lines = [], hasEarlier }, limit, isOfAll, onMore }: LinesProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const scrolled = useFollowing(box, lines, limit);
  return (
    <div ref={box} class="logs" role="log" aria-labelledby="logs" tabIndex={0} onScroll={scrolled}>
      {!hasEarlier ? null : limit < LINES_MAX ? (
        <p class="earlier">
          <button type="button" onClick={onMore}>
            Show up to {count(LINES_MAX)} lines
          </button>
        </p>
      ) : (
        <p class="earlier faint">
          Earlier lines are left out. A filter also finds them, and the command perdure logs prints all.
        </p>
      )}
      <ol>
        {lines.map((line) => (
          <Line key={line.key} line={line} isOfAll={isOfAll} />
        ))}
      </ol>
    </div>
  );
}

function Line({ line, isOfAll }: { line: LogRow; isOfAll: boolean }): JSX.Element {
  const { executionId, atMs, level, message, fields } = line;
  const beside = fieldsLine(line);
  return (
    <li>
      <span class="at">{time(atMs)}</span>
      <span class={`level ${level}`}>{level.toUpperCase()}</span>
      <div class="said">
        {isOfAll ? <span class="badge">execution {executionId}</span> : null}
        <span class="text">{message}</span>
        {fields === undefined || beside.length > BESIDE ? null : <span class="mono faint">{beside}</span>}
        {fields === undefined || beside.length <= BESIDE ? null : (
          <details class="attempt">
            <summary>
              <span class="mono">{beside.slice(0, BESIDE)}…</span>
            </summary>
            <Value label="Fields" shown={fields} />
          </details>
        )}
      </div>
    </li>
  );
}

/**
 * Keeps the end of the list visible while it is, and the visible lines in place when earlier ones are put before them.
 *
 * @returns the listener for the list's scroll events
 */
export function useFollowing(
  box: RefObject<HTMLDivElement | null>,
  lines: readonly unknown[],
  limit: number,
): () => void {
  const isAtEnd = useRef(true);
  const before = useRef({ limit, height: 0 });
  useLayoutEffect(() => {
    const list = box.current;
    if (list === null) return;
    const { scrollHeight: height } = list;
    if (limit !== before.current.limit) list.scrollTop += height - before.current.height;
    else if (isAtEnd.current) list.scrollTop = height;
    before.current = { limit, height };
  }, [lines]);
  return () => {
    const list = box.current;
    if (list !== null) isAtEnd.current = list.scrollTop + list.clientHeight >= list.scrollHeight - SLACK;
  };
}
