// `perdure timeline`

import { Bars } from '../../dashboard/bars.ts';
import { factsOf } from '../../dashboard/event-facts.ts';
import { wholeNumber } from '../arguments.ts';
import type { Cli } from '../cli.ts';
import { historyPages } from '../history-pages.ts';
import { waterfall } from '../waterfall.ts';

interface Flags {
  readonly execution?: number;
  readonly limit: number;
}

export function timeline(cli: Cli): void {
  cli
    .command('timeline', 'draw attempts, timers, waits and children of an instance over time')
    .argument('<id>', 'id of the instance')
    .option(
      '-e, --execution <number>',
      'number of the execution, from 1 (default: the current or last execution)',
      wholeNumber(1),
    )
    .option('-n, --limit <count>', 'maximum number of events', wholeNumber(1), 1_000)
    .action(
      cli.storeAction(async ({ client, terminal }, id: string, { execution, limit }: Flags) => {
        const bars = new Bars();
        let next: number | null = null;
        for await (const page of historyPages(client, id, execution, 1, limit)) {
          for (const event of page.events) bars.add(factsOf(event));
          ({ next } = page);
        }
        if (terminal.isJson) for (const bar of bars.rows.flat()) terminal.data(bar);
        else for (const line of waterfall(terminal, bars, Date.now())) terminal.line(line);
        if (next !== null) terminal.note('the drawing is incomplete: --limit sets the maximum number of events');
      }),
    );
}
