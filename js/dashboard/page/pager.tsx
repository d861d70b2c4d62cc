// The pages of a list. Each page has a cursor, and the cursors of the pages up to the shown one are kept in the route.

import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';

import { count } from './format.ts';

/** Rows of a page. */
export const ROWS = 50;

/** Interval of reloading the first page while it is visible, ms. */
const REFRESH_MS = 4_000;

interface PagerProps {
  /** Cursors of the pages up to this one. The first page has none. */
  readonly cursors: readonly string[];
  /** The shown page; `undefined` until it has arrived. */
  readonly of: { readonly items: readonly unknown[]; readonly cursor: string | null } | undefined;
  /** The name of the rows. */
  readonly noun: string;
  onPage(cursors: readonly string[]): void;
}

export function Pager({ cursors, of, noun, onPage }: PagerProps): JSX.Element {
  const next = of?.cursor ?? null;
  return (
    <nav class="pager" aria-label="Pages of the list">
      <button type="button" disabled={cursors.length === 0} onClick={() => onPage(cursors.slice(0, -1))}>
        ← Newer
      </button>
      <span role="status">
        {of === undefined ? '' : `Page ${cursors.length + 1}: ${count(of.items.length)} ${noun}`}
      </span>
      <button type="button" disabled={next === null} onClick={() => onPage([...cursors, next ?? ''])}>
        Older →
      </button>
    </nav>
  );
}

/** Reloads a list from time to time, while `isOn`. */
export function useRefresh(isOn: boolean, reload: () => void): void {
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = window.setInterval(() => document.hidden || reload(), REFRESH_MS);
    return () => window.clearInterval(timer);
  }, [isOn, reload]);
}
