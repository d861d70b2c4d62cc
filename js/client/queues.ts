// The queues of a store, as clients set and read them.

import type { QueueSettings } from '../binding/store.ts';
import type { StorePort } from '../store/providers.ts';
import { checkName, named } from '../util/options.ts';
import { isRecord, show } from '../util/show.ts';
import { limitsOf, type QueueLimits, settingsOf } from './queue-limits.ts';

/** A queue, as {@link Queues.get} returns it. Its numbers count instances and attempts of activities. */
export interface QueueInfo {
  readonly name: string;
  /** Its limits. Spans of time are in ms. */
  readonly limits: QueueLimits;
  /** Absent: the queue is not paused. */
  readonly paused?: { readonly since: Date };
  /** The number of those that wait for a slot, or were suspended before they had one. */
  readonly waiting: number;
  /** The number of those whose start time has not come, and of attempts that wait for their retry. */
  readonly delayed: number;
  /** The number of those that have a slot. */
  readonly running: number;
  /** The number of slots that may be given now by the `rate` of the queue. Absent: it has none. */
  readonly tokens?: number;
  /** The time since which the one waits that waits longest. Absent: none waits. */
  readonly oldestWait?: Date;
}

/** A queue as the store replies with it. */
interface QueueData {
  readonly name: string;
  readonly settings: QueueSettings;
  readonly pausedMs: number | null;
  readonly waiting: number;
  readonly delayed: number;
  readonly running: number;
  readonly tokens: number | null;
  readonly oldestMs: number | null;
}

/** Checked limits, by the name of the queue. */
export type QueuesToSet = ReadonlyMap<string, QueueSettings>;

/**
 * Returns the queues that a runtime is started with.
 *
 * @param where - the begin of the error: `runtime.start: queues`
 * @throws TypeError when a name or a limit is wrong
 */
export function declaredQueues(queues: Readonly<Record<string, QueueLimits>>, where: string): QueuesToSet {
  if (!isRecord(queues)) throw new TypeError(`${where} must be an object of limits by name, got ${show(queues)}`);
  const checked = new Map<string, QueueSettings>();
  for (const [name, limits] of Object.entries(queues)) {
    named(name, where);
    // The value is not shown: an object of other things may have got here, such as an input.
    if (!isRecord(limits)) throw new TypeError(`${where}.${name} must be an object of limits`);
    checked.set(name, settingsOf(limits, `${where}.${name}`));
  }
  return checked;
}

/**
 * The queues of a store: `client.queues`. A queue limits how many of the instances that are started in it run, and how
 * many attempts of the activities that name it, over all workers: see {@link QueueLimits}. It needs no worker to be
 * set, and no restart to change.
 */
export class Queues {
  readonly #port: StorePort;

  /** @internal */
  constructor(port: StorePort) {
    this.#port = port;
  }

  /**
   * Creates a queue, or replaces all limits of the one of that name. The limits hold at once, also for those
   * that wait already. Lower limits stop nothing that runs.
   *
   * @param name - 1 to 256 characters
   * @param limits - `{}`: a queue without limits
   * @throws TypeError naming the limit that is unknown or wrong
   * @throws LimitError (`queues`) when the store has as many queues as it may have
   *
   * @example
   * ```ts
   * await client.queues.set('emails', {
   *   concurrency: 20,
   *   rate: { limit: 50, per: '1s' },
   *   perKey: { concurrency: 2 },
   *   fairness: 'key',
   * });
   * await client.start(sendMail, mail, { queue: 'emails', key: mail.customer });
   * ```
   */
  async set(name: string, limits: QueueLimits): Promise<void> {
    checkName(name, 'queue name');
    await this.#set(name, settingsOf(limits, 'client.queues.set'));
  }

  /**
   * Returns a queue; `undefined` if there is none of that name.
   *
   * @example
   * ```ts
   * const { waiting, running } = (await client.queues.get('emails')) ?? { waiting: 0, running: 0 };
   * ```
   */
  async get(name: string): Promise<QueueInfo | undefined> {
    checkName(name, 'queue name');
    const [found] = await this.#read(name);
    return found;
  }

  /** Returns all queues of the store, in the order of their names. */
  list(): Promise<QueueInfo[]> {
    return this.#read(null);
  }

  /**
   * Pauses a queue: it gives no slot until it is resumed. Instances and attempts that have a slot go on, and those that
   * come wait in line. A time limit goes on, such as `scheduleToStartTimeout`. A pause outlives all processes, and new
   * limits change nothing about it. A queue that is paused already stays so.
   *
   * @throws QueueNotFoundError when there is no queue of that name
   *
   * @example
   * ```ts
   * await client.queues.pause('emails'); // the provider of the mails is down
   * ```
   */
  async pause(name: string): Promise<void> {
    await this.#pause(name, true);
  }

  /**
   * Ends the pause of a queue. Those that wait get slots within its limits. A queue that is not paused stays so.
   *
   * @throws QueueNotFoundError when there is no queue of that name
   */
  async resume(name: string): Promise<void> {
    await this.#pause(name, false);
  }

  /**
   * Deletes a queue that no instance and no attempt is in.
   *
   * @throws QueueNotFoundError when there is no queue of that name
   * @throws RuntimeStateError when some wait in the queue, or have a slot of it. Its fields `waiting` and
   *   `running` are their numbers. Nothing changes then
   */
  async delete(name: string): Promise<void> {
    checkName(name, 'queue name');
    await this.#port.request({ kind: 'deleteQueue', name });
  }

  /** @internal Sets the queues that a runtime is started with, whose limits are checked. */
  static async declare(queues: Queues, settings: QueuesToSet): Promise<void> {
    for (const [name, limits] of settings) await queues.#set(name, limits);
  }

  async #pause(name: string, paused: boolean): Promise<void> {
    checkName(name, 'queue name');
    await this.#port.request({ kind: 'pauseQueue', name, paused });
  }

  async #set(name: string, settings: QueueSettings): Promise<void> {
    await this.#port.request({ kind: 'setQueue', name, settings });
  }

  async #read(name: string | null): Promise<QueueInfo[]> {
    const reply = await this.#port.request({ kind: 'queues', name });
    const queues = JSON.parse(reply ?? '[]') as QueueData[];
    return queues.map(infoOf);
  }
}

function infoOf({ name, settings, pausedMs, waiting, delayed, running, tokens, oldestMs }: QueueData): QueueInfo {
  return {
    name,
    limits: limitsOf(settings),
    ...(pausedMs === null ? {} : { paused: { since: new Date(pausedMs) } }),
    waiting,
    delayed,
    running,
    ...(tokens === null ? {} : { tokens }),
    ...(oldestMs === null ? {} : { oldestWait: new Date(oldestMs) }),
  };
}
