// `perdure queues`: the command itself lists the queues of instances, and its commands set and delete one of them.

import type { Command } from 'commander';

import type { Cli } from '../../cli.ts';
import { usageError } from '../../exit.ts';
import { printable } from '../../text.ts';
import { control } from './control.ts';
import { list, writeAll } from './list.ts';

export function queues(cli: Cli): void {
  const group = cli
    .command('queues', 'list, set and delete queues of instances and their limits')
    .usage('[options] [command]');
  const commands = cli.of(group);
  for (const add of [list, control]) add(commands);
  const listed = cli.storeAction(writeAll);
  group.allowExcessArguments().action(async (flags: object, command: Command) => {
    const [unknown] = command.args;
    if (unknown === undefined) return await listed(flags, command);
    const names = command.commands.map((each) => each.name()).join(', ');
    throw usageError(`queues has no command '${printable(unknown)}'; the commands are ${names}`);
  });
}
