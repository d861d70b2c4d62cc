// Actions on all instances that match a filter. The page asks for one part after the other, so that it can show the
// progress and stop, and a request never takes long.

import { act } from './actions.ts';
import type { BulkAction, BulkAnswer } from './answers.ts';
import { type BulkBody, bodyOf } from './query.ts';
import { Refusal, refusalOf } from './refusal.ts';
import type { RouteContext } from './route-context.ts';

/** Instances that one request acts on. */
export const PART = 100;

/** Most problems that an answer names. */
const PROBLEMS_MAX = 10;

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
