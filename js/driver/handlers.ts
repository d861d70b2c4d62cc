// The checks that handlers of updates and of queries share.

import { NotRegisteredError } from '../errors/errors.ts';
import { isThenable } from '../util/thenable.ts';
import { describeValue, isGenerator } from './generator.ts';

/** Returns the end of an error: the names that have handlers, if there are any. */
export function knownNames(handlers: ReadonlyMap<string, unknown>): string {
  const names = [...handlers.keys()].map((name) => `'${name}'`).join(', ');
  return names === '' ? '' : `; it has handlers of ${names}`;
}

/** Returns the error for a name that has no handler. */
export function unknownHandler(
  kind: 'update' | 'query',
  name: string,
  handlers: ReadonlyMap<string, unknown>,
): NotRegisteredError {
  return new NotRegisteredError(`the orchestration has no handler of ${kind} '${name}'${knownNames(handlers)}`, {
    kind,
    missing: name,
  });
}

/**
 * Returns a result that is there at once.
 *
 * @param of - the function that returned it, for the error
 * @throws TypeError when it is a generator or a promise
 */
export function atOnce(result: unknown, of: string): unknown {
  if (!isGenerator(result) && !isThenable(result)) return result;
  throw new TypeError(`${of} at once, and this one returned ${describeValue(result)}`);
}
