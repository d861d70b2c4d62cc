// Rejections that nobody handles, of promises that an activity left behind: told in the log of its runtime, with the activity, and
// no harm to anybody else. Node would end the process.
//
// While at least one runtime of this thread is started, `process.emit` is wrapped: what belongs to an activity goes to its runtime
// and counts as handled; everything else passes through. A listener of `unhandledRejection` would not do: that there is one already
// keeps Node from what it does with the rejections of others, and theirs would hear of those of activities.
//
// Node calls `emit` in the async context of the promise, or of its rejection where contexts are not hooks (Node 24). So an activity
// is found wherever its function has led, across `await`, timers and callbacks.

import { currentActivity } from './activity-context.ts';

/** Started runtimes. */
let users = 0;

interface Wrapped {
  readonly original: PropertyDescriptor | undefined;
  readonly emit: typeof process.emit;
}

let wrapped: Wrapped | null = null;

/** A runtime starts: each call must be met by one of {@link releaseRejections}. */
export function acquireRejections(): void {
  users += 1;
  if (wrapped === null) wrapped = wrap();
}

/** A runtime has stopped. */
export function releaseRejections(): void {
  users -= 1;
  if (users > 0 || wrapped === null) return;
  // What somebody has put over it meanwhile stays, and ours below it passes everything on.
  if (process.emit !== wrapped.emit) return;
  const { original } = wrapped;
  wrapped = null;
  if (original === undefined) delete (process as Partial<typeof process>).emit;
  else Object.defineProperty(process, 'emit', original);
}

function wrap(): Wrapped {
  const original = Object.getOwnPropertyDescriptor(process, 'emit');
  const before = process.emit as (this: unknown, ...args: unknown[]) => boolean;
  const emit = function (this: unknown, ...args: unknown[]): boolean {
    if (args[0] === 'unhandledRejection' && users > 0) {
      const activity = currentActivity();
      if (activity !== undefined) {
        activity.leftRejected(args[1]);
        return true;
      }
    }
    return before.apply(this, args);
  };
  Object.defineProperty(process, 'emit', {
    value: emit,
    writable: true,
    configurable: true,
    enumerable: original?.enumerable ?? false,
  });
  return { original, emit: emit as typeof process.emit };
}
