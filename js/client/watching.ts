// Waiting for an instance: with a timeout, or for successive changes of its custom status.

import type { StoreRequest } from '../binding/store.ts';
import { type PendingReply, type StorePort, shownToCaller } from '../store/providers.ts';
import { type Abandonable, abortSignal, onAbort, untilAborted } from '../util/abort.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import { checkOptions, duration, type OptionTable, whole } from '../util/options.ts';
import type { Timers } from '../util/timers.ts';
import { Place } from '../values/codec-context.ts';
import { fromPayload } from '../values/payload.ts';
import type { CustomStatus, InstanceState } from './instance-status.ts';

/** A change of an instance's custom status. */
export interface StatusChange<S = unknown> extends CustomStatus<S> {
  /** State of the instance at that time. */
  readonly status: InstanceState;
}

/** Options of {@link Client.waitForOrchestration}. */
export interface WaitOptions {
  /** Longest wait. Default: for ever. */
  timeout?: Duration;
  /**
   * When aborted, ends the wait at once: the call rejects with the signal's reason. The instance goes on: to cancel it,
   * call {@link Client.cancelInstance}. Default: none.
   */
  signal?: AbortSignal;
}

/** The checks of {@link WaitOptions}. */
export const WAIT_OPTIONS = { timeout: duration(), signal: abortSignal } satisfies OptionTable;

/** Options of {@link Client.waitForStatusChange}. */
export interface StatusChangeOptions extends WaitOptions {
  /** Interval of looking for a change in another process. The store may look more often. */
  pollInterval?: Duration;
}

/** The checks of {@link StatusChangeOptions}. */
export const STATUS_CHANGE_OPTIONS = { ...WAIT_OPTIONS, pollInterval: duration(1) } satisfies OptionTable;

/** Options of {@link Client.statusChanges}. */
export interface StatusChangesOptions {
  /**
   * When aborted, ends the watch at once: the iteration throws the signal's reason. The instance goes on. Default:
   * none.
   */
  signal?: AbortSignal;
  /**
   * The `customStatusVersion` that is known already. Default 0: the current custom status comes first, if it was ever
   * set.
   */
  lastVersion?: number;
}

export const STATUS_CHANGES_OPTIONS: OptionTable = {
  signal: abortSignal,
  lastVersion: whole(0),
};

/** Parses the change that the store reports; `null` when the instance has ended without another one. */
export function changeOf<S>(reply: string | null, port: StorePort, id: string): StatusChange<S> | null {
  const data = JSON.parse(reply ?? 'null') as {
    customStatus: string | null;
    customStatusVersion: number;
    status: InstanceState;
  } | null;
  if (data === null) return null;
  return {
    ...data,
    customStatus: fromPayload(
      port.texts.read(data.customStatus, 'status', Place.ofInstance(id, 'status')),
      'status',
      port.texts.types,
    ) as S | undefined,
  };
}

/** The arguments of `waitForStatusChange` of a client, behind the id. */
export type StatusChangeArguments = readonly [
  lastVersion: number,
  pollIntervalOrOptions?: Duration | StatusChangeOptions,
  timeout?: Duration,
];

/** A wait for a later custom status than a known one. */
interface StatusChangeWait extends WaitLimits {
  readonly lastVersion: number;
}

/**
 * Returns the wait that the arguments of a call ask for.
 *
 * @param where - the beginning of an error: `client.waitForStatusChange`
 * @throws TypeError when an argument is wrong
 */
export function statusChangeWait(args: StatusChangeArguments, where: string): StatusChangeWait {
  const [lastVersion, second, third] = args;
  whole(0)(lastVersion, `${where}: lastVersion`);
  const given: StatusChangeOptions =
    typeof second === 'object' ? second : { ...named('pollInterval', second), ...named('timeout', third) };
  const { timeout, signal } = checkOptions(given, STATUS_CHANGE_OPTIONS, where);
  const timeoutMs = timeout === undefined ? undefined : parseDuration(timeout, `${where}: timeout`);
  return { lastVersion, timeoutMs, signal };
}

function named(name: 'pollInterval' | 'timeout', value: Duration | undefined): StatusChangeOptions {
  return value === undefined ? {} : { [name]: value };
}

/** Waits for a change of the custom status; see {@link Client.waitForStatusChange}. */
export async function waitForStatusChange<S>(
  port: StorePort,
  id: string,
  { lastVersion, ...limits }: StatusChangeWait,
): Promise<CustomStatus<S> | null> {
  const begin = (): PendingReply => port.open({ kind: 'waitForStatusChange', id, afterVersion: lastVersion });
  const change = changeOf<S>(await within(begin, limits, port.timers, () => null), port, id);
  return change && { customStatus: change.customStatus, customStatusVersion: change.customStatusVersion };
}

