// Classes of the user whose instances are stored and come back as instances: the option `types` of a provider.

import { checkKeys } from '../util/options.ts';
import { isRecord, property, show } from '../util/show.ts';
import type { Extension } from './rich-check.ts';

/**
 * A class whose instances can be stored.
 *
 * @example
 * ```ts
 * const money: ValueType<Money> = {
 *   class: Money,
 *   to: ({ amount, currency }) => ({ amount, currency }),
 *   from: ({ amount, currency }) => new Money(amount, currency),
 * };
 * ```
 */
export interface ValueType<T = any> {
  /** The class. Instances of its subclasses are not included: each class is registered by itself. */
  readonly class: { readonly prototype: T };
  /**
   * Returns the value in a form that can be stored: JSON, dates, maps, bigints, or instances of registered classes. An
   * orchestration calls it again in a replay, so it must return the same each time.
   */
  to(value: T): unknown;
  /** Returns an instance of the class, from the result of {@link to}. It should also read what `to` returned once. */
  from(data: any): T;
}

/** A class of errors. Its instances are stored with their fields, and come back without a call of the constructor. */
export interface ErrorClass {
  readonly prototype: Error;
}

/**
 * Classes of the user by name: 1 to 128 letters, digits and `. _ $ / : @ -`. The name is stored with each instance, so
 * that it can be read only while the name is registered. A class may be renamed, its name here may not.
 *
 * @example
 * ```ts
 * const types: ValueTypes = { Money: { class: Money, to: String, from: (text) => Money.parse(text) }, CardDeclined };
 * ```
 */
export type ValueTypes = Readonly<Record<string, ValueType | ErrorClass>>;

/** Beginning of the tag of a registered class in a stored text. No tag of another kind begins with it. */
export const TYPE_TAG = 'type:';

/** The most classes of a registry. Each is compared with every object that is stored. */
const TYPES_MAX = 1_000;

/** A stored instance of a registered class that cannot be read. */
export class UnreadableType extends Error {}

/** The registered classes of a store. */
export class TypeRegistry {
  /** The names of all classes. */
  readonly names: readonly string[];
  /** Writes the instances of the classes that are no errors. */
  readonly extensions: readonly Extension[];
  private readonly values = new Map<string, ValueType>();
  private readonly errors = new Map<string, ErrorClass>();
  private readonly errorNames = new Map<unknown, string>();
  private readonly isLenient: boolean;

  /**
   * @param types - must have been checked
   * @param isLenient - true: an instance that cannot be read becomes an object with its stored data, to be shown
   */
  constructor(types: ValueTypes = {}, isLenient = false) {
    this.isLenient = isLenient;
    for (const [name, type] of Object.entries(types)) {
      if (typeof type !== 'function') this.values.set(name, { ...(type as ValueType) });
      else {
        this.errors.set(name, type as ErrorClass);
        this.errorNames.set((type as ErrorClass).prototype, name);
      }
    }
    this.names = Object.keys(types);
    this.extensions = [...this.values].map(([name, type]) => this.extensionOf(name, type));
  }

  /** Returns the name of the nearest registered class of an error. */
  errorName(error: object): string | undefined {
    if (this.errorNames.size === 0) return undefined;
    for (let at: unknown = error; at !== null; at = Object.getPrototypeOf(at)) {
      const name = this.errorNames.get(at);
      if (name !== undefined) return name;
    }
    return undefined;
  }

  errorClass(name: string | undefined): ErrorClass | undefined {
    return name === undefined ? undefined : this.errors.get(name);
  }

  /**
   * Returns the instance of some stored data.
   *
   * @throws UnreadableType when the class is not registered, or its `from` fails
   */
  read(name: string, data: unknown, isLenient = this.isLenient): unknown {
    try {
      return this.revived(name, data);
    } catch (error) {
      if (isLenient) return storedForm(name, data);
      throw error;
    }
  }

