// `perdure schedules pause`, `resume` and `delete`

import { spanArgument } from '../../arguments.ts';
import type { Cli } from '../../cli.ts';
import { type ConfirmFlags, confirm } from '../../confirm.ts';
import { withoutUndefined } from '../../filter.ts';
import { printable } from '../../text.ts';

interface Flags extends ConfirmFlags {
  readonly note?: string;
  readonly timeout?: number;
}

export const TIMEOUT = [
  '--timeout <duration>',
  'wait at most this long for a worker (default: for ever)',
  spanArgument,
] as const;

export function control(cli: Cli): void {
  cli
    .command('pause', 'pause a schedule: due times pass without a run, and runs that go on are left alone')
    .argument('<id>', 'id of the schedule')
    .option('--note <text>', 'note for people, stored with the schedule')
    .option(...TIMEOUT)
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, { note, timeout }: Flags) => {
        await client.schedules.pause(id, withoutUndefined({ note, timeout }));
        terminal.note(`${printable(id)}: paused`);
      }),
    );
  cli
    .command('resume', 'resume a paused schedule: due times that have passed are not made up for')
    .argument('<id>', 'id of the schedule')
    .option(...TIMEOUT)
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, { timeout }: Flags) => {
        await client.schedules.resume(id, withoutUndefined({ timeout }));
        terminal.note(`${printable(id)}: resumed`);
      }),
    );
  cli
    .command('delete', 'delete a schedule: runs that go on are left alone')
    .argument('<id>', 'id of the schedule')
    .option('-y, --yes', 'do not ask for confirmation')
    .option(...TIMEOUT)
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, flags: Flags) => {
        await confirm(terminal, flags, `delete the schedule ${printable(id)}?`);
        await client.schedules.delete(id, withoutUndefined({ timeout: flags.timeout }));
        terminal.note(`${printable(id)}: deleted`);
      }),
    );
}
