// The queues, with their limits.

import { limitsText } from '../client/queue-limits-text.ts';
import type { QueuesAnswer } from './answers.ts';
import type { Query } from './query.ts';
import type { RouteContext } from './route-context.ts';

export async function queues({ client }: RouteContext, query: Query): Promise<QueuesAnswer> {
  query.only();
  const found = await client.queues.list();
  return {
    items: found.map(({ name, limits, waiting, delayed, running, tokens, oldestWait }) => ({
      name,
      limits: limitsText(limits),
      waiting,
      delayed,
      running,
      ...(limits.concurrency === undefined ? {} : { slots: limits.concurrency }),
      ...(tokens === undefined ? {} : { tokens }),
      ...(oldestWait === undefined ? {} : { oldestMs: oldestWait.getTime() }),
    })),
  };
}
