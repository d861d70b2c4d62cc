// Traces of the instances that are in memory.
//
// The map holds, per instance that has traced, what each of its lines begins with, under a key that is unique over all
// runtimes of the thread. The guard in instance.ts takes the entry away when the instance ends or is dropped.

import type { EnginePort, TraceLevel } from './engine.ts';
import { show } from './show.ts';

/** Values to log beside a message; those that JSON cannot hold are logged as text. */
export type TraceFields = Readonly<Record<string, unknown>>;

/** What every line of an instance carries. */
export interface TraceOrigin {
  readonly instanceId: string;
  readonly executionId: number;
  readonly orchestrationName: string;
}

const prefixes = new Map<object, string>();

/** Trace a line of an instance. The engine drops it in a replay. Never throws on account of what `fields` holds. */
export function trace(
  instance: object,
  port: EnginePort,
  origin: TraceOrigin,
  level: TraceLevel,
  message: string,
  fields: TraceFields | undefined,
): void {
  let prefix = prefixes.get(instance);
  if (prefix === undefined) {
    const { instanceId, executionId, orchestrationName } = origin;
    prefix = JSON.stringify({ instanceId, executionId, orchestrationName }).slice(0, -1);
    prefixes.set(instance, prefix);
  }
  const own = fields === undefined ? '{}' : fieldsText(fields);
  port.trace(level, lineText(message), own === '{}' ? `${prefix}}` : `${prefix},${own.slice(1)}`);
}

export function forgetTrace(instance: object): void {
  prefixes.delete(instance);
}

/** How many instances the map holds. */
export function traceCount(): number {
  return prefixes.size;
}

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
