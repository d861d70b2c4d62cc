// The client that a transactional step hands to the user's function: of no use after the transaction.

import { DatasourceError } from '../errors/errors.ts';

/** A client for one transaction. */
export interface Guard<Client> {
  readonly client: Client;
  /** Makes the client refuse further statements. */
  end(): void;
}

/** Properties by which code sends statements. */
const SENDS = new Set<PropertyKey>(['query', 'prepare', 'exec', 'run', 'pragma', 'transaction']);

/**
 * Returns a client that works as `client` does until the guard ends. Its statements then throw, because they would run
 * outside of the transaction, or in that of another step. It cannot be released.
 */
export function guarded<Client extends object>(client: Client): Guard<Client> {
  let isEnded = false;
  const check = (): void => {
    if (isEnded)
      throw new DatasourceError(
        'the transaction of this step has ended, and a statement came after it: await each statement within the ' +
          'function',
        { retryable: false, outcome: 'unknown' },
      );
  };
  const proxy = new Proxy(client, {
    get: (target, name) => {
      if (name === 'release') return refuseRelease;
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function' || name === 'constructor') return value;
      if (!SENDS.has(name)) return value.bind(target);
      return (...args: unknown[]) => {
        check();
        return Reflect.apply(value, target, args);
      };
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  });
  return { client: proxy, end: () => (isEnded = true) };
}

function refuseRelease(): never {
  throw new DatasourceError('the datasource releases the client of a step itself', {
    retryable: false,
    outcome: 'not committed',
  });
}
