// The tokens of a store, as clients end and list them.

import { InstanceNotFoundError, RuntimeStateError } from '../errors/errors.ts';
import {
  noToken,
  TOKEN,
  type TokenAnswer,
  type TokenInput,
  type TokenOutcome,
  tokenEnded,
  tokenInstance,
} from '../orchestration/tokens.ts';
import { abortSignal } from '../util/abort.ts';
import { bool, checkOptions, named, type OptionTable } from '../util/options.ts';
import { isInstance, show } from '../util/show.ts';
import { hasEnded, type InstanceStatus, LIVE_STATES } from './instance-status.ts';
import type { ListOptions } from './listing.ts';
import { WAIT_OPTIONS, type WaitOptions } from './watching.ts';

/** A token, as {@link Client.listTokens} lists it. */
export interface TokenInfo {
  /** The id that resolves it. */
  readonly id: string;
  /** The instance that waits for it. */
  readonly instanceId: string;
  /** `'open'` until it was resolved or rejected, or has expired; `'cancelled'` if its instance ended before. */
  readonly status: 'open' | 'resolved' | 'rejected' | 'expired' | 'cancelled';
  /** The `data` that it was made with. */
  readonly data: unknown;
  readonly createdAt: Date;
  /** The time from which it can be resolved no longer; absent if there is no limit. */
  readonly expiresAt?: Date;
}

/** Options of {@link Client.listTokens}. */
export interface ListTokensOptions {
  /** `true`: only those that can be resolved. Default: all. */
  open?: boolean;
  /** Only those of this instance. */
  instanceId?: string;
  /** When aborted, ends the reading at once: the iteration throws the signal's reason. Default: none. */
  signal?: AbortSignal;
}

const LIST_TOKENS: OptionTable = { open: bool, instanceId: named, signal: abortSignal };

/** The part of a client that tokens need. */
interface TokenClient {
  update(id: string, update: string, input: TokenAnswer, options: WaitOptions): Promise<unknown>;
  listInstances(options: ListOptions): AsyncIterable<InstanceStatus>;
}

/** Ends a token, with the errors of {@link Client.resolveToken}. */
export async function endToken(
  client: TokenClient,
  id: string,
  outcome: TokenAnswer['outcome'],
  given: WaitOptions | undefined,
  where: string,
): Promise<void> {
  const options = checkOptions(given, WAIT_OPTIONS, where) ?? {};
  const instance = tokenInstance(id);
  if (instance === undefined) throw new TypeError(`${where} takes the id of a token, not ${show(id)}`);
  try {
    await client.update(instance, TOKEN, { id, outcome }, options);
  } catch (error) {
    if (isInstance(error, InstanceNotFoundError)) throw noToken();
    if (isInstance(error, RuntimeStateError)) throw tokenEnded();
    throw error;
  }
}

/** Returns the error that a token is rejected with. */
export function rejectionOf(error: unknown): Error {
  if (isInstance(error, Error)) return error;
  if (typeof error === 'string') return new Error(error);
  throw new TypeError(`client.rejectToken takes an error or its message, not ${show(error)}`);
}

/** See {@link Client.listTokens}. */
export function listTokens(client: TokenClient, options: ListTokensOptions | undefined): AsyncIterable<TokenInfo> {
  const { open = false, instanceId, signal } = checkOptions(options, LIST_TOKENS, 'client.listTokens') ?? {};
  const instances = client.listInstances({
    name: TOKEN,
    input: true,
    ...(open ? { status: LIVE_STATES } : {}),
    ...(instanceId === undefined ? {} : { parentId: instanceId }),
    ...(signal === undefined ? {} : { signal }),
  });
  return tokensOf(instances);
}

async function* tokensOf(instances: AsyncIterable<InstanceStatus>): AsyncGenerator<TokenInfo, void> {
  for await (const instance of instances) {
    const { id, timeoutMs, data } = instance.input as TokenInput;
    const { createdAt, parentId = '' } = instance;
    const expiresAt = timeoutMs === undefined ? {} : { expiresAt: new Date(createdAt.getTime() + timeoutMs) };
    yield { id, instanceId: parentId, status: statusOf(instance), data, createdAt, ...expiresAt };
  }
}

function statusOf({ status, output }: InstanceStatus): TokenInfo['status'] {
  if (status === 'Completed') return (output as TokenOutcome).kind;
  return hasEnded(status) ? 'cancelled' : 'open';
}
