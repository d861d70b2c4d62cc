// The tokens of the store, and the actions that end one. The id of a token resolves it. It never leaves the server: the
// page names a token by the instance that the token is.

import type { Client } from '../client/client.ts';
import { ENDED_STATES, hasEnded, type InstanceStatus, LIVE_STATES } from '../client/instance-status.ts';
import type { TokenInfo } from '../client/tokens.ts';
import { TOKEN, tokenInstance } from '../orchestration/tokens.ts';
import { property } from '../util/show.ts';
import type { ActionBodies, TokenRow, TokensAnswer } from './answers.ts';
import { untilTaken } from './deadline.ts';
import type { Presenter } from './presenter.ts';
import { SHOWN_MAX } from './presenter.ts';
import type { Query } from './query.ts';
import { Refusal } from './refusal.ts';
import type { RouteContext } from './route-context.ts';

type Context = Pick<RouteContext, 'client'>;

export async function tokens({ client, presenter }: RouteContext, query: Query): Promise<TokensAnswer> {
  const isOpen = query.only('open', 'cursor', 'limit').flag('open') ?? true;
  const status = isOpen ? LIVE_STATES : ENDED_STATES;
  const { items, cursor } = await client.listInstances({ name: TOKEN, input: true, status, ...query.page() }).page();
  return { items: items.map((item) => rowOf(item, presenter)), cursor };
}

function rowOf(instance: InstanceStatus, presenter: Presenter): TokenRow {
  const { id, parentId, createdAt, completedAt, input } = instance;
  const timeoutMs = property(input, 'timeoutMs');
  const place = { instanceId: parentId ?? id, kind: 'input', name: TOKEN } as const;
  const data = presenter.value(property(input, 'data'), place, SHOWN_MAX.row);
  const createdAtMs = createdAt.getTime();
  return {
    token: id,
    ...(parentId === undefined ? {} : { instanceId: parentId }),
    status: statusOf(instance),
    ...(data === undefined ? {} : { data }),
    createdAtMs,
    ...(typeof timeoutMs === 'number' ? { expiresAtMs: createdAtMs + timeoutMs } : {}),
    ...(completedAt === undefined ? {} : { endedAtMs: completedAt.getTime() }),
  };
}

function statusOf({ status, output }: InstanceStatus): TokenInfo['status'] {
  const kind = status === 'Completed' ? property(output, 'kind') : undefined;
  if (kind === 'resolved' || kind === 'rejected' || kind === 'expired') return kind;
  return hasEnded(status) ? 'cancelled' : 'open';
}

export async function resolveToken(context: Context, body: ActionBodies['resolveToken']): Promise<void> {
  const { value } = body;
  await end(context, body, (id, signal) => context.client.resolveToken(id, value, { signal }));
}

export async function rejectToken(context: Context, body: ActionBodies['rejectToken']): Promise<void> {
  const { message } = body;
  await end(context, body, (id, signal) => context.client.rejectToken(id, message, { signal }));
}

/** Ends a token of an instance with the id that is stored. */
async function end(
  { client }: Context,
  { id, token }: { readonly id: string; readonly token: string },
  by: (secret: string, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const secret = await secretOf(client, id, token);
  await untilTaken('this answer', 'ends the token', (signal) => by(secret, signal));
}

/** @throws Refusal when the instance has made no such token */
async function secretOf(client: Client, id: string, token: string): Promise<string> {
  const status = await client.getStatus(token, { input: true });
  const secret = property(status?.input, 'id');
  const isTheirs = status?.name === TOKEN && status.parentId === id && tokenInstance(secret) === token;
  if (!isTheirs) throw new Refusal(404, 'TOKEN_NOT_FOUND', `instance '${id}' has no such token`);
  return secret as string;
}
