import { readFile } from 'node:fs/promises';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';

import * as errors from '../../js/errors/errors.ts';
import {
  ActivityError,
  CancelledError,
  NonRetryableError,
  PayloadError,
  PerdureError,
  ProviderError,
  RetryAfterError,
  SubOrchestrationError,
  TimeoutError,
} from '../../js/errors/errors.ts';
import { decodeError, decodeThrown, type ErrorData, encodeError, fromNative } from '../../js/values/error-data.ts';

/** Passes an error through the store, as JSON text. */
function stored(error: unknown): ErrorData {
  return JSON.parse(JSON.stringify(encodeError(error))) as ErrorData;
}

function throughStore(error: unknown): Error & Record<string, unknown> {
  return decodeError(stored(error)) as Error & Record<string, unknown>;
}

/**
 * Expects that two errors are equal in everything that the store keeps: class, name, message, stack, code, fields and
 * causes.
 */
function expectSame(back: unknown, error: unknown): void {
  expect(encodeError(back)).toEqual(encodeError(error));
  expect(Object.getPrototypeOf(back)).toBe(Object.getPrototypeOf(error));
}

describe('the classes', () => {
  const samples = [
    new errors.InstanceExistsError('m', { instanceId: 'i' }),
    new errors.InstanceNotFoundError('m', { instanceId: 'i' }),
    new errors.QueueNotFoundError('m', { queue: 'q' }),
    new errors.WrongDefinitionError('m', { instanceId: 'i', expected: 'order', actual: 'mirror' }),
    new errors.NotRegisteredError('m', { kind: 'activity', missing: 'charge', version: '1' }),
    new PayloadError('m', { path: 'input.a' }),
    new TimeoutError('m', { timeoutMs: 5 }),
    new CancelledError('why'),
    new ActivityError('m', { activityName: 'charge', attempt: 2, cause: new Error('c') }),
    new SubOrchestrationError('m', { orchestrationName: 'order', instanceId: 'i', cause: new Error('c') }),
    new NonRetryableError('m'),
    new RetryAfterError('1.5s'),
    new errors.DeterminismError('m', { called: 'setTimeout', instead: 'ctx.scheduleTimer' }),
    new errors.NondeterminismError('m', { report: { eventId: 3, recorded: 'a', attempted: 'b' } }),
    new errors.SuspendedError('m', { instanceId: 'i' }),
    new errors.LimitError('m', { limit: 'historyEvents', max: 10 }),
    new errors.StreamClosedError('m', { stream: 's' }),
    new ProviderError('m', { retryable: true }),
    new errors.DatasourceError('m', { retryable: false, outcome: 'unknown' }),
    new errors.SchemaVersionError('m', { found: 3, supported: 2 }),
    new errors.RuntimeStateError('m'),
    new errors.MapItemError('m', { index: 2, key: 'k' }),
    new errors.CompensationError('m', { errors: [new Error('undo')] }),
  ];

  it('are all of api.md', () => {
    expect(samples.map((error) => error.constructor.name)).toEqual(
      Object.keys(errors.ERROR_CLASSES).filter((name) => name !== 'PerdureError'),
    );
    expect(new Set(samples.map((error) => error.code)).size).toBe(samples.length);
  });

  it.each(samples.map((error) => [error.name, error] as const))('%s keeps its class and fields', (name, error) => {
    expect(error).toBeInstanceOf(PerdureError);
    expect(error.constructor.name).toBe(name);
    expect(error.stack).toMatch(new RegExp(`^${name}: `));
    expectSame(throughStore(error), error);
  });

  it('have a cause where one was given, and only there', () => {
    expect(new NonRetryableError('m', { cause: 'x' }).cause).toBe('x');
    expect('cause' in new NonRetryableError('m')).toBe(false);
    expect('cause' in new CancelledError()).toBe(false);
    expect('reason' in new CancelledError()).toBe(false);
    expect(new NonRetryableError('m', { cause: undefined })).toHaveProperty('cause', undefined);
  });

  it('RetryAfterError takes a duration', () => {
    expect(new RetryAfterError('1.5s').retryAfterMs).toBe(1_500);
    expect(() => new RetryAfterError('soon' as never)).toThrow(TypeError);
  });
});

