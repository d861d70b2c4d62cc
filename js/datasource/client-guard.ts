// The client that a transactional step hands to the user's function: of no use after the transaction.

import { DatasourceError } from '../errors/errors.ts';

/** A client for one transaction. */
export interface Guard<Client> {
  readonly client: Client;
  /** Makes the client refuse further statements. */
  end(): void;
}

/** Properties by which code sends statements, of clients that this folder knows. */
const SENDS = new Set<PropertyKey>(['query', 'prepare', 'exec', 'run', 'pragma', 'transaction']);
/** Properties that are read of any object, also by code that sends nothing. */
const HARMLESS = new Set<PropertyKey>(['constructor', 'then', 'toJSON']);

/**
 * Returns a client that works as `client` does until the guard ends. Its statements then throw, because they would run
 * outside of the transaction, or in that of another step. It cannot be released.
 */
export function guarded<Client extends object>(client: Client): Guard<Client> {
  let isEnded = false;
  const proxy = new Proxy(client, {
    get: (target, name) => {
      if (name === 'release') return refuseRelease;
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function' || name === 'constructor') return value;
      if (!SENDS.has(name)) return value.bind(target);
      return (...args: unknown[]) => {
        if (isEnded) refuseLate();
        return Reflect.apply(value, target, args);
      };
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  });
  return { client: proxy, end: () => (isEnded = true) };
}

/**
 * Returns a transaction of any library that works as `tx` does until the guard ends. Calls and properties then throw.
 * The transaction may be a function, such as that of Knex or postgres.js.
 */
export function guardedTransaction<Tx>(tx: Tx): Guard<Tx> {
  if ((typeof tx !== 'object' && typeof tx !== 'function') || tx === null) return { client: tx, end: () => undefined };
  let isEnded = false;
  const check = (name?: PropertyKey): void => {
    if (isEnded && typeof name !== 'symbol' && (name === undefined || !HARMLESS.has(name))) refuseLate();
  };
  const proxy = new Proxy<object>(tx, {
    get: (target, name) => {
      check(name);
      const value: unknown = Reflect.get(target, name, target);
      // Methods may use private fields, which the proxy lacks.
      return typeof value === 'function' && name !== 'constructor' && isOpen(target, name) ? value.bind(target) : value;
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
    apply: (target, self, args) => {
      check();
      return Reflect.apply(target as Function, self, args);
    },
  });
  return { client: proxy as Tx, end: () => (isEnded = true) };
}

/** True if a proxy may return another value for the property than the target has. */
function isOpen(target: object, name: PropertyKey): boolean {
  const own = Reflect.getOwnPropertyDescriptor(target, name);
  return own === undefined || own.configurable === true || own.writable === true;
}

function refuseLate(): never {
  throw new DatasourceError(
    'the transaction of this step has ended, and a statement came after it: await each statement within the ' +
      'function',
    { retryable: false, outcome: 'unknown' },
  );
}

function refuseRelease(): never {
  throw new DatasourceError('the datasource releases the client of a step itself', {
    retryable: false,
    outcome: 'not committed',
  });
}
