// The states of the instances in memory, as their code sees them: the values that they publish under names.
//
// The map holds one entry per instance that has values, under a key that is unique over all runtimes of the thread. The
// guard in instance.ts removes the entry when the instance ends or is dropped.

import { LimitError } from '../errors/errors.ts';
import { statePath } from '../values/codec-context.ts';
import { fromPayload } from '../values/payload.ts';
import type { TypeRegistry } from '../values/value-types.ts';

/** Most names of a state. */
export const STATE_NAMES_MAX = 1_000;
/** Most bytes of all names and values of a state. */
export const STATE_BYTES_MAX = 16 * 1024 * 1024;

/** Codec texts by name; `null` is `undefined`. */
export type StateTexts = ReadonlyMap<string, string | null>;

interface State {
  readonly values: Map<string, string | null>;
  /** Bytes of all names and values. */
  bytes: number;
}

const states = new Map<object, State>();

/**
 * Sets a value. `text` is codec text. `store` is called before the change, and only if there is one.
 *
 * @throws LimitError when the state would have too many names or bytes; it stays as it is
 */
export function setStateValue(instance: object, name: string, text: string | null, store: () => void): void {
  const state = states.get(instance) ?? { values: new Map(), bytes: 0 };
  const { values } = state;
  const before = values.get(name);
  // Nothing has changed, and a codec would make another text of the same value.
  if (before === text) return;
  if (before === undefined && values.size >= STATE_NAMES_MAX) {
    throw new LimitError(`ctx.state has ${STATE_NAMES_MAX} names, which is the most: delete some before '${name}'`, {
      limit: 'stateNames',
      max: STATE_NAMES_MAX,
    });
  }
  const bytes = state.bytes + bytesOf(name, text) - (before === undefined ? 0 : bytesOf(name, before));
  if (bytes > STATE_BYTES_MAX) {
    throw new LimitError(`with '${name}', the values of ctx.state would take more than ${STATE_BYTES_MAX} bytes`, {
      limit: 'stateBytes',
      max: STATE_BYTES_MAX,
    });
  }
  store();
  values.set(name, text);
  state.bytes = bytes;
  states.set(instance, state);
}

/**
 * Deletes a value. Returns `false` when there is none. `store` is called before the change, and only if there is one.
 */
export function deleteStateValue(instance: object, name: string, store: () => void): boolean {
  const state = states.get(instance);
  const text = state?.values.get(name);
  if (state === undefined || text === undefined) return false;
  store();
  state.values.delete(name);
  state.bytes -= bytesOf(name, text);
  return true;
}

/** Sets the state that an execution inherits from the one before it. */
export function inheritState(instance: object, texts: StateTexts | null): void {
  if (texts === null) return;
  let bytes = 0;
  for (const [name, text] of texts) bytes += bytesOf(name, text);
  states.set(instance, { values: new Map(texts), bytes });
}

/** Returns a copy of the value that the code has set last, in a replay too; `undefined` when there is none. */
export function getStateValue(instance: object, name: string, types: TypeRegistry): unknown {
  return fromPayload(states.get(instance)?.values.get(name) ?? null, statePath(name), types);
}

/** Returns the names, sorted by their code units. */
export function stateNames(instance: object): string[] {
  return [...(states.get(instance)?.values.keys() ?? [])].sort();
}

export function forgetState(instance: object): void {
  states.delete(instance);
}

/** Returns the number of instances in the map. */
export function stateCount(): number {
  return states.size;
}

function bytesOf(name: string, text: string | null): number {
  return Buffer.byteLength(name) + (text === null ? 0 : Buffer.byteLength(text));
}
