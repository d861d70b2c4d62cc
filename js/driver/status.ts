// The custom status of the instances that are in memory, as their code sees it.
//
// The map holds an entry per instance that has set a status, under a key that is unique over all runtimes of the thread.
// The guard in instance.ts takes the entry away when the instance ends or is dropped.

import { fromPayload } from '../values/payload.ts';
import type { EnginePort } from './engine.ts';

const statuses = new Map<object, string>();

/** `text` is codec text; `null` resets. */
export function setCustomStatus(instance: object, port: EnginePort, text: string | null): void {
  // No change; and a codec would make another text of it.
  if (text === (statuses.get(instance) ?? null)) return;
  port.setCustomStatus(text);
  if (text === null) statuses.delete(instance);
  else statuses.set(instance, text);
}

/** What an execution begins with: what the one before it left. */
export function inheritCustomStatus(instance: object, text: string | null): void {
  if (text !== null) statuses.set(instance, text);
}

/** What the code has set last, in a replay too; a copy, `undefined` when there is none. */
export function getCustomStatus(instance: object): unknown {
  return fromPayload(statuses.get(instance) ?? null, 'status');
}

export function forgetCustomStatus(instance: object): void {
  statuses.delete(instance);
}

/** How many instances the map holds. */
export function customStatusCount(): number {
  return statuses.size;
}