describe('errors through the store', () => {
  const builtIn = [
    new Error('plain'),
    new TypeError('t'),
    new RangeError('r'),
    new SyntaxError('s'),
    new ReferenceError('r'),
    new EvalError('e'),
    new URIError('u'),
    new DOMException('stop', 'AbortError'),
    new AggregateError([new TypeError('a'), 'b', undefined], 'many'),
    new Error(''),
    new Error('strange \0 \ud800 😀 __proto__'),
  ];

  it.each(builtIn.map((error) => [String(error), error] as const))('keep a built-in class: %s', (_, error) => {
    const back = throughStore(error);
    expectSame(back, error);
    expect(back.stack).toBe(error.stack);
    expect(back.message).toBe(error.message);
  });

  it('keep the fields of an error of Node', async () => {
    const error = await readFile('/nowhere/at/all').catch((reason: unknown) => reason);
    const back = throughStore(error);
    expectSame(back, error);
    expect(back).toMatchObject({ code: 'ENOENT', syscall: 'open', path: '/nowhere/at/all' });
  });

  it('of a user class keep its name, and become the known base class', () => {
    class HttpError extends TypeError {
      override name = 'HttpError';
      readonly status = 404;
      readonly at = new Date(0);
      readonly headers = { a: ['b'] };
    }
    const back = throughStore(new HttpError('no'));
    expect(back).toBeInstanceOf(TypeError);
    expect(back).not.toBeInstanceOf(HttpError);
    expect(back.name).toBe('HttpError');
    expect(String(back)).toBe('HttpError: no');
    expect(back).toMatchObject({ status: 404, at: new Date(0), headers: { a: ['b'] } });
    class Mine extends NonRetryableError {}
    expect(throughStore(new Mine('no'))).toBeInstanceOf(NonRetryableError);
  });

  it('are not taken for a Perdure class because of their name', () => {
    const error = new Error('slow');
    error.name = 'TimeoutError';
    const back = throughStore(error);
    expect(back.name).toBe('TimeoutError');
    expect(back).not.toBeInstanceOf(TimeoutError);
  });

  it('from another realm are errors', () => {
    const back = throughStore(runInNewContext('Object.assign(new RangeError("far"), { code: 7 })'));
    expect(back).toMatchObject({ name: 'RangeError', message: 'far', code: 7 });
  });

  it('keep the chain of causes, with values that are no errors', () => {
    const error = new Error('top', { cause: new RangeError('middle', { cause: { status: 500, at: new Date(0) } }) });
    const back = throughStore(error);
    expectSame(back, error);
    expect((back.cause as Error).cause).toEqual({ status: 500, at: new Date(0) });
    for (const cause of [null, undefined, 0, '', 'x', false, 1n, Number.NaN, new Map([[1, 2]])]) {
      const top = throughStore(new Error('top', { cause }));
      expect(Object.hasOwn(top, 'cause')).toBe(true);
      expect(top.cause).toEqual(cause);
    }
  });

  it('end a cycle where it closes', () => {
    const a = new Error('a') as Error & { self?: unknown; inside?: unknown };
    const b = new Error('b', { cause: a });
    a.cause = b;
    a.self = a;
    a.inside = { list: [a] };
    const back = throughStore(a);
    expect(back.message).toBe('a');
    expect((back.cause as Error).message).toBe('b');
    expect(((back.cause as Error).cause as Error).message).toBe('a');
    expect(((back.cause as Error).cause as Error).cause).toBeUndefined();
    expect((back.self as Error).message).toBe('a');
    const many = new AggregateError([], 'many');
    many.errors.push(many);
    expect((throughStore(many).errors as Error[])[0]?.message).toBe('many');
  });

  it('are bounded: causes, stacks, properties, numbers of errors', () => {
    let deep = new Error('0');
    for (let i = 1; i < 100_000; i += 1) deep = new Error(String(i), { cause: deep });
    let depth = 0;
    for (let at: unknown = throughStore(deep); at instanceof Error; at = at.cause) depth += 1;
    expect(depth).toBeGreaterThan(30);
    expect(depth).toBeLessThan(40);

    const long = stored(new Error('x'.repeat(1_000_000)));
    expect(long.message).toMatch(/^x{16384}… \(983616 more characters\)$/);

    const loaded = Object.assign(new Error('m'), {
      body: 'x'.repeat(1_000_000),
      file: Buffer.alloc(1_000_000),
      status: 1,
    });
    expect(stored(loaded).fields).toEqual({ status: 1 });
    expect(stored(loaded).richFields).toBeUndefined();

    const many = new AggregateError(
      Array.from({ length: 20_000 }, (_, i) => new Error(`no ${i}`)),
      'many',
    );
    expect(JSON.stringify(stored(many)).length).toBeLessThan(1_000_000);
    const kept = throughStore(many).errors as Error[];
    expect(kept.length).toBeGreaterThan(1_000);
    expect(kept[0]?.stack).toBe(many.errors[0].stack);
    expect(kept.at(-1)?.message).toBe(`no ${kept.length - 1}`);
  });

  it('leave out only the properties that cannot be stored', () => {
    const error = Object.assign(new Error('m'), {
      retry: () => 1,
      socket: new (class Socket {})(),
      promise: Promise.resolve(),
      size: 10n,
      gone: undefined,
      nested: { status: 1 },
      errors: ['a', 'b'],
    });
    const back = throughStore(error);
    expect(Object.keys(back).sort()).toEqual(['errors', 'gone', 'nested', 'size']);
    expect(back).toMatchObject({ size: 10n, nested: { status: 1 }, errors: ['a', 'b'] });
  });

  it('never make encodeError throw', () => {
    const boom = (): never => {
      throw new Error('boom');
    };
    const hostile = new Error('m');
    for (const key of ['stack', 'message', 'name', 'code', 'cause', 'field']) {
      Object.defineProperty(hostile, key, { get: boom, enumerable: true, configurable: true });
    }
    expect(encodeError(hostile)).toMatchObject({ name: 'Error', message: '' });
    const traps = { get: boom, getPrototypeOf: boom, ownKeys: boom, getOwnPropertyDescriptor: boom, has: boom };
    for (const value of [new Proxy(new Error('m'), traps), new Proxy({}, traps), new Proxy(() => 1, traps)]) {
      expect(() => throughStore(value)).not.toThrow();
    }
    const odd = Object.assign(new Error('m'), { name: 7, code: {}, stack: 5, message: { a: 1 } });
    expect(throughStore(odd)).toMatchObject({ name: 'Error', message: '{ a: 1 }' });
    expect(() => encodeError({ [Symbol.for('nodejs.util.inspect.custom')]: boom })).not.toThrow();
  });

  it('touch no prototype', () => {
    const fields = JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}') as object;
    const error = new Error('m', { cause: fields });
    for (const [key, value] of Object.entries(fields)) {
      Object.defineProperty(error, key, { value, enumerable: true, configurable: true });
    }
    const back = throughStore(error);
    expect(Object.getPrototypeOf(back)).toBe(Error.prototype);
    expect(Object.getOwnPropertyDescriptor(back, '__proto__')?.value).toEqual({ polluted: 1 });
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
    for (const type of ['__proto__', 'constructor', 'toString', 'NoSuchError']) {
      const odd = decodeError({ name: 'X', message: 'm', type });
      expect(odd).toBeInstanceOf(Error);
      expect(odd.name).toBe('X');
    }
  });

  it('look like errors: only fields are enumerable', () => {
    const back = throughStore(new ActivityError('m', { activityName: 'a', attempt: 1, cause: new Error('c') }));
    expect(Object.keys(back).sort()).toEqual(['activityName', 'attempt', 'code']);
  });

  it('can be made of bare data, as another program may write it', () => {
    const back = decodeError({ name: 'Odd', message: 'm' });
    expect(back.stack).toBe('Odd: m');
    expect(String(back)).toBe('Odd: m');
  });
});

