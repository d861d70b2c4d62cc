// `perdure queues list`

import { limitsText } from '../../../client/queue-limits-text.ts';
import type { QueueInfo } from '../../../client/queues.ts';
import type { Cli, StoreCommandContext } from '../../cli.ts';
import type { Column } from '../../table.ts';
import type { Terminal } from '../../terminal.ts';
import { agoText, printable } from '../../text.ts';

export function list(cli: Cli): void {
  cli
    .command('list', 'list queues, with their limits and the numbers of instances and attempts in them')
    .action(cli.storeAction((context) => writeAll(context)));
}

export async function writeAll({ client, terminal }: StoreCommandContext): Promise<void> {
  const queues = await client.queues.list();
  if (terminal.isJson) for (const queue of queues) terminal.data(queue);
  else if (queues.length > 0) terminal.table(columns(terminal), queues);
  else terminal.note('there is no queue');
  await terminal.drain();
}

function columns(terminal: Terminal): Column<QueueInfo>[] {
  return [
    { title: 'QUEUE', text: ({ name }) => printable(name), mayShrink: true },
    { title: 'RUNNING', text: ({ running }) => String(running) },
    {
      title: 'WAITING',
      text: ({ waiting }) => String(waiting),
      dress: (text, { waiting }) => (waiting === 0 ? text : terminal.style('yellow', text)),
    },
    { title: 'DELAYED', text: ({ delayed }) => String(delayed) },
    { title: 'TOKENS', text: ({ tokens }) => (tokens === undefined ? '' : String(tokens)) },
    { title: 'OLDEST', text: ({ oldestWait }) => (oldestWait === undefined ? '' : agoText(oldestWait)) },
    {
      title: 'STATE',
      text: ({ paused }) => (paused === undefined ? '' : `paused ${agoText(paused.since)}`),
      dress: (text) => terminal.style('yellow', text),
    },
    { title: 'LIMITS', text: ({ limits }) => limitsText(limits), mayShrink: true },
  ];
}
