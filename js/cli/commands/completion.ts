// `perdure completion`

import tab from '@bomb.sh/tab/commander';
import type { Command } from 'commander';

import { STATES } from '../../client/instance-status.ts';

/**
 * Adds the command that prints the completion script of a shell, and the hidden command that this script calls. Must be
 * called last, because it reads the other commands.
 */
export function completion(program: Command): void {
  const { commands } = tab(program, { completionCommandName: 'completion' });
  program.commands
    .find((command) => command.name() === 'completion')
    ?.description('print the completion script for bash, zsh, fish or powershell');
  for (const command of commands.values()) {
    const status = command.options.get('status');
    if (status !== undefined) status.handler = (complete) => STATES.forEach((state) => complete(state, ''));
  }
}
