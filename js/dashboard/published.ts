// The values that many instances publish under one name.

import type { Client } from '../client/client.ts';
import type { InstanceStatus } from '../client/instance-status.ts';

/** Values that are read at once. The store has no request for those of many instances. */
const AT_ONCE_MAX = 16;

/** Returns a value of each instance, in their order; `undefined` where there is none. */
export async function publishedValues(
  client: Client,
  instances: readonly InstanceStatus[],
  name: string,
): Promise<unknown[]> {
  const values: unknown[] = [];
  const left = instances.entries();
  const work = async (): Promise<void> => {
    for (const [n, { id }] of left) values[n] = (await client.getState(id, name))?.value;
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE_MAX, instances.length) }, work));
  return values;
}
