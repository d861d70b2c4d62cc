// The schedules of a store, as clients set, read and run them.

import { InstanceNotFoundError, LimitError, RuntimeStateError } from '../errors/errors.ts';
import {
  checkScheduleId,
  type DueOutcome,
  type DueRecord,
  OVERLAPS,
  type Overlap,
  type Paused,
  recentDues,
  SCHEDULE,
  SCHEDULE_STATE,
  type ScheduleSpec,
  type ScheduleState,
  type ScheduleUpdates,
  scheduleInstance,
  scheduleUpdate,
} from '../schedules/schedule-data.ts';
import { type ScheduleOptions, scheduleSpec } from '../schedules/schedule-options.ts';
import { RUN_STATE } from '../schedules/schedule-run.ts';
import { duesAfter } from '../schedules/times.ts';
import { abortSignal } from '../util/abort.ts';
import { parseDuration } from '../util/duration.ts';
import { checkOptions, named, type OptionTable, oneOf, timeOf, whole } from '../util/options.ts';
import { isInstance } from '../util/show.ts';
import { parse } from '../values/schema.ts';
import { type InstanceStatus, LIVE_STATES } from './instance-status.ts';
import type { ListOptions } from './listing.ts';
import type { StateValue, WatchStateOptions } from './state.ts';
import type { UpdateOptions, UpdateWithStartOptions } from './updating.ts';
import { WAIT_OPTIONS, type WaitOptions } from './watching.ts';

/** A due time of a schedule, or a run that was asked for, and what became of it. */
export interface ScheduleRun {
  readonly due: Date;
  /**
   * `'running'` until its run has ended. `'buffered'`: it waits for the end of another run. `'skipped'`: another run
   * went on. `'missed'`: no worker was there within `catchUp`. `'exists'`: another instance had the id.
   */
  readonly outcome: DueOutcome;
  /** The instance that was started, or is about to be: a run that was buffered is there a moment later. */
  readonly runId?: string;
  /** The message of the error that the run failed with. */
  readonly error?: string;
}

/** A schedule, as {@link Schedules.get} returns it. */
export interface ScheduleInfo {
  readonly id: string;
  /** The times and the start, with all defaults. */
  readonly spec: ScheduleSpec;
  /** Absent: the schedule is not paused. */
  readonly paused?: { readonly since: Date; readonly by: Paused['by']; readonly note?: string };
  /** The next due time. Absent: the schedule is paused, or there is none. */
  readonly next?: Date;
  /**
   * All runs that go on or are buffered, the last 100 runs that have ended, and the last 100 due times that had none,
   * the newest due time first.
   */
  readonly recent: readonly ScheduleRun[];
  /** The number of runs that were started, and of due times that were skipped or missed. */
  readonly counts: ScheduleState['counts'];
}

/** Options of {@link Schedules.trigger} and {@link Schedules.backfill}. */
export interface RunScheduleOptions extends WaitOptions {
  /** Behaviour while a run of the schedule goes on. Default: that of the schedule. */
  overlap?: Overlap;
}

/** Options of {@link Schedules.pause}. */
export interface PauseScheduleOptions extends WaitOptions {
  /** A text for people. */
  note?: string;
}

const RUN_OPTIONS = { ...WAIT_OPTIONS, overlap: oneOf(...OVERLAPS) } satisfies OptionTable;
const PAUSE_OPTIONS = { ...WAIT_OPTIONS, note: named } satisfies OptionTable;
const LIST_OPTIONS = { signal: abortSignal } satisfies OptionTable;

/** The most due times of one {@link Schedules.backfill}, and the most that {@link Schedules.next} returns. */
const DUES_MAX = 1_000;

/** The part of a client that schedules need. */
interface ScheduleClient {
  update(id: string, update: string, input: unknown, options: UpdateOptions): Promise<unknown>;
  updateWithStart(id: string, update: string, input: unknown, options: UpdateWithStartOptions): Promise<unknown>;
  deleteInstance(id: string): Promise<unknown>;
  getState(id: string, name: string): Promise<StateValue | null>;
  watchState(id: string, name: string, options: WatchStateOptions): AsyncIterator<unknown>;
  listInstances(options: ListOptions): AsyncIterable<InstanceStatus>;
}

/**
 * The schedules of a store: `client.schedules`. A schedule is an instance of Perdure's own, so it is as durable as any.
 * A worker answers each change: without one, a change waits, as an update does.
 */
export class Schedules {
  readonly #client: ScheduleClient;

  /** @internal */
  constructor(client: ScheduleClient) {
    this.#client = client;
  }

