// `perdure watch`

import { setTimeout as sleep } from 'node:timers/promises';

import { Option } from 'commander';

import type { Client } from '../../client/client.ts';
import type { HistoryEvent } from '../../client/history.ts';
import { hasEnded, type InstanceStatus } from '../../client/instance-status.ts';
import { spanArgument } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { endMessage } from '../end.ts';
import { EXIT, Exit } from '../exit.ts';
import { withoutUndefined } from '../filter.ts';
import { historyPages } from '../history-pages.ts';
import { OpenOperations, type OpenWork, openText } from '../open-work.ts';
import { truncate } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { printable, timeText, valueLine } from '../text.ts';
import { detailsOf, markOf, styleOf } from './history.ts';
import { statusOf } from './show.ts';
import { writeStats } from './stats.ts';

interface Flags {
  readonly interval: number;
}

/** Longest text of a status in its line. */
const VALUE_MAX = 200;
/** Most open operations in the last line of a terminal. */
const OPEN_MAX = 3;

export function watch(cli: Cli): void {
  cli
    .command('watch', 'follow an instance until it ends; without an id, the counts of the store')
    .argument('[id]', 'id of the instance')
    .addOption(
      new Option('-i, --interval <duration>', 'time between two requests')
        .argParser(spanArgument)
        .default(500, '500ms'),
    )
    .action(
      cli.storeAction(async ({ client, terminal }, id: string | undefined, { interval }: Flags) => {
        if (id === undefined) await watchStore(client, terminal, interval);
        else await watchInstance(client, terminal, id, interval);
      }),
    );
}

/** Shows the statistics of the store until the process is told to end. */
async function watchStore(client: Client, terminal: Terminal, interval: number): Promise<void> {
  for (;;) {
    const stats = await client.stats();
    terminal.clear();
    writeStats(terminal, stats, await client.workers());
    await sleep(interval);
  }
}

async function watchInstance(client: Client, terminal: Terminal, id: string, interval: number): Promise<void> {
  const seen = new Watched(terminal);
  for (;;) {
    // Read the status first: the history that is read next then covers it.
    const instance = await statusOf(client, id);
    await seen.follow(client, instance);
    if (hasEnded(instance.status)) return endWith(terminal, instance);
    await sleep(interval);
  }
}

/** Ends a command with the result of an instance. It fails with the error of an instance that did not complete. */
export function endWith(terminal: Terminal, instance: InstanceStatus): void {
  const { id, status, output } = instance;
  const isCompleted = status === 'Completed';
  if (terminal.isJson) terminal.data(instance);
  else if (isCompleted) terminal.line(`${terminal.state(status)}  ${valueLine(output, VALUE_MAX)}`);
  if (isCompleted) return;
  const message = printable(endMessage(instance));
  throw new Exit(EXIT.unwell, `instance '${printable(id)}' is ${status}${message === '' ? '' : `: ${message}`}`);
}

/** The part of an instance that was already printed. */
class Watched {
  private readonly terminal: Terminal;
  private executionId = 1;
  private nextEvent = 1;
  private statusVersion = 0;
  private state: string | undefined;
  private open = new OpenOperations();

  constructor(terminal: Terminal) {
    this.terminal = terminal;
  }

  /** Prints everything that is new. */
  async follow(client: Client, instance: InstanceStatus): Promise<void> {
    const { terminal } = this;
    const { id, status, executionId, customStatus, customStatusVersion } = instance;
    // After the end of an execution, go on with the current one: there may be many in between.
    if (executionId !== this.executionId) {
      this.executionId = executionId;
      this.nextEvent = 1;
      this.open = new OpenOperations();
      if (!terminal.isJson) terminal.line(terminal.style('dim', `execution ${executionId}`));
    }
    for await (const page of historyPages(client, id, executionId, this.nextEvent)) {
      for (const event of page.events) this.print(event);
      this.nextEvent += page.events.length;
      await terminal.drain();
    }
    if (customStatusVersion !== this.statusVersion) {
      this.statusVersion = customStatusVersion;
      if (terminal.isJson) terminal.data({ customStatus, customStatusVersion });
      else terminal.line(`${terminal.style('cyan', 'custom status')}  ${valueLine(customStatus, VALUE_MAX)}`);
    }
    if (this.state !== undefined && this.state !== status && !hasEnded(status)) {
      if (terminal.isJson) terminal.data({ status, error: instance.error });
      else
        terminal.line(
          `${terminal.state(status)}${instance.error === undefined ? '' : `  ${printable(instance.error.message)}`}`,
        );
    }
    this.state = status;
    if (!hasEnded(status)) terminal.progress(truncate(openLine(instance, this.open.all), terminal.width));
  }

  /** Prints an event with the name and the attempt of the operation that it requests or answers. */
  private print(event: HistoryEvent): void {
    const { terminal, executionId } = this;
    const of = this.open.follow(event);
    const name = event.name ?? of?.name;
    if (terminal.isJson) {
      terminal.data({ event: { executionId, ...event, ...withoutUndefined({ name, attempt: of?.attempt }) } });
      return;
    }
    // The details of a failed attempt name the attempt.
    const hasAttempt = event.kind === 'ActivityFailed' || (event.kind === 'ActivityCompleted' && of?.attempt !== 1);
    const attempt = of?.attempt === undefined || !hasAttempt ? '' : `attempt ${of.attempt}`;
    const parts = [printable(name ?? of?.kind ?? ''), attempt, detailsOf(event)];
    const time = terminal.style('dim', timeText(event.time));
    const kind = terminal.style(styleOf(event), `${markOf(event)} ${event.kind}`);
    terminal.line(`${time}  ${kind}  ${parts.filter((text) => text !== '').join('  ')}`.trimEnd());
  }
}

/** Describes what an instance waits for at the moment, in one line. */
export function openLine({ status, reason }: InstanceStatus, open: readonly OpenWork[]): string {
  const shown = open.slice(0, OPEN_MAX).map(openText);
  if (open.length > OPEN_MAX) shown.push(`${open.length - OPEN_MAX} more`);
  if (shown.length === 0 && reason !== undefined) return printable(reason);
  return `${status}: ${shown.length === 0 ? 'no open activity, timer or child' : shown.join('; ')}`;
}
