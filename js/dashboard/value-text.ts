// Values as text for people, with a limited length. The part that is cut off is not even read.

import { boundedInspect } from '../util/bounded-inspect.ts';
import { isRecord, property } from '../util/show.ts';
import type { ErrorText, ValueText } from './answers.ts';

/** Depth at which nested values are cut. */
const DEPTH_MAX = 200;

/**
 * Limit up to which a text is only a preview. A preview inspects values that are not JSON (a map, a set) to a small
 * depth.
 */
const BRIEF = 1_000;

/** Matches the placeholders of `util.inspect` for values below its depth. */
const DEEPER = /\[(?:Object|Array|Map|Set)\b/;

/**
 * Returns the text of a value: indented JSON, or the output of `util.inspect` for a value that is not JSON; cut after
 * `max` characters.
 */
export function valueText(value: unknown, max: number): ValueText {
  const text = new BoundedText(max);
  const errors = errorsOf(value);
  if (errors === undefined) write(value, '', [], text);
  else text.add(textOf(errors));
  const { shown } = text;
  // A preview is short, so it has only the text. The parts of a cut text would be longer than the text.
  return errors === undefined || max <= BRIEF || !shown.isWhole ? shown : { ...shown, errors };
}

/** A text of at most so many characters. */
class BoundedText {
  #parts: string[] = [];
  #left: number;
  #isWhole = true;

  constructor(max: number) {
    this.#left = max;
  }

  get isFull(): boolean {
    return this.#left <= 0;
  }

  get left(): number {
    return this.#left;
  }

  /** Marks the text as incomplete. */
  cut(): void {
    this.#isWhole = false;
  }

  add(part: string): void {
    if (part.length > this.#left) this.cut();
    this.#parts.push(part.slice(0, Math.max(0, this.#left)));
    this.#left -= part.length;
  }

  get shown(): ValueText {
    // The cut may have left half of a surrogate pair.
    return { text: this.#parts.join('').toWellFormed(), isWhole: this.#isWhole };
  }
}

function write(value: unknown, indent: string, around: readonly object[], text: BoundedText): void {
  if (text.isFull) return text.cut();
  if (typeof value === 'string')
    return text.add(JSON.stringify(value.length > text.left ? value.slice(0, text.left) : value));
  if (typeof value !== 'object' || value === null)
    return text.add(typeof value === 'bigint' ? `${value}n` : Object.is(value, -0) ? '-0' : String(value));
  if (around.includes(value)) return text.add('[circular]');
  if (around.length >= DEPTH_MAX) {
    text.cut();
    return text.add('…');
  }
  const isList = Array.isArray(value);
  const prototype = Object.getPrototypeOf(value) as unknown;
  if (!isList && prototype !== Object.prototype && prototype !== null) return writeOther(value, indent, text);
  const keys = isList ? undefined : Object.keys(value);
  const count = keys?.length ?? (value as unknown[]).length;
  const [open, close] = isList ? '[]' : '{}';
  if (count === 0) return text.add(`${open}${close}`);
  const inner = `${indent}  `;
  const within = [...around, value];
  text.add(`${open}\n`);
  for (let i = 0; i < count; i += 1) {
    if (text.isFull) return text.cut();
    const key = keys?.[i];
    text.add(key === undefined ? inner : `${inner}${JSON.stringify(key)}: `);
    write(key === undefined ? (value as unknown[])[i] : (value as Record<string, unknown>)[key], inner, within, text);
    text.add(i < count - 1 ? ',\n' : '\n');
  }
  text.add(`${indent}${close}`);
}

function writeOther(value: object, indent: string, text: BoundedText): void {
  const isBrief = text.left <= BRIEF;
  const size = property(value, 'size') ?? property(value, 'length');
  const { text: shown, isWhole } = boundedInspect(value, {
    depth: isBrief ? 2 : Infinity,
    maxArrayLength: text.left,
    maxStringLength: text.left,
    breakLength: 100,
  });
  if (!isWhole || (typeof size === 'number' && size > text.left) || (isBrief && DEEPER.test(shown))) text.cut();
  text.add(shown.replaceAll('\n', `\n${indent}`));
}

/**
 * Returns an error, or its data in a history, and its causes, each with its stack and its other fields. `undefined`
 * when the value is neither.
 */
function errorsOf(value: unknown): ErrorText[] | undefined {
  if (!isRecord(value)) return undefined;
  const errors: ErrorText[] = [];
  let error: unknown = value;
  for (let i = 0; i < CAUSES_MAX && isRecord(error); i += 1) {
    const { name, message, stack } = error as Partial<Error>;
    if (typeof name !== 'string' || typeof message !== 'string') break;
    const fields = Object.entries({ ...error, ...(property(error, 'fields') as object | undefined) }).filter(
      ([key]) => !ERROR_KEYS.has(key),
    );
    errors.push({
      name,
      message,
      ...(typeof stack === 'string' ? { stack } : {}),
      // The fields of all causes together cost less than twice the budget of one value.
      ...(fields.length === 0
        ? {}
        : {
            fields: boundedInspect(
              Object.fromEntries(fields),
              { depth: 8, breakLength: 100, maxArrayLength: BRIEF },
              1 / (i + 1) ** 2,
            ).text,
          }),
    });
    error = property(error, 'cause');
  }
  if (errors.length === 0 || !(value instanceof Error || ERROR_DATA.every((key) => key in value))) return undefined;
  if (error !== undefined && errors.length < CAUSES_MAX)
    errors.push({ name: '', message: valueText(error, BRIEF).text });
  return errors;
}

function textOf(errors: readonly ErrorText[]): string {
  return errors
    .map(({ name, message, stack, fields }) => {
      const head = name === '' ? message : `${name}: ${message}`;
      // A stack begins with the name and message at its creation, which may have changed since.
      const text = stack === undefined ? head : stack.includes(message) ? stack : `${head}\n${stack}`;
      return fields === undefined ? text : `${text}\n${fields}`;
    })
    .join('\ncaused by:\n');
}

const CAUSES_MAX = 32;
const ERROR_KEYS = new Set(['name', 'message', 'stack', 'cause', 'type', 'fields', 'richFields']);
/** Keys that all error data has, and that hardly any other value has. */
const ERROR_DATA = ['name', 'message', 'stack'];
