// Schedules and their due times as texts.

import type { Client } from '../../../client/client.ts';
import type { ScheduleInfo, ScheduleRun } from '../../../client/schedules.ts';
import type { RunStart } from '../../../schedules/schedule-data.ts';
import type { Column } from '../../table.ts';
import type { Style, Terminal } from '../../terminal.ts';
import { agoText, printable, sinceText, timeText } from '../../text.ts';

/** The number of due times ahead that are shown of a schedule. */
const AHEAD = 5;

const STYLES: Readonly<Record<ScheduleRun['outcome'], Style>> = {
  running: 'cyan',
  buffered: 'dim',
  skipped: 'yellow',
  missed: 'yellow',
  exists: 'yellow',
  completed: 'green',
  failed: 'red',
  cancelled: 'yellow',
};

/** The reasons of pauses that have no note. */
const PAUSED_BY: Readonly<Record<NonNullable<ScheduleInfo['paused']>['by'], string>> = {
  client: '',
  failure: ': a run failed',
  removal: ': no code declares it',
};

export function outcomeStyle(outcome: ScheduleRun['outcome']): Style {
  return STYLES[outcome];
}

export function startText({ name, version }: RunStart): string {
  return printable(version === undefined ? name : `${name} ${version}`);
}

/** Formats a pause: `for 2d 3h: holidays`. */
export function pausedText({ since, by, note }: NonNullable<ScheduleInfo['paused']>): string {
  return `${sinceText(since)}${note === undefined ? PAUSED_BY[by] : `: ${printable(note)}`}`;
}

/** Formats a due time: `2026-01-31 12:00:00.000Z (in 3h 20m)`. */
export function dueText(due: Date): string {
  return `${timeText(due)} (${agoText(due)})`;
}

export function runColumns(terminal: Terminal): Column<ScheduleRun>[] {
  return [
    { title: 'DUE', text: ({ due }) => timeText(due) },
    {
      title: 'OUTCOME',
      text: ({ outcome }) => outcome,
      dress: (text, { outcome }) => terminal.style(outcomeStyle(outcome), text),
    },
    { title: 'RUN', text: ({ runId = '' }) => printable(runId), mayShrink: true },
    { title: 'ABOUT', text: aboutText, mayShrink: true },
  ];
}

function aboutText({ outcome, error }: ScheduleRun): string {
  if (error !== undefined) return printable(error.split('\n', 1)[0] ?? '');
  return outcome === 'exists' ? 'another instance had the id' : '';
}

/** Returns the next due times of a schedule, also of one that is paused. */
export async function dueAhead(client: Client, { id, spec, counts }: ScheduleInfo): Promise<Date[]> {
  const isOver = spec.maxRuns !== undefined && counts.started >= spec.maxRuns;
  return isOver ? [] : await client.schedules.next(id, AHEAD);
}
