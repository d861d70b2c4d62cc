// The states of instances, as their code publishes them with `ctx.state`.

import { InstanceNotFoundError } from '../errors/errors.ts';
import type { StorePort } from '../store/providers.ts';
import { abortSignal } from '../util/abort.ts';
import { type OptionTable, whole } from '../util/options.ts';
import { Place, statePath } from '../values/codec-context.ts';
import { fromPayload } from '../values/payload.ts';
import { hasEnded, type InstanceState } from './instance-status.ts';
import { type Ask, Changes } from './watching.ts';

/** A value that an instance publishes. */
export interface StateValue<T = unknown> {
  readonly value: T;
  /**
   * Rises with each turn that changes the state of the instance: the version of the turn that set this value. A value
   * that is deleted and set again has a higher version than before.
   */
  readonly version: number;
}

/** A change of a value. */
export interface StateChange<T = unknown> {
  /** The value; `undefined` when it was deleted. */
  readonly value: T | undefined;
  /** The version of the value, or of the state in which it was found deleted. */
  readonly version: number;
  /** True if the name has no value any more. */
  readonly isDeleted: boolean;
}

/** Options of {@link Client.watchState}. */
export interface WatchStateOptions {
  /**
   * When aborted, ends the watch at once: the iteration throws the signal's reason. The instance goes on. Default:
   * none.
   */
  signal?: AbortSignal;
  /** The version that is known already: only later values come. Default 0: the current value comes first. */
  lastVersion?: number;
}

export const WATCH_STATE_OPTIONS: OptionTable = { signal: abortSignal, lastVersion: whole(0) };

/** A state as the addon sends it. */
interface StateData {
  readonly status: InstanceState;
  readonly version: number;
  readonly values: readonly { readonly name: string; readonly value: string | null; readonly version: number }[];
}

/** Returns all values by name; `null`: there is no instance of that id. */
export async function readState(port: StorePort, id: string): Promise<ReadonlyMap<string, StateValue> | null> {
  const state = dataOf(await port.request({ kind: 'state', id, name: null }));
  if (state === null) return null;
  return new Map(state.values.map((data) => [data.name, valueOf(port, id, data)]));
}

/** Returns one value; `null`: there is no instance of that id, or it has no such value. */
export async function readStateValue<T>(port: StorePort, id: string, name: string): Promise<StateValue<T> | null> {
  const state = dataOf(await port.request({ kind: 'state', id, name }));
  const data = state?.values[0];
  return data === undefined ? null : valueOf(port, id, data);
}

/** Returns the version, which rises with each turn that changes the state; `null`: there is no instance of that id. */
export async function readStateVersion(port: StorePort, id: string): Promise<number | null> {
  // No value has an empty name, so none is read.
  return dataOf(await port.request({ kind: 'state', id, name: '' }))?.version ?? null;
}

/** Returns the changes of one value; see {@link Client.watchState}. */
export function watchState<T>(
  port: StorePort,
  id: string,
  name: string,
  { signal, lastVersion = 0 }: WatchStateOptions,
): Changes<StateChange<T>> {
  let seen = lastVersion;
  let isKnown = lastVersion > 0;
  const read = async (ask: Ask): Promise<StateChange<T> | null> => {
    for (;;) {
      const reply = await ask({ kind: 'state', id, name });
      if (reply === null) return null;
      const state = dataOf(reply);
      if (state === null) throw new InstanceNotFoundError(`there is no instance '${id}'`, { instanceId: id });
      const data = state.values[0];
      if (data === undefined && isKnown) {
        isKnown = false;
        return { value: undefined, version: state.version, isDeleted: true };
      }
      if (data !== undefined && data.version > seen) {
        isKnown = true;
        seen = data.version;
        return { ...valueOf<T>(port, id, data), isDeleted: false };
      }
      if (hasEnded(state.status)) return null;
      // The reply is empty when the instance has ended, and one more look tells what its last turn left.
      await ask({ kind: 'waitForStateChange', id, afterVersion: state.version });
    }
  };
  return new Changes(port, signal, read);
}

function dataOf(reply: string | null): StateData | null {
  return JSON.parse(reply ?? 'null') as StateData | null;
}

function valueOf<T>(port: StorePort, id: string, { name, value, version }: StateData['values'][number]): StateValue<T> {
  const path = statePath(name);
  const text = port.texts.read(value, path, Place.ofState(id, name));
  return { value: fromPayload(text, path, port.texts.types) as T, version };
}
