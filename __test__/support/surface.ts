// What a package offers: its functions, the static methods and the methods of its classes, by name.

type AnyFunction = (...args: unknown[]) => unknown;

/** Statics that are for other files of js/, and methods that are marked so. */
const INTERNAL = new Set([
  'Provider.portOf',
  'Runtime.partsOf',
  'Runtime.sizesOf',
  'InstanceHandle.clientOf',
  'ActivityContext.abort',
  'ActivityContext.begin',
  'ActivityContext.end',
  'ActivityContext.leftRejected',
]);

/** What every object, function or error has. */
const ROOTS: readonly unknown[] = [null, Object.prototype, Function.prototype, Error.prototype];

/** By the names that they have here; those that Node gives them differ over its versions. */
const SYMBOLS: Readonly<Record<string, symbol>> = {
  '[iterator]': Symbol.iterator,
  '[asyncIterator]': Symbol.asyncIterator,
  '[asyncDispose]': Symbol.asyncDispose,
};

const isClass = (value: unknown): boolean =>
  typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value));

/** Names of the methods that an object has, with those of the classes above its own. */
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

/** Names of everything that can be called in what a module exports: `defineActivity`, `new Client`, `Client.start`, `SqliteProvider.open()`. */
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

/** Options of which there is none. */
export const UNKNOWN = { qqqqqqqqqqqqqqqq: 1 };

/** Names of the options that a call takes, told by its error about one that there is none. */
export function optionsOf(call: (options: unknown) => unknown): string[] {
  try {
    call(UNKNOWN);
  } catch (error) {
    return optionsIn(error);
  }
  throw new Error('it takes any option');
}

/** The names in an error about an option that there is none. */
export function optionsIn(error: unknown): string[] {
  const [, list] = /unknown option `q+`; the options are ([\w, ]+)$/.exec((error as Error).message) ?? [];
  if (list === undefined) throw new Error('it takes any option', { cause: error });
  return list.split(', ');
}

/** A method of an object by the name that {@link methodsOf} gives it. */
export function method(object: object, name: string): AnyFunction {
  const found = (object as Record<PropertyKey, unknown>)[SYMBOLS[name] ?? name] as AnyFunction;
  return (...args) => found.apply(object, args);
}
