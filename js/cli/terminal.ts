// Where commands write to: results on the standard output, everything else on the standard error.

import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { styleText } from 'node:util';

import type { InstanceState } from '../client/instance-status.ts';
import { type Column, tableLines } from './table.ts';
import { jsonText, plainValue, valueText } from './text.ts';

/** A stream that may be a terminal. */
export type Stream = Writable &
  Pick<NodeJS.WriteStream, 'isTTY' | 'columns'> &
  Partial<Pick<NodeJS.WriteStream, 'hasColors'>>;

/** How a text is dressed. */
export type Style = Parameters<typeof styleText>[0];

const STATE_STYLES: Readonly<Record<InstanceState, Style>> = {
  Pending: 'dim',
  Running: 'cyan',
  Suspended: ['bold', 'yellow'],
  Completed: 'green',
  Failed: 'red',
  Cancelled: 'yellow',
  Terminated: 'magenta',
};

/** What a value's inspection breaks its lines at where there is no terminal. */
const PLAIN_WIDTH = 100;

/**
 * A command's way to its user. With `json` results are JSON, one value in each line, and nothing is dressed, shortened or drawn; without a
 * terminal nothing is dressed or shortened either.
 */
export class Terminal {
  readonly isJson: boolean;
  /** Of the standard output; `Infinity` where it is no terminal. */
  readonly width: number;
  /** Whether somebody looks at the standard error and can be asked something. */
  readonly isInteractive: boolean;
  private readonly out: Stream;
  private readonly err: Stream;
  private readonly hasColors: boolean;
  private isProgressShown = false;

  constructor(out: Stream, err: Stream, isInteractive: boolean, isJson: boolean) {
    this.out = out;
    this.err = err;
    this.isJson = isJson;
    this.isInteractive = isInteractive;
    this.width = out.isTTY ? (out.columns ?? 80) : Infinity;
    this.hasColors = out.isTTY === true && !isJson && out.hasColors?.() === true;
  }

  /** A line of the result. */
  line(text = ''): void {
    this.clearProgress();
    this.out.write(`${text}\n`);
  }

  /** A value of the result as one line of JSON; see {@link plainValue}. */
  data(value: unknown): void {
    this.line(jsonText(plainValue(value)));
  }

  table<T>(columns: readonly Column<T>[], rows: readonly T[]): void {
    for (const line of tableLines(columns, rows, this.width, (head) => this.style('dim', head))) this.line(line);
  }

  /** Names and what they stand for, one in each line; what has several lines is indented. */
  fields(fields: readonly (readonly [name: string, text: string | undefined])[]): void {
    const shown = fields.filter(([, text]) => text !== undefined);
    const width = Math.max(...shown.map(([name]) => name.length)) + 2;
    for (const [name, text] of shown) {
      this.line(this.style('dim', name.padEnd(width)) + (text as string).replaceAll('\n', `\n${' '.repeat(width)}`));
    }
  }

  /** What is for people alone: how it went, what to do next. */
  note(text: string): void {
    this.clearProgress();
    this.err.write(`${text}\n`);
  }

  /** How far long work has come: one line that is written over. Nothing where nobody looks. */
  progress(text: string): void {
    if (this.err.isTTY !== true) return;
    this.err.write(`\r\u001b[K${text}`);
    this.isProgressShown = true;
  }

  /** Waits until what was written is on its way: whoever writes much does so now and then. */
  async drain(): Promise<void> {
    if (this.out.writableNeedDrain) await once(this.out, 'drain');
  }

  /** Empties the screen for what comes next, where there is one. */
  clear(): void {
    if (this.out.isTTY === true) this.out.write('\u001b[H\u001b[2J');
  }

  style(style: Style, text: string): string {
    return this.hasColors ? styleText(style, text, { validateStream: false }) : text;
  }

  state(status: InstanceState, text: string = status): string {
    return this.style(STATE_STYLES[status], text);
  }

  /** A value of a user's, over several lines where it is long. */
  value(value: unknown): string {
    return valueText(value, Math.min(this.width, PLAIN_WIDTH), this.hasColors);
  }

  private clearProgress(): void {
    if (!this.isProgressShown) return;
    this.err.write('\r\u001b[K');
    this.isProgressShown = false;
  }
}
