// `perdure start`

import { randomUUID } from 'node:crypto';

import { Option } from 'commander';

import type { StartOptions } from '../../client/client-options.ts';
import { spanArgument, tagArgument, valueOf, wholeNumber } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { withoutUndefined } from '../filter.ts';
import { printable } from '../text.ts';
import { endWith } from './watch.ts';

interface Flags {
  readonly id?: string;
  readonly orchestrationVersion?: string;
  readonly tag?: Record<string, string>;
  readonly priority?: number;
  readonly onConflict?: NonNullable<StartOptions['onConflict']>;
  readonly wait?: true | number;
}

export function start(cli: Cli): void {
  cli
    .command('start', 'start an orchestration, for whichever runtime has registered it')
    .argument('<orchestration>', 'its name')
    .argument('[input]', 'JSON, @ and the path of a file of it, or - for the standard input')
    .option('--id <id>', 'of the instance (default: a UUID)')
    .option(
      '--orchestration-version <version>',
      'which version (default: the newest that a live worker has registered, or the first one has that comes)',
    )
    .option('-t, --tag <name=value>', 'a tag; again for another', tagArgument)
    .option('--priority <number>', 'higher ones are taken first', wholeNumber(Number.MIN_SAFE_INTEGER))
    .addOption(
      new Option('--on-conflict <what>', 'where the id is in use').choices(['error', 'return', 'restartIfTerminal']),
    )
    .option('-w, --wait [duration]', 'until it has ended; for so long at most', spanArgument)
    .action(
      cli.storeAction(async ({ client, terminal }, name: string, input: string | undefined, flags: Flags) => {
        const { id = randomUUID(), orchestrationVersion: version, tag: tags, priority, onConflict, wait } = flags;
        await client.startOrchestration(
          id,
          name,
          await valueOf(input),
          withoutUndefined({ version, tags, priority, onConflict }),
        );
        if (wait === undefined) {
          if (terminal.isJson) terminal.data({ id });
          else terminal.line(printable(id));
          return;
        }
        terminal.note(`started ${printable(id)}`);
        endWith(terminal, await client.waitForOrchestration(id, wait === true ? undefined : wait));
      }),
    );
}
