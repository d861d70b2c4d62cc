// The status of an instance for clients, built from the store's data.

import type { PerdureError } from '../errors/errors.ts';
import { Place } from '../values/codec-context.ts';
import { fromNative, type NativeErrorData } from '../values/error-data.ts';
import { cancellationError, fromErrorPayload, fromPayload, terminationError } from '../values/payload.ts';
import type { StoredTexts } from '../values/stored-text.ts';

/** The states from which an instance never changes again. */
export const ENDED_STATES = ['Completed', 'Failed', 'Cancelled', 'Terminated'] as const;

/** The states of an instance that has not ended. */
export const LIVE_STATES = ['Pending', 'Running', 'Suspended'] as const;

/** Every state. */
export const STATES = [...LIVE_STATES, ...ENDED_STATES] as const;

/** The state of an instance that has ended. */
export type EndedState = (typeof ENDED_STATES)[number];

/**
 * The state of an instance. `Completed`, `Failed`, `Cancelled` and `Terminated` are terminal. A Suspended instance can
 * be resumed.
 */
export type InstanceState = 'Pending' | 'Running' | 'Completed' | 'Failed' | 'Cancelled' | 'Terminated' | 'Suspended';

/** True if the state is terminal: the instance never changes again. */
export function hasEnded(status: InstanceState): status is EndedState {
  return (ENDED_STATES as readonly InstanceState[]).includes(status);
}

/** The status of an instance, with the types of its output, its custom status and its input. */
export interface InstanceStatus<O = unknown, S = unknown, I = unknown> {
  readonly id: string;
  /** Name of its orchestration. */
  readonly name: string;
  /** Version of its orchestration. Empty until a worker has acquired an instance that was started without a version. */
  readonly version: string;
  readonly status: InstanceState;
  /** Number of its current or last execution, from 1. */
  readonly executionId: number;
  /** Input of the execution, if it was asked for (`input: true`) and is not `undefined`. */
  readonly input?: I;
  /** Output of the orchestration, when Completed. */
  readonly output?: O;
  /**
   * The error that the orchestration threw, when Failed or Cancelled; the reason of the termination, when Terminated;
   * the mismatch, or the reason of the suspension, when Suspended.
   */
  readonly error?: Error;
  /**
   * The reason for which an instance that has not ended does not go on, for people: `Pending: no running worker has
   * registered orchestration 'ordr'; did you mean 'order'?`. Only from {@link Client.getStatus}, and absent where it is
   * not known or the instance has changed within the last second.
   */
  readonly reason?: string;
  readonly customStatus: S | undefined;
  /** Number of times that the custom status has changed. */
  readonly customStatusVersion: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** Time at which the instance ended. */
  readonly completedAt?: Date;
  /** Id of the instance that waits for this one, if this one is a child. */
  readonly parentId?: string;
  /** Priority, when it is not 0: instances of higher priority are acquired first. */
  readonly priority?: number;
  readonly tags: Readonly<Record<string, string>>;
}

/** A custom status and the number of changes that led to it. */
export interface CustomStatus<S = unknown> {
  readonly customStatus: S | undefined;
  readonly customStatusVersion: number;
}

/** Data of an instance, as the store returns it. */
export interface StatusData {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly status: InstanceState;
  readonly executionId: number;
  readonly result: string | null;
  readonly customStatus: string | null;
  readonly customStatusVersion: number;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly completedAt: number | null;
  readonly parentId: string | null;
  readonly priority: number;
  readonly tags: string | null;
}

/** @throws PayloadError when one of its values cannot be read */
export function statusOf<T>(data: StatusData, texts: StoredTexts): InstanceStatus<T> {
  const { id, name, version, status, executionId, customStatusVersion, completedAt, parentId, priority } = data;
  return {
    id,
    name,
    version,
    status,
    executionId,
    ...resultOf<T>(data, texts),
    customStatus: fromPayload(
      texts.read(data.customStatus, 'status', Place.ofInstance(id, 'status')),
      'status',
      texts.types,
    ),
    customStatusVersion,
    createdAt: new Date(data.createdAt),
    updatedAt: new Date(data.updatedAt),
    ...(completedAt === null ? {} : { completedAt: new Date(completedAt) }),
    ...(parentId === null ? {} : { parentId }),
    ...(priority === 0 ? {} : { priority }),
    tags: JSON.parse(data.tags ?? '{}') as Record<string, string>,
  };
}

function resultOf<T>({ id, status, result }: StatusData, texts: StoredTexts): { output?: T; error?: Error } {
  switch (status) {
    case 'Completed':
      return { output: fromPayload(texts.read(result, 'output', Place.end(id, 'output')), 'output', texts.types) as T };
    case 'Failed':
      return { error: fromErrorPayload(texts.read(result, 'error', Place.end(id, 'error')), texts.types) };
    case 'Cancelled':
      return { error: cancellationError(texts.read(result, 'error', Place.end(id, 'error')), id, texts.types) };
    case 'Terminated':
      return { error: terminationError(texts.read(result, 'reason', Place.end(id, 'termination')), id) };
    case 'Suspended':
      return { error: suspension(id, result, texts) };
    case 'Pending':
    case 'Running':
      return {};
    default:
      return status satisfies never;
  }
}

/**
 * Returns the error that says why an instance is suspended. A runtime's report is error data, the store's own is plain
 * text.
 */
function suspension(id: string, report: string | null, texts: StoredTexts): PerdureError {
  const message = report ?? `instance '${id}' is suspended`;
  let data: NativeErrorData;
  try {
    data = JSON.parse(message) as NativeErrorData;
    fromNative(data);
  } catch {
    return fromNative({ code: 'SUSPENDED', message });
  }
  const { reason } = (data.details ?? {}) as { reason?: string };
  if (reason === undefined) return fromNative(data);
  // The client's reason is a user value, so it goes through the codec.
  const why = fromPayload(texts.read(reason, 'reason', Place.ofInstance(id, 'suspension')), 'reason', texts.types);
  return fromNative({ ...data, message: `${data.message}: ${why}`, details: { reason: why } });
}
