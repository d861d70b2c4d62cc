// Unhandled rejections of promises that an activity left behind. They are logged by the activity's runtime, with the
// activity, and harm nothing else. By default Node would end the process.
//
// While at least one runtime of this thread is started, `process.emit` is wrapped: the rejection of an activity is
// passed to its runtime and counts as handled, and everything else passes through. A listener of `unhandledRejection`
// would not do: its presence would suppress Node's default for the rejections of other code, and the listeners of other
// code would receive the rejections of activities.
//
// Node calls `emit` in the async context of the promise, or in that of its rejection where contexts are not hooks (Node
// 24). So the activity is found from anywhere its function has led, across `await`, timers and callbacks.

import { currentActivity } from './activity-context.ts';

/** Number of started runtimes. */
let users = 0;

interface WrappedEmit {
  readonly original: PropertyDescriptor | undefined;
  readonly emit: typeof process.emit;
}

let wrapped: WrappedEmit | null = null;

/** Wraps `process.emit` for a runtime that starts. Each call must be matched by one of {@link releaseRejections}. */
export function acquireRejections(): void {
  users += 1;
  if (wrapped === null) wrapped = wrap();
}

/** Unwraps `process.emit` when the last runtime has stopped. */
export function releaseRejections(): void {
  users -= 1;
  if (users > 0 || wrapped === null) return;
  // If other code has wrapped `emit` meanwhile, its wrapper stays, and ours below it passes everything on.
  if (process.emit !== wrapped.emit) return;
  const { original } = wrapped;
  wrapped = null;
  if (original === undefined) delete (process as Partial<typeof process>).emit;
  else Object.defineProperty(process, 'emit', original);
}

function wrap(): WrappedEmit {
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
