// The activities of the demo. Their services are simulated: they are slow, and each fails in its own way at times, so
// the runtime retries. The ledger is a real file.

import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { defineActivity, RetryAfterError } from 'perdure';
import { loadAirports, loadFlights, miles } from './flights.mjs';

const retry = { maxAttempts: 8, initialInterval: '100ms', maxInterval: '1s' };

/** Creates all activities, with the two files that they write. `effects` records every run, see effects.mjs. */
export async function createActivities({ ledger, effects }) {
  const airports = await loadAirports();

  async function listFlights(ctx, { days }) {
    return loadFlights(days);
  }

  async function startFlights(ctx, { batch, report }) {
    // After a crash this may run again, when some instances of the batch exist already. The ids are stable, and
    // 'return' leaves an existing instance unchanged.
    await Promise.all(
      batch.map((flight) =>
        ctx.client.startOrchestration(flight.id, 'settle-flight', { flight, report }, { onConflict: 'return' }),
      ),
    );
  }

  async function lookUpRoute(ctx, { origin, destination }) {
    await delay(60, undefined, { signal: ctx.signal });
    const reply = { airports: [airports.get(origin), airports.get(destination)] };
    if (draw(ctx) < 0.07) reply.airports.pop(); // an incomplete reply ...
    const [from, to] = reply.airports;
    return { from: from.city, to: to.city, miles: miles(from, to) }; // ... makes this a TypeError
  }

  async function countPassengers(ctx, { distance }) {
    await delay(40, undefined, { signal: ctx.signal });
    const luck = draw(ctx);
    if (luck < 0.05) throw new RetryAfterError('250ms', '429 too many requests');
    // Hangs until the timeout of the attempt aborts the signal.
    if (luck < 0.06) await delay(60_000, undefined, { signal: ctx.signal });
    return 30 + Math.floor(Math.min(distance, 2000) / 20) + (distance % 37);
  }

  async function writeLedger(ctx, entry) {
    // The entry may be in the ledger already: the process was killed after the write or, as simulated here, the answer
    // was lost. The key is the same in every attempt, so the ledger recognises the entry.
    const isNew = await ledger.write(ctx.idempotencyKey, entry);
    await delay(20, undefined, { signal: ctx.signal });
    if (draw(ctx) < 0.05) throw Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
    return { isNew };
  }

  async function tell(ctx, { to, message }) {
    await ctx.client.enqueueEvent(to, 'news', message);
  }

  return [
    defineActivity('list-flights', effects.noting(listFlights)),
    defineActivity('start-flights', effects.noting(startFlights)),
    defineActivity('look-up-route', effects.noting(lookUpRoute), { retry }),
    defineActivity('count-passengers', effects.noting(countPassengers), { retry, timeout: '1s' }),
    defineActivity('write-ledger', effects.noting(writeLedger), { retry }),
    defineActivity('tell', effects.noting(tell)),
  ];
}

/**
 * Returns a pseudo-random number from 0 to 1, which depends only on the flight, the activity and the attempt. So every
 * run of the demo has the same failures, independent of the kills.
 */
function draw({ instanceId, activityName, attempt }) {
  const hash = createHash('sha256').update(`${instanceId} ${activityName} ${attempt}`).digest();
  return hash.readUInt32BE() / 2 ** 32;
}