/** Makes a request, and resolves with its reply; `null` when the iteration was stopped first. */
export type Ask = (request: StoreRequest) => Promise<string | null>;

/**
 * Changes of an instance, one after the other. This is not a generator, because `return()` of a waiting generator would
 * wait, too.
 *
 * At most one request is open at a time, and none after the iteration is over.
 */
export class Changes<T> implements AsyncIterableIterator<T, void> {
  readonly #port: StorePort;
  readonly #signal: AbortSignal | undefined;
  readonly #read: (ask: Ask) => Promise<T | null>;
  #check: (() => Promise<void>) | undefined;
  #isOver = false;
  /** Ends the open request. */
  #stop: ((reason?: unknown) => void) | undefined;
  /** Settles after the last call of `next`: calls are answered in order. */
  #last: Promise<unknown> = Promise.resolve();

  /**
   * @param read - waits for the next change; resolves with `null` when there are no more
   * @param check - called before the first wait; the iteration throws its error
   */
  constructor(
    port: StorePort,
    signal: AbortSignal | undefined,
    read: (ask: Ask) => Promise<T | null>,
    check?: () => Promise<void>,
  ) {
    this.#port = port;
    this.#signal = signal;
    this.#read = read;
    this.#check = check;
  }

  next(): Promise<IteratorResult<T, void>> {
    const result = this.#last.then(() => this.#advance());
    this.#last = result.catch(() => {});
    return result;
  }

  async return(): Promise<IteratorResult<T, void>> {
    this.#isOver = true;
    this.#stop?.();
    return { done: true, value: undefined };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #advance(): Promise<IteratorResult<T, void>> {
    if (!this.#isOver) {
      try {
        const check = this.#check;
        if (check !== undefined) await untilAborted(this.#signal, () => ({ reply: check(), abandon() {} }));
        this.#check = undefined;
        this.#signal?.throwIfAborted();
        const change = await this.#read((request) => this.#ask(request));
        if (change !== null && !this.#isOver) return { done: false, value: change };
        this.#isOver = true;
      } catch (error) {
        this.#isOver = true;
        throw error;
      }
    }
    return { done: true, value: undefined };
  }

  async #ask(request: StoreRequest): Promise<string | null> {
    if (this.#isOver) return null;
    const pending = this.#port.open(request);
    const stopListening = onAbort(this.#signal, (reason) => this.#stop?.(reason));
    try {
      return await new Promise<string | null>((resolve, reject) => {
        this.#stop = (...reason) => {
          pending.abandon();
          if (reason.length === 0) resolve(null);
          else reject(reason[0]);
        };
        shownToCaller(pending.reply).then(resolve, reject);
      });
    } finally {
      this.#stop = undefined;
      stopListening();
    }
  }
}

/** Returns the changes of an instance's custom status; see {@link Client.statusChanges}. */
export function statusChanges<S>(
  port: StorePort,
  id: string,
  { signal, lastVersion = 0 }: StatusChangesOptions,
  check?: () => Promise<void>,
): Changes<StatusChange<S>> {
  let seen = lastVersion;
  const read = async (ask: Ask): Promise<StatusChange<S> | null> => {
    const change = changeOf<S>(await ask({ kind: 'waitForStatusChange', id, afterVersion: seen }), port, id);
    if (change !== null) seen = change.customStatusVersion;
    return change;
  };
  return new Changes(port, signal, read, check);
}

/** The limits of a wait. */
export interface WaitLimits {
  /** The longest wait, ms; `undefined`: for ever. */
  readonly timeoutMs: number | undefined;
  readonly signal: AbortSignal | undefined;
}

/**
 * Begins a request and resolves with its reply. When the reply does not come in time, settles as the value of `late`
 * does. When the signal is aborted, rejects at once with its reason.
 */
export function within<T>(
  begin: () => PendingReply,
  { timeoutMs, signal }: WaitLimits,
  timers: Timers,
  late: () => T | Promise<T>,
): Promise<string | null | T> {
  const timed = (): Abandonable<string | null | T> => {
    const pending = begin();
    if (timeoutMs === undefined) return pending;
    let stop = (): void => {};
    const reply = new Promise<string | null | T>((resolve, reject) => {
      const expire = (): void => {
        pending.abandon();
        resolve(late());
      };
      const timer = timers.after(timeoutMs, expire, true);
      stop = () => timer.clear();
      pending.reply.finally(stop).then(resolve, reject);
    });
    const abandon = (): void => {
      stop();
      pending.abandon();
    };
    return { reply, abandon };
  };
  return shownToCaller(untilAborted(signal, timed), signal);
}
