// Commands with commands of their own, which list when none of these is named: `perdure schedules`, `perdure queues`.

import type { Command } from 'commander';

import type { Cli, StoreCommandContext } from './cli.ts';
import { usageError } from './exit.ts';
import { printable } from './text.ts';

/**
 * Adds a command and its commands.
 *
 * @param add - adds commands to the command
 * @param list - runs if none of the commands is named
 */
export function commandGroup(
  cli: Cli,
  name: string,
  description: string,
  add: readonly ((cli: Cli) => void)[],
  list: (context: StoreCommandContext) => Promise<void>,
): void {
  const group = cli.command(name, description).usage('[options] [command]');
  const commands = cli.of(group);
  for (const addTo of add) addTo(commands);
  const listed = cli.storeAction(list);
  group.allowExcessArguments().action(async (flags: object, command: Command) => {
    const [unknown] = command.args;
    if (unknown === undefined) return await listed(flags, command);
    const names = command.commands.map((each) => each.name()).join(', ');
    throw usageError(`${name} has no command '${printable(unknown)}'; the commands are ${names}`);
  });
}
