// `perdure history`

import type { HistoryEvent } from '../../client/history.ts';
import { titleOf } from '../../dashboard/event-titles.ts';
import { wholeNumber } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { historyPages } from '../history-pages.ts';
import { MARKS } from '../marks.ts';
import type { Column } from '../table.ts';
import type { Style, Terminal } from '../terminal.ts';
import { printable, spanText, timeText, valueLine } from '../text.ts';

interface Flags {
  readonly execution?: number;
  readonly from: number;
  readonly limit: number;
  readonly values?: true;
}

/** Longest text of a value in a table row. */
const VALUE_MAX = 160;

export function history(cli: Cli): void {
  cli
    .command('history', 'show the history of an instance, event by event')
    .argument('<id>', 'id of the instance')
    .option(
      '-e, --execution <number>',
      'number of the execution, from 1 (default: the current or last execution)',
      wholeNumber(1),
    )
    .option('--from <event>', 'number of the first event to show', wholeNumber(1), 1)
    .option('-n, --limit <count>', 'maximum number of events', wholeNumber(1), 1_000)
    .option('--values', 'print complete values, on several lines')
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, { execution, from, limit, values }: Flags) => {
        let next: number | null = null;
        let begin: Date | undefined;
        for await (const page of historyPages(client, id, execution, from, limit)) {
          begin ??= page.events[0]?.time;
          writeEvents(terminal, page.events, begin, values === true);
          await terminal.drain();
          ({ next } = page);
        }
        if (next !== null) terminal.note(`there may be more events: continue with --from ${next}`);
      }),
    );
}

function writeEvents(
  terminal: Terminal,
  events: readonly HistoryEvent[],
  begin: Date | undefined,
  isWhole: boolean,
): void {
  if (events.length === 0) return;
  if (terminal.isJson) for (const event of events) terminal.data(event);
  else if (isWhole) for (const event of events) writeWhole(terminal, event);
  else terminal.table(columns(terminal, begin as Date), events);
}

function columns(terminal: Terminal, begin: Date): Column<HistoryEvent>[] {
  return [
    { title: '#', text: ({ eventId }) => `${eventId}`, align: 'right' },
    { title: 'AFTER', text: ({ time }) => spanText(time.getTime() - begin.getTime()), align: 'right' },
    { title: 'EVENT', text: ({ kind }) => kind, dress: (text, event) => terminal.style(styleOf(event), text) },
    { title: 'OF', text: ({ refId }) => (refId === undefined ? '' : `#${refId}`), align: 'right' },
    { title: 'NAME', text: (event) => printable(titleOf(event) ?? event.name ?? ''), mayShrink: true },
    { title: 'ABOUT', text: (event) => detailsOf(event), mayShrink: true },
  ];
}

function writeWhole(terminal: Terminal, event: HistoryEvent): void {
  const { eventId, kind, refId, name, time, payload, meta } = event;
  const of = refId === undefined ? '' : ` of #${refId}`;
  const number = terminal.style('bold', `#${eventId}`);
  terminal.line(`${number} ${terminal.style(styleOf(event), kind)}${of} ${printable(name ?? '')}`.trimEnd());
  terminal.line(`  ${terminal.style('dim', timeText(time))}`);
  for (const [what, value] of [
    ['value', payload],
    ['meta', meta],
  ] as const) {
    if (value !== undefined)
      terminal.line(`  ${terminal.style('dim', what)} ${terminal.value(value).replaceAll('\n', '\n  ')}`);
  }
}

/** Describes an event in one line: errors by their messages, times as durations from the event. */
export function detailsOf({ kind, time, payload, meta }: HistoryEvent): string {
  const parts: string[] = [];
  const until = (ms: unknown): string => spanText(Number(ms) - time.getTime());
  if (kind === 'ActivityAttemptFailed')
    parts.push(`attempt ${Number(meta?.attempt)}, again in ${until(meta?.retryAtMs)}`);
  if (kind === 'TimerCreated') parts.push(`for ${until(meta?.fireAtMs)}`);
  if (meta?.id !== undefined) parts.push(`as ${printable(String(meta.id))}`);
  if (meta?.instance !== undefined) parts.push(`to ${printable(String(meta.instance))}`);
  if (typeof meta?.fiber === 'number') parts.push(`fiber ${meta.fiber}`);
  if (isError(kind) && typeof payload?.message === 'string')
    parts.push(printable(`${payload.name}: ${payload.message}`));
  else if (payload !== undefined) parts.push(valueLine(payload, VALUE_MAX));
  return parts.join('; ');
}

function isError(kind: HistoryEvent['kind']): boolean {
  return kind.endsWith('Failed') || kind.endsWith('Cancelled') || kind.endsWith('Refused');
}

/** The outcome that an event records; `undefined` for an event that is none. */
function outcomeOf({ kind }: HistoryEvent): 'ok' | 'failed' | 'cancelled' | undefined {
  if (kind === 'OperationCancelled' || kind === 'CancelRequested' || kind === 'ExecutionCancelled') return 'cancelled';
  if (isError(kind) || kind === 'ExecutionTerminated') return 'failed';
  return kind.endsWith('Completed') || kind.endsWith('Fired') || kind.endsWith('Received') ? 'ok' : undefined;
}

/** Returns the sign of an event's outcome, or a space. */
export function markOf(event: HistoryEvent): string {
  const outcome = outcomeOf(event);
  return outcome === undefined ? ' ' : MARKS[outcome].sign;
}

export function styleOf(event: HistoryEvent): Style {
  const outcome = outcomeOf(event);
  return outcome === undefined ? 'reset' : MARKS[outcome].style;
}
