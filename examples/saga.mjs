// Trips of several flights: a trip takes all of its seats, or none.
//
//   node examples/saga.mjs [--folder .perdure/saga]
//
// The flights are real ones of 2001. Each has one seat left, and several trips compete for it. A trip that does not get
// a seat gives back its other seats, in reverse order. Kill the program in the middle and start it again: a trip that
// was not booked keeps no seat.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
  ActivityError,
  Client,
  defineActivity,
  defineOrchestration,
  NonRetryableError,
  Runtime,
  SqliteProvider,
} from 'perdure';
import { loadFlights } from './demo/flights.mjs';
import { Ledger, readLedger } from './demo/ledger.mjs';

const { values: options } = parseArgs({ options: { folder: { type: 'string', default: '.perdure/saga' } } });
mkdirSync(options.folder, { recursive: true });

// The airline's side: its ledger records the holder of the last seat of each flight.
const path = join(options.folder, 'seats.jsonl');
const ledger = await Ledger.open(path);
const holders = new Map();
for (const { flight, trip, what } of await readLedger(path)) holders.set(flight, what === 'taken' ? trip : undefined);

const takeSeat = defineActivity('take-seat', async (ctx, { flight, trip }) => {
  await delay(20, undefined, { signal: ctx.signal }); // the airline takes its time
  const holder = holders.get(flight);
  if (holder !== undefined && holder !== trip) throw new NonRetryableError(`no seat left on ${flight}`);
  holders.set(flight, trip);
  await ledger.write(ctx.idempotencyKey, { flight, trip, what: 'taken' });
});

const giveBack = defineActivity(
  'give-back',
  async (ctx, { flight, trip }) => {
    // The seat was never taken, or an earlier attempt, whose result was lost, gave it back.
    if (holders.get(flight) !== trip) return;
    await ledger.write(ctx.idempotencyKey, { flight, trip, what: 'given back' });
    holders.set(flight, undefined);
  },
  { retry: { maxAttempts: 1000 } },
);

const bookTrip = defineOrchestration('book-trip', function* (ctx, flights) {
  const trip = ctx.instanceId;
  const undo = [];
  try {
    for (const flight of flights) {
      // Before the step, not after it, because a failed attempt may have taken the seat.
      undo.push(() => ctx.call(giveBack, { flight, trip }));
      yield* ctx.call(takeSeat, { flight, trip });
    }
    return { booked: true, flights };
  } catch (error) {
    // This also runs when the trip is cancelled, and a second cancellation cannot interrupt it.
    yield* ctx.uncancellable(function* () {
      for (const step of undo.reverse()) yield* step();
    });
    if (error instanceof ActivityError) return { booked: false, why: error.cause.message };
    throw error;
  }
});

const provider = await SqliteProvider.open(join(options.folder, 'saga.db'));
// The airline answers at most five requests at a time.
const runtime = new Runtime(provider, { activityConcurrency: 5 });
runtime.register(takeSeat, giveBack, bookTrip);
await runtime.start();

const client = new Client(provider);
const trips = planTrips(await loadFlights(14));
const handles = await Promise.all(
  trips.map((flights, i) => client.start(bookTrip, flights, { id: `trip-${i + 1}`, onConflict: 'return' })),
);
const booked = [];
for (const handle of handles) {
  const result = await handle.result();
  if (result.booked) booked.push(handle.id);
  console.log(`${handle.id}: ${result.booked ? result.flights.join(', ') : result.why}`);
}
const held = [...holders].filter(([, trip]) => trip !== undefined);
console.log(`${booked.length} of ${trips.length} trips are booked, ${held.length} seats are taken`);

await runtime.shutdown();
await provider.close();
await ledger.close();

/** Returns trips of three flights each. A flight departs where the one before it landed, one to five hours later. */
function planTrips(flights) {
  const trips = flights.map((first) => {
    const trip = [first];
    while (trip.length < 3) {
      const last = trip.at(-1);
      const landing = Date.parse(last.date) + (0.5 + last.distance / 450) * 3_600_000;
      const next = flights.find(({ date, origin, destination }) => {
        const hours = (Date.parse(date) - landing) / 3_600_000;
        return (
          origin === last.destination &&
          hours >= 1 &&
          hours <= 5 &&
          trip.every((flight) => flight.origin !== destination)
        );
      });
      if (next === undefined) return null;
      trip.push(next);
    }
    return trip.map(({ id }) => id);
  });
  return trips.filter((trip) => trip !== null);
}
