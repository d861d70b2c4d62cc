// Instances and events for the page: each value is redacted first, and then converted to text.

import { Client } from '../client/client.ts';
import type { HistoryEvent, HistoryEventKind } from '../client/history.ts';
import type { InstanceDescription, OpenActivity, QueuePlace } from '../client/instance-description.ts';
import type { InstanceStatus } from '../client/instance-status.ts';
import type { LogLine } from '../client/logs.ts';
import type { StateValue } from '../client/state.ts';
import type { StreamEntry, StreamInfo, StreamReset } from '../client/streams.ts';
import type { Takeover } from '../client/takeovers.ts';
import type { Logger } from '../logging/logger.ts';
import { property } from '../util/show.ts';
import type {
  ActivityWait,
  EntryRow,
  EventRow,
  InstanceAnswer,
  InstanceRow,
  LogRow,
  PlaceRow,
  ReportAnswer,
  StateAnswer,
  StreamsAnswer,
  TakeoversAnswer,
  ValueText,
  WaitsAnswer,
} from './answers.ts';
import { entityNames } from './entities.ts';
import { factsOf } from './event-facts.ts';
import { awaitedTitleOf } from './event-titles.ts';
import type { DashboardOptions, ValuePlace } from './options.ts';
import { payloadWithoutSecret } from './token-secrets.ts';
import { valueText } from './value-text.ts';

/** Most characters that are shown of a value. */
export const SHOWN_MAX = {
  /** In a row of a list. */
  row: 200,
  /** In the waits of an instance, which are sent again after each change. */
  wait: 2_000,
  /** In the published values of an instance, which are sent again after each change. */
  published: 2_000,
  /** In all published values of an instance together. */
  state: 100_000,
  /** In an entry of a stream, of which many are sent together. */
  entry: 2_000,
  /** In the answer to a question, which is not stored for a later request. */
  answer: 1_000_000,
  /** On the page of its instance. */
  page: 20_000,
  /** On request of the whole value. */
  whole: 16 * 1024 * 1024,
} as const;

/** Most streams of an instance that are listed, because the list is sent again after each change. */
const STREAMS_MAX = 500;

export class Presenter {
  readonly #redact: DashboardOptions['redact'];
  readonly #entities: NonNullable<DashboardOptions['entities']>;
  readonly #logger: Logger;
  readonly #client: Client;

  constructor(client: Client, { redact, entities = [] }: DashboardOptions, logger: Logger) {
    this.#client = client;
    this.#redact = redact;
    this.#entities = entities;
    this.#logger = logger;
  }

