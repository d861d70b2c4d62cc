// `perdure start`

import { Option } from 'commander';

import type { StartOptions } from '../../client/client-options.ts';
import type { KeyedStartOptions } from '../../client/start-key.ts';
import { uuidv7 } from '../../util/uuid.ts';
import { CONFLICTS } from '../../values/conflicts.ts';
import { dateArgument, spanArgument, tagArgument, valueOf, wholeNumber } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { usageError } from '../exit.ts';
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
  readonly singleton?: 'skip' | 'cancel';
  readonly throttle?: number;
  readonly debounce?: number;
  readonly debounceMax?: number;
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
    .option('--key <key>', 'its key in the queue, such as a customer; also that of --singleton, --throttle, --debounce')
    .option('--delay <duration>', 'time until the instance runs', spanArgument)
    .option('--start-at <time>', 'time at which the instance runs', dateArgument)
    .option('--timeout <duration>', 'time for which the instance may run before it is cancelled', spanArgument)
    .option('--grace-period <duration>', 'with --timeout: time for its cleanup', spanArgument)
    .addOption(
      new Option('--singleton <action>', 'action if an instance of the orchestration and the key runs').choices([
        'skip',
        'cancel',
      ]),
    )
    .option('--throttle <duration>', 'time after a start in which nothing else is started', spanArgument)
    .option('--debounce <duration>', 'time without another start after which the instance runs', spanArgument)
    .option('--debounce-max <duration>', 'with --debounce: most time until the instance runs', spanArgument)
    .addOption(new Option('--on-conflict <action>', 'action if the id is in use').choices(CONFLICTS))
    .option('-w, --wait [duration]', 'wait until the instance has ended, at most this long', spanArgument)
    .action(
      cli.storeAction(async ({ client, terminal }, name: string, input: string | undefined, flags: Flags) => {
        const { id = uuidv7(), orchestrationVersion: version, tag: tags, wait, ...others } = flags;
        const { priority, onConflict, queue, key, delay, startAt, timeout, gracePeriod } = others;
        const admission = { queue, key, delay, startAt, timeout, gracePeriod };
        const keyed = keyedOptions(flags);
        const options = withoutUndefined({ version, tags, priority, onConflict, ...admission, ...keyed });
        const started = await client.startOrchestration(id, name, await valueOf(input), options);
        if (wait === undefined) {
          if (terminal.isJson) terminal.data({ id: started });
          else terminal.line(printable(started));
          return;
        }
        terminal.note(`${started === id ? 'started' : 'nothing was started, waiting for'} ${printable(started)}`);
        endWith(terminal, await client.waitForOrchestration(started, wait === true ? undefined : wait));
      }),
    );
}

/** @throws Exit when there is a longest delay without a delay */
function keyedOptions({ singleton, throttle, debounce, debounceMax }: Flags): KeyedStartOptions {
  if (debounceMax !== undefined && debounce === undefined)
    throw usageError('--debounce-max needs --debounce, because it limits that');
  return withoutUndefined({
    singleton,
    throttle: throttle === undefined ? undefined : { per: throttle },
    debounce: debounce === undefined ? undefined : withoutUndefined({ delay: debounce, maxDelay: debounceMax }),
  }) as KeyedStartOptions;
}
