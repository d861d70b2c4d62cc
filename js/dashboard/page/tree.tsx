// The relatives of an instance: its parents, and the tree of its children. The server reads a limited part of the tree.
// Children that are not in it are read when the user asks for them.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { InstancesAnswer, Relative, TreeAnswer, Tree as TreeNode } from '../answers.ts';
import { useAnswer } from './api.ts';
import { count, duration } from './format.ts';
import { Problem } from './problem.tsx';
import { linkTo, queryOf } from './route.ts';
import { hasEnded, Status } from './status.tsx';

/** Instances of a tree that is shown with all its levels open. */
const OPEN_MAX = 20;

/** Children that are shown at once, and that a request for more returns. */
const ROWS = 50;

interface TreeProps {
  readonly id: string;
  /** True if the instance has a parent, or the shown history has children; a former execution may have others. */
  readonly isKnown: boolean;
}

export function Tree({ id, isKnown }: TreeProps): JSX.Element {
  const [isAsked, setAsked] = useState(false);
  const isOn = isKnown || isAsked;
  const { answer, error, isLoading, reload } = useAnswer<TreeAnswer>(isOn ? `tree?${queryOf({ id })}` : undefined);
  return (
    <section class="panel" aria-labelledby="tree">
      <div class="head">
        <h2 id="tree">Parents and children</h2>
        {isOn ? (
          <button type="button" disabled={isLoading} onClick={reload}>
            Refresh
          </button>
        ) : (
          <button type="button" onClick={() => setAsked(true)}>
            Show relatives
          </button>
        )}
      </div>
      {error !== undefined ? (
        <Problem error={error} again={reload} />
      ) : answer !== undefined ? (
        <Relatives answer={answer} />
      ) : isOn ? (
        <p class="faint none">Loading…</p>
      ) : null}
    </section>
  );
}

function Relatives({ answer: { ancestors, hasMoreAncestors, top } }: { answer: TreeAnswer }): JSX.Element {
  const size = sizeOf(top);
  return (
    <>
      {ancestors.length === 0 ? null : (
        <>
          <h3 id="parents">Parents</h3>
          <ul class="tree" aria-labelledby="parents">
            {hasMoreAncestors ? <li class="faint">Parents above these are left out.</li> : null}
            {[...ancestors].reverse().map((one) => (
              <li key={one.id}>
                <Line of={one} />
              </li>
            ))}
          </ul>
        </>
      )}
      <h3>
        Children{' '}
        {size === 1 ? null : (
          <span class="faint">
            {count(size - 1)} {size === 2 ? 'instance' : 'instances'}
            {isCut(top) ? ' are shown, and there are more' : ''}
          </span>
        )}
      </h3>
      {top.children.length === 0 && !top.hasMore ? (
        <p class="faint none">This instance has no children.</p>
      ) : (
        <Children of={top} isOpen={size <= OPEN_MAX} />
      )}
    </>
  );
}

function sizeOf({ children }: TreeNode): number {
  return children.reduce((sum, child) => sum + sizeOf(child), 1);
}

function isCut({ children, hasMore }: TreeNode): boolean {
  return hasMore || children.some(isCut);
}

interface ChildrenProps {
  readonly of: TreeNode;
  /** True if the levels below are open at first. */
  readonly isOpen: boolean;
}

function Children({ of: { instance, children, hasMore }, isOpen }: ChildrenProps): JSX.Element {
  const [most, setMost] = useState(ROWS);
  const [isAll, setAll] = useState(false);
  // A list of its own, newest first, takes the place of a part.
  if (isAll || children.length === 0) return <Branch id={instance.id} />;
  const hidden = children.length - most;
  return (
    <ul class="tree" aria-label={`Children of ${instance.id}`}>
      {children.slice(0, most).map((child) => (
        <Child key={child.instance.id} of={child} isOpen={isOpen} />
      ))}
      {hidden > 0 ? (
        <li>
          <button type="button" onClick={() => setMost(most + ROWS)}>
            Show {count(Math.min(ROWS, hidden))} more
          </button>
        </li>
      ) : hasMore ? (
        <li>
          <button type="button" onClick={() => setAll(true)}>
            List all children, newest first
          </button>
        </li>
      ) : null}
    </ul>
  );
}

function Child({ of, isOpen: isOpenAtFirst }: ChildrenProps): JSX.Element {
  const { instance, children, hasMore } = of;
  const [isOpen, setOpen] = useState(isOpenAtFirst && children.length > 0);
  const isLeaf = children.length === 0 && !hasMore;
  return (
    <li>
      <Line of={instance} isOpen={isLeaf ? null : isOpen} onToggle={() => setOpen(!isOpen)} />
      {isOpen ? <Children of={of} isOpen={isOpenAtFirst} /> : null}
    </li>
  );
}

interface LineProps {
  readonly of: Relative;
  /** Absent without children to show; `null` for an instance of a tree that has none. */
  readonly isOpen?: boolean | null;
  onToggle?(): void;
}

function Line({ of: { id, name, status, createdAtMs, completedAtMs }, isOpen, onToggle }: LineProps): JSX.Element {
  return (
    <span class="line">
      {isOpen === undefined ? null : isOpen === null ? (
        <span class="leaf" />
      ) : (
        <button
          type="button"
          class="quiet"
          aria-expanded={isOpen}
          aria-label={`Children of ${id}`}
          onClick={() => onToggle?.()}
        >
          {isOpen ? '▾' : '▸'}
        </button>
      )}
      <Status of={status} />
      <span>
        <a class="id" href={linkTo('instance', { id })}>
          {id}
        </a>{' '}
        <span class="faint">
          {name}{' '}
          {hasEnded(status) && completedAtMs !== undefined ? duration(Math.max(0, completedAtMs - createdAtMs)) : ''}
        </span>
      </span>
    </span>
  );
}

/** All children of an instance, newest first, part by part. */
function Branch({ id }: { id: string }): JSX.Element {
  const [cursors, setCursors] = useState<readonly string[]>(['']);
  return (
    <ul class="tree" aria-label={`Children of ${id}`}>
      {cursors.map((cursor, i) => (
        <Part
          key={cursor}
          id={id}
          cursor={cursor}
          onMore={i === cursors.length - 1 ? (next) => setCursors([...cursors, next]) : undefined}
        />
      ))}
    </ul>
  );
}

interface PartProps {
  readonly id: string;
  readonly cursor: string;
  readonly onMore: ((cursor: string) => void) | undefined;
}

function Part({ id, cursor, onMore }: PartProps): JSX.Element {
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
  if (answer.items.length === 0 && cursor === '') return <li class="faint">No children</li>;
  return (
    <>
      {answer.items.map((one) => (
        <LazyChild key={one.id} of={one} />
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

/** A child whose own children are read when it is opened. */
function LazyChild({ of }: { of: Relative }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <Line of={of} isOpen={isOpen} onToggle={() => setOpen(!isOpen)} />
      {isOpen ? <Branch id={of.id} /> : null}
    </li>
  );
}
