// `perdure schedules list`

import type { ScheduleInfo } from '../../../client/schedules.ts';
import { timesText } from '../../../schedules/times-text.ts';
import type { Cli, StoreCommandContext } from '../../cli.ts';
import type { Column } from '../../table.ts';
import type { Terminal } from '../../terminal.ts';
import { agoText, printable } from '../../text.ts';
import { outcomeStyle, pausedText, startText } from './texts.ts';

/** Schedules that are read and shown at once. The columns of each table are as wide as its own rows need. */
const PAGE = 200;

export function list(cli: Cli): void {
  cli
    .command('list', 'list schedules, the one that was created last first')
    .action(cli.storeAction((context) => writeAll(context)));
}

export async function writeAll({ client, terminal }: StoreCommandContext): Promise<void> {
  let rows: ScheduleInfo[] = [];
  let count = 0;
  const write = async (): Promise<void> => {
    count += rows.length;
    if (terminal.isJson) for (const row of rows) terminal.data(row);
    else if (rows.length > 0) terminal.table(columns(terminal), rows);
    await terminal.drain();
    rows = [];
  };
  for await (const schedule of client.schedules.list()) {
    rows.push(schedule);
    if (rows.length === PAGE) await write();
  }
  await write();
  if (count === 0 && !terminal.isJson) terminal.note('there is no schedule');
}

function columns(terminal: Terminal): Column<ScheduleInfo>[] {
  return [
    { title: 'ID', text: ({ id }) => printable(id), mayShrink: true },
    { title: 'TIMES', text: ({ spec }) => printable(timesText(spec.times)), mayShrink: true },
    { title: 'STARTS', text: ({ spec }) => startText(spec.start), mayShrink: true },
    { title: 'NEXT', text: ({ next }) => (next === undefined ? '' : agoText(next)) },
    { title: 'LAST', text: lastText, dress: (text, row) => styled(terminal, text, row) },
    {
      title: 'PAUSED',
      text: ({ paused }) => (paused === undefined ? '' : pausedText(paused)),
      dress: (text) => terminal.style('yellow', text),
      mayShrink: true,
    },
  ];
}

/** Returns the newest due time with a run; `undefined` if none of the recent ones has a run. */
function lastRun({ recent }: ScheduleInfo) {
  return recent.find(({ runId }) => runId !== undefined);
}

function lastText(schedule: ScheduleInfo): string {
  const last = lastRun(schedule);
  return last === undefined ? '' : `${last.outcome} ${agoText(last.due)}`;
}

function styled(terminal: Terminal, text: string, schedule: ScheduleInfo): string {
  const last = lastRun(schedule);
  return last === undefined ? text : terminal.style(outcomeStyle(last.outcome), text);
}
