// `perdure queues set`, `pause`, `resume` and `delete`

import { InvalidArgumentError } from 'commander';
import type { QueueLimits, QueueRate } from '../../../client/queue-limits.ts';
import { limitsText } from '../../../client/queue-limits-text.ts';
import { spanArgument, wholeNumber } from '../../arguments.ts';
import type { Cli } from '../../cli.ts';
import { type ConfirmFlags, confirm } from '../../confirm.ts';
import { withoutUndefined } from '../../filter.ts';
import { printable } from '../../text.ts';

interface Flags {
  readonly concurrency?: number;
  readonly perWorker?: number;
  readonly rate?: QueueRate;
  readonly keyConcurrency?: number;
  readonly keyRate?: QueueRate;
  readonly fair?: true;
}

/** Parses a rate, `50/1s`. The client checks its numbers. */
function rateArgument(text: string): QueueRate {
  const [, limit, per] = /^(\d+)\/(.+)$/.exec(text) ?? [];
  if (limit === undefined || per === undefined)
    throw new InvalidArgumentError("It must be a number and a time, such as '50/1s'.");
  return { limit: Number(limit), per: spanArgument(per) };
}

export function control(cli: Cli): void {
  cli
    .command('set', 'create a queue, or replace all limits of the one of that name')
    .argument('<name>', 'name of the queue')
    .option('--concurrency <number>', 'the most slots that are taken at the same time', wholeNumber(0))
    .option(
      '--per-worker <number>',
      'running instances and attempts with which a worker takes no new one',
      wholeNumber(0),
    )
    .option(
      '--rate <number/duration>',
      "the most slots that are given in a span of time, such as '50/1s'",
      rateArgument,
    )
    .option('--key-concurrency <number>', 'the most slots that one key has', wholeNumber(0))
    .option('--key-rate <number/duration>', 'the most slots that one key gets in a span of time', rateArgument)
    .option('--fair', 'let the keys take turns')
    .action(
      cli.storeAction(async ({ client, terminal }, name: string, flags: Flags) => {
        const limits = limitsOf(flags);
        await client.queues.set(name, limits);
        terminal.note(`${printable(name)}: set, limits: ${limitsText(limits)}`);
      }),
    );
  cli
    .command('pause', 'give no slot of a queue until it is resumed; those that have one go on')
    .argument('<name>', 'name of the queue')
    .action(
      cli.storeAction(async ({ client, terminal }, name: string) => {
        await client.queues.pause(name);
        terminal.note(`${printable(name)}: paused`);
      }),
    );
  cli
    .command('resume', 'give slots of a paused queue again')
    .argument('<name>', 'name of the queue')
    .action(
      cli.storeAction(async ({ client, terminal }, name: string) => {
        await client.queues.resume(name);
        terminal.note(`${printable(name)}: resumed`);
      }),
    );
  cli
    .command('delete', 'delete a queue that no instance is in')
    .argument('<name>', 'name of the queue')
    .option('-y, --yes', 'do not ask for confirmation')
    .action(
      cli.storeAction(async ({ client, terminal }, name: string, flags: ConfirmFlags) => {
        await confirm(terminal, flags, `delete the queue ${printable(name)}?`);
        await client.queues.delete(name);
        terminal.note(`${printable(name)}: deleted`);
      }),
    );
}

function limitsOf({ concurrency, perWorker, rate, keyConcurrency, keyRate, fair }: Flags): QueueLimits {
  const perKey = withoutUndefined({ concurrency: keyConcurrency, rate: keyRate });
  return withoutUndefined({
    concurrency,
    perWorker,
    rate,
    ...(Object.keys(perKey).length === 0 ? {} : { perKey }),
    ...(fair === true ? { fairness: 'key' as const } : {}),
  });
}
