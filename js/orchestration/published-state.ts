// The values that an orchestration publishes under names: `ctx.state`.

import type { FiberScheduler } from '../driver/scheduler.ts';
import { deleteStateValue, getStateValue, setStateValue, stateNames } from '../driver/state.ts';
import { checkName } from '../util/options.ts';
import type { CodecLimits } from '../values/codec.ts';
import { statePath } from '../values/codec-context.ts';
import { toPayload } from '../values/payload.ts';
import type { TypeRegistry } from '../values/value-types.ts';

/**
 * Values that an instance publishes under names, for any client to read or to watch without running the instance:
 * `ctx.state`. All methods are synchronous. What has changed is stored with the turn, in the same transaction, and
 * costs no event of the history.
 *
 * A value stays until it is set again or deleted, over `continueAsNew` and after the end of the instance. A replay
 * begins with the values that the execution before left. A state has at most 1 000 names, and 16 MiB of names and
 * values.
 */
export interface PublishedState {
  /**
   * Sets the value of a name. `undefined` is a value, too.
   *
   * @param name - 1 to 256 characters
   * @throws PayloadError when the value cannot be stored
   * @throws LimitError (`stateNames`, `stateBytes`) when the state would become too large; it stays as it is
   *
   * @example
   * ```ts
   * ctx.state.set('progress', { done: 3, of: 10 });   // client.getState(id, 'progress')
   * ```
   */
  set(name: string, value: unknown): void;

  /** Returns a copy of the value that was set last, in a replay too; `undefined` when there is none. */
  get<T = unknown>(name: string): T | undefined;

  /** Deletes the value of a name. Returns `false` when there is none. */
  delete(name: string): boolean;

  /** Returns the names that have values, sorted. */
  keys(): string[];

  /** Deletes all values. */
  clear(): void;
}

/** The limits of values, and the classes whose instances they may hold. */
export interface ValueRules {
  readonly limits: CodecLimits;
  readonly types: TypeRegistry;
}

/** The state of one execution. */
export class ExecutionState implements PublishedState {
  readonly #scheduler: FiberScheduler;
  readonly #rules: ValueRules;

  constructor(scheduler: FiberScheduler, rules: ValueRules) {
    this.#scheduler = scheduler;
    this.#rules = rules;
  }

  set(name: string, value: unknown): void {
    const scheduler = this.#named('set', name);
    const text = toPayload(value, statePath(name), this.#rules.limits, this.#rules.types);
    setStateValue(scheduler, name, text, () => scheduler.ask((port) => port.setState(name, text)));
  }

  get<T = unknown>(name: string): T | undefined {
    return getStateValue(this.#named('get', name), name, this.#rules.types) as T | undefined;
  }

  delete(name: string): boolean {
    return this.#delete(this.#named('delete', name), name);
  }

  keys(): string[] {
    this.#scheduler.assertRunning('state.keys');
    return stateNames(this.#scheduler);
  }

  clear(): void {
    this.#scheduler.assertRunning('state.clear');
    for (const name of stateNames(this.#scheduler)) this.#delete(this.#scheduler, name);
  }

  #delete(scheduler: FiberScheduler, name: string): boolean {
    return deleteStateValue(scheduler, name, () => scheduler.ask((port) => port.deleteState(name)));
  }

  #named(method: string, name: string): FiberScheduler {
    this.#scheduler.assertRunning(`state.${method}`);
    checkName(name, 'name of the value');
    return this.#scheduler;
  }
}
