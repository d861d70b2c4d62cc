// The history of one execution for a command: page by page, all of the same execution.

import type { Client } from '../client/client.ts';
import type { HistoryPage } from '../client/history.ts';
import { withoutUndefined } from './filter.ts';

/** Most events that are read at once. */
const PAGE = 500;

/**
 * Iterates over pages of at most `limit` events in all, from event `from` on.
 *
 * @param executionId - without it the current or last one at the time of the first page
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
      ...withoutUndefined({ executionId: execution }),
      from: next,
      limit: Math.min(left, PAGE),
    });
    yield page;
    execution = page.executionId;
    left -= page.events.length;
    ({ next } = page);
  }
}
