import { describe, expect, it } from 'vitest';

import { PayloadError } from '../../js/errors/errors.ts';
import { decode, encode, isSameButForStacks } from '../../js/values/codec.ts';
import { decodeError, type ErrorData, encodeError } from '../../js/values/error-data.ts';
import { checkTypes, STORED_FORMS, TypeRegistry } from '../../js/values/value-types.ts';
import { CardDeclined, Cart, Money, types } from '../support/value-types.mjs';

const registry = new TypeRegistry(types);
const LIMITS = { payloadBytes: 100_000 };

function stored(value: unknown, of = registry): string {
  return encode(value, 'value', LIMITS, of) as string;
}

function roundTrip<T>(value: T): T {
  return decode(stored(value), 'value', registry) as T;
}

function thrown(run: () => unknown): Error {
  try {
    run();
  } catch (error) {
    return error as Error;
  }
  throw new Error('nothing was thrown');
}

describe('an instance of a registered class', () => {
  it('comes back as one, anywhere in a value', () => {
    const price = new Money(5, 'EUR');
    const back = roundTrip({ list: [price, price], map: new Map([[price, { price }]]), at: new Date(0) });
    const [first, second] = back.list;
    expect(first).toBeInstanceOf(Money);
    expect(first?.plus(price).cents).toBe(10);
    expect(second).toBe(first);
    expect([...back.map][0]).toEqual([first, { price: first }]);
    expect(roundTrip(price)).toBeInstanceOf(Money);
  });

  it('may hold others, and errors', () => {
    const cart = new Cart(new Map([['a', new Money(5, 'EUR')]]), new Money(5, 'EUR'));
    const back = roundTrip(cart);
    expect(back).toBeInstanceOf(Cart);
    expect(back.items.get('a')?.cents).toBe(5);
    const failed = roundTrip(new Cart(new Map(), new CardDeclined('1', new Money(0, 'EUR')) as never));
    expect(failed.total).toBeInstanceOf(CardDeclined);
    expect((failed.total as unknown as CardDeclined).isFinal).toBe(true);
  });

  it('is stored as its data under its name, which a reader of the table understands', () => {
    expect(stored(new Money(5, 'EUR'))).toBe('~[["type:Money",1],[2],{"cents":3,"currency":4},["BigInt","5"],"EUR"]');
  });

  it('cannot be confused with data, and its name not with a kind of value', () => {
    for (const value of [['type:Money', 1], { 'type:Money': [1] }, new Map([['type:Money', 'type:Money']])])
      expect(roundTrip(value)).toEqual(value);
    class Own {}
    const odd = ['Date', 'Map', 'Error', 'Buffer', 'null', '__proto__', 'type:x', '@shop/money:2', 'constructor'];
    for (const name of odd) {
      const own = new TypeRegistry(
        Object.fromEntries([[name, { class: Own, to: () => 'x', from: () => new Own() }]]) as never,
      );
      const value = {
        own: new Own(),
        date: new Date(0),
        map: new Map(),
        error: new Error('e'),
        bytes: Buffer.from('b'),
      };
      const back = decode(stored(value, own), 'value', own) as typeof value;
      expect(back.own).toBeInstanceOf(Own);
      expect([back.date, back.map, back.bytes]).toEqual([value.date, value.map, value.bytes]);
      expect(back.error).toBeInstanceOf(Error);
    }
  });

  it('is written once, and its data is checked', () => {
    let calls = 0;
    class Odd {
      readonly data: unknown;
      constructor(data: unknown) {
        this.data = data;
      }
    }
    const odd = new TypeRegistry({
      Odd: { class: Odd, to: ({ data }) => ((calls += 1), data), from: (data) => new Odd(data) },
    });
    stored([new Odd(1)], odd);
    expect(calls).toBe(1);
    expect(thrown(() => stored({ a: new Odd({ b: () => {} }) }, odd))).toMatchObject({
      name: 'PayloadError',
      message: 'value.a.b cannot be stored: it is a function',
      path: 'value.a.b',
    });
    expect(thrown(() => stored(new Odd(Promise.resolve()), odd)).message).toContain('it is a promise');
    expect(thrown(() => stored(new Odd(Buffer.alloc(200_000)), odd)).message).toContain('over the limit');
    const circle: { data?: unknown } = new Odd(undefined);
    circle.data = [circle];
    expect(thrown(() => stored({ circle }, odd)).message).toContain(
      'value.circle[0] cannot be stored: it holds itself, through the function `to` of its class',
    );
    const endless = new TypeRegistry({ Odd: { class: Odd, to: () => new Odd(1), from: () => new Odd(1) } });
    expect(thrown(() => stored(new Odd(1), endless)).message).toContain('nested deeper than');
  });

  it('is not one of its subclass, nor of a class that looks like it', () => {
    class Euro extends Money {}
    expect(thrown(() => stored({ price: new Euro(1, 'EUR') })).message).toBe(
      'value.price cannot be stored: it is an instance of Euro, which nothing describes: ' +
        'register the class in the option `types` of the provider, or hand over plain data',
    );
    expect(thrown(() => stored(new WeakMap())).message).toMatch(/which nothing describes$/);
  });
});

