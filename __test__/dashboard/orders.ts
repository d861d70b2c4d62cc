// The orchestrations that the tests of the page look at.

import type { Runtime } from 'perdure';

/** Registers orders, which wait for their approval, and long instances of many like steps. */
export function registerOrders(runtime: Runtime): void {
  runtime.registerActivity(
    'charge',
    (ctx, order) => {
      if (ctx.attempt === 1) throw new RangeError('the bank does not answer');
      return order;
    },
    { retry: { initialInterval: 1 } },
  );
  runtime.registerActivity(
    'ship',
    () => {
      throw new TypeError('no such address');
    },
    { retry: { maxAttempts: 1 } },
  );
  runtime.registerOrchestration('packing', function* (_ctx, n) {
    return n;
  });
  runtime.registerOrchestration(
    'order',
    function* (ctx, order) {
      yield ctx.scheduleActivity('charge', order);
      if (!order.isAlone) yield ctx.scheduleSubOrchestration('packing', 7, { id: `${ctx.instanceId}/packing` });
      ctx.setCustomStatus({ step: 'waiting' });
      ctx.state.set('approval', { isGiven: false });
      const { by } = yield ctx.waitForEvent('approve');
      ctx.setCustomStatus({ step: 'approved', by });
      ctx.state.set('approval', { isGiven: true, by });
      yield ctx.waitForEvent('go');
      if (order.bad) yield ctx.scheduleActivity('ship');
      return { by };
    },
    { version: '1.2.0' },
  );
  runtime.registerOrchestration('long', function* (ctx, n) {
    for (let i = 0; i < n; i += 1) yield ctx.scheduleActivity('noop', i);
  });
  runtime.registerActivity('noop', () => null);
}
