import { types } from 'node:util';

import { PayloadError } from '../errors/errors.ts';
import { MAX_DEPTH } from '../util/plain.ts';
import { noteOf, property } from '../util/show.ts';

/** A kind of object that is stored although devalue does not know it. */
export interface Extension {
  /** Tag of the kind in the text. */
  readonly name: string;
  /** Name of the registered class, if the kind is one. The result of `write` is then checked as any value is. */
  readonly type?: string;
  matches(value: object): boolean;
  /** Returns the value in a form that can be stored. */
  write(value: object): unknown;
  /** Returns the value from the result of `write`. */
  read(data: unknown): unknown;
}

/** Options of a check. */
export interface CheckOptions {
  /** The user's name for the value, for the error: `input`. */
  path: string;
  /** The most binary data in the value, in bytes: more is refused before it is turned into text. */
  maxBytes: number;
  extensions: readonly Extension[];
  /** Receives the results of `write` for the instances of registered classes, which are written once. */
  written?: Map<object, unknown>;
}

/**
 * Throws if a value holds a part that would not come back from devalue unchanged: a part that devalue refuses, or one
 * that it would change silently, such as an instance of a subclass or a named property of an array.
 *
 * @throws PayloadError naming the path of the first such part
 */
export function checkRich(value: unknown, options: CheckOptions): void {
  new Check(options).visit(value, []);
}

/**
 * Returns the kind of an object that devalue describes, in devalue's words; undefined for any other object. The
 * internal type of the object decides where it can be seen, so that neither another realm nor a `Symbol.toStringTag`
 * misleads the check.
 */
export function kindOf(value: object): string | undefined {
  if (Array.isArray(value)) return 'Array';
  if (types.isDate(value)) return 'Date';
  if (types.isMap(value)) return 'Map';
  if (types.isSet(value)) return 'Set';
  if (types.isRegExp(value)) return 'RegExp';
  if (types.isTypedArray(value)) return value[Symbol.toStringTag];
  if (types.isDataView(value)) return 'DataView';
  if (types.isArrayBuffer(value)) return 'ArrayBuffer';
  if (types.isNumberObject(value)) return 'Number';
  if (types.isStringObject(value)) return 'String';
  if (types.isBooleanObject(value)) return 'Boolean';
  if (types.isBigIntObject(value)) return 'BigInt';
  if (value instanceof URL) return 'URL';
  if (value instanceof URLSearchParams) return 'URLSearchParams';
  return isPlainObject(value) ? 'Object' : undefined;
}

function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlainPrototype =
    prototype === null ||
    prototype === Object.prototype ||
    // `Object.prototype` of another realm.
    (Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, 'hasOwnProperty'));
  // The tag of `arguments`, `Math`, module namespaces and similar objects is another one.
  return isPlainPrototype && Object.prototype.toString.call(value) === '[object Object]';
}

/** One step of a path: an index, a property, or text such as `.get("a")` that names a part of a map or set. */
type Step = number | string | { text: string };

/** Walks a value in the order in which devalue will. */
class Check {
  readonly #options: CheckOptions;
  readonly #seen = new Set<object>();
  /** The instances of registered classes around the current part. */
  readonly #around = new Set<object>();
  #bytes = 0;

  constructor(options: CheckOptions) {
    this.#options = options;
  }

