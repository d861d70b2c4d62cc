// The queues, with their limits, and the actions that pause and resume one.

import { limitsText } from '../client/queue-limits-text.ts';
import type { ActionBodies, QueuesAnswer } from './answers.ts';
import type { Query } from './query.ts';
import type { RouteContext } from './route-context.ts';

export async function queues({ client }: RouteContext, query: Query): Promise<QueuesAnswer> {
  query.only();
  const found = await client.queues.list();
  return {
    items: found.map(({ name, limits, paused, waiting, delayed, running, tokens, oldestWait }) => ({
      name,
      limits: limitsText(limits),
      waiting,
      delayed,
      running,
      ...(limits.concurrency === undefined ? {} : { slots: limits.concurrency }),
      ...(tokens === undefined ? {} : { tokens }),
      ...(oldestWait === undefined ? {} : { oldestMs: oldestWait.getTime() }),
      ...(paused === undefined ? {} : { pausedMs: paused.since.getTime() }),
    })),
  };
}

type Context = Pick<RouteContext, 'client'>;

export async function pauseQueue({ client }: Context, { id }: ActionBodies['pauseQueue']): Promise<void> {
  await client.queues.pause(id);
}

export async function resumeQueue({ client }: Context, { id }: ActionBodies['resumeQueue']): Promise<void> {
  await client.queues.resume(id);
}
