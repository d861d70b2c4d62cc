// Traces of the instances that are in memory.
//
// The map holds, for each instance that has traced, the common beginning of its lines, under a key that is unique over
// all runtimes of the thread. `release` in instance.ts removes the entry when the instance ends or is dropped.

import { fieldsText, lineText, type TraceFields, type TraceLevel } from '../logging/fields.ts';

/** Receives the lines of one instance. */
export interface TracePort {
  /** `fields` is the JSON of an object. */
  trace(level: TraceLevel, message: string, fields: string): void;
}

/** Fields that every line of an instance carries. */
export interface TraceOrigin {
  readonly instanceId: string;
  readonly executionId: number;
  readonly orchestrationName: string;
}

const prefixes = new Map<object, string>();

/**
 * Traces a line of an instance. The engine drops the line in a replay. Never throws because of the content of `fields`.
 */
export function trace(
  instance: object,
  port: TracePort,
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

/** Returns the number of instances in the map. */
export function traceCount(): number {
  return prefixes.size;
}
