// What runs now on this thread: a slot, which is empty while nothing runs. driver/current.ts says what is put into it, and why one is enough.

let running: object | null = null;

export function whatRuns(): object | null {
  return running;
}

export function setRunning(next: object | null): void {
  running = next;
}

/** Runs work as if nothing else was running. */
export function apart<T>(work: () => T): T {
  const before = running;
  running = null;
  try {
    return work();
  } finally {
    running = before;
  }
}
