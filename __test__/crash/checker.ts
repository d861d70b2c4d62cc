// The rules by which an effect log, the histories at each kill and the histories at the end must agree.

import type { HistoryEvent } from 'perdure';

import type { Effect } from '../support/worker.ts';

/** Histories by instance, as they were read at one time. */
export type Snapshot = ReadonlyMap<string, readonly HistoryEvent[]>;

/** The state that was found after a worker had been killed. */
export interface Kill {
  /** Name of the worker. */
  readonly worker: string;
  /** The histories after the worker was gone and before the next one was started. */
  readonly found: Snapshot;
}

/**
 * Returns every rule that the runs broke, as a sentence (testing.md, S3, S5, S6; ARCHITECTURE.md, invariant 1).
 * `kills` are in order. The workers of the effect log run one after the other: first those that were killed, then one
 * that was not.
 */
export function violations(effects: readonly Effect[], kills: readonly Kill[], end: Snapshot): string[] {
  return [
    ...repeatedAfterRestart(effects, kills),
    ...begunBeforeScheduled(effects, kills),
    ...begunAfterCompletion(effects, end),
    ...begunTwiceInOneProcess(effects),
    ...unexplainedBegins(effects, end),
    ...shrunk([...kills.map(({ found }) => found), end]),
  ];
}

/** Returns the steps that a killed worker had begun and whose completion was not stored when it was gone. */
export function unfinished(effects: readonly Effect[], { worker, found }: Kill): Effect[] {
  const completed = completedSteps(found);
  return effects.filter(
    (effect) => effect.event === 'begin' && effect.worker === worker && !completed.has(`${effect.id} ${effect.step}`),
  );
}

/**
 * S5, by the contents of the store: a step whose completion was stored when a worker was gone does not begin in a later
 * worker.
 */
function repeatedAfterRestart(effects: readonly Effect[], kills: readonly Kill[]): string[] {
  const found: string[] = [];
  const workers = kills.map(({ worker }) => worker);
  for (const [i, { found: snapshot }] of kills.entries()) {
    const completed = completedSteps(snapshot);
    const before = new Set(workers.slice(0, i + 1));
    for (const { event, worker, id, step } of effects) {
      if (event === 'begin' && !before.has(worker) && completed.has(`${id} ${step}`)) {
        found.push(`${id} step ${step} began in ${worker} although its completion was stored at kill ${i + 1}`);
      }
    }
  }
  return found;
}

/**
 * No effect leaves a process before the turn that caused it is durable: each step that had begun at a kill is in the
 * histories of that kill.
 */
function begunBeforeScheduled(effects: readonly Effect[], kills: readonly Kill[]): string[] {
  return kills.flatMap(({ worker: killed, found }) =>
    effects.flatMap(({ event, worker, id, step }) =>
      event === 'begin' && worker === killed && step > scheduledSteps(found, id)
        ? [`${id} step ${step} began in ${worker} and was not stored as scheduled when that was killed`]
        : [],
    ),
  );
}

/** S5, by the clock: no attempt begins later than the time at which the step's completion is recorded. */
function begunAfterCompletion(effects: readonly Effect[], end: Snapshot): string[] {
  const completed = completedSteps(end);
  return effects.flatMap(({ event, worker, id, step, at }) => {
    const time = completed.get(`${id} ${step}`);
    return event === 'begin' && time !== undefined && at > time
      ? [`${id} step ${step} began in ${worker} ${at - time} ms after its completion was recorded`]
      : [];
  });
}

/** S6: no attempt begins twice within one process, since an attempt that still runs there is no reason for another. */
function begunTwiceInOneProcess(effects: readonly Effect[]): string[] {
  const seen = new Set<string>();
  return effects.flatMap(({ event, worker, id, step, attempt }) => {
    if (event !== 'begin') return [];
    const begin = `${id} step ${step} attempt ${attempt} in ${worker}`;
    if (seen.has(begin)) return [`${begin} began twice`];
    seen.add(begin);
    return [];
  });
}

/**
 * Each step that began is scheduled in the history. The idempotency key of a step is the same in every process and
 * belongs to no other step.
 */
