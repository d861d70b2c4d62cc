// Messages and fields as they are logged. Their content never makes logging throw.

import { show } from '../util/show.ts';

export type TraceLevel = 'debug' | 'info' | 'warn' | 'error';

/** Values to log beside a message. Values that JSON cannot hold are logged as text. */
export type TraceFields = Readonly<Record<string, unknown>>;

/** Returns the text of a line for a message of any type. */
export function lineText(message: unknown): string {
  try {
    return String(message);
  } catch {
    return show(message);
  }
}

/** Returns the fields as plain properties, or a note in their place if they cannot be read. */
export function readFields(fields: TraceFields | undefined): TraceFields {
  try {
    return { ...fields };
  } catch {
    return { fields: 'cannot be read' };
  }
}

/** Returns the JSON text of an object of fields with any content. */
export function fieldsText(fields: TraceFields): string {
  try {
    return asObject(JSON.stringify(fields, loggable));
  } catch {
    // A cycle, or a getter that throws. Each field is converted by itself, so that the others are still there.
    const kept: Record<string, unknown> = {};
    for (const key of keysOf(fields)) {
      try {
        kept[key] = JSON.parse(JSON.stringify(fields[key], loggable) ?? 'null');
      } catch (error) {
        kept[key] = `cannot be logged: ${lineText(error)}`;
      }
    }
    return JSON.stringify(kept);
  }
}

function keysOf(fields: object): string[] {
  try {
    return Object.keys(fields);
  } catch {
    return [];
  }
}

function asObject(text: string | undefined): string {
  return text?.startsWith('{') === true ? text : `{"fields":${text ?? 'null'}}`;
}

function loggable(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint' || typeof value === 'symbol') return String(value);
  if (value instanceof Error) return { name: value.name, message: value.message, stack: value.stack };
  return value;
}
