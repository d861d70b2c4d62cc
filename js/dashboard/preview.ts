// The number of instances that an action on many instances would act on.

import { performance } from 'node:perf_hooks';

import type { Client } from '../client/client.ts';
import type { ListOptions } from '../client/listing.ts';
import type { PreviewAnswer } from './answers.ts';

/** Most instances that are counted, and that the page acts on at once. */
const BULK_MAX = 10_000;

/** Instances that are read at once. */
const PAGE = 200;

/** Time after which no further instances are counted, ms. */
const PREVIEW_MS = 5_000;

/** Counts the instances that match, up to a limit. */
export async function preview(client: Client, filter: ListOptions): Promise<PreviewAnswer> {
  const began = performance.now();
  let [count, newestMs, cursor]: [number, number | undefined, string | null] = [0, undefined, null];
  do {
    const page = await client.listInstances({ ...filter, limit: PAGE, ...(cursor === null ? {} : { cursor }) }).page();
    count += page.items.length;
    newestMs ??= page.items[0]?.createdAt.getTime();
    ({ cursor } = page);
  } while (cursor !== null && count < BULK_MAX && performance.now() - began < PREVIEW_MS);
  return {
    count,
    isMore: cursor !== null,
    most: BULK_MAX,
    // The newest instance is the last one that matches: instances that are started later are not acted on.
    createdBefore: newestMs === undefined ? null : new Date(newestMs + 1).toISOString(),
  };
}