function unexplainedBegins(effects: readonly Effect[], end: Snapshot): string[] {
  const keys = new Map<string, string>();
  const steps = new Map<string, string>();
  const found: string[] = [];
  for (const { event, id, step, key } of effects) {
    if (event !== 'begin') continue;
    const name = `${id} ${step}`;
    if ((keys.get(name) ?? key) !== key) found.push(`${id} step ${step} has more than one idempotency key`);
    if ((steps.get(key) ?? name) !== name) found.push(`${name} and ${steps.get(key)} have one idempotency key`);
    keys.set(name, key);
    steps.set(key, name);
    if (step > scheduledSteps(end, id)) found.push(`${id} step ${step} began and is not in its history`);
  }
  return found;
}

/** S3: recorded events do not change. More may follow. */
function shrunk(snapshots: readonly Snapshot[]): string[] {
  return snapshots.slice(1).flatMap((later, i) =>
    [...(snapshots[i] ?? [])].flatMap(([id, events]) => {
      const now = later.get(id)?.slice(0, events.length);
      return JSON.stringify(now) === JSON.stringify(events) ? [] : [`the history of ${id} changed after kill ${i + 1}`];
    }),
  );
}

function scheduledSteps(snapshot: Snapshot, id: string): number {
  return snapshot.get(id)?.filter(({ kind }) => kind === 'ActivityScheduled').length ?? 0;
}

/**
 * Returns the steps whose completion is recorded, with its time. Step n is the n-th activity that an instance
 * scheduled.
 */
function completedSteps(snapshot: Snapshot): Map<string, number> {
  const completed = new Map<string, number>();
  for (const [id, events] of snapshot) {
    const schedules = events.filter(({ kind }) => kind === 'ActivityScheduled').map(({ eventId }) => eventId);
    for (const { kind, refId, time } of events) {
      if (kind === 'ActivityCompleted') completed.set(`${id} ${schedules.indexOf(refId ?? 0) + 1}`, time.getTime());
    }
  }
  return completed;
}

/** An absence of a worker: a reason for others to run again what it had begun. */
export interface Absence {
  readonly worker: string;
  /** The worker went away after `from` and was certainly away at `by`, ms since 1970. */
  readonly from: number;
  readonly by: number;
}

/** Returns every rule that workers broke which ran at the same time, as a sentence (testing.md, S5, S6). */
export function concurrentViolations(
  effects: readonly Effect[],
  absences: readonly Absence[],
  end: Snapshot,
): string[] {
  return [
    ...begunAfterCompletion(effects, end),
    ...unexplainedBegins(effects, end),
    ...repeatedWithoutReason(effects, absences),
  ];
}

/**
 * Moves a begin that a stopped worker cannot help to the time before it was stopped. Its one thread may have been
 * stopped after its last look at the lease and before the first line of an activity, which then runs when the worker is
 * back. At most one attempt is late in this way.
 *
 * @param back - the time at which the worker was continued, ms since 1970
 */
export function begunBefore(effects: readonly Effect[], { worker, from }: Absence, back: number): Effect[] {
  const late = effects.find((effect) => effect.event === 'begin' && effect.worker === worker && effect.at >= back);
  if (late === undefined) return [...effects];
  const rest = effects.filter((effect) => effect !== late);
  const place = rest.findIndex(({ at }) => at > from);
  return rest.toSpliced(place < 0 ? rest.length : place, 0, { ...late, at: from });
}

/** S6: an attempt begins again only after the worker in which it had begun went away. */
export function repeatedWithoutReason(effects: readonly Effect[], absences: readonly Absence[]): string[] {
  const found: string[] = [];
  const attempts = new Map<string, Effect>();
  for (const effect of effects) {
    if (effect.event !== 'begin') continue;
    const attempt = `${effect.key} ${effect.attempt}`;
    const last = attempts.get(attempt);
    const isReason = ({ worker, from, by }: Absence) => worker === last?.worker && last.at <= by && effect.at >= from;
    if (last !== undefined && !absences.some(isReason)) {
      found.push(
        `${effect.id} step ${effect.step} began in ${last.worker} and again in ${effect.worker}, ` +
          `and ${last.worker} was not away`,
      );
    }
    attempts.set(attempt, effect);
  }
  return found;
}
