import type { ValueTypes } from 'perdure';

export class Money {
  constructor(cents: number, currency: string);
  readonly currency: string;
  get cents(): number;
  plus(other: Money): Money;
}

export class Cart {
  constructor(items: ReadonlyMap<string, Money>, total: Money);
  readonly items: ReadonlyMap<string, Money>;
  readonly total: Money;
}

export class CardDeclined extends RangeError {
  constructor(card: string, limit: Money);
  readonly card: string;
  readonly limit: Money;
  get isFinal(): boolean;
}

export const types: ValueTypes;
