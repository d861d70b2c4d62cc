// `perdure watch`

import { setTimeout as sleep } from 'node:timers/promises';

import { Option } from 'commander';

import type { Client } from '../../client/client.ts';
import { hasEnded, type InstanceStatus } from '../../client/instance-status.ts';
import { spanArgument } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { EXIT, Exit } from '../exit.ts';
import { historyPages } from '../history-pages.ts';
import type { Terminal } from '../terminal.ts';
import { printable, timeText, valueLine } from '../text.ts';
import { detailsOf, styleOf } from './history.ts';
import { statusOf } from './show.ts';
import { writeStats } from './stats.ts';

interface Flags {
  readonly interval: number;
}

/** Longest text of a status in its line. */
const VALUE_MAX = 200;

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

/** Ends a command with the result of an instance. */
export function endWith(terminal: Terminal, instance: InstanceStatus): void {
  const { id, status, error, output } = instance;
  if (terminal.isJson) terminal.data(instance);
  else terminal.line(`${terminal.state(status)}${status === 'Completed' ? `  ${valueLine(output, VALUE_MAX)}` : ''}`);
  if (status !== 'Completed')
    throw new Exit(EXIT.unwell, `instance '${printable(id)}' is ${status}: ${printable(error?.message ?? '')}`);
}

/** The part of an instance that was already printed. */
class Watched {
  private readonly terminal: Terminal;
  private executionId = 1;
  private nextEvent = 1;
  private statusVersion = 0;
  private state: string | undefined;

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
      if (!terminal.isJson) terminal.line(terminal.style('dim', `execution ${executionId}`));
    }
    for await (const page of historyPages(client, id, executionId, this.nextEvent)) {
      for (const event of page.events) {
        if (terminal.isJson) terminal.data({ event: { executionId, ...event } });
        else {
          const time = terminal.style('dim', timeText(event.time));
          const kind = terminal.style(styleOf(event), event.kind);
          const details = [printable(event.name ?? ''), detailsOf(event)].filter((text) => text !== '');
          terminal.line(`${time}  ${kind}  ${details.join('  ')}`.trimEnd());
        }
      }
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
  }
}
