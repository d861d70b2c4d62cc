// The end of an instance in words that say its status once.

import type { InstanceStatus } from '../client/instance-status.ts';
import { CancelledError } from '../errors/errors.ts';

type Ended = Pick<InstanceStatus, 'status' | 'error'>;

/** The words before the reason of a termination in the error that the client returns. */
const TERMINATED = 'terminated: ';

/** True if the error of an instance says no more than its status and a reason. */
export function isCancelled({ status, error }: Ended): boolean {
  return (
    (status === 'Cancelled' || status === 'Terminated') && error instanceof CancelledError && error.cause === undefined
  );
}

/** Returns the message of an instance's error, without words that repeat its status; empty if there are no others. */
export function endMessage(ended: Ended): string {
  const { status, error } = ended;
  if (!isCancelled(ended)) return error?.message ?? '';
  const { reason = '' } = error as CancelledError;
  if (status === 'Cancelled') return reason;
  return reason.startsWith(TERMINATED) ? reason.slice(TERMINATED.length) : '';
}
