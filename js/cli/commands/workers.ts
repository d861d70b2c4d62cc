// `perdure workers`

import { busyShareOf, type WorkerInfo } from '../../client/description.ts';
import type { Cli } from '../cli.ts';
import type { Terminal } from '../terminal.ts';
import { agoText, countText, printable } from '../text.ts';

export function workers(cli: Cli): void {
  cli.command('workers', 'list the started runtimes of all processes with their instances, tasks and lanes').action(
    cli.storeAction(async ({ client, terminal }) => {
      const found = await client.workers();
      if (terminal.isJson) for (const worker of found) terminal.data(worker);
      else writeWorkers(terminal, found);
    }),
  );
}

export function writeWorkers(terminal: Terminal, found: readonly WorkerInfo[]): void {
  if (found.length === 0) {
    terminal.line('no runtime is started');
    return;
  }
  terminal.table<WorkerInfo>(
    [
      { title: 'WORKER', text: ({ name }) => printable(name), mayShrink: true },
      { title: 'PID', text: ({ pid }) => `${pid}`, align: 'right' },
      { title: 'HOST', text: ({ host, about }) => printable(about?.hostName || host), mayShrink: true },
      {
        title: 'LEASE ENDS',
        text: ({ leaseUntil }) => agoText(leaseUntil),
        dress: (text, { isAlive }) => (isAlive ? text : terminal.style('red', text)),
      },
      { title: 'INSTANCES', text: ({ instances }) => `${instances}`, align: 'right' },
      { title: 'TASKS', text: ({ tasks }) => `${tasks}`, align: 'right' },
      {
        title: 'LANES',
        text: ({ about }) =>
          about === undefined
            ? ''
            : `${countText(about.threads + 1, 'lane')}, ${Math.round(100 * busyShareOf(about))} % busy`,
      },
    ],
    found,
  );
}
