// The job: settle every flight of some days. The fares are booked, minus the refunds for delays.
//
// These are plain generator functions. After a kill they run again from the start. Each `yield` returns its recorded
// result at once, until the function is where it was. So the code must be deterministic: everything with side effects,
// and everything that may fail, is an activity.

import { defineOrchestration } from 'perdure';

/** The limit of a refund without approval, in dollars. */
const REFUND_WITHOUT_APPROVAL = 4000;

/** Settles one flight. `report` is the instance that receives the messages about it. */
export const settleFlight = defineOrchestration('settle-flight', function* (ctx, { flight, report }) {
  // Both are scheduled before the first yield, so they run concurrently.
  ctx.setCustomStatus({ stage: 'asking' });
  const [route, passengers] = yield ctx.all([
    ctx.scheduleActivity('look-up-route', flight),
    ctx.scheduleActivity('count-passengers', flight),
  ]);

  // A durable timer, longer for longer flights. It is in the database, so it continues while no worker runs.
  ctx.setCustomStatus({ stage: 'held for corrections' });
  yield ctx.sleep(300 + (route.miles % 400));

  const fares = passengers * Math.round(49 + 0.11 * route.miles);
  let refund = passengers * refundPerPassenger(flight.delay);
  if (refund > REFUND_WITHOUT_APPROVAL) {
    ctx.setCustomStatus({ stage: 'awaiting approval', refund, passengers, delay: flight.delay });
    yield ctx.scheduleActivity('tell', { to: report, message: { kind: 'needs approval', id: ctx.instanceId } });
    const answer = yield ctx.race(ctx.waitForEvent('decision'), ctx.sleep('24h'), { cancelLosers: true });
    refund = answer.index === 0 ? answer.value.refund : 0;
  }

  ctx.setCustomStatus({ stage: 'booking' });
  const amount = fares - refund;
  const { from, to } = route;
  yield ctx.scheduleActivity('write-ledger', { flight: ctx.instanceId, from, to, fares, refund, amount });

  ctx.setCustomStatus({ stage: 'settled', amount });
  yield ctx.scheduleActivity('tell', { to: report, message: { kind: 'settled', id: ctx.instanceId, amount } });
  return { amount };
});

function refundPerPassenger(delay) {
  if (delay >= 180) return 250;
  if (delay >= 120) return 120;
  return delay >= 60 ? 50 : 0;
}

/** Settles all flights: one orchestration each, with at most `atOnce` unsettled flights at a time. */
export const settleDays = defineOrchestration('settle-days', function* (ctx, { days, atOnce }) {
  const flights = yield ctx.scheduleActivity('list-flights', { days });
  const unsettled = new Set();
  const waiting = new Set();
  let started = 0;
  let settled = 0;
  let amount = 0;

  while (settled < flights.length) {
    // One activity starts several flights, when there is room for them.
    const room = atOnce - unsettled.size;
    if (started < flights.length && room >= atOnce / 10) {
      const batch = flights.slice(started, started + room);
      yield ctx.scheduleActivity('start-flights', { batch, report: ctx.instanceId });
      for (const flight of batch) unsettled.add(flight.id);
      started += batch.length;
    }
    ctx.setCustomStatus({ total: flights.length, started, settled, waiting: [...waiting] });

    const news = yield ctx.dequeueEvent('news');
    // An activity runs at least once, so after a crash the same message may arrive twice. The second has no effect.
    if (!unsettled.has(news.id)) continue;
    if (news.kind === 'needs approval') {
      waiting.add(news.id);
    } else {
      unsettled.delete(news.id);
      waiting.delete(news.id);
      settled += 1;
      amount += news.amount;
    }
  }
  ctx.setCustomStatus({ total: flights.length, started, settled, waiting: [] });
  return { flights: settled, amount };
});
