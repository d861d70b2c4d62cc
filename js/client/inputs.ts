// Inputs of instances beside their status. The store keeps an input in the first event of its execution.

import { InstanceNotFoundError } from '../errors/errors.ts';
import type { StorePort } from '../store/providers.ts';
import { bool, type OptionTable } from '../util/options.ts';
import { isInstance } from '../util/show.ts';
import { historyPage } from './history.ts';
import type { InstanceStatus } from './instance-status.ts';

/** Options of {@link Client.getStatus}. */
export interface StatusOptions {
  /** `true`: the status has the `input`, which costs another request to the store. Default: `false`. */
  input?: boolean;
}

export const STATUS_OPTIONS: OptionTable = { input: bool };

/** Inputs of a list that are read at once. */
const AT_ONCE_MAX = 16;

/**
 * Returns a status with the input of its execution. An instance that was deleted meanwhile, and one whose input is
 * `undefined`, has none.
 *
 * @throws PayloadError when the input cannot be read
 */
export async function withInput<S extends InstanceStatus>(
  port: StorePort,
  status: S,
  signal?: AbortSignal,
): Promise<S> {
  const { id, executionId } = status;
  try {
    const { events } = await historyPage(port, id, { executionId, limit: 1 }, signal);
    const input: unknown = events[0]?.payload;
    return input === undefined ? status : { ...status, input };
  } catch (error) {
    if (isInstance(error, InstanceNotFoundError)) return status;
    throw error;
  }
}

/** Returns each status with its input, in the same order. */
export async function withInputs<S extends InstanceStatus>(
  port: StorePort,
  statuses: readonly S[],
  signal?: AbortSignal,
): Promise<S[]> {
  const found: S[] = [];
  const left = statuses.entries();
  const work = async (): Promise<void> => {
    for (const [n, status] of left) found[n] = await withInput(port, status, signal);
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE_MAX, statuses.length) }, work));
  return found;
}
