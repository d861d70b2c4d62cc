// Traces of the instances that are in memory.
//
// The map holds, for each instance that has traced, the common fields of its lines, under a key that is unique over
// all runtimes of the thread. `release` in instance.ts removes the entry when the instance ends or is dropped.

import { fieldsText, lineText, type TraceFields, type TraceLevel } from '../logging/fields.ts';

/** Receives the lines of one instance. */
export interface TracePort {
  /** The fields of each line of the instance, and those of this line: JSON of objects that are not empty. */
  trace(level: TraceLevel, message: string, ofInstance: string, own: string | null): void;
}

/** Fields that every line of an instance carries. */
export interface TraceOrigin {
  readonly instanceId: string;
  readonly executionId: number;
  readonly orchestrationName: string;
}

const commonFields = new Map<object, string>();

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
  let common = commonFields.get(instance);
  if (common === undefined) {
    const { instanceId, executionId, orchestrationName } = origin;
    common = JSON.stringify({ instanceId, executionId, orchestrationName });
    commonFields.set(instance, common);
  }
  const own = fields === undefined ? '{}' : fieldsText(fields);
  port.trace(level, lineText(message), common, own === '{}' ? null : own);
}

export function forgetTrace(instance: object): void {
  commonFields.delete(instance);
}

/** Returns the number of instances in the map. */
export function traceCount(): number {
  return commonFields.size;
}
