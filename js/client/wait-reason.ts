// The reason for which an instance does not go on, as one line for people.

import { NondeterminismError } from '../errors/errors.ts';
import { printable } from '../util/printable.ts';
import type { WorkerInfo } from './description.ts';
import type { InstanceStatus } from './instance-status.ts';
import { ServedWork } from './served-work.ts';

/** The most characters of a reason. */
const REASON_MAX = 500;

/** Returns the reason of a suspension: `the code no longer fits (event 2: recorded activity 'a', attempted …)`. */
export function suspensionReason(error: Error | undefined): string {
  if (error === undefined) return 'it is suspended';
  if (!(error instanceof NondeterminismError)) return cut(error.message);
  const { eventId, field } = error.report;
  const [recorded, attempted] = [error.report.recorded, error.report.attempted].map(withoutVerb);
  const differs = recorded === attempted && field !== undefined ? `, with another ${field.name}` : '';
  return cut(`the code no longer fits (event ${eventId}: recorded ${recorded}, attempted ${attempted}${differs})`);
}

/** Returns `activity 'a'` for `activity 'a' is scheduled`. */
function withoutVerb(action: string): string {
  return action.replace(/ is scheduled$/, '');
}

/**
 * Returns the reason for which an instance that has not ended does not go on: `Suspended: …`, `Pending: no running
 * worker has registered orchestration 'ordr'`. `undefined` if none is known.
 */
export function waitReason(
  { status, name, version, error }: InstanceStatus,
  workers: readonly WorkerInfo[],
): string | undefined {
  switch (status) {
    case 'Suspended':
      return `Suspended: ${suspensionReason(error)}`;
    case 'Pending':
    case 'Running': {
      const served = new ServedWork(workers);
      if (served.workers === 0) return `${status}: no runtime runs on its store`;
      const missing = served.missingOrchestration(name, version);
      if (missing !== undefined) return `${status}: ${missing}`;
      return status === 'Pending' ? 'Pending: it waits for a worker with room' : undefined;
    }
    default:
      return undefined;
  }
}

function cut(message: string): string {
  const line = printable(message.split('\n', 1)[0] ?? '');
  return line.length > REASON_MAX ? `${line.slice(0, REASON_MAX)}…` : line;
}
