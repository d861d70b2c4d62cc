// `perdure list`

import type { InstanceStatus } from '../../client/instance-status.ts';
import { wholeNumber } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { endMessage } from '../end.ts';
import { type FilterFlags, filterFlags, filterOf } from '../filter.ts';
import type { Column } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { agoText, printable, spanText, valueLine } from '../text.ts';

interface Flags extends FilterFlags {
  readonly limit: number;
  readonly cursor?: string;
  readonly all?: true;
}

/** Longest text of the last column, before it is cut to the terminal's width. */
const ABOUT_MAX = 120;

export function list(cli: Cli): void {
  filterFlags(cli.command('list', 'list instances, newest first'))
    .option('-n, --limit <count>', 'maximum number of instances', wholeNumber(1), 50)
    .option('--cursor <cursor>', 'continue a list: the cursor that the former call printed')
    .option('-a, --all', 'list all matching instances, without a limit')
    .action(
      cli.storeAction(async ({ client, terminal }, flags: Flags) => {
        let { cursor } = flags;
        for (let left = flags.all === true ? Infinity : flags.limit; left > 0; ) {
          const limit = Math.min(left, PAGE);
          const page = await client
            .listInstances({ ...filterOf(flags), limit, ...(cursor === undefined ? {} : { cursor }) })
            .page();
          if (page.items.length === 0 && cursor === undefined && !terminal.isJson) terminal.note('no instance matches');
          else write(terminal, page.items);
          await terminal.drain();
          left -= page.items.length;
          if (page.cursor === null) return;
          cursor = page.cursor;
        }
        terminal.note(`there may be more instances: continue with --cursor ${cursor}, or list all with --all`);
      }),
    );
}

/** Most instances that are read and shown at once. The columns of each table are as wide as its own rows need. */
const PAGE = 500;

function write(terminal: Terminal, instances: readonly InstanceStatus[]): void {
  if (terminal.isJson) for (const instance of instances) terminal.data(instance);
  else if (instances.length > 0) terminal.table(columns(terminal), instances);
}

function columns(terminal: Terminal): Column<InstanceStatus>[] {
  return [
    { title: 'ID', text: ({ id }) => printable(id), mayShrink: true },
    { title: 'ORCHESTRATION', text: orchestrationText, mayShrink: true },
    { title: 'STATUS', text: ({ status }) => status, dress: (text, { status }) => terminal.state(status, text) },
    { title: 'STARTED', text: ({ createdAt }) => agoText(createdAt) },
    { title: 'TOOK', text: tookText },
    { title: 'ABOUT', text: aboutText, mayShrink: true },
  ];
}

export function orchestrationText({ name, version }: InstanceStatus): string {
  return printable(version === '1.0.0' || version === '' ? name : `${name} ${version}`);
}

/** Formats the duration of an instance, so far if it has not ended. */
export function tookText({ createdAt, completedAt }: InstanceStatus): string {
  const end = completedAt ?? new Date();
  return `${spanText(end.getTime() - createdAt.getTime())}${completedAt === undefined ? '…' : ''}`;
}

/** Describes an instance in one line, by its error or its custom status. */
export function aboutText(instance: InstanceStatus): string {
  const { error, customStatus } = instance;
  if (error !== undefined) return printable(endMessage(instance).split('\n', 1)[0] ?? '').slice(0, ABOUT_MAX);
  return customStatus === undefined || customStatus === null ? '' : valueLine(customStatus, ABOUT_MAX);
}
