// `perdure schedules show`

import type { ScheduleInfo } from '../../../client/schedules.ts';
import { InstanceNotFoundError } from '../../../errors/errors.ts';
import { scheduleInstance } from '../../../schedules/schedule-data.ts';
import { timesText } from '../../../schedules/times-text.ts';
import { exactSpanText } from '../../../util/duration.ts';
import type { Cli } from '../../cli.ts';
import type { Terminal } from '../../terminal.ts';
import { countText, printable, timeText, valueLine } from '../../text.ts';
import { dueAhead, dueText, pausedText, runColumns, startText } from './texts.ts';

/** Longest text of the input, which has one line. */
const INPUT_MAX = 200;
/** Most dates of a schedule. */
const DATES_MAX = 10;
/** Most of the recent due times. */
const RECENT_MAX = 20;

export function show(cli: Cli): void {
  cli
    .command('show', 'show a schedule: its times and options, the next due times, and the recent ones with their runs')
    .argument('<id>', 'id of the schedule')
    .action(
      cli.storeAction(async ({ client, terminal }, id: string) => {
        const schedule = await client.schedules.get(id);
        if (schedule === null)
          throw new InstanceNotFoundError(`there is no schedule '${printable(id)}'`, {
            instanceId: scheduleInstance(id),
          });
        const ahead = await dueAhead(client, schedule);
        if (terminal.isJson) terminal.data({ ...schedule, ahead });
        else write(terminal, schedule, ahead);
      }),
    );
}

function write(terminal: Terminal, schedule: ScheduleInfo, ahead: readonly Date[]): void {
  const { id, paused, counts, recent } = schedule;
  terminal.fields([
    ['Schedule', terminal.style('bold', printable(id))],
    ...timesFields(schedule),
    ...startFields(schedule),
    ...optionFields(schedule),
    ['Paused', paused === undefined ? undefined : terminal.style('yellow', pausedText(paused))],
    ['Next', nextLines(schedule, ahead).join('\n')],
    ['Counts', `${counts.started} started, ${counts.skipped} skipped, ${counts.missed} missed`],
  ]);
  if (recent.length === 0) return;
  terminal.line();
  terminal.table(runColumns(terminal), recent.slice(0, RECENT_MAX));
  const more = recent.length - RECENT_MAX;
  if (more > 0) terminal.note(`and ${countText(more, 'earlier due time')}: --json has all of them`);
}

type Fields = readonly (readonly [name: string, text: string | undefined])[];

function timesFields({ spec: { times, startAtMs, endAtMs } }: ScheduleInfo): Fields {
  return [
    ['Times', times.kind === 'at' ? dateLines(times.atMs).join('\n') : printable(timesText(times))],
    ['Starts at', startAtMs === undefined ? undefined : dueText(new Date(startAtMs))],
    ['Ends at', endAtMs === undefined ? undefined : dueText(new Date(endAtMs))],
  ];
}

function dateLines(dates: readonly number[]): string[] {
  const lines = dates.slice(0, DATES_MAX).map((date) => timeText(new Date(date)));
  const more = dates.length - lines.length;
  return more === 0 ? lines : [...lines, `and ${countText(more, 'more date')}`];
}

function startFields({ id, spec: { start } }: ScheduleInfo): Fields {
  const tags = Object.entries(start.tags ?? {}).map(([name, value]) => printable(`${name}=${value}`));
  return [
    ['Orchestration', startText(start)],
    ['Input', start.input === undefined ? undefined : valueLine(start.input, INPUT_MAX)],
    ['Run ids', start.id === id ? undefined : `${printable(start.id)}/…`],
    ['Tags', tags.join(' ') || undefined],
    ['Priority', start.priority === undefined ? undefined : String(start.priority)],
    ['Queue', start.queue === undefined ? undefined : printable(start.queue)],
    ['Key', start.key === undefined ? undefined : printable(start.key)],
  ];
}

function optionFields({ spec }: ScheduleInfo): Fields {
  const { overlap, catchUpMs, jitterMs, maxRuns, pauseOnFailure, declaredBy } = spec;
  return [
    ['Overlap', overlap],
    ['Catch-up', exactSpanText(catchUpMs)],
    ['Jitter', jitterMs === 0 ? undefined : exactSpanText(jitterMs)],
    ['Runs', maxRuns === undefined ? undefined : `at most ${maxRuns}`],
    ['On failure', pauseOnFailure ? 'pause the schedule' : undefined],
    ['Declared by', declaredBy === undefined ? undefined : printable(declaredBy)],
  ];
}

function nextLines({ paused }: ScheduleInfo, ahead: readonly Date[]): string[] {
  if (ahead.length === 0) return ['no due time is left'];
  const lines = ahead.map(dueText);
  return paused === undefined ? lines : [...lines, 'the paused schedule passes over these'];
}
