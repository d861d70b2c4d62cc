// `perdure timeline`

import type { Takeover } from '../../client/takeovers.ts';
import { type Bar, Bars, takeoverBar } from '../../dashboard/bars.ts';
import { factsOf } from '../../dashboard/event-facts.ts';
import { wholeNumber } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { historyPages } from '../history-pages.ts';
import { LIKE_MAX, waterfall } from '../waterfall.ts';

interface Flags {
  readonly execution?: number;
  readonly limit: number;
  readonly all?: true;
}

/** Most events that are drawn without `--limit`: their bars are in memory all together, about 50 MB. */
const EVENTS_MAX = 200_000;

/** Returns the bar of a takeover. */
function barOf({ time, eventId, worker: { id, name = id } }: Takeover): Bar {
  return takeoverBar({ atMs: time.getTime(), eventId, worker: name });
}

export function timeline(cli: Cli): void {
  cli
    .command(
      'timeline',
      'draw attempts, timers, waits and children of an instance over time, and deaths of its workers',
    )
    .argument('<id>', 'id of the instance')
    .option(
      '-e, --execution <number>',
      'number of the execution, from 1 (default: the current or last execution)',
      wholeNumber(1),
    )
    .option('-n, --limit <count>', 'maximum number of events', wholeNumber(1), EVENTS_MAX)
    .option('-a, --all', `draw a line for each step, also where more than ${LIKE_MAX} have the same name`)
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, { execution, limit, all }: Flags) => {
        const bars = new Bars();
        let [next, last, drawn]: [number | null, number, number] = [null, 0, 1];
        for await (const page of historyPages(client, id, execution, 1, limit)) {
          for (const event of page.events) bars.add(factsOf(event));
          last = page.events.at(-1)?.eventId ?? last;
          ({ next, executionId: drawn } = page);
          terminal.progress(`${last} events read`);
        }
        // The drawing of a part ends with the part: it says nothing about the time after it.
        const nowMs = next === null ? Date.now() : bars.lastMs;
        const takeovers = (await client.takeovers(id))
          .filter(({ executionId, eventId }) => executionId === drawn && eventId <= last + 1)
          .map(barOf);
        if (terminal.isJson) for (const bar of [...bars.rows.flat(), ...takeovers]) terminal.data(bar);
        else
          for (const line of waterfall(terminal, bars, { nowMs, takeovers, isWhole: all === true }))
            terminal.line(line);
        if (next !== null)
          terminal.note(`the drawing ends with event ${last}, and the history goes on: draw more with --limit`);
      }),
    );
}
