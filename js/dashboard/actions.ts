// The actions of the dashboard on one instance. Each is one call of the client, except for a restart, which also reads
// the instance, and a start, also one by a message, whose input is checked first.

import type { Client } from '../client/client.ts';
import type { SendOptions } from '../orchestration/send-options.ts';
import type { ActionAnswer, ActionBodies, ChangingAction, MessageStart } from './answers.ts';
import type { CheckedBody } from './query.ts';
import { pauseQueue, resumeQueue } from './queues.ts';
import { badRequest } from './refusal.ts';
import { type RouteContext, statusOf } from './route-context.ts';
import {
  backfillSchedule,
  deleteSchedule,
  pauseSchedule,
  resumeSchedule,
  setSchedule,
  triggerSchedule,
} from './schedule-actions.ts';
import { checkedStart } from './starting.ts';
import { rejectToken, resolveToken } from './tokens.ts';

type Context = Pick<RouteContext, 'client' | 'options'>;

type Actions = {
  readonly [A in ChangingAction]: (context: Context, body: CheckedBody<A>) => Promise<ActionAnswer | void>;
};

const ACTIONS: Actions = {
  raise: async (context, { id, name, data, start }) =>
    context.client.raiseEvent(id, name, data, await sendOptions(context, start)),
  enqueue: async (context, { id, queue, data, start }) =>
    context.client.enqueueEvent(id, queue, data, await sendOptions(context, start)),
  cancel: ({ client }, { id, reason }) => client.cancelInstance(id, reason),
  terminate: ({ client }, { id, reason }) => client.terminateInstance(id, reason),
  suspend: ({ client }, { id, reason }) => client.suspend(id, reason),
  resume: ({ client }, { id }) => client.resume(id),
  delete: async ({ client }, { id }) => void (await client.deleteInstance(id)),
  start,
  restart,
  resolveToken,
  rejectToken,
  pauseSchedule,
  resumeSchedule,
  triggerSchedule,
  setSchedule,
  deleteSchedule,
  backfillSchedule,
  pauseQueue,
  resumeQueue,
};

export function isChanging(action: string): action is ChangingAction {
  return Object.hasOwn(ACTIONS, action);
}

export async function act<A extends ChangingAction>(
  context: Context,
  action: A,
  body: CheckedBody<A>,
): Promise<ActionAnswer> {
  return (await ACTIONS[action](context, body)) ?? { id: body.id };
}

async function start(context: Context, { id, ...start }: CheckedBody<'start'>): Promise<void> {
  const { name, input, ...options } = await checkedStart(context, start);
  await context.client.startOrchestration(id, name, input, options);
}

async function sendOptions(context: Context, start: MessageStart | undefined): Promise<SendOptions> {
  return start === undefined ? {} : { start: await checkedStart(context, start) };
}

/**
 * Starts the same orchestration again, with the input of an execution and the instance's tags and priority. The version
 * is that of the execution unless another one is given.
 */
async function restart(
  { client }: { readonly client: Client },
  { id, newId, executionId, version }: ActionBodies['restart'],
): Promise<ActionAnswer> {
  const status = await statusOf(client, id);
  const {
    events: [first],
  } = await client.historyPage(id, { limit: 1, ...(executionId === undefined ? {} : { executionId }) });
  if (first?.kind !== 'ExecutionStarted' || first.name === undefined)
    throw badRequest('the history of that execution was deleted');
  // If no version was ever settled, it stays open.
  const same = version ?? ((first.meta as { version?: string } | undefined)?.version || status.version);
  await client.startOrchestration(newId ?? id, first.name, first.payload, {
    ...(same === '' ? {} : { version: same }),
    tags: { ...status.tags },
    priority: status.priority ?? 0,
    onConflict: newId === undefined ? 'restartIfTerminal' : 'error',
  });
  return { id: newId ?? id };
}
