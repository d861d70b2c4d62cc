// The job: settle every flight of some days. What the passengers paid is booked, less what they are owed for a delay.
//
// These are plain generator functions. When their process is killed they run again from the start, each `yield`
// answered at once by what is recorded, until they are where they were. So they must take the same way every time:
// whatever touches the outside, and whatever may fail, is an activity.

import { defineOrchestration } from 'perdure';

/** A refund beyond this, in dollars, needs a person's consent. */
const REFUND_WITHOUT_APPROVAL = 4000;

/** One flight. `report` is the instance that wants to hear about it. */
export const settleFlight = defineOrchestration('settle-flight', function* (ctx, { flight, report }) {
  // Both are scheduled before the first yield, so they run side by side.
  ctx.setCustomStatus({ stage: 'asking' });
  const [route, passengers] = yield ctx.all([
    ctx.scheduleActivity('look-up-route', flight),
    ctx.scheduleActivity('count-passengers', flight),
  ]);

  // A durable timer, longer for longer flights. It is in the database, so it goes on while no worker is there.
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

/** All flights: one orchestration each, never more than `atOnce` of them unsettled. */
export const settleDays = defineOrchestration('settle-days', function* (ctx, { days, atOnce }) {
  const flights = yield ctx.scheduleActivity('list-flights', { days });
  const unsettled = new Set();
  const waiting = new Set();
  let started = 0;
  let settled = 0;
  let amount = 0;

  while (settled < flights.length) {
    // One activity starts several: it waits until there is room for them.
    const room = atOnce - unsettled.size;
    if (started < flights.length && room >= atOnce / 10) {
      const batch = flights.slice(started, started + room);
      yield ctx.scheduleActivity('start-flights', { batch, report: ctx.instanceId });
      for (const flight of batch) unsettled.add(flight.id);
      started += batch.length;
    }
    ctx.setCustomStatus({ total: flights.length, started, settled, waiting: [...waiting] });

    const news = yield ctx.dequeueEvent('news');
    // An activity runs at least once, so the same news may come twice after a crash. The second time changes nothing.
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
