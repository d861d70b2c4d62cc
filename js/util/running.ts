// The slot of the work that runs now on this thread; empty while nothing runs. driver/current.ts says which object is
// put into it, and why one slot is enough.

let running: object | null = null;

export function runningWork(): object | null {
  return running;
}

export function setRunning(next: object | null): void {
  running = next;
}

/** Runs work as if nothing else were running. */
export function withNothingRunning<T>(work: () => T): T {
  const before = running;
  running = null;
  try {
    return work();
  } finally {
    running = before;
  }
}
