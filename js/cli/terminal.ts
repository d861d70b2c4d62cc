// Output of commands: results on the standard output, everything else on the standard error.

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

/** The style of a text. */
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

/** Width at which an inspected value breaks its lines, at most; also without a terminal. */
const PLAIN_WIDTH = 100;

/**
 * Writes a command's output. With `json` results are JSON, one value in each line, and nothing is styled, shortened or
 * drawn. Without a terminal nothing is styled or shortened either.
 */
export class Terminal {
  readonly isJson: boolean;
  /** Width of the standard output; `Infinity` without a terminal. */
  readonly width: number;
  /** True if the user can be asked a question on the standard error. */
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
    // A terminal that does not know its width reports 0.
    this.width = out.isTTY ? out.columns || 80 : Infinity;
    this.hasColors = out.isTTY === true && !isJson && out.hasColors?.() === true;
  }

  /** Writes a line of the result. */
  line(text = ''): void {
    this.clearProgress();
    this.out.write(`${text}\n`);
  }

  /** Writes a value of the result as one line of JSON; see {@link plainValue}. */
  data(value: unknown): void {
    this.line(jsonText(plainValue(value)));
  }

  /** Writes the answer of an instance: as JSON in an object, or as a {@link value}. */
  answer(answer: unknown): void {
    if (this.isJson) this.data({ answer });
    else this.line(this.value(answer));
  }

  table<T>(columns: readonly Column<T>[], rows: readonly T[]): void {
    for (const line of tableLines(columns, rows, this.width, (head) => this.style('dim', head))) this.line(line);
  }

  /** Writes names and their texts, one in each line. Further lines of a text are indented. */
  fields(fields: readonly (readonly [name: string, text: string | undefined])[]): void {
    const shown = fields.filter(([, text]) => text !== undefined);
    const width = Math.max(...shown.map(([name]) => name.length)) + 2;
    for (const [name, text] of shown) {
      this.line(this.style('dim', name.padEnd(width)) + (text as string).replaceAll('\n', `\n${' '.repeat(width)}`));
    }
  }

  /** Writes a line for people only: the outcome, or the next step. */
  note(text: string): void {
    this.clearProgress();
    this.err.write(`${text}\n`);
  }

  /** Shows the progress of long work: one line that is overwritten. Writes nothing without a terminal. */
  progress(text: string): void {
    if (this.err.isTTY !== true) return;
    this.err.write(`\r\u001b[K${text}`);
    this.isProgressShown = true;
  }

  /** Waits until the output buffer has room. Commands with much output call this now and then. */
  async drain(): Promise<void> {
    if (this.out.writableNeedDrain) await once(this.out, 'drain');
  }

  /** Clears the screen, if there is one. */
  clear(): void {
    if (this.out.isTTY === true) this.out.write('\u001b[H\u001b[2J');
  }

  style(style: Style, text: string): string {
    return this.hasColors ? styleText(style, text, { validateStream: false }) : text;
  }

  state(status: InstanceState, text: string = status): string {
    return this.style(STATE_STYLES[status], text);
  }

  /** Formats a user value, over several lines if it is long. */
  value(value: unknown): string {
    return valueText(value, Math.min(this.width, PLAIN_WIDTH), this.hasColors);
  }

  private clearProgress(): void {
    if (!this.isProgressShown) return;
    this.err.write('\r\u001b[K');
    this.isProgressShown = false;
  }
}
