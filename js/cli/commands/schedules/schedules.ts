// `perdure schedules`: the command itself lists the schedules, and its commands show, set and run one of them.

import type { Command } from 'commander';

import type { Cli } from '../../cli.ts';
import { usageError } from '../../exit.ts';
import { printable } from '../../text.ts';
import { control } from './control.ts';
import { list, writeAll } from './list.ts';
import { runs } from './runs.ts';
import { set } from './set.ts';
import { show } from './show.ts';

export function schedules(cli: Cli): void {
  const group = cli.command('schedules', 'list, show, set and run schedules').usage('[options] [command]');
  const commands = cli.of(group);
  for (const add of [list, show, set, control, runs]) add(commands);
  const listed = cli.storeAction(writeAll);
  group.allowExcessArguments().action(async (flags: object, command: Command) => {
    const [unknown] = command.args;
    if (unknown === undefined) return await listed(flags, command);
    const names = command.commands.map((each) => each.name()).join(', ');
    throw usageError(`schedules has no command '${printable(unknown)}'; the commands are ${names}`);
  });
}
