// Waiting for an instance: with a timeout, or for successive changes of its custom status.

import { type PendingReply, type StorePort, shownToCaller } from '../store/providers.ts';
import { type OptionTable, whole } from '../util/options.ts';
import { isInstance } from '../util/show.ts';
import type { Timers } from '../util/timers.ts';
import { Place } from '../values/codec-context.ts';
import { fromPayload } from '../values/payload.ts';
import type { CustomStatus, InstanceState } from './instance-status.ts';

/** A change of an instance's custom status. */
export interface StatusChange<S = unknown> extends CustomStatus<S> {
  /** State of the instance at that time. */
  readonly status: InstanceState;
}

/** Options of {@link Client.statusChanges}. */
export interface StatusChangesOptions {
  /** When aborted, ends the watch at once: the iteration throws the signal's reason. */
  signal?: AbortSignal;
  /**
   * The `customStatusVersion` that is known already. Default 0: the current custom status comes first, if it was ever
   * set.
   */
  lastVersion?: number;
}

export const STATUS_CHANGES_OPTIONS: OptionTable = {
  signal(value, path) {
    if (!isInstance(value, AbortSignal)) throw new TypeError(`${path} must be an AbortSignal`);
  },
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

/**
 * The changes of an instance's custom status. This is not a generator, because `return()` of a waiting generator would
 * wait, too.
 *
 * At most one wait is open at a time, and none after the iteration is over.
 */
export class StatusChanges<S> implements AsyncIterableIterator<StatusChange<S>, void> {
  readonly #port: StorePort;
  readonly #id: string;
  readonly #signal: AbortSignal | undefined;
  #check: (() => Promise<void>) | undefined;
  #seen: number;
  #isOver = false;
  /** Ends the open wait. */
  #stop: ((reason?: unknown) => void) | undefined;
  /** Settles after the last call of `next`: calls are answered in order. */
  #last: Promise<unknown> = Promise.resolve();

  /** @param check - called before the first wait; the iteration throws its error */
  constructor(
    port: StorePort,
    id: string,
    { signal, lastVersion = 0 }: StatusChangesOptions,
    check?: () => Promise<void>,
  ) {
    this.#port = port;
    this.#check = check;
    this.#id = id;
    this.#signal = signal;
    this.#seen = lastVersion;
  }

  next(): Promise<IteratorResult<StatusChange<S>, void>> {
    const result = this.#last.then(() => this.#advance());
    this.#last = result.catch(() => {});
    return result;
  }

  async return(): Promise<IteratorResult<StatusChange<S>, void>> {
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

  async #advance(): Promise<IteratorResult<StatusChange<S>, void>> {
    if (!this.#isOver) {
      try {
        this.#signal?.throwIfAborted();
        await this.#check?.();
        this.#check = undefined;
        const change = changeOf<S>(await this.#wait(), this.#port, this.#id);
        if (change !== null && !this.#isOver) {
          this.#seen = change.customStatusVersion;
          return { done: false, value: change };
        }
        this.#isOver = true;
      } catch (error) {
        this.#isOver = true;
        throw error;
      }
    }
    return { done: true, value: undefined };
  }

  /** Returns the reply; `null` when the wait was stopped first. */
  async #wait(): Promise<string | null> {
    const pending = this.#port.open({ kind: 'waitForStatusChange', id: this.#id, afterVersion: this.#seen });
    const signal = this.#signal;
    const aborted = (): void => this.#stop?.(signal?.reason);
    signal?.addEventListener('abort', aborted);
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
      signal?.removeEventListener('abort', aborted);
    }
  }
}

/**
 * Resolves with the reply. When it does not come in time, settles as the value of `late` does.
 */
export function within<T>(
  pending: PendingReply,
  timeoutMs: number | undefined,
  timers: Timers,
  late: () => T | Promise<T>,
): Promise<string | null | T> {
  if (timeoutMs === undefined) return shownToCaller(pending.reply);
  return shownToCaller(
    new Promise((resolve, reject) => {
      const expire = (): void => {
        pending.abandon();
        resolve(late());
      };
      const timer = timers.after(timeoutMs, expire, true);
      pending.reply.then(
        (reply) => {
          timer.clear();
          resolve(reply);
        },
        (error: unknown) => {
          timer.clear();
          reject(error);
        },
      );
    }),
  );
}
