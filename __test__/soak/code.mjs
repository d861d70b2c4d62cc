// The code that the workers of a soak run on each of their threads: the programs of chaos, orchestrations that run for
// ever, and some that do harm.

import { randomInt } from 'node:crypto';

import { register as registerPrograms } from '../chaos/interpreter.mjs';
import { pause } from '../support/worker-parts.mjs';

const RETRY = { maxAttempts: 10, initialInterval: 5, maxInterval: 100 };

/** The sleep of an instance that receives no message. It is so long that the generator of the instance is not kept. */
const SLEEP = '12s';

/** Rows that are copied in one cycle. */
const ROWS = 4;

const SLOW_MS = 3_000;
const HOLDING_MS = 100;

export default function register(runtime) {
  registerPrograms(runtime, () => {});

  runtime.registerActivity('echo', (_, value) => value);
  runtime.registerOrchestration('probe', function* (ctx, value) {
    return yield ctx.scheduleActivity('echo', yield ctx.scheduleActivity('echo', value));
  });

  // Continues where the previous attempt stopped.
  runtime.registerActivity('copy', async (ctx) => {
    let rows = ctx.lastHeartbeat ?? 0;
    while (rows < ROWS) {
      await pause(2);
      rows += 1;
      ctx.heartbeat(rows);
      if (ctx.attempt === 1 && rows === ROWS / 2) throw new Error('on purpose');
    }
    return rows;
  });
  runtime.registerOrchestration('cycle', function* (ctx, cycle) {
    ctx.setCustomStatus(cycle);
    yield ctx.race([ctx.dequeueEvent('mail'), ctx.scheduleTimer(SLEEP)], { cancelLosers: true });
    yield ctx.scheduleActivity('copy', null, { retry: RETRY, heartbeatTimeout: '5s' });
    yield ctx.continueAsNew(cycle + 1);
  });

  runtime.registerActivity('slow', () => pause(SLOW_MS));
  runtime.registerOrchestration('slow', function* (ctx) {
    yield ctx.scheduleActivity('slow');
  });
  runtime.registerActivity(
    'holding',
    () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, HOLDING_MS),
  );
  runtime.registerOrchestration('holding', function* (ctx) {
    yield ctx.scheduleActivity('holding');
  });
  runtime.registerActivity(
    'stuck',
    ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true })),
  );
  runtime.registerOrchestration('stuck', function* (ctx) {
    yield ctx.scheduleActivity('stuck');
  });
  // Wherever it is replayed, it no longer fits its history.
  runtime.registerOrchestration('poisoned', function* (ctx) {
    yield ctx.scheduleActivity('echo', randomInt(1_000_000_000));
    yield ctx.waitForEvent('never');
  });
}
