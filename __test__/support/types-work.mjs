// Definitions for worker threads that handle values of registered classes.

import { defineActivity, defineOrchestration } from 'perdure';

import { CardDeclined, Cart, Money } from './value-types.mjs';

export { types } from './value-types.mjs';

export const add = defineActivity(
  'add',
  (_ctx, { items }) => {
    const total = [...items.values()].reduce((sum, price) => sum.plus(price));
    if (total.cents > 1_000) throw new CardDeclined('1234', new Money(1_000, 'EUR'));
    return new Cart(items, total);
  },
  { retry: { maxAttempts: 1 } },
);

export const checkout = defineOrchestration('checkout', function* (ctx, cart) {
  try {
    const full = yield* ctx.call(add, cart);
    ctx.setCustomStatus(full.total);
    const tip = yield* ctx.waitForEvent('tip');
    return [full, full.total.plus(tip)];
  } catch (error) {
    const { cause } = error;
    if (!(cause instanceof CardDeclined) || cause.isFinal) throw error;
    throw cause;
  }
});
