// The rules that hold for every history, with any workers that wrote it and any number of kills.

import type { HistoryEvent, InstanceStatus } from 'perdure';

/** The state of an execution: the instance's status, or `ContinuedAsNew` if another execution followed. */
type ExecutionState = InstanceStatus['status'] | 'ContinuedAsNew';

const TERMINAL: Readonly<Record<string, ExecutionState>> = {
  ExecutionCompleted: 'Completed',
  ExecutionFailed: 'Failed',
  ExecutionCancelled: 'Cancelled',
  ExecutionTerminated: 'Terminated',
  ExecutionContinuedAsNew: 'ContinuedAsNew',
};

/** Kinds of events that settle the operation they refer to. */
const SETTLES = new Set([
  'ActivityCompleted',
  'ActivityFailed',
  'TimerFired',
  'ChildCompleted',
  'ChildFailed',
  'OperationConfirmed',
  'OperationRefused',
  'OperationCancelled',
]);

/** Starts and messages that are committed together with the turn. */
const SENT = ['InstanceStarted', 'EventSent', 'QueueSent'];

/** Kinds of events that each kind may refer to. */
const SCHEDULES: Readonly<Record<string, readonly string[]>> = {
  ActivityCompleted: ['ActivityScheduled'],
  ActivityFailed: ['ActivityScheduled'],
  ActivityAttemptFailed: ['ActivityScheduled'],
  TimerFired: ['TimerCreated'],
  ChildCompleted: ['ChildScheduled'],
  ChildFailed: ['ChildScheduled'],
  OperationConfirmed: SENT,
  OperationRefused: ['ChildScheduled', ...SENT],
  OperationCancelled: ['ActivityScheduled', 'TimerCreated', 'ChildScheduled', ...SENT],
};

/** Returns the inputs of the scheduled activities, in order. */
export function scheduled(history: readonly HistoryEvent[]): unknown[] {
  return history.filter(({ kind }) => kind === 'ActivityScheduled').map(({ payload }) => payload);
}

export function kinds(history: readonly HistoryEvent[]): string[] {
  return history.map((event) => event.kind);
}

/**
 * Returns every rule that a history breaks, as a sentence (testing.md, S3, S4, S7): the ids are 1..n, one start is
 * at the beginning, one terminal event that agrees with the status is at the end, and each completion refers to one
 * earlier schedule.
 */
export function historyViolations(history: readonly HistoryEvent[], status: ExecutionState): string[] {
  const violations: string[] = [];
  const settled = new Set<number>();
  for (const [i, event] of history.entries()) {
    const { eventId, kind, refId } = event;
    const at = `event ${eventId} (${kind})`;
    if (eventId !== i + 1) violations.push(`${at} stands in place ${i + 1}`);
    if ((kind === 'ExecutionStarted') !== (i === 0)) violations.push(`${at} is in place ${i + 1}`);
    if (kind in TERMINAL && i !== history.length - 1) violations.push(`${at} is followed by others`);
    const schedules = SCHEDULES[kind];
    if (schedules === undefined) continue;
    const schedule = refId === undefined || refId >= eventId ? undefined : history[refId - 1];
    if (schedule === undefined || !schedules.includes(schedule.kind)) {
      violations.push(
        `${at} refers to ${schedule === undefined ? `event ${refId}, which is not before it` : `a ${schedule.kind}`}`,
      );
      continue;
    }
    if (settled.has(schedule.eventId)) violations.push(`${at} comes after event ${schedule.eventId} was settled`);
    if (SETTLES.has(kind)) settled.add(schedule.eventId);
  }
  const last = history.at(-1);
  const ended = last === undefined ? undefined : TERMINAL[last.kind];
  const isTerminal = Object.values(TERMINAL).includes(status);
  if (isTerminal ? ended !== status : ended !== undefined) {
    violations.push(`the status is ${status} and the last event ${last?.kind ?? 'missing'}`);
  }
  return violations;
}
