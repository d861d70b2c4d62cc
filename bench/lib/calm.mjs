// Waits for a calm moment of a machine that others use too (`--calm seconds`). Nothing of ours runs meanwhile.

import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

/** Share of the processors' time that others may use. */
const BUSY_MAX = 0.08;
const LOOK_MS = 1_000;

/** Waits until the processors were idle for a second, at most for `seconds`. Returns true if they were. */
export async function waitForCalm(seconds) {
  const deadline = performance.now() + seconds * 1_000;
  while (performance.now() < deadline) {
    const before = times();
    await sleep(LOOK_MS);
    const after = times();
    if (1 - (after.idle - before.idle) / (after.all - before.all) <= BUSY_MAX) return true;
  }
  return false;
}

function times() {
  let [idle, all] = [0, 0];
  for (const { times } of os.cpus()) {
    idle += times.idle;
    all += times.user + times.nice + times.sys + times.idle + times.irq;
  }
  return { idle, all };
}
