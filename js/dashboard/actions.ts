// The actions of the dashboard. Each is one call of the client, except for a start, which also reads the instance.

import type { Client } from '../client/client.ts';
import type { ActionAnswer, ActionBodies, ChangingAction } from './answers.ts';
import { statusOf } from './reads.ts';
import { badRequest } from './refusal.ts';

type Actions = {
  readonly [A in ChangingAction]: (client: Client, body: ActionBodies[A]) => Promise<ActionAnswer | void>;
};

const ACTIONS: Actions = {
  raise: (client, { id, name, data }) => client.raiseEvent(id, name, data),
  enqueue: (client, { id, queue, data }) => client.enqueueEvent(id, queue, data),
  cancel: (client, { id, reason }) => client.cancelInstance(id, reason),
  terminate: (client, { id, reason }) => client.terminateInstance(id, reason),
  suspend: (client, { id, reason }) => client.suspend(id, reason),
  resume: (client, { id }) => client.resume(id),
  start: startAgain,
};

export function isChanging(action: string): action is ChangingAction {
  return Object.hasOwn(ACTIONS, action);
}

export async function act<A extends ChangingAction>(
  client: Client,
  action: A,
  body: ActionBodies[A],
): Promise<ActionAnswer> {
  return (await ACTIONS[action](client, body)) ?? { id: body.id };
}

/**
 * Starts the same orchestration again, with the input of an execution and the instance's tags and priority. The version
 * is that of the execution unless another one is given.
 */
async function startAgain(
  client: Client,
  { id, newId, executionId, version }: ActionBodies['start'],
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
