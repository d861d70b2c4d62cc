// `perdure schedules trigger`, `backfill` and `next`

import { Option } from 'commander';

import { OVERLAPS, type Overlap } from '../../../schedules/schedule-data.ts';
import { timeArgument, wholeNumber } from '../../arguments.ts';
import type { Cli } from '../../cli.ts';
import { usageError } from '../../exit.ts';
import { withoutUndefined } from '../../filter.ts';
import { countText, printable } from '../../text.ts';
import { TIMEOUT } from './control.ts';
import { dueText, runColumns } from './texts.ts';

interface Flags {
  readonly overlap?: Overlap;
  readonly timeout?: number;
}

export function runs(cli: Cli): void {
  trigger(cli);
  backfill(cli);
  next(cli);
}

function overlapOption(): Option {
  const description = 'behaviour while a run of the schedule goes on (default: that of the schedule)';
  return new Option('--overlap <behaviour>', description).choices(OVERLAPS);
}

function trigger(cli: Cli): void {
  cli
    .command('trigger', 'run a schedule now, also a paused one, and print the id of the run')
    .argument('<id>', 'id of the schedule')
    .addOption(overlapOption())
    .option(...TIMEOUT)
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, { overlap, timeout }: Flags) => {
        const run = await client.schedules.trigger(id, withoutUndefined({ overlap, timeout }));
        if (terminal.isJson) terminal.data(run);
        else if (run.runId !== undefined) terminal.line(printable(run.runId));
        else terminal.note(`${printable(id)}: ${run.outcome}, another run of the schedule goes on`);
      }),
    );
}

function backfill(cli: Cli): void {
  cli
    .command('backfill', 'run the due times of a schedule within a span of time, at most 1000')
    .argument('<id>', 'id of the schedule')
    .argument('<from>', "first time: '2026-01-31T12:00:00Z', or '7d' for 7 days ago", timeArgument)
    .argument('<to>', 'last time, in the same form', timeArgument)
    .addOption(overlapOption())
    .option(...TIMEOUT)
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, from: Date, to: Date, flags: Flags) => {
        const { overlap, timeout } = flags;
        if (from > to) throw usageError('the first time of a backfill lies after its last time');
        const found = await client.schedules.backfill(id, from, to, withoutUndefined({ overlap, timeout }));
        if (terminal.isJson) for (const run of found) terminal.data(run);
        else if (found.length > 0) terminal.table(runColumns(terminal), found);
        terminal.note(countText(found.length, 'due time'));
      }),
    );
}

function next(cli: Cli): void {
  cli
    .command('next', 'print the next due times of a schedule, also of a paused one')
    .argument('<id>', 'id of the schedule')
    .argument('[count]', 'number of due times, at most 1000 (default: 1)', wholeNumber(1))
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, count: number | undefined) => {
        const found = await client.schedules.next(id, count);
        if (terminal.isJson) for (const due of found) terminal.data({ due });
        else for (const due of found) terminal.line(dueText(due));
        if (found.length === 0) terminal.note('no due time is left');
      }),
    );
}