describe('a function of a type that fails', () => {
  class Point {}
  const of = (to: () => unknown, from: () => unknown) => new TypeRegistry({ Point: { class: Point, to, from } });
  const boom = (): never => {
    throw new Error('boom');
  };

  it('is named, with its error as the cause', () => {
    expect(thrown(() => stored([new Point()], of(boom, boom)))).toMatchObject({
      message: "value[0] cannot be stored: it is of the type 'Point', whose function `to` threw",
      cause: { message: 'boom' },
    });
    const text = stored(
      new Point(),
      of(() => 1, boom),
    );
    expect(
      thrown(() =>
        decode(
          text,
          'output',
          of(() => 1, boom),
        ),
      ),
    ).toMatchObject({
      message: "output cannot be read: the function `from` of the type 'Point' threw",
      path: 'output',
      cause: { message: 'boom' },
    });
    expect(
      thrown(() =>
        decode(
          text,
          'output',
          of(
            () => 1,
            () => ({}),
          ),
        ),
      ),
    ).toMatchObject({
      message: "output cannot be read: the function `from` of the type 'Point' did not return an instance of its class",
    });
  });
});

describe('a class that is not registered on reading', () => {
  const text = stored({ price: new Money(5, 'EUR') });

  it('is named, with what to do', () => {
    const error = thrown(() => decode(text, 'input'));
    expect(error).toBeInstanceOf(PayloadError);
    expect(error.message).toBe(
      "input cannot be read: it holds a value of the type 'Money', which is not registered here: " +
        'open the provider with that class in the option `types`',
    );
  });

  it('is shown by its data to tools', () => {
    const { price } = decode(text, 'input', STORED_FORMS) as { price: object };
    expect(price).toEqual({ cents: 5n, currency: 'EUR' });
    expect(price.constructor.name).toBe('Money');
  });
});

describe('an error of a registered class', () => {
  const error = new CardDeclined('1234', new Money(500, 'EUR'));
  const data = JSON.parse(JSON.stringify(encodeError(error, registry))) as ErrorData;

  it('comes back as one, with its fields and without its constructor', () => {
    const back = decodeError(data, registry) as CardDeclined;
    expect(back).toBeInstanceOf(CardDeclined);
    expect(back).toMatchObject({ name: 'CardDeclined', message: 'card 1234 is declined', card: '1234' });
    expect(back.stack).toBe(error.stack);
    expect(back.limit).toBeInstanceOf(Money);
    expect(back.isFinal).toBe(false);
    expect(JSON.parse(JSON.stringify(back))).toMatchObject({ name: 'CardDeclined', card: '1234' });
  });

  it('is the nearest one: a subclass becomes its registered base', () => {
    class Stolen extends CardDeclined {}
    const back = decodeError(encodeError(new Stolen('1', new Money(1, 'EUR')), registry), registry);
    expect(Object.getPrototypeOf(back)).toBe(CardDeclined.prototype);
  });

  it('is found among causes, and in values', () => {
    const wrapped = decodeError(encodeError(new Error('no', { cause: error }), registry), registry);
    expect(wrapped.cause).toBeInstanceOf(CardDeclined);
    expect((roundTrip([error]) as unknown[])[0]).toBeInstanceOf(CardDeclined);
    const again = stored([new CardDeclined('1234', new Money(500, 'EUR'))]);
    expect(isSameButForStacks(stored([error]), again, registry)).toBe(true);
  });

  it('is still readable where no class is registered', () => {
    const back = decodeError(data) as CardDeclined;
    expect(Object.getPrototypeOf(back)).toBe(RangeError.prototype);
    expect(back).toMatchObject({ name: 'CardDeclined', card: '1234', limit: { cents: 500n, currency: 'EUR' } });
  });
});

describe('the option types', () => {
  class Own {}
  const [to, from] = [() => 1, () => new Own()];

  it.each<[unknown, RegExp]>([
    [5, /types must be an object of classes by name, got 5/],
    [[Own], /types must be an object of classes/],
    [{ Own }, /types\.Own is no class of errors: give \{ class, to, from \}/],
    [{ Own: 1 }, /types\.Own must be \{ class, to, from \} or a class of errors/],
    [{ Own: { class: Own, to } }, /types\.Own\.from must be a function/],
    [{ Own: { class: Own, from } }, /types\.Own\.to must be a function/],
    [{ Own: { class: 'Own', to, from } }, /types\.Own\.class must be a class of your own/],
    [{ Own: { class: Object, to, from } }, /types\.Own\.class must be a class of your own/],
    [{ Own: { class: Array, to, from } }, /types\.Own\.class must be a class of your own/],
    [{ Own: { class: Own, to, from, form: 1 } }, /types\.Own: unknown option `form`; did you mean `from`\?/],
    [{ Own: { class: CardDeclined, to, from } }, /types\.Own is a class of errors: give the class alone/],
    [{ A: CardDeclined, B: CardDeclined }, /types\.B is the same class as types\.A/],
    [{ Error }, /types\.Error is no class of errors/],
    [{ '': CardDeclined }, /a name has 1 to 128/],
    [{ 'a"b': CardDeclined }, /a name has 1 to 128/],
  ])('is checked: %o', (value, message) => {
    const error = thrown(() => checkTypes(value, 'types'));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toMatch(message);
  });
});
