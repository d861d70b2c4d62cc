// Deadlock: all fibers wait for each other, and nothing outside could wake one of them.

import { PerdureError } from '../errors/errors.ts';
import type { FiberScheduler } from './scheduler.ts';
import { sourceLines } from './source.ts';

/** The `code` of the error. */
export const DEADLOCK = 'DEADLOCK';

/** The number of fibers that the error lists. */
const FIBERS_MAX = 20;

/** Returns the error that lists which fiber waits for which future, and where in its code as far as that is known. */
export function deadlockError(scheduler: FiberScheduler): PerdureError {
  const lines = ['deadlock: all fibers wait for each other, and nothing outside is pending that could wake one'];
  const fibers = scheduler.liveFibers;
  for (const fiber of fibers) {
    if (lines.length > FIBERS_MAX) {
      lines.push(`  and ${fibers.length - FIBERS_MAX} more fibers`);
      break;
    }
    const future = fiber.waitingOn;
    const [frame] = sourceLines(future?.source).split('\n');
    lines.push(
      `  ${fiber.describe()} waits for ${future?.describe() ?? 'nothing'}${frame === '' ? '' : `, ${frame?.trim()}`}`,
    );
  }
  return new PerdureError(lines.join('\n'), DEADLOCK);
}
