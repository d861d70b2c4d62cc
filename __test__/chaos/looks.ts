// Repeated snapshots of the store in a round, and the checks that compare them with later ones and with the logs.

import type { Effect } from '../support/effects.ts';
import { type EventRow, groupBy, type InstanceRow, type StoreRows } from '../support/violations.ts';
import type { ClientEntry } from './client-log.ts';

/** One snapshot of the rows, and the lengths of the logs around it. */
export interface Look {
  readonly rows: StoreRows;
  /** Length of the effect log before the snapshot. */
  readonly effectsBefore: number;
  /** Length of the effect log after the snapshot. */
  readonly effectsAfter: number;
  /** Length of the client log before the snapshot. */
  readonly toldBefore: number;
}

/** A part of a log: the lines from `from` until before `to`. */
export interface Part {
  readonly from: number;
  readonly to: number;
}

const SCHEDULED = 'ActivityScheduled';
const FINISHED = new Set(['ActivityCompleted', 'ActivityFailed']);

/**
 * Returns the idempotency key of the activity that the event scheduled. `started` is the id of its instance and the
 * incarnation of that id.
 */
function keyOf(started: string, execution: number, event: number): string {
  return `${started}/${execution}/${event}`;
}

/** Returns the incarnation of an instance in the form that idempotency keys append to its id. */
function incarnationOf({ meta }: EventRow): string {
  const { incarnation } = JSON.parse(meta ?? '{}') as { incarnation?: string };
  return incarnation === undefined ? '' : `/${incarnation}`;
}

/** Activities of a snapshot, by idempotency key. */
class Activities {
  readonly scheduled = new Set<string>();
  /** The times at which activities finished, ms. */
  readonly finished = new Map<string, number>();

  constructor(rows: StoreRows) {
    const incarnations = new Map(
      rows.history.filter(({ event_id }) => event_id === 1).map((event) => [event.instance_key, incarnationOf(event)]),
    );
    const started = new Map(rows.instances.map(({ key, id }) => [key, `${id}${incarnations.get(key) ?? ''}`]));
    for (const { instance_key, execution, event_id, kind, ref_id, time } of rows.history) {
      const of = started.get(instance_key) ?? '';
      if (kind === SCHEDULED) this.scheduled.add(keyOf(of, execution, event_id));
      if (FINISHED.has(kind) && ref_id !== null) this.finished.set(keyOf(of, execution, ref_id), time);
    }
  }
}

function begins(effects: readonly Effect[]): Effect[] {
  return effects.filter(({ event }) => event === 'begin');
}

/**
 * No effect leaves a process before the turn that caused it is durable: each activity that had begun before the
 * snapshot is scheduled in the snapshot. `cuts` are the parts of the log that were written while the power was cut.
 * Nothing runs in such a moment, and what a test cannot stop in time proves nothing (see `Mount.powerSwitch`).
 */
export function begunTooSoon(looks: readonly Look[], effects: readonly Effect[], cuts: readonly Part[] = []): string[] {
  return looks.flatMap(({ rows, effectsBefore }) => {
    const { scheduled } = new Activities(rows);
    const begun = begins(
      effects.slice(0, effectsBefore).filter((_, line) => !cuts.some(({ from, to }) => from <= line && line < to)),
    );
    return begun
      .filter(({ key }) => !scheduled.has(key))
      .map(({ key, worker }) => `${key} began in ${worker} and was not stored as scheduled`);
  });
}

/**
 * S5: an activity that is finished in a snapshot never begins after the snapshot. No activity begins after the time at
 * which it finished. The attempts in `late` are excepted (see `lateBegins`).
 */
export function begunAgain(
  looks: readonly Look[],
  effects: readonly Effect[],
  late: ReadonlySet<Effect> = new Set(),
): string[] {
  const isInTime = (effect: Effect) => !late.has(effect);
  const found = new Set<string>();
  for (const { rows, effectsAfter } of looks) {
    const { finished } = new Activities(rows);
    for (const { key, worker } of begins(effects.slice(effectsAfter)).filter(isInTime)) {
      if (finished.has(key)) found.add(`${key} began again in ${worker} although the store said that it was finished`);
    }
    for (const { key, worker, at } of begins(effects).filter(isInTime)) {
      const time = finished.get(key);
      if (time !== undefined && at > time)
        found.add(`${key} began in ${worker} ${at - time} ms after it was recorded as finished`);
    }
  }
  return [...found];
}

/** S3, S7, S8: between snapshots histories only grow, ended instances do not change, and epochs rise. */
export function changed(looks: readonly Look[]): string[] {
  return looks.slice(1).flatMap((later, i) => {
    const earlier = looks[i]!;
    const now = new Map(later.rows.instances.map((instance) => [instance.key, instance]));
    return [
      ...earlier.rows.instances.flatMap((instance) => changedInstance(instance, now.get(instance.key))),
      ...changedHistory(earlier.rows.history, later.rows.history),
    ];
  });
}

function changedInstance(before: InstanceRow, now: InstanceRow | undefined): string[] {
  const { id } = before;
  if (now === undefined) return [`'${id}' is gone`];
  const found: string[] = [];
  if (now.epoch < before.epoch) found.push(`the epoch of '${id}' went from ${before.epoch} to ${now.epoch}`);
  if (now.execution < before.execution)
    found.push(`'${id}' went from execution ${before.execution} to ${now.execution}`);
  const hasEnded = before.completed_at !== null;
  if (hasEnded && (now.status !== before.status || now.next_event_id !== before.next_event_id)) {
    found.push(`'${id}' was ${before.status} and is ${now.status}`);
  }
  return found;
}

function changedHistory(before: readonly EventRow[], now: readonly EventRow[]): string[] {
  const keyOfEvent = ({ instance_key, execution, event_id }: EventRow) =>
    keyOf(String(instance_key), execution, event_id);
  const texts = new Map(now.map((event) => [keyOfEvent(event), JSON.stringify(event)]));
  return before
    .filter((event) => texts.get(keyOfEvent(event)) !== JSON.stringify(event))
    .map((event) => `event ${keyOfEvent(event)} (${event.kind}) changed`);
}

/** S1, S7: a snapshot contains every change that was acknowledged to a client before it. */
export function untrue(
  looks: readonly Look[],
  told: readonly ClientEntry[],
  idOf: (program: number) => string,
): string[] {
  return looks.flatMap(({ rows, toldBefore }) => {
    const instances = groupBy(rows.instances, ({ id }) => id);
    return told.slice(0, toldBefore).flatMap(({ program, action, phase, what }) => {
      if (phase !== 'acknowledged') return [];
      const status = instances.get(idOf(program))?.[0]?.status;
      if (action === 'start' && status === undefined)
        return [`the start of '${idOf(program)}' was acknowledged, and it is not there`];
      if (action === 'end' && status !== what)
        return [`a client was told that '${idOf(program)}' is ${what}, and it is ${status}`];
      return [];
    });
  });
}
