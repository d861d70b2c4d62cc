// What the job queues share: the runs that are measured.

/**
 * Returns the time of each run, in seconds, after one that warms up.
 *
 * @param {number} repeat
 * @param {(prefix: string) => Promise<void>} run
 */
export async function secondsOf(repeat, run) {
  const seconds = [];
  for (let n = 0; n <= repeat; n += 1) {
    const began = performance.now();
    await run(`run-${n}`);
    if (n > 0) seconds.push((performance.now() - began) / 1_000);
  }
  return { seconds };
}

/** Returns the numbers from 0 up to `count`, without `count`. */
export function range(count) {
  return Array.from({ length: count }, (_, n) => n);
}
