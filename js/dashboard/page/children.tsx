// The tree of children. Each branch is read when it is opened.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { InstancesAnswer } from '../answers.ts';
import { useAnswer } from './api.ts';
import { duration } from './format.ts';
import { Problem } from './problem.tsx';
import { linkTo, queryOf } from './route.ts';
import { hasEnded, Status } from './status.tsx';

/** Most children that are shown at once. */
const ROWS = 50;

/** @param isKnown - true if the shown history has children; a former execution may have others */
export function Children({ id, isKnown }: { id: string; isKnown: boolean }): JSX.Element {
  const [isAsked, setAsked] = useState(false);
  return (
    <section class="panel" aria-labelledby="children">
      <div class="head">
        <h2 id="children">Children</h2>
        {isKnown || isAsked ? null : (
          <button type="button" onClick={() => setAsked(true)}>
            Look for some
          </button>
        )}
      </div>
      {isKnown || isAsked ? <Branch id={id} isRoot /> : null}
    </section>
  );
}

function Branch({ id, isRoot = false }: { id: string; isRoot?: boolean }): JSX.Element {
  const [cursors, setCursors] = useState<readonly string[]>(['']);
  return (
    <ul class="tree" aria-label={`Children of ${id}`}>
      {cursors.map((cursor, i) => (
        <Part
          key={cursor}
          id={id}
          cursor={cursor}
          isRoot={isRoot}
          onMore={i === cursors.length - 1 ? (next) => setCursors([...cursors, next]) : undefined}
        />
      ))}
    </ul>
  );
}

function Part({
  id,
  cursor,
  isRoot,
  onMore,
}: {
  id: string;
  cursor: string;
  isRoot: boolean;
  onMore: ((cursor: string) => void) | undefined;
}): JSX.Element {
  const { answer, error, reload } = useAnswer<InstancesAnswer>(
    `instances?${queryOf({ parentId: id, cursor, limit: ROWS })}`,
  );
  if (error !== undefined)
    return (
      <li>
        <Problem error={error} again={reload} />
      </li>
    );
  if (answer === undefined) return <li class="faint">Loading…</li>;
  const next = answer.cursor;
  if (answer.items.length === 0 && cursor === '')
    return <li class="faint">{isRoot ? 'This instance has no children.' : 'No children'}</li>;
  return (
    <>
      {answer.items.map(({ id, name, status, createdAtMs, completedAtMs }) => (
        <Child
          key={id}
          id={id}
          name={name}
          status={status}
          took={hasEnded(status) && completedAtMs !== undefined ? duration(completedAtMs - createdAtMs) : ''}
        />
      ))}
      {next === null || onMore === undefined ? null : (
        <li>
          <button type="button" onClick={() => onMore(next)}>
            Load more
          </button>
        </li>
      )}
    </>
  );
}

function Child({
  id,
  name,
  status,
  took,
}: {
  id: string;
  name: string;
  status: InstancesAnswer['items'][number]['status'];
  took: string;
}): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <span class="line">
        <button
          type="button"
          class="quiet"
          aria-expanded={isOpen}
          aria-label={`Children of ${id}`}
          onClick={() => setOpen(!isOpen)}
        >
          {isOpen ? '▾' : '▸'}
        </button>
        <Status of={status} />{' '}
        <a class="id" href={linkTo('instance', { id })}>
          {id}
        </a>{' '}
        <span class="faint">
          {name} {took}
        </span>
      </span>
      {isOpen ? <Branch id={id} /> : null}
    </li>
  );
}
