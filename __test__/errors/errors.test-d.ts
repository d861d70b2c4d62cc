import { expectTypeOf, it } from 'vitest';

import { ActivityError, CancelledError, type PerdureError } from '../../js/errors/errors.ts';
import { decodeThrown, type ErrorData } from '../../js/values/error-data.ts';

it('the fields of errors have their types', () => {
  const error = new ActivityError('m', { activityName: 'charge', attempt: 1, cause: 'x' });
  expectTypeOf(error).toExtend<PerdureError>();
  expectTypeOf(error.attempt).toEqualTypeOf<number>();
  expectTypeOf(error.code).toEqualTypeOf<string>();
  expectTypeOf(new CancelledError().reason).toEqualTypeOf<string | undefined>();
  // @ts-expect-error a field is missing
  new ActivityError('m', { activityName: 'charge' });
});

it('a thrown value has the type unknown', () => {
  expectTypeOf(decodeThrown).returns.toBeUnknown();
  expectTypeOf<ErrorData['cause']>().toEqualTypeOf<ErrorData | undefined>();
});