  /** Returns a value as text; `undefined` when there is none. */
  value(value: unknown, place: ValuePlace, max: number): ValueText | undefined {
    if (value === undefined) return undefined;
    const shown = this.#redacted(value, place);
    return shown === undefined ? undefined : valueText(Client.inStoredForm(this.#client, shown), max);
  }

  /** Returns a text for a row of a list; `undefined` when there is none, or the redaction removed it. */
  note(text: string | undefined, place: ValuePlace): string | undefined {
    const shown = text === undefined ? undefined : this.#redacted(text, place);
    if (shown === undefined) return undefined;
    return firstOf(typeof shown === 'string' ? shown : valueText(shown, SHOWN_MAX.row).text);
  }

  /** Returns the first line of an error; `undefined` when the redaction removed it. */
  errorLine(error: Error, place: ValuePlace): string | undefined {
    return messageOf(this.#redacted(error, place));
  }

  row(instance: InstanceStatus): InstanceRow {
    const { id, name, version, status, executionId, createdAt, updatedAt, completedAt, parentId, priority, tags } =
      instance;
    const place = { instanceId: id, orchestration: name } as const;
    const customStatus = this.value(instance.customStatus, { ...place, kind: 'customStatus' }, SHOWN_MAX.row);
    const error = instance.error && this.errorLine(instance.error, { ...place, kind: 'error' });
    return {
      id,
      name,
      version,
      status,
      executionId,
      createdAtMs: createdAt.getTime(),
      updatedAtMs: updatedAt.getTime(),
      ...(completedAt === undefined ? {} : { completedAtMs: completedAt.getTime() }),
      ...(parentId === undefined ? {} : { parentId }),
      ...(priority === undefined ? {} : { priority }),
      ...(customStatus === undefined ? {} : { customStatus }),
      ...(error === undefined ? {} : { error }),
      tags,
    };
  }

  instance(instance: InstanceStatus): InstanceAnswer {
    const { error: _, ...row } = this.row(instance);
    const place = { instanceId: instance.id, orchestration: instance.name } as const;
    const customStatus = this.value(instance.customStatus, { ...place, kind: 'customStatus' }, SHOWN_MAX.page);
    const output = this.value(instance.output, { ...place, kind: 'output' }, SHOWN_MAX.page);
    const error = this.error(instance, SHOWN_MAX.page);
    const why =
      instance.status === 'Suspended' ? this.#redacted(instance.error, { ...place, kind: 'error' }) : undefined;
    const entity = entityNames(this.#entities, instance);
    return {
      ...row,
      customStatusVersion: instance.customStatusVersion,
      ...(customStatus === undefined ? {} : { customStatus }),
      ...(output === undefined ? {} : { output }),
      ...(error === undefined ? {} : { error }),
      ...(why instanceof Error ? { report: report(why) } : {}),
      ...(entity === undefined ? {} : { entity }),
    };
  }

  error({ id, name, status, error }: InstanceStatus, max: number): ValueText | undefined {
    if (error === undefined) return undefined;
    const shown = this.#redacted(error, { instanceId: id, orchestration: name, kind: 'error' });
    // The errors of these two states are made when the status is read, so their stacks say nothing.
    const isTold = shown === error && (status === 'Terminated' || status === 'Suspended');
    return shown === undefined ? undefined : isTold ? { text: error.message, isWhole: true } : valueText(shown, max);
  }

  waits({ status, activities, timers, children, messages, fibers, ...rest }: InstanceDescription): WaitsAnswer {
    const { openOperations, openFibers } = rest;
    return {
      executionId: status.executionId,
      ...beginOf(status, rest),
      activities: activities.map((activity) => this.#activity(activity, status)),
      timers: timers.map(({ eventId, dueAt, fiber }) => ({ eventId, dueAtMs: dueAt.getTime(), fiber })),
      children: children.map(({ eventId, name, instanceId, fiber }) => ({ eventId, name, instanceId, fiber })),
      messages: messages.map((message) => {
        const title = awaitedTitleOf(message);
        return title === undefined ? message : { ...message, title };
      }),
      fibers,
      openOperations,
      openFibers,
    };
  }

  state(values: ReadonlyMap<string, StateValue>, instance: InstanceStatus): StateAnswer {
    let left: number = SHOWN_MAX.state;
    const items = Array.from(values, ([name, { value: published, version }]) => {
      const value = this.published(published, name, instance, Math.min(left, SHOWN_MAX.published));
      left -= value?.text.length ?? 0;
      return { name, version, ...(value === undefined ? {} : { value }) };
    });
    return { items };
  }

  /** Returns a published value as text; `undefined` when the redaction removed it. */
  published(value: unknown, name: string, instance: InstanceStatus, max: number): ValueText | undefined {
    return this.#named(value, { instanceId: instance.id, orchestration: instance.name, kind: 'state', name }, max);
  }

  streams(streams: readonly StreamInfo[]): StreamsAnswer {
    const items = streams.slice(0, STREAMS_MAX);
    return { items, others: streams.length - items.length };
  }

  entry(entry: StreamEntry | StreamReset, stream: string, instance: InstanceStatus): EntryRow {
    const { index, time, activity, attempt } = entry;
    const value = entry.reset ? undefined : this.entryValue(entry, stream, instance, SHOWN_MAX.entry);
    return {
      index,
      atMs: time.getTime(),
      ...(activity === undefined ? {} : { activity }),
      ...(attempt === undefined ? {} : { attempt }),
      ...(value === undefined ? {} : { value }),
      ...(entry.reset ? { resetFrom: entry.from } : {}),
    };
  }

  /** Returns the value of an entry as text; `undefined` when the redaction removed it. */
  entryValue({ value }: StreamEntry, name: string, instance: InstanceStatus, max: number): ValueText | undefined {
    return this.#named(value, { instanceId: instance.id, orchestration: instance.name, kind: 'stream', name }, max);
  }

  /** Returns the answer of a handler as text, or the error that it threw; `undefined` when the redaction removed it. */
  answer(
    value: unknown,
    kind: 'answer' | 'error',
    name: string,
    { id, name: orchestration }: Pick<InstanceStatus, 'id' | 'name'>,
  ): ValueText | undefined {
    return this.#named(value, { instanceId: id, orchestration, kind, name }, SHOWN_MAX.answer);
  }

  takeovers(takeovers: readonly Takeover[]): TakeoversAnswer {
    const items = takeovers.map(({ time, worker, executionId, eventId, activityEventId }) => ({
      executionId,
      eventId,
      atMs: time.getTime(),
      worker: worker.name ?? worker.id,
      ...(activityEventId === undefined ? {} : { activityEventId }),
    }));
    return { items };
  }

  #activity(
    { scheduledAt, retryAt, lastError: error, heartbeat, place: queued, ...activity }: OpenActivity,
    { id, name: orchestration }: InstanceStatus,
  ): ActivityWait {
    const { eventId, name } = activity;
    const place = { instanceId: id, orchestration, eventId, name } as const;
    const lastError = this.value(error, { ...place, kind: 'error' }, SHOWN_MAX.wait);
    const details = this.value(heartbeat?.details, { ...place, kind: 'heartbeat' }, SHOWN_MAX.wait);
    return {
      ...activity,
      ...(queued === undefined || queued.state === 'running' ? {} : { place: placeOf(queued) }),
      scheduledAtMs: scheduledAt.getTime(),
      ...(retryAt === undefined ? {} : { retryAtMs: retryAt.getTime() }),
      ...(lastError === undefined ? {} : { lastError }),
      ...(heartbeat === undefined
        ? {}
        : { heartbeat: { atMs: heartbeat.at.getTime(), ...(details === undefined ? {} : { details }) } }),
    };
  }

  event(event: HistoryEvent, instanceId: string, max: number = SHOWN_MAX.row): EventRow {
    const value = this.eventValue(event, instanceId, max);
    return { ...factsOf(event), ...(value === undefined ? {} : { value }) };
  }

  eventValue(event: HistoryEvent, instanceId: string, max: number): ValueText | undefined {
    const { eventId, kind, name } = event;
    return this.value(
      payloadWithoutSecret(event),
      { instanceId, kind: VALUE_OF[kind] ?? 'message', eventId, ...(name === undefined ? {} : { name }) },
      max,
    );
  }

  line({ executionId, time, level, message, fields }: LogLine, instanceId: string): LogRow {
    const text = this.#redacted(message, { instanceId, kind: 'logMessage' }) ?? '';
    const values = this.value(fields, { instanceId, kind: 'logFields' }, SHOWN_MAX.page);
    return {
      executionId,
      atMs: time.getTime(),
      level,
      message: typeof text === 'string' ? text.toWellFormed() : valueText(text, SHOWN_MAX.page).text,
      ...(values === undefined ? {} : { fields: values }),
    };
  }

  /** Returns a value that an orchestration named, which may be `undefined`. */
  #named(value: unknown, place: ValuePlace, max: number): ValueText | undefined {
    return value === undefined ? { text: 'undefined', isWhole: true } : this.value(value, place, max);
  }

  #redacted(value: unknown, place: ValuePlace): unknown {
    if (this.#redact === undefined) return value;
    try {
      return this.#redact(value, place);
    } catch (error) {
      this.#logger.error(
        { instanceId: place.instanceId, error: String(error) },
        'the redact hook of the dashboard threw an error',
      );
      return '(the redact hook threw)';
    }
  }
}

/** The kind of the value of an event, unless it is a message. */
const VALUE_OF: Partial<Record<HistoryEventKind, ValuePlace['kind']>> = {
  ExecutionStarted: 'input',
  ActivityScheduled: 'input',
  ActivityCompleted: 'output',
  ActivityAttemptFailed: 'error',
  ActivityFailed: 'error',
  ChildScheduled: 'input',
  ChildCompleted: 'output',
  ChildFailed: 'error',
  InstanceStarted: 'input',
  CancelRequested: 'reason',
  ExecutionCompleted: 'output',
  ExecutionFailed: 'error',
  ExecutionCancelled: 'error',
  ExecutionContinuedAsNew: 'input',
  ExecutionTerminated: 'reason',
};

/** Returns a text as far as a row of a list shows it. */
function firstOf(text: string): string {
  return (text.length > SHOWN_MAX.row ? `${text.slice(0, SHOWN_MAX.row)}…` : text).toWellFormed();
}

function messageOf(error: unknown): string | undefined {
  if (error === undefined) return undefined;
  const message = property(error, 'message');
  const [line = ''] = (typeof message === 'string' ? message : valueText(error, SHOWN_MAX.row).text).split('\n');
  return line.slice(0, SHOWN_MAX.row).toWellFormed();
}

function report(error: Error): ReportAnswer {
  const code = property(error, 'code');
  const fields = Object.entries({ ...error, ...(property(error, 'report') as object | undefined) })
    .filter(([name, value]) => !['code', 'message', 'report', 'cause'].includes(name) && value !== undefined)
    .map(([name, value]) => ({
      name,
      value: typeof value === 'string' ? { text: value, isWhole: true } : valueText(value, SHOWN_MAX.page),
    }));
  return { code: typeof code === 'string' ? code : error.name, message: error.message, fields };
}

/** Returns what an instance waits for that has not begun. */
function beginOf(
  { status }: InstanceStatus,
  { queue, dueAt }: Pick<InstanceDescription, 'queue' | 'dueAt'>,
): Pick<WaitsAnswer, 'queue' | 'startsAtMs'> {
  if (queue !== undefined && queue.state !== 'running') {
    return { queue: { name: queue.name, ...placeOf(queue) } };
  }
  return status === 'Pending' && dueAt !== undefined ? { startsAtMs: dueAt.getTime() } : {};
}

function placeOf({ key, state, since, paused }: QueuePlace): PlaceRow {
  const pausedMs = paused?.since.getTime();
  return {
    ...(key === undefined ? {} : { key }),
    state,
    sinceMs: since.getTime(),
    ...(pausedMs === undefined ? {} : { pausedMs }),
  };
}
