import { type ErrorClass, type ProviderOptions, SqliteProvider, type ValueType, type ValueTypes } from 'perdure';
import { replay, TestRuntime } from 'perdure/testing';
import { expectTypeOf, it } from 'vitest';

class Money {
  readonly cents: number;

  private constructor(cents: number) {
    this.cents = cents;
  }

  static of(cents: number): Money {
    return new Money(cents);
  }
}

class CardDeclined extends Error {
  readonly limit: Money;

  constructor(limit: Money) {
    super('declined');
    this.limit = limit;
  }
}

it('types takes classes with private constructors, and classes of errors', () => {
  const types: ValueTypes = {
    Money: { class: Money, to: ({ cents }) => cents, from: (cents: number) => Money.of(cents) },
    CardDeclined,
  };
  expectTypeOf<ProviderOptions['types']>().toEqualTypeOf<ValueTypes | undefined>();
  expectTypeOf(CardDeclined).toExtend<ErrorClass>();
  void (() => [SqliteProvider.inMemory({ types }), TestRuntime.create({ types }), replay('', [], { types })]);
});

it('a ValueType knows its class', () => {
  const money: ValueType<Money> = { class: Money, to: (value) => value.cents, from: (cents) => Money.of(cents) };
  expectTypeOf(money.to).parameter(0).toEqualTypeOf<Money>();
  expectTypeOf(money.from).returns.toEqualTypeOf<Money>();
  // @ts-expect-error the class is another one
  const date: ValueType<Money> = { class: Date, to: (value) => value.cents, from: () => Money.of(1) };
  void date;
  // @ts-expect-error from is missing
  const half: ValueTypes = { Money: { class: Money, to: ({ cents }: Money) => cents } };
  void half;
  // @ts-expect-error a class that is no error needs to and from
  const bare: ValueTypes = { Money };
  void bare;
});
