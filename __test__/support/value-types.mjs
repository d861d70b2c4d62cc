// Classes of values and errors, for providers and for their worker threads.

export class Money {
  #cents;

  constructor(cents, currency) {
    this.#cents = cents;
    this.currency = currency;
  }

  get cents() {
    return this.#cents;
  }

  plus(other) {
    return new Money(this.#cents + other.cents, this.currency);
  }
}

/** A value that holds others. */
export class Cart {
  constructor(items, total) {
    this.items = items;
    this.total = total;
  }
}

export class CardDeclined extends RangeError {
  name = 'CardDeclined';

  constructor(card, limit) {
    if (card === undefined) throw new Error('the constructor is not called to read an error');
    super(`card ${card} is declined`);
    this.card = card;
    this.limit = limit;
  }

  get isFinal() {
    return this.limit.cents === 0;
  }
}

export const types = {
  Money: {
    class: Money,
    to: ({ cents, currency }) => ({ cents: BigInt(cents), currency }),
    from: ({ cents, currency }) => new Money(Number(cents), currency),
  },
  Cart: {
    class: Cart,
    to: ({ items, total }) => [items, total],
    from: ([items, total]) => new Cart(items, total),
  },
  CardDeclined,
};