  private revived(name: string, data: unknown): unknown {
    const type = this.values.get(name);
    if (type === undefined)
      throw new UnreadableType(
        `it holds a value of the type ${show(name)}, which is not registered here: ` +
          'open the provider with that class in the option `types`',
      );
    let value: unknown;
    try {
      value = type.from(data);
    } catch (cause) {
      throw new UnreadableType(`the function \`from\` of the type ${show(name)} threw`, { cause });
    }
    if (isOf(type, value)) return value;
    throw new UnreadableType(`the function \`from\` of the type ${show(name)} did not return an instance of its class`);
  }

  private extensionOf(name: string, type: ValueType): Extension {
    return {
      name: TYPE_TAG + name,
      type: name,
      matches: (value) => isOf(type, value),
      write: (value) => type.to(value),
      read: (data) => this.read(name, data),
    };
  }
}

function isOf(type: ValueType, value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === type.class.prototype;
}

/** Returns an object that shows the data of an instance under the name of its class. */
function storedForm(name: string, data: unknown): unknown {
  if (!isRecord(data) || Object.getPrototypeOf(data) !== Object.prototype) return data;
  const shown = class {};
  Object.defineProperty(shown, 'name', { value: name });
  return Object.defineProperties(new shown(), Object.getOwnPropertyDescriptors(data));
}

/** No registered classes. */
export const NO_TYPES = new TypeRegistry();

/** No registered classes; instances of any are shown by their stored data. */
export const STORED_FORMS = new TypeRegistry({}, true);

/** A name goes into stored texts as it is. */
const NAME = /^[\w.$/:@-]{1,128}$/;

/** Prototypes of values that are stored as they are. */
const PLAIN: readonly unknown[] = [Object.prototype, Array.prototype, Function.prototype, Error.prototype];

/** @throws TypeError naming the first entry that is no {@link ValueType} and no class of errors */
export function checkTypes(value: unknown, path: string): void {
  if (!isRecord(value)) throw new TypeError(`${path} must be an object of classes by name, got ${show(value)}`);
  const entries = Object.entries(value);
  if (entries.length > TYPES_MAX) throw new TypeError(`${path} must have at most ${TYPES_MAX} classes`);
  const names = new Map<unknown, string>();
  for (const [name, type] of entries) {
    if (!NAME.test(name))
      throw new TypeError(`${path}: a name has 1 to 128 letters of ASCII, digits and . _ $ / : @ -, got ${show(name)}`);
    const prototype = property(checkType(type, `${path}.${name}`), 'prototype');
    const other = names.get(prototype);
    if (other !== undefined) throw new TypeError(`${path}.${name} is the same class as ${path}.${other}`);
    names.set(prototype, name);
  }
}

/** Returns the class of an entry. */
function checkType(type: unknown, path: string): unknown {
  if (typeof type === 'function') {
    if (isErrorClass(type)) return type;
    throw new TypeError(`${path} is no class of errors: give { class, to, from }, which say how its values are stored`);
  }
  if (!isRecord(type)) throw new TypeError(`${path} must be { class, to, from } or a class of errors`);
  checkKeys(type, ['class', 'to', 'from'], path);
  const [of, to, from] = ['class', 'to', 'from'].map((key) => property(type, key));
  const prototype = property(of, 'prototype');
  if (typeof of !== 'function' || typeof prototype !== 'object' || prototype === null || PLAIN.includes(prototype))
    throw new TypeError(`${path}.class must be a class of your own`);
  if (isErrorClass(of)) throw new TypeError(`${path} is a class of errors: give the class alone, without to and from`);
  if (typeof to !== 'function') throw new TypeError(`${path}.to must be a function`);
  if (typeof from !== 'function') throw new TypeError(`${path}.from must be a function`);
  return of;
}

function isErrorClass(type: unknown): boolean {
  const prototype = property(type, 'prototype');
  try {
    return prototype instanceof Error && prototype !== Error.prototype;
  } catch {
    return false;
  }
}
