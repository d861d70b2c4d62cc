// The takeovers of dead workers that one instance lived through.

import type { StorePort } from '../store/providers.ts';
import type { WorkerName } from './instance-description.ts';

/**
 * The takeover of a worker that died while it owned an instance, or while it ran an attempt of one of the instance's
 * activities. A worker that was shut down in order is not taken over.
 */
export interface Takeover {
  /** Time of the takeover. The worker died before: up to a second on the same machine, up to its lease elsewhere. */
  readonly time: Date;
  /** The worker that died. */
  readonly worker: WorkerName;
  /** Execution of the instance at that time. */
  readonly executionId: number;
  /** The event of that execution that was to follow. */
  readonly eventId: number;
  /**
   * Number of the event that scheduled the activity of which the worker ran an attempt for another worker. Absent: the
   * worker owned the instance.
   */
  readonly activityEventId?: number;
}

interface TakeoverData {
  readonly timeMs: number;
  readonly executionId: number;
  readonly eventId: number;
  readonly activity: number | null;
  readonly worker: { readonly id: string; readonly name: string };
}

export async function readTakeovers(port: StorePort, id: string): Promise<Takeover[]> {
  const reply = await port.request({ kind: 'takeovers', id });
  const takeovers = JSON.parse(reply as string) as TakeoverData[];
  return takeovers.map(({ timeMs, worker, executionId, eventId, activity }) => ({
    time: new Date(timeMs),
    worker,
    executionId,
    eventId,
    ...(activity === null ? {} : { activityEventId: activity }),
  }));
}