  visit(value: unknown, path: Step[]): void {
    if (typeof value === 'function') this.#refuse('is a function', path);
    if (typeof value === 'symbol') this.#refuse('is a symbol', path);
    if (typeof value !== 'object' || value === null) return;
    if (this.#around.has(value)) this.#refuse('holds itself, through the function `to` of its class', path);
    if (this.#seen.has(value)) return;
    if (path.length >= MAX_DEPTH) this.#refuse(`is nested deeper than ${MAX_DEPTH} levels`, path.slice(0, 8));
    this.#seen.add(value);
    if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) this.#countBytes(value, path);
    const extension = this.#options.extensions.find((one) => one.matches(value));
    if (extension?.type !== undefined) this.#visitWritten(value, extension, path);
    if (extension !== undefined) return;

    const future = noteOf(value);
    if (future !== undefined)
      this.#refuse(
        `is the future of ${future.what}, not its value: write \`yield*\` before the call`,
        path,
        future.lines,
      );
    if (types.isPromise(value)) this.#refuse('is a promise', path);
    if (types.isGeneratorObject(value))
      this.#refuse(
        'is a generator, none of whose code has run: `yield* block()` runs it and gives what it returns',
        path,
      );
    const kind = kindOf(value);
    const name = className(value);
    if (kind === undefined || (kind !== 'Object' && name !== kind)) {
      this.#refuse(`is an instance of ${name || 'a class'}, which nothing describes${remedy(value, name)}`, path);
    }
    if (Object.getOwnPropertySymbols(value).some((key) => Object.prototype.propertyIsEnumerable.call(value, key))) {
      this.#refuse('has a symbol as a key', path);
    }
    this.#visitParts(kind, value, path);
  }

  #visitParts(kind: string, value: object, path: Step[]): void {
    if (ArrayBuffer.isView(value)) return;
    if (Array.isArray(value)) return this.#visitItems(value, path);
    if (kind === 'Object') {
      for (const key of Object.keys(value)) this.#visitPart((value as Record<string, unknown>)[key], path, key);
      return;
    }
    const length = types.isStringObject(value) ? value.length : 0;
    const own = Object.keys(value).find((key) => !isIndex(key, length));
    if (own !== undefined) this.#refuse(`is a property of a ${kind}`, [...path, own]);
    let at = 0;
    if (types.isMap(value)) {
      for (const [key, item] of value) {
        this.#visitPart(key, path, { text: `.keys()[${at}]` });
        this.#visitPart(item, path, {
          text: typeof key === 'string' ? `.get(${JSON.stringify(key)})` : `.values()[${at}]`,
        });
        at += 1;
      }
    } else if (types.isSet(value)) {
      for (const item of value) this.#visitPart(item, path, { text: `.values()[${at++}]` });
    }
  }

  #visitWritten(value: object, { type, write }: Extension, path: Step[]): void {
    let data: unknown;
    try {
      data = write(value);
    } catch (cause) {
      this.#refuse(`is of the type '${type}', whose function \`to\` threw`, path, '', cause);
    }
    this.#options.written?.set(value, data);
    this.#around.add(value);
    // A step without text: the path names places in the value and not in its stored form.
    this.#visitPart(data, path, { text: '' });
    this.#around.delete(value);
  }

  #visitItems(list: unknown[], path: Step[]): void {
    // By key, because a sparse array may be very long.
    for (const key of Object.keys(list)) {
      if (!isIndex(key, list.length)) this.#refuse('is a named property of an array', [...path, key]);
      this.#visitPart(list[Number(key)], path, Number(key));
    }
  }

  #visitPart(value: unknown, path: Step[], step: Step): void {
    path.push(step);
    this.visit(value, path);
    path.pop();
  }

  #countBytes(value: ArrayBufferView | ArrayBufferLike, path: Step[]): void {
    if (types.isSharedArrayBuffer(ArrayBuffer.isView(value) ? value.buffer : value))
      this.#refuse('is shared memory', path);
    this.#bytes += value.byteLength;
    const { maxBytes } = this.#options;
    if (this.#bytes > maxBytes) this.#refuse(`has binary data over the limit of ${maxBytes} bytes`, path);
  }

  /** @param lines - the lines that the reader looks for, as in a stack; empty: those of the call */
  #refuse(problem: string, steps: Step[], lines = '', cause?: unknown): never {
    const path = this.#options.path + steps.map(formatStep).join('');
    const given = cause === undefined ? {} : { cause };
    const error = new PayloadError(`${path} cannot be stored: it ${problem}`, { path, ...given });
    // The frames of the walk would leave no room for those of the caller.
    Error.captureStackTrace(error, checkRich);
    if (lines !== '') error.stack = `${error.name}: ${error.message}\n${lines}`;
    throw error;
  }
}

function className(value: object): string {
  const type = (value as { constructor?: unknown }).constructor;
  return typeof type === 'function' ? type.name : '';
}

/** Returns the advice about a class that nothing describes. There is none for a built-in class, such as `WeakMap`. */
function remedy(value: object, name: string): string {
  const isBuiltIn = property(globalThis, name) === property(value, 'constructor');
  return isBuiltIn ? '' : ': register the class in the option `types` of the provider, or hand over plain data';
}

function isIndex(key: string, length: number): boolean {
  const index = Number(key);
  return Number.isInteger(index) && index >= 0 && index < length && String(index) === key;
}

/** Returns a step of a path as text: `.price`, `[3]`. */
export function formatStep(step: Step): string {
  if (typeof step === 'number') return `[${step}]`;
  if (typeof step === 'object') return step.text;
  return /^[A-Za-z_$][\w$]*$/.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`;
}