  /**
   * Creates a schedule, or changes the one of that id. Runs that go on are left alone, and a paused schedule stays
   * paused. If the options differ from those before, due times count from now on.
   *
   * @param id - 1 to 200 characters
   * @throws TypeError when an option is wrong, the zone is unknown, or the schedule would never be due
   * @throws PayloadError when the input cannot be stored, or does not fit the schema of the definition
   * @throws TimeoutError when no worker has taken the change in time. One may still do so
   *
   * @example
   * ```ts
   * await client.schedules.upsert('nightly', {
   *   cron: '0 2 * * *',
   *   timeZone: 'Europe/Berlin',
   *   start: { definition: report, input: { kind: 'daily' } },
   * });
   * ```
   */
  async upsert<I>(id: string, options: ScheduleOptions<I>, wait?: WaitOptions): Promise<ScheduleInfo> {
    const where = 'client.schedules.upsert';
    checkScheduleId(id);
    const spec = scheduleSpec(id, options, where);
    const { definition } = options.start as { definition?: { input?: Parameters<typeof parse>[0] } };
    if (definition?.input !== undefined) await parse(definition.input, spec.start.input, 'start.input');
    await setSchedule(this.#client, id, spec, checkOptions(wait, WAIT_OPTIONS, where) ?? {});
    return await this.#present(id);
  }

  /** Returns a schedule; `null` if there is none of that id. */
  async get(id: string): Promise<ScheduleInfo | null> {
    checkScheduleId(id);
    const found = await this.#client.getState(scheduleInstance(id), SCHEDULE_STATE);
    return found === null ? null : infoOf(id, found.value as ScheduleState);
  }

  /** Returns all schedules, the one that was created last first. */
  list(options?: { signal?: AbortSignal }): AsyncIterable<ScheduleInfo> {
    const { signal } = checkOptions(options, LIST_OPTIONS, 'client.schedules.list') ?? {};
    return this.#listed({ name: SCHEDULE, status: LIVE_STATES, ...(signal === undefined ? {} : { signal }) });
  }

  /**
   * Pauses a schedule. Runs that go on are left alone. Due times that pass meanwhile are not made up for.
   *
   * @throws InstanceNotFoundError when there is no schedule of that id
   */
  async pause(id: string, options?: PauseScheduleOptions): Promise<void> {
    const { note, ...wait } = checkOptions(options, PAUSE_OPTIONS, 'client.schedules.pause') ?? {};
    await this.#update(id, 'pause', { by: 'client', ...(note === undefined ? {} : { note }) }, wait);
  }

  /** Resumes a schedule that is paused, from now on. Otherwise the same as {@link pause}. */
  async resume(id: string, options?: WaitOptions): Promise<void> {
    const wait = checkOptions(options, WAIT_OPTIONS, 'client.schedules.resume') ?? {};
    await this.#update(id, 'resume', undefined, wait);
  }

  /**
   * Runs a schedule now, also while it is paused or has had all its runs (`maxRuns`). The id of the run has the time of
   * the call. Resolves when the run is there.
   *
   * @returns what the schedule decided
   * @throws InstanceNotFoundError when there is no schedule of that id
   */
  async trigger(id: string, options?: RunScheduleOptions): Promise<ScheduleRun> {
    const { overlap, ...wait } = checkOptions(options, RUN_OPTIONS, 'client.schedules.trigger') ?? {};
    const runs = await this.#update(id, 'run', overlap === undefined ? {} : { overlap }, wait);
    const [run] = runs as readonly [DueRecord];
    if (run.watcher !== undefined) await this.#begun(run.watcher, wait);
    return runOf(run);
  }

  /** Waits until a run is there, or the time is over: then it is there soon. */
  async #begun(watcher: string, { timeout, signal }: WaitOptions): Promise<void> {
    const late = timeout === undefined ? undefined : AbortSignal.timeout(parseDuration(timeout, 'timeout'));
    const signals = [signal, late].filter((one) => one !== undefined);
    try {
      await this.#client.watchState(watcher, RUN_STATE, { signal: AbortSignal.any(signals) }).next();
    } catch (error) {
      if (late?.aborted !== true) throw error;
    }
  }

