// `perdure start`

import { Option } from 'commander';

import type { StartOptions } from '../../client/client-options.ts';
import { uuidv7 } from '../../util/uuid.ts';
import { CONFLICTS } from '../../values/conflicts.ts';
import { dateArgument, spanArgument, tagArgument, valueOf, wholeNumber } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { withoutUndefined } from '../filter.ts';
import { printable } from '../text.ts';
import { endWith } from './watch.ts';

interface Flags {
  readonly id?: string;
  readonly orchestrationVersion?: string;
  readonly tag?: Record<string, string>;
  readonly priority?: number;
  readonly queue?: string;
  readonly key?: string;
  readonly delay?: number;
  readonly startAt?: Date;
  readonly timeout?: number;
  readonly gracePeriod?: number;
  readonly onConflict?: NonNullable<StartOptions['onConflict']>;
  readonly wait?: true | number;
}

export function start(cli: Cli): void {
  cli
    .command('start', 'start an instance of an orchestration')
    .argument('<orchestration>', 'name of the orchestration')
    .argument('[input]', 'input as JSON, @ and the path of a JSON file, or - for standard input')
    .option('--id <id>', 'id of the instance (default: a new UUID, whose order is that of time)')
    .option(
      '--orchestration-version <version>',
      'version of the orchestration (default: the newest version that a live worker has registered)',
    )
    .option('-t, --tag <name=value>', 'tag of the instance; may be repeated', tagArgument)
    .option(
      '--priority <number>',
      'priority; instances with a higher priority run first',
      wholeNumber(Number.MIN_SAFE_INTEGER),
    )
    .option('--queue <name>', 'queue in which the instance waits for a slot')
    .option('--key <key>', 'with --queue: its key in the queue, such as a customer')
    .option('--delay <duration>', 'time until the instance runs', spanArgument)
    .option('--start-at <time>', 'time at which the instance runs', dateArgument)
    .option('--timeout <duration>', 'time for which the instance may run before it is cancelled', spanArgument)
    .option('--grace-period <duration>', 'with --timeout: time for its cleanup', spanArgument)
    .addOption(new Option('--on-conflict <action>', 'action if the id is in use').choices(CONFLICTS))
    .option('-w, --wait [duration]', 'wait until the instance has ended, at most this long', spanArgument)
    .action(
      cli.storeAction(async ({ client, terminal }, name: string, input: string | undefined, flags: Flags) => {
        const { id = uuidv7(), orchestrationVersion: version, tag: tags, wait, ...others } = flags;
        const { priority, onConflict, queue, key, delay, startAt, timeout, gracePeriod } = others;
        const admission = { queue, key, delay, startAt, timeout, gracePeriod };
        const options = withoutUndefined({ version, tags, priority, onConflict, ...admission });
        await client.startOrchestration(id, name, await valueOf(input), options);
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
