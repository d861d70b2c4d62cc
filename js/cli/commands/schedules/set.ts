// `perdure schedules set`

import { type Command, Option } from 'commander';

import type { ScheduleInfo } from '../../../client/schedules.ts';
import { OVERLAPS, type Overlap } from '../../../schedules/schedule-data.ts';
import type { ScheduleOptions, ScheduleTimes } from '../../../schedules/schedule-options.ts';
import { dateArgument, datesArgument, spanArgument, tagArgument, valueOf, wholeNumber } from '../../arguments.ts';
import type { Cli } from '../../cli.ts';
import { usageError } from '../../exit.ts';
import { withoutUndefined } from '../../filter.ts';
import { printable } from '../../text.ts';
import { dueAhead, dueText } from './texts.ts';

interface TimesFlags {
  readonly cron?: string;
  readonly timeZone?: string;
  readonly every?: number;
  readonly offset?: number;
  readonly at?: Date[];
}

interface Flags extends TimesFlags {
  readonly overlap?: Overlap;
  readonly catchUp?: number;
  readonly jitter?: number;
  readonly startAt?: Date;
  readonly endAt?: Date;
  readonly maxRuns?: number;
  readonly pauseOnFailure?: true;
  readonly orchestrationVersion?: string;
  readonly tag?: Record<string, string>;
  readonly priority?: number;
  readonly queue?: string;
  readonly key?: string;
  readonly runTimeout?: number;
  readonly runGracePeriod?: number;
  readonly timeout?: number;
}

export function set(cli: Cli): void {
  const command = cli
    .command('set', 'create a schedule, or replace the times and options of the one of that id')
    .argument('<id>', 'id of the schedule')
    .argument('<orchestration>', 'name of the orchestration that is started at each due time')
    .argument('[input]', 'input as JSON, @ and the path of a JSON file, or - for standard input');
  startFlags(limitFlags(timesFlags(command))).action(
    cli.storeAction(async ({ client, terminal }, id: string, name: string, input: string | undefined, flags: Flags) => {
      const { timeout } = flags;
      const options = optionsOf(name, flags, await valueOf(input));
      const schedule = await client.schedules.upsert(id, options, withoutUndefined({ timeout }));
      const ahead = await dueAhead(client, schedule);
      if (terminal.isJson) terminal.data({ ...schedule, ahead });
      else terminal.note(`${printable(id)}: set, ${stateText(schedule, ahead)}`);
    }),
  );
}

function timesFlags(command: Command): Command {
  return command
    .option('--cron <expression>', "due times as a cron expression, such as '0 2 * * *'")
    .option('--time-zone <name>', "with --cron: its time zone, such as 'Europe/Berlin' (default: UTC)")
    .option('--every <duration>', 'due times at an interval, at least 100ms', spanArgument)
    .option('--offset <duration>', 'with --every: added to each due time', spanArgument)
    .option('--at <date...>', "due times as dates, such as '2030-01-31T12:00:00Z'", datesArgument)
    .option('--start-at <date>', 'no due time lies before this time', dateArgument)
    .option('--end-at <date>', 'no due time lies after this time', dateArgument);
}

function limitFlags(command: Command): Command {
  return command
    .addOption(
      new Option(
        '--overlap <behaviour>',
        'behaviour at a due time while a run of the schedule goes on (default: skip)',
      ).choices(OVERLAPS),
    )
    .option(
      '--catch-up <duration>',
      'a due time that no worker met within this time is missed (default: 1h)',
      spanArgument,
    )
    .option('--jitter <duration>', 'delay each start by up to this time', spanArgument)
    .option('--max-runs <count>', 'number of runs after which there are no more', wholeNumber(1))
    .option('--pause-on-failure', 'pause the schedule when a run fails');
}

function startFlags(command: Command): Command {
  return command
    .option(
      '--orchestration-version <version>',
      'version of the orchestration (default: the newest version that a live worker has registered)',
    )
    .option('-t, --tag <name=value>', 'tag of the runs; may be repeated', tagArgument)
    .option(
      '--priority <number>',
      'priority of the runs; instances with a higher priority run first',
      wholeNumber(Number.MIN_SAFE_INTEGER),
    )
    .option('--queue <name>', 'queue in which the runs wait for a slot')
    .option('--key <key>', 'with --queue: the key of the runs in the queue')
    .option('--run-timeout <duration>', 'time for which a run may go on before it is cancelled', spanArgument)
    .option('--run-grace-period <duration>', 'with --run-timeout: time for the cleanup of a run', spanArgument)
    .option('--timeout <duration>', 'wait at most this long for a worker (default: for ever)', spanArgument);
}

/** @throws Exit when the flags of the times do not fit together */
function optionsOf(name: string, flags: Flags, input: unknown): ScheduleOptions {
  const { overlap, catchUp, jitter, startAt, endAt, maxRuns, pauseOnFailure } = flags;
  const { orchestrationVersion: version, tag: tags, priority, queue, key, runTimeout, runGracePeriod } = flags;
  const limits = { timeout: runTimeout, gracePeriod: runGracePeriod };
  return {
    ...timesOf(flags),
    ...withoutUndefined({ overlap, catchUp, jitter, startAt, endAt, maxRuns, pauseOnFailure }),
    start: { name, ...withoutUndefined({ version, tags, priority, queue, key, ...limits, input }) },
  };
}

function timesOf({ cron, timeZone, every, offset, at }: TimesFlags): ScheduleTimes {
  const given = [cron, every, at].filter((times) => times !== undefined);
  if (given.length !== 1) throw usageError('a schedule takes one of --cron, --every and --at');
  if (timeZone !== undefined && cron === undefined) throw usageError('--time-zone is for --cron');
  if (offset !== undefined && every === undefined) throw usageError('--offset is for --every');
  return withoutUndefined({ cron, timeZone, every, offset, at }) as ScheduleTimes;
}

function stateText({ paused }: ScheduleInfo, [next]: readonly Date[]): string {
  if (paused !== undefined) return 'and still paused';
  return next === undefined ? 'with no due time left' : `next due ${dueText(next)}`;
}