describe('thrown values that are no errors', () => {
  it.each([
    ['x'],
    [''],
    [0],
    [false],
    [null],
    [undefined],
    [{ a: 1 }],
    [[1, { b: null }]],
    [new Date(0)],
    [new Map([[1, 2]])],
    [10n],
  ])('survive: %o', (value) => {
    const data = stored(value);
    expect(decodeThrown(data)).toEqual(value);
    const error = decodeError(data);
    expect(error).toBeInstanceOf(Error);
    expect(error.name).toBe('NonError');
    expect(error).toHaveProperty('cause', value);
  });

  it('are described in the message', () => {
    expect(encodeError('x').message).toBe('x');
    expect(encodeError({ a: 1 }).message).toBe('{ a: 1 }');
    expect(encodeError({ message: 'm' }).message).toBe('m');
    expect(encodeError(undefined).message).toBe('undefined');
  });

  it('have a short message where they hold a text a million times', () => {
    const texts = Array.from({ length: 100 }, () => 'x'.repeat(10_000));
    const lists = Array.from({ length: 6 }, () => Array.from({ length: 100 }, () => texts));
    expect(encodeError(lists).message).toMatch(/^\[\s+\[\s+\[Array\], \[Array\]/);
  });

  it('become an error that describes them if they cannot be stored', () => {
    for (const value of [Symbol('s'), () => 1, new (class Odd {})(), Promise.resolve(1)]) {
      const back = decodeThrown(stored(value));
      expect(back).toBeInstanceOf(Error);
      expect((back as Error).name).toBe('NonError');
      expect((back as Error).message).not.toBe('');
    }
  });
});

describe('fromNative', () => {
  it('gives the class of the code, with its fields', () => {
    const error = fromNative({ code: 'PROVIDER', message: 'disk full', details: { retryable: true } });
    expect(error).toBeInstanceOf(ProviderError);
    expect(error).toMatchObject({ name: 'ProviderError', code: 'PROVIDER', message: 'disk full', retryable: true });
    expect(error.stack).toContain('errors.test.ts');
    expect(fromNative({ code: 'INSTANCE_EXISTS', message: 'm', instanceId: 'i' })).toMatchObject({ instanceId: 'i' });
  });

  it.each([
    ['INSTANCE_EXISTS', errors.InstanceExistsError],
    ['INSTANCE_NOT_FOUND', errors.InstanceNotFoundError],
    ['QUEUE_NOT_FOUND', errors.QueueNotFoundError],
    ['NOT_REGISTERED', errors.NotRegisteredError],
    ['SCHEMA_VERSION', errors.SchemaVersionError],
    ['RUNTIME_STATE', errors.RuntimeStateError],
    ['TIMEOUT', TimeoutError],
    ['LIMIT', errors.LimitError],
    ['NONDETERMINISM', errors.NondeterminismError],
  ])('knows %s', (code, type) => {
    expect(fromNative({ code, message: 'm', details: null })).toBeInstanceOf(type);
  });

  it('gives a PerdureError for a code that is new to it', () => {
    const error = fromNative({ code: 'BRAND_NEW', message: 'm' });
    expect(error.constructor).toBe(PerdureError);
    expect(error.code).toBe('BRAND_NEW');
  });

  it('lets no detail replace the message, name or stack of an error', () => {
    const error = fromNative({
      code: 'LIMIT',
      message: 'm',
      details: { message: 'x', stack: 'y', name: 'z', cause: 'c' },
    });
    expect(error).toMatchObject({ message: 'm', name: 'LimitError', cause: 'c' });
    expect(error.stack).not.toBe('y');
  });
});
