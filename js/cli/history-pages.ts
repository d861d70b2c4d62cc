// The history of one execution as a command reads it: page by page, and all of the same execution.

import type { Client } from '../client/client.ts';
import type { HistoryPage } from '../client/history.ts';
import { given } from './filter.ts';

/** Events that are read at once. */
const PAGE = 500;

/**
 * Pages of at most `limit` events in all, from event `from` on.
 *
 * @param executionId - without one the current or last one, as the first page finds it
 */
export async function* historyPages(
  client: Client,
  id: string,
  executionId: number | undefined,
  from: number,
  limit = Infinity,
): AsyncGenerator<HistoryPage, void> {
  let execution = executionId;
  let next: number | null = from;
  for (let left = limit; left > 0 && next !== null; ) {
    const page: HistoryPage = await client.historyPage(id, {
      ...given({ executionId: execution }),
      from: next,
      limit: Math.min(left, PAGE),
    });
    yield page;
    execution = page.executionId;
    left -= page.events.length;
    ({ next } = page);
  }
}