  /**
   * Runs the due times from a time to another one, at most 1 000. Those that had a run before are not run again. The
   * bounds of the schedule do not matter (`startAt`, `endAt`, `maxRuns`).
   *
   * @returns what the schedule decided on each, in order
   * @throws InstanceNotFoundError when there is no schedule of that id
   * @throws TypeError when the first time is after the second
   * @throws LimitError (`scheduleBackfill`) when there are more due times; nothing is run then
   */
  async backfill(
    id: string,
    from: Date | string,
    to: Date | string,
    options?: RunScheduleOptions,
  ): Promise<ScheduleRun[]> {
    const where = 'client.schedules.backfill';
    const [fromMs, toMs] = [timeOf(from, `${where}: from`), timeOf(to, `${where}: to`)];
    if (fromMs > toMs) throw new TypeError(`${where}: from must not be after to`);
    const { overlap, ...wait } = checkOptions(options, RUN_OPTIONS, where) ?? {};
    const { times } = (await this.#present(id)).spec;
    const dues: number[] = [];
    for (const due of duesAfter(times, { endAtMs: toMs }, fromMs - 1)) {
      if (dues.length === DUES_MAX)
        throw new LimitError(
          `${where}: more than ${DUES_MAX} due times lie between ${show(fromMs)} and ${show(toMs)}`,
          {
            limit: 'scheduleBackfill',
            max: DUES_MAX,
          },
        );
      dues.push(due);
    }
    const runs = await this.#update(id, 'run', { dues, ...(overlap === undefined ? {} : { overlap }) }, wait);
    return (runs as DueRecord[]).map(runOf);
  }

  /**
   * Returns the next due times, at most 1 000, whether or not the schedule is paused.
   *
   * @throws InstanceNotFoundError when there is no schedule of that id
   */
  async next(id: string, count = 1): Promise<Date[]> {
    whole(1, DUES_MAX)(count, 'client.schedules.next: count');
    const { spec, counts } = await this.#present(id);
    const max = Math.min(count, (spec.maxRuns ?? Number.POSITIVE_INFINITY) - counts.started);
    const found: Date[] = [];
    for (const due of duesAfter(spec.times, spec, Date.now())) {
      if (found.length >= max) break;
      found.push(new Date(due));
    }
    return found;
  }

  /**
   * Deletes a schedule. Runs that go on are left alone, and buffered ones are dropped.
   *
   * @throws InstanceNotFoundError when there is no schedule of that id
   */
  async delete(id: string, options?: WaitOptions): Promise<void> {
    const wait = checkOptions(options, WAIT_OPTIONS, 'client.schedules.delete') ?? {};
    await this.#update(id, 'delete', undefined, wait);
    // A schedule that was made anew meanwhile stays.
    await this.#client.deleteInstance(scheduleInstance(id)).catch((error: unknown) => {
      if (!isInstance(error, RuntimeStateError) && !isInstance(error, InstanceNotFoundError)) throw error;
    });
  }

  /** @internal Sets what code declares. */
  static async declare(schedules: Schedules, id: string, spec: ScheduleSpec): Promise<void> {
    await setSchedule(schedules.#client, id, spec, {});
  }

  /** @internal Pauses a schedule whose declaration is gone. */
  static async remove(schedules: Schedules, id: string): Promise<void> {
    await schedules.#update(id, 'pause', { by: 'removal', note: 'its declaration was removed' }, {});
  }

  async #present(id: string): Promise<ScheduleInfo> {
    const found = await this.get(id);
    if (found === null) throw notFound(id);
    return found;
  }

  async #update<Name extends keyof ScheduleUpdates>(
    id: string,
    name: Name,
    input: ScheduleUpdates[Name],
    wait: WaitOptions,
  ): Promise<unknown> {
    checkScheduleId(id);
    try {
      return await this.#client.update(scheduleInstance(id), scheduleUpdate(name), input, wait);
    } catch (error) {
      const isGone = isInstance(error, InstanceNotFoundError) || isInstance(error, RuntimeStateError);
      throw isGone ? notFound(id) : error;
    }
  }

  async *#listed(options: ListOptions): AsyncGenerator<ScheduleInfo, void> {
    for await (const { id } of this.#client.listInstances(options)) {
      const found = await this.get(id.slice(`${SCHEDULE}/`.length));
      if (found !== null) yield found;
    }
  }
}

async function setSchedule(client: ScheduleClient, id: string, spec: ScheduleSpec, wait: WaitOptions): Promise<void> {
  const start = { name: SCHEDULE, onConflict: 'restartIfTerminal' } as const;
  await client.updateWithStart(scheduleInstance(id), scheduleUpdate('set'), spec, { ...wait, start });
}

function notFound(id: string): InstanceNotFoundError {
  return new InstanceNotFoundError(`there is no schedule '${id}'`, { instanceId: scheduleInstance(id) });
}

function show(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

function runOf({ dueMs, outcome, runId, error }: DueRecord): ScheduleRun {
  return {
    due: new Date(dueMs),
    outcome,
    ...(runId === undefined ? {} : { runId }),
    ...(error === undefined ? {} : { error }),
  };
}

function infoOf(id: string, state: ScheduleState): ScheduleInfo {
  const { spec, paused, nextMs, counts } = state;
  const pause = paused && { since: new Date(paused.sinceMs), by: paused.by, ...(paused.note && { note: paused.note }) };
  return {
    id,
    spec,
    ...(pause === undefined ? {} : { paused: pause }),
    ...(nextMs === null ? {} : { next: new Date(nextMs) }),
    recent: recentDues(state).map(runOf),
    counts,
  };
}
