import { expectTypeOf, it } from 'vitest';

import type { ErrorJson } from '../../js/errors/error-json.ts';
import {
  ActivityError,
  CancelledError,
  type PerdureError,
  type SubOrchestrationError,
  type SuspendedError,
} from '../../js/errors/errors.ts';
import { decodeThrown, type ErrorData } from '../../js/values/error-data.ts';

it('the fields of errors have their types', () => {
  const error = new ActivityError('m', { activityName: 'charge', attempt: 1, cause: new RangeError('x') });
  expectTypeOf(error).toExtend<PerdureError>();
  expectTypeOf(error.attempt).toEqualTypeOf<number>();
  expectTypeOf(error.code).toEqualTypeOf<string>();
  expectTypeOf(error.cause).toEqualTypeOf<Error>();
  expectTypeOf<SubOrchestrationError['cause']>().toEqualTypeOf<Error>();
  expectTypeOf<SuspendedError['cause']>().toEqualTypeOf<Error | undefined>();
  expectTypeOf<PerdureError['cause']>().toEqualTypeOf<unknown>();
  expectTypeOf(error.toJSON()).toEqualTypeOf<ErrorJson>();
  expectTypeOf(new CancelledError().reason).toEqualTypeOf<string | undefined>();
  // @ts-expect-error a field is missing
  new ActivityError('m', { activityName: 'charge', cause: error });
  // @ts-expect-error the cause is an error
  new ActivityError('m', { activityName: 'charge', attempt: 1, cause: 'x' });
});

it('a thrown value has the type unknown', () => {
  expectTypeOf(decodeThrown).returns.toBeUnknown();
  expectTypeOf<ErrorData['cause']>().toEqualTypeOf<ErrorData | undefined>();
});
