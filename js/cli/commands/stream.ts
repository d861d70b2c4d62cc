// `perdure stream`

import type { Client } from '../../client/client.ts';
import type { StreamEntry, StreamInfo, StreamReset } from '../../client/streams.ts';
import { wholeNumber } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { usageError } from '../exit.ts';
import type { Column } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { printable, valueLine } from '../text.ts';
import { statusOf } from './show.ts';

interface Flags {
  readonly follow?: true;
  readonly from?: number;
}

/** Longest text of an entry in its line. */
const VALUE_MAX = 400;

const COLUMNS: readonly Column<StreamInfo>[] = [
  { title: 'NAME', text: ({ name }) => printable(name), mayShrink: true },
  { title: 'FIRST', text: ({ first }) => String(first), align: 'right' },
  { title: 'NEXT', text: ({ next }) => String(next), align: 'right' },
  { title: 'STATE', text: ({ isClosed }) => (isClosed ? 'closed' : 'open') },
];

export function stream(cli: Cli): void {
  cli
    .command('stream', 'list the streams of an instance, or print the entries of one of them')
    .argument('<id>', 'id of the instance')
    .argument('[name]', 'name of the stream')
    .option('-f, --follow', 'wait for further entries until the stream is closed or the instance ends')
    .option('--from <index>', 'index of the first entry (default: the first one that is left)', wholeNumber(0))
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, name: string | undefined, flags: Flags) => {
        if (name === undefined && (flags.follow !== undefined || flags.from !== undefined))
          throw usageError('--follow and --from are for one stream: pass its name after the id');
        await statusOf(client, id);
        if (name === undefined) await printList(client, terminal, id);
        else await printEntries(client, terminal, id, name, flags);
      }),
    );
}

async function printList(client: Client, terminal: Terminal, id: string): Promise<void> {
  const streams = (await client.listStreams(id)) ?? [];
  if (streams.length === 0) terminal.note('no streams were written');
  else if (!terminal.isJson) terminal.table(COLUMNS, streams);
  else for (const each of streams) terminal.data(each);
}

async function printEntries(
  client: Client,
  terminal: Terminal,
  id: string,
  name: string,
  { follow, from = 0 }: Flags,
): Promise<void> {
  for await (const item of client.readStream(id, name, { from, live: follow === true })) {
    if (terminal.isJson) terminal.data(item);
    else terminal.line(lineOf(terminal, item));
    await terminal.drain();
  }
}

function lineOf(terminal: Terminal, item: StreamEntry | StreamReset): string {
  if (!item.reset) return `${terminal.style('dim', String(item.index))}  ${valueLine(item.value, VALUE_MAX)}`;
  const { activity, attempt, from } = item;
  return terminal.style('dim', `attempt ${attempt} of activity ${activity} drops its entries from ${from} on`);
}
