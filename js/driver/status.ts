// The custom status of the instances in memory, as their code sees it.
//
// The map holds one entry per instance that has set a status, under a key that is unique over all runtimes of the
// thread. The guard in instance.ts removes the entry when the instance ends or is dropped.

import { fromPayload } from '../values/payload.ts';
import type { TypeRegistry } from '../values/value-types.ts';
import type { EnginePort } from './engine.ts';

const statuses = new Map<object, string>();

/** Sets the custom status. `text` is codec text; `null` resets the status. */
export function setCustomStatus(instance: object, port: EnginePort, text: string | null): void {
  // Nothing has changed, and a codec would make another text of the same value.
  if (text === (statuses.get(instance) ?? null)) return;
  port.setCustomStatus(text);
  if (text === null) statuses.delete(instance);
  else statuses.set(instance, text);
}

/** Sets the status that an execution inherits from the one before it. */
export function inheritCustomStatus(instance: object, text: string | null): void {
  if (text !== null) statuses.set(instance, text);
}

/** Returns a copy of the status that the code has set last, in a replay too; `undefined` when there is none. */
export function getCustomStatus(instance: object, types: TypeRegistry): unknown {
  return fromPayload(statuses.get(instance) ?? null, 'status', types);
}

export function forgetCustomStatus(instance: object): void {
  statuses.delete(instance);
}

/** Returns the number of instances in the map. */
export function customStatusCount(): number {
  return statuses.size;
}
