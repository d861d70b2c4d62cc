// The callable surface of a package: its functions, and the static methods and methods of its classes, by name.

type AnyFunction = (...args: unknown[]) => unknown;

/**
 * Static methods for other files of js/, methods that are marked as internal, and a method without arguments that all
 * error classes have.
 */
const INTERNAL = new Set([
  'Provider.portOf',
  'Client.append',
  'Client.inStoredForm',
  'Client.stateVersion',
  'Runtime.partsOf',
  'Runtime.sizesOf',
  'PerdureError.toJSON',
  'InstanceHandle.clientOf',
  'ActivityContext.abort',
  'ActivityContext.begin',
  'ActivityContext.end',
  'ActivityContext.leftRejected',
]);

/** Prototypes whose methods every object, function or error has. */
const ROOTS: readonly unknown[] = [null, Object.prototype, Function.prototype, Error.prototype];

/** Names for well-known symbols. The names that Node gives them differ between its versions. */
const SYMBOLS: Readonly<Record<string, symbol>> = {
  '[iterator]': Symbol.iterator,
  '[asyncIterator]': Symbol.asyncIterator,
  '[asyncDispose]': Symbol.asyncDispose,
};

const isClass = (value: unknown): boolean =>
  typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value));

/** Returns the names of an object's methods, including those of its base classes. */
export function methodsOf(object: object): string[] {
  const found = new Set<string>();
  for (let at: unknown = object; !ROOTS.includes(at); at = Object.getPrototypeOf(at)) {
    const owner = (at as { constructor?: { name?: string } }).constructor?.name ?? '';
    for (const key of Reflect.ownKeys(at as object)) {
      const property = Object.getOwnPropertyDescriptor(at, key);
      const isMethod =
        typeof property?.value === 'function' && key !== 'constructor' && !INTERNAL.has(`${owner}.${String(key)}`);
      if (isMethod)
        found.add(
          typeof key === 'symbol' ? (Object.keys(SYMBOLS).find((name) => SYMBOLS[name] === key) ?? String(key)) : key,
        );
    }
  }
  return [...found];
}

/**
 * Returns the names of everything callable in the exports of a module: `defineActivity`, `new Client`, `Client.start`,
 * `SqliteProvider.open()`.
 */
export function callablesOf(exports: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(exports).flatMap(([name, value]) => {
    if (typeof value !== 'function') return [];
    if (!isClass(value)) return [name];
    const statics = Object.getOwnPropertyNames(value).filter(
      (key) =>
        typeof (value as unknown as Record<string, unknown>)[key] === 'function' &&
        key !== 'prototype' &&
        !INTERNAL.has(`${name}.${key}`),
    );
    return [
      `new ${name}`,
      ...statics.map((key) => `${name}.${key}()`),
      ...methodsOf(value.prototype as object).map((key) => `${name}.${key}`),
    ];
  });
}

/** An option that does not exist. */
export const UNKNOWN = { qqqqqqqqqqqqqqqq: 1 };

/** Returns the names of the options that a call takes. They come from its error about an unknown option. */
export function optionsOf(call: (options: unknown) => unknown): string[] {
  try {
    call(UNKNOWN);
  } catch (error) {
    return optionsIn(error);
  }
  throw new Error('it takes any option');
}

/** Returns the names in an error about an unknown option. */
export function optionsIn(error: unknown): string[] {
  const [, list] = /unknown option `q+`; the options are ([\w, ]+)$/.exec((error as Error).message) ?? [];
  if (list === undefined) throw new Error('it takes any option', { cause: error });
  return list.split(', ');
}

/** Returns a method of an object by the name that {@link methodsOf} gives it. */
export function method(object: object, name: string): AnyFunction {
  const found = (object as Record<PropertyKey, unknown>)[SYMBOLS[name] ?? name] as AnyFunction;
  return (...args) => found.apply(object, args);
}
