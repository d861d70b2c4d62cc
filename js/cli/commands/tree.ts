// `perdure tree`

import type { InstanceTree } from '../../client/tree.ts';
import { wholeNumber } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import type { Terminal } from '../terminal.ts';
import { printable } from '../text.ts';
import { aboutText, orchestrationText, tookText } from './list.ts';
import { statusOf } from './show.ts';

interface Flags {
  readonly depth: number;
  readonly limit: number;
}

/** Longest description of one instance. */
const ABOUT_MAX = 60;

export function tree(cli: Cli): void {
  cli
    .command('tree', 'show an instance and all its descendants as a tree')
    .argument('<id>', 'id of the root instance')
    .option('-d, --depth <levels>', 'maximum number of levels below the root', wholeNumber(0), 10)
    .option('-n, --limit <count>', 'maximum number of instances, the upper levels first', wholeNumber(1), 200)
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, { depth, limit }: Flags) => {
        // The message about an id that is in no use is that of the other commands.
        await statusOf(client, id);
        const top = await client.tree(id, { depth, limit });
        if (terminal.isJson) terminal.data(plain(top));
        else write(terminal, top, '', '');
      }),
    );
}

function write(terminal: Terminal, { instance, children, hasMore }: InstanceTree, first: string, others: string): void {
  const about = aboutText(instance).slice(0, ABOUT_MAX);
  const parts = [
    terminal.style('bold', printable(instance.id)),
    orchestrationText(instance),
    terminal.state(instance.status),
    tookText(instance),
    ...(about === '' ? [] : [terminal.style('dim', about)]),
  ];
  terminal.line(first + parts.join('  '));
  for (const [at, child] of children.entries()) {
    const isLast = at === children.length - 1 && !hasMore;
    write(terminal, child, `${others}${isLast ? '└─ ' : '├─ '}`, `${others}${isLast ? '   ' : '│  '}`);
  }
  if (hasMore) {
    const hint = children.length === 0 ? 'children: raise --depth or --limit' : 'more children: raise --limit';
    terminal.line(`${others}└─ ${terminal.style('dim', hint)}`);
  }
}

function plain({ instance, children, hasMore }: InstanceTree): object {
  return { ...instance, children: children.map(plain), hasMore };
}
