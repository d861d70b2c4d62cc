// Actions on all instances that match a filter. The page asks for one part after the other, so that it can show the
// progress and stop, and a request never takes long.

import { performance } from 'node:perf_hooks';

import type { ListOptions } from '../client/listing.ts';
import { act } from './actions.ts';
import type { BulkAction, BulkAnswer, PreviewAnswer } from './answers.ts';
import { type BulkBody, bodyOf } from './query.ts';
import type { RouteContext } from './reads.ts';
import { Refusal, refusalOf } from './refusal.ts';

/** Most instances that a preview counts, and that the page acts on at once. */
export const BULK_MAX = 10_000;

/** Instances that one request acts on. */
export const PART = 100;

/** Instances that a preview reads at once. */
const PAGE = 200;

/** Time after which a preview counts no further, ms. */
const PREVIEW_MS = 5_000;

/** Most problems that an answer names. */
const PROBLEMS_MAX = 10;

/** Counts the instances that match, up to a limit. */
export async function preview({ client }: Pick<RouteContext, 'client'>, filter: ListOptions): Promise<PreviewAnswer> {
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

/**
 * Acts on the next instances that match. A refusal of one instance does not keep the others from their action.
 *
 * @param authorize - throws a refusal if the action on that instance is not allowed
 */
export async function actOnPart(
  context: RouteContext,
  { action, filter, cursor, values }: BulkBody,
  authorize: (action: BulkAction, id: string) => Promise<void>,
): Promise<BulkAnswer> {
  const page = await context.client
    .listInstances({ ...filter, limit: PART, ...(cursor === undefined ? {} : { cursor }) })
    .page();
  const problems: { id: string; message: string }[] = [];
  await Promise.all(
    page.items.map(async ({ id }) => {
      try {
        await authorize(action, id);
        await act(context, action, bodyOf(action, { ...values, id }));
      } catch (error) {
        const refusal =
          refusalOf(error) ?? new Refusal(500, 'INTERNAL', 'an internal error: see the log of the server');
        context.report(refusal, error);
        problems.push({ id, message: refusal.message });
      }
    }),
  );
  return {
    done: page.items.length - problems.length,
    failed: problems.length,
    problems: problems.slice(0, PROBLEMS_MAX),
    cursor: page.cursor,
  };
}
