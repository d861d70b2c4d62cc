// Messages and fields as they are logged: what is in them never throws.

import { show } from '../util/show.ts';

export type TraceLevel = 'debug' | 'info' | 'warn' | 'error';

/** Values to log beside a message; those that JSON cannot hold are logged as text. */
export type TraceFields = Readonly<Record<string, unknown>>;

/** The text of a line, whatever was handed over for one. */
export function lineText(message: unknown): string {
  try {
    return String(message);
  } catch {
    return show(message);
  }
}

/** Fields that can be handed on: plain properties, and what could not be read of them told in its place. */
export function readFields(fields: TraceFields | undefined): TraceFields {
  try {
    return { ...fields };
  } catch {
    return { fields: 'cannot be read' };
  }
}

/** The JSON text of an object of fields, whatever is in it. */
export function fieldsText(fields: TraceFields): string {
  try {
    return asObject(JSON.stringify(fields, loggable));
  } catch {
    // A cycle, or a getter that throws: each field by itself, so that the others are still there.
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
