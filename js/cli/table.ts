// Tables: columns as wide as their content, and no wider than the terminal.

import stringWidth from 'string-width';

/** A column of a table. */
export interface Column<T> {
  readonly title: string;
  /** Returns the text of a cell: one line, without control characters. */
  readonly text: (row: T) => string;
  /** Styles a cell that has its final width, for example with a colour. */
  readonly dress?: (text: string, row: T) => string;
  readonly align?: 'right';
  /** True if the column is shortened first when the table is too wide. */
  readonly mayShrink?: boolean;
}

const GAP = '  ';

/** Smallest width to which a column shrinks. */
const SHRUNK_MIN = 8;

/**
 * Returns the lines of a table, its titles first.
 *
 * @param width - width of the terminal; `Infinity` without a terminal, where nothing is shortened
 * @param head - styles the line of titles
 */
export function tableLines<T>(
  columns: readonly Column<T>[],
  rows: readonly T[],
  width: number,
  head: (line: string) => string,
): string[] {
  const cells = rows.map((row) => columns.map((column) => column.text(row)));
  const widths = columns.map(({ title }, at) =>
    Math.max(stringWidth(title), ...cells.map((row) => stringWidth(row[at] ?? ''))),
  );
  shrink(columns, widths, width);
  const line = (texts: readonly string[], row?: T): string =>
    texts
      .map((text, at) => {
        const { align, dress } = columns[at] as Column<T>;
        const isLast = at === columns.length - 1;
        const cell = padded(truncate(text, widths[at] as number), widths[at] as number, align, isLast);
        return row === undefined || dress === undefined ? cell : dress(cell, row);
      })
      .join(GAP)
      .trimEnd();
  return [head(line(columns.map(({ title }) => title))), ...rows.map((row, at) => line(cells[at] as string[], row))];
}

/** Narrows the widest of the columns that may shrink until the table fits. */
function shrink<T>(columns: readonly Column<T>[], widths: number[], width: number): void {
  const total = (): number => widths.reduce((sum, each) => sum + each, 0) + GAP.length * (widths.length - 1);
  while (total() > width) {
    const able = widths.map((each, at) => (columns[at]?.mayShrink === true && each > SHRUNK_MIN ? each : 0));
    const widest = Math.max(...able);
    if (widest === 0) return;
    widths[able.indexOf(widest)] = Math.max(
      SHRUNK_MIN,
      widest - Math.max(1, Math.min(widest - SHRUNK_MIN, total() - width)),
    );
  }
}

/** Cuts a text to a width. */
export function truncate(text: string, width: number): string {
  if (stringWidth(text) <= width) return text;
  let short = '';
  let used = 0;
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    used += stringWidth(segment);
    if (used > width - 1) break;
    short += segment;
  }
  return `${short}…`;
}

function padded(text: string, width: number, align: 'right' | undefined, isLast: boolean): string {
  const space = ' '.repeat(Math.max(0, width - stringWidth(text)));
  if (align === 'right') return space + text;
  return isLast ? text : text + space;
}
