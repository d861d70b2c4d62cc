// `perdure tree`

import type { Client } from '../../client/client.ts';
import type { InstanceStatus } from '../../client/instance-status.ts';
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

/** An instance and its children, up to the depth and the limit. */
interface Node {
  readonly instance: InstanceStatus;
  readonly children: readonly Node[];
  /** True if there are more children. */
  readonly isCut: boolean;
}

/** Longest description of one instance. */
const ABOUT_MAX = 60;

export function tree(cli: Cli): void {
  cli
    .command('tree', 'show an instance and all its descendants as a tree')
    .argument('<id>', 'id of the root instance')
    .option('-d, --depth <levels>', 'maximum number of levels below the root', wholeNumber(0), 10)
    .option('-n, --limit <count>', 'maximum number of children per instance', wholeNumber(1), 50)
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, { depth, limit }: Flags) => {
        const top = await grow(client, await statusOf(client, id), depth, limit);
        if (terminal.isJson) terminal.data(plain(top));
        else write(terminal, top, '', '');
      }),
    );
}

async function grow(client: Client, instance: InstanceStatus, depth: number, limit: number): Promise<Node> {
  const page = await client.listInstances({ parentId: instance.id, limit: depth === 0 ? 1 : limit }).page();
  if (depth === 0) return { instance, children: [], isCut: page.items.length > 0 };
  const children: Node[] = [];
  // Oldest first, the order in which the children were started.
  for (const child of page.items.toReversed()) children.push(await grow(client, child, depth - 1, limit));
  return { instance, children, isCut: page.cursor !== null };
}

function write(terminal: Terminal, { instance, children, isCut }: Node, first: string, others: string): void {
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
    const isLast = at === children.length - 1 && !isCut;
    write(terminal, child, `${others}${isLast ? '└─ ' : '├─ '}`, `${others}${isLast ? '   ' : '│  '}`);
  }
  if (isCut) {
    const hint = children.length === 0 ? 'children: raise --depth' : 'more children: raise --limit';
    terminal.line(`${others}└─ ${terminal.style('dim', hint)}`);
  }
}

function plain({ instance, children, isCut }: Node): object {
  return { ...instance, children: children.map(plain), hasMore: isCut };
}
