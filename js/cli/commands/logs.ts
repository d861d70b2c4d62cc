// `perdure logs`

import { setTimeout as sleep } from 'node:timers/promises';

import { Option } from 'commander';

import type { Client } from '../../client/client.ts';
import { hasEnded } from '../../client/instance-status.ts';
import type { LogLine } from '../../client/logs.ts';
import { spanArgument, wholeNumber } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import type { Style, Terminal } from '../terminal.ts';
import { printable, printableLines, timeText, valueLine } from '../text.ts';
import { statusOf } from './show.ts';

interface Flags {
  readonly execution?: number;
  readonly limit?: number;
  readonly follow?: true;
  readonly interval: number;
}

/** Longest text of the fields in a line. */
const FIELDS_MAX = 400;
/** Most lines that are read at once. */
const PAGE_MAX = 1_000;

const STYLES: Readonly<Record<LogLine['level'], Style>> = { debug: 'dim', info: 'cyan', warn: 'yellow', error: 'red' };

export function logs(cli: Cli): void {
  cli
    .command('logs', 'print the lines that an instance logged, if its runtimes keep them (option keepLogs)')
    .argument('<id>', 'id of the instance')
    .option('-e, --execution <number>', 'only the lines of this execution, from 1 (default: all)', wholeNumber(1))
    .option('-n, --limit <count>', 'maximum number of lines (default: all)', wholeNumber(1))
    .option('-f, --follow', 'print further lines until the instance ends')
    .addOption(
      new Option('-i, --interval <duration>', 'time between two requests of --follow')
        .argParser(spanArgument)
        .default(500, '500ms'),
    )
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, { execution, limit, follow, interval }: Flags) => {
        const printed = new Printed(client, terminal, id, execution, limit);
        for (;;) {
          // Read the status first: the lines that are read next then cover its turn.
          const { status } = await statusOf(client, id);
          await printed.goOn();
          if (printed.isFull || follow !== true || hasEnded(status)) break;
          await sleep(interval);
        }
        if (printed.isEmpty) terminal.note('no lines are stored: runtimes keep them with the option keepLogs');
      }),
    );
}

/** The lines that were already printed. */
class Printed {
  private cursor: string | null = null;
  private left: number;
  private readonly client: Client;
  private readonly terminal: Terminal;
  private readonly id: string;
  private readonly execution: { readonly executionId?: number };

  constructor(client: Client, terminal: Terminal, id: string, executionId?: number, limit?: number) {
    this.client = client;
    this.terminal = terminal;
    this.id = id;
    this.execution = executionId === undefined ? {} : { executionId };
    this.left = limit ?? Number.POSITIVE_INFINITY;
  }

  get isEmpty(): boolean {
    return this.cursor === null;
  }

  get isFull(): boolean {
    return this.left === 0;
  }

  /** Prints the lines that have come since. */
  async goOn(): Promise<void> {
    while (!this.isFull) {
      const limit = Math.min(this.left, PAGE_MAX);
      const page = await this.client.logs(this.id, { ...this.execution, cursor: this.cursor, limit });
      const lines = page?.lines ?? [];
      for (const line of lines) write(this.terminal, line);
      await this.terminal.drain();
      this.cursor = page?.cursor ?? this.cursor;
      this.left -= lines.length;
      if (lines.length < limit) return;
    }
  }
}

function write(terminal: Terminal, line: LogLine): void {
  if (terminal.isJson) return terminal.data(line);
  const { time, level, message, fields } = line;
  const rest = fields === undefined ? '' : `  ${terminal.style('dim', printable(valueLine(fields, FIELDS_MAX)))}`;
  const name = terminal.style(STYLES[level], level.toUpperCase().padEnd(5));
  terminal.line(`${terminal.style('dim', timeText(time))}  ${name} ${printableLines(message, '    ')}${rest}`);
}
