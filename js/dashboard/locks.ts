// The locks with names, with the blocks that hold each and wait for it.

import { type InstanceStatus, LIVE_STATES } from '../client/instance-status.ts';
import { LOCK_STATE } from '../orchestration/lock-code.ts';
import { LOCK } from '../orchestration/locks.ts';
import { isList, property } from '../util/show.ts';
import type { LockRow, LocksAnswer } from './answers.ts';
import { publishedValues } from './published.ts';
import type { Query } from './query.ts';
import type { RouteContext } from './route-context.ts';

/** Most holders of a lock that are named. */
const HOLDERS_MAX = 10;

export async function locks({ client }: RouteContext, query: Query): Promise<LocksAnswer> {
  const page = query.only('cursor', 'limit').page();
  const { items, cursor } = await client.listInstances({ name: LOCK, status: LIVE_STATES, ...page }).page();
  const values = await publishedValues(client, items, LOCK_STATE);
  return { items: items.map((item, n) => rowOf(item, values[n])), cursor };
}

/** @param value - the value that the lock publishes; `undefined` until the lock is asked for */
function rowOf({ id, updatedAt }: InstanceStatus, value: unknown): LockRow {
  const [holders, waiting] = [property(value, 'holders'), property(value, 'waiting')];
  const held = isList(holders) ? holders : [];
  // The block that came last was let in by its own number of permits.
  const permits = property(held.at(-1), 'permits') ?? 1;
  return {
    id,
    name: id.slice(LOCK.length + 1),
    holders: held.slice(0, HOLDERS_MAX).map((holder) => String(property(holder, 'by'))),
    taken: held.length,
    ...(held.length > 0 && typeof permits === 'number' ? { permits } : {}),
    waiting: typeof waiting === 'number' ? waiting : 0,
    updatedAtMs: updatedAt.getTime(),
  };
}
