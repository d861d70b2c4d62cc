// Marks of outcomes: one character each, so that an outcome is readable without colours.

import type { BarState } from '../dashboard/bars.ts';
import type { Style } from './terminal.ts';

export interface Mark {
  readonly sign: string;
  readonly style: Style;
}

/** The mark of each outcome of an operation; `*` marks one that has none yet. */
export const MARKS: Readonly<Record<BarState, Mark>> = {
  ok: { sign: '✓', style: 'green' },
  failed: { sign: '✗', style: 'red' },
  cancelled: { sign: '-', style: 'yellow' },
  open: { sign: '*', style: 'cyan' },
};
