import { describe, expect, it } from 'vitest';

import { ActivityError, CompensationError, NonRetryableError, RuntimeStateError } from '../../js/errors/errors.ts';
import { decodeError, encodeError } from '../../js/values/error-data.ts';

/** The JSON of an error, as an HTTP response or a log line has it. */
function json(error: unknown): unknown {
  return JSON.parse(JSON.stringify({ error })).error;
}

describe('the JSON of an error', () => {
  it('has its name, message, code, fields and causes, without stacks', () => {
    const cause = Object.assign(new RangeError('declined', { cause: { limit: 5 } }), { code: 'DECLINED', card: '1' });
    const error = new ActivityError('no', { activityName: 'charge', attempt: 2, cause });
    expect(json(error)).toEqual({
      name: 'ActivityError',
      message: 'no',
      code: 'ACTIVITY',
      activityName: 'charge',
      attempt: 2,
      cause: { name: 'RangeError', message: 'declined', code: 'DECLINED', card: '1', cause: { limit: 5 } },
    });
  });

  it('has no cause where there is none', () => {
    expect(json(new RuntimeStateError('m'))).toEqual({
      name: 'RuntimeStateError',
      message: 'm',
      code: 'RUNTIME_STATE',
    });
  });

  it('is that of each error in a list', () => {
    const errors = [new TypeError('a'), 'b', new AggregateError([new Error('c')], 'd')];
    expect(json(new CompensationError('m', { errors, cause: 'why' }))).toMatchObject({
      cause: 'why',
      errors: [{ name: 'TypeError', message: 'a' }, 'b', { message: 'd', errors: [{ message: 'c' }] }],
    });
  });

  it('holds any field: a value that is not plain is text', () => {
    const fields = { at: new Date(0), big: 5n, map: new Map([[1, 2]]), never: new Date(Number.NaN) };
    expect(json(Object.assign(new NonRetryableError('m'), fields))).toMatchObject({
      at: '1970-01-01T00:00:00.000Z',
      big: '5n',
      map: 'Map(1) { 1 => 2 }',
      never: 'Invalid Date',
    });
  });

  it('ends where causes close a cycle, and where they go on too long', () => {
    const cycle = new NonRetryableError('m');
    cycle.cause = cycle;
    expect(json(cycle)).toMatchObject({ cause: { name: 'NonRetryableError', message: 'm' } });
    let chain: Error = new Error('first');
    for (let i = 0; i < 10_000; i += 1) chain = new NonRetryableError('next', { cause: chain });
    expect(JSON.stringify(chain).length).toBeLessThan(10_000);
  });

  it('is also that of an error from the store that is none of Perdure', () => {
    const back = decodeError(
      encodeError(Object.assign(new RangeError('m', { cause: new Error('why') }), { limit: 1 })),
    );
    expect(json(back)).toEqual({
      name: 'RangeError',
      message: 'm',
      limit: 1,
      cause: { name: 'Error', message: 'why' },
    });
    expect(Object.keys(back)).toEqual(['limit']);
  });

  it('is made of an error whose getters throw', () => {
    const odd = Object.defineProperty(new NonRetryableError('m'), 'broken', {
      enumerable: true,
      get() {
        throw new Error('no');
      },
    });
    expect(json(odd)).toEqual({ name: 'NonRetryableError', message: 'm', code: 'NON_RETRYABLE' });
  });
});
