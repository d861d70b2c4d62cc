// `perdure raise`, `perdure enqueue` and `perdure update`

import { type Command, Option } from 'commander';

import { RECEIVER_CONFLICTS } from '../../orchestration/receiver-start.ts';
import type { ReceiverConflict, SendOptions } from '../../orchestration/send-options.ts';
import { DATA, spanArgument, tagArgument, valueOf, wholeNumber } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { refusal, usageError } from '../exit.ts';
import { withoutUndefined } from '../filter.ts';
import { printable } from '../text.ts';

interface Flags {
  readonly start?: string;
  readonly input?: string;
  readonly orchestrationVersion?: string;
  readonly tag?: Record<string, string>;
  readonly priority?: number;
  readonly onConflict?: ReceiverConflict;
}

interface UpdateFlags extends Flags {
  readonly updateId?: string;
  readonly timeout?: number;
}

export function messages(cli: Cli): void {
  update(cli);
  const raise = cli
    .command('raise', 'raise an event for an instance')
    .argument('<id>', 'id of the instance')
    .argument('<event>', 'name of the event')
    .argument('[data]', DATA);
  startable(raise).action(
    cli.storeAction(async ({ client, terminal }, id: string, event: string, data: string | undefined, flags: Flags) => {
      await client.raiseEvent(id, event, await valueOf(data), await sendOptions(flags));
      terminal.note(`raised ${printable(event)} for ${printable(id)}`);
    }),
  );
  const enqueue = cli
    .command('enqueue', 'send a message to a queue of an instance')
    .argument('<id>', 'id of the instance')
    .argument('<queue>', 'name of the queue')
    .argument('[data]', DATA);
  startable(enqueue).action(
    cli.storeAction(async ({ client, terminal }, id: string, queue: string, data: string | undefined, flags: Flags) => {
      await client.enqueueEvent(id, queue, await valueOf(data), await sendOptions(flags));
      terminal.note(`sent to queue ${printable(queue)} of ${printable(id)}`);
    }),
  );
}

function update(cli: Cli): void {
  const command = cli
    .command('update', 'send an update to an instance and print its answer')
    .argument('<id>', 'id of the instance')
    .argument('<update>', 'name of the update')
    .argument('[input]', DATA)
    .option('--update-id <id>', 'id of the update: calls with one id are one update (default: a new UUID)')
    .option('--timeout <duration>', 'wait at most this long (default: for ever)', spanArgument);
  startable(command).action(
    cli.storeAction(
      async ({ client, terminal }, id: string, name: string, data: string | undefined, flags: UpdateFlags) => {
        const { updateId, timeout } = flags;
        const options = withoutUndefined({ updateId, timeout });
        const { start } = await sendOptions(flags);
        const input = await valueOf(data);
        const answer = await (start === undefined
          ? client.update<unknown, unknown>(id, name, input, options)
          : client.updateWithStart<unknown, unknown>(id, name, input, { ...options, start })
        ).catch(refusal);
        terminal.answer(answer);
      },
    ),
  );
}

/** Adds the options of a command whose message may start the instance. */
function startable(command: Command): Command {
  return command
    .option('--start <orchestration>', 'start an instance of this orchestration if there is none of that id')
    .option('--input <json>', 'with --start: its input as JSON, @ and the path of a JSON file, or -')
    .option(
      '--orchestration-version <version>',
      'with --start: its version (default: the newest version that a live worker has registered)',
    )
    .option('-t, --tag <name=value>', 'with --start: a tag of the instance; may be repeated', tagArgument)
    .option('--priority <number>', 'with --start: its priority', wholeNumber(Number.MIN_SAFE_INTEGER))
    .addOption(
      new Option('--on-conflict <action>', 'with --start: action if the instance of that id has ended').choices(
        Object.keys(RECEIVER_CONFLICTS),
      ),
    );
}

/**
 * Returns the options of a message.
 *
 * @throws Exit when an option of the start is there without `--start`
 */
async function sendOptions(flags: Flags): Promise<SendOptions> {
  const { start: name, input, orchestrationVersion: version, tag: tags, priority, onConflict } = flags;
  const others = withoutUndefined({ input, version, tags, priority, onConflict });
  if (name !== undefined) return { start: { name, ...others, input: await valueOf(input) } };
  if (Object.keys(others).length > 0) throw usageError('the options of a start need --start and an orchestration');
  return {};
}
