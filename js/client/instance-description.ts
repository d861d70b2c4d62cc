// The waits of an instance, from the text that its last turn left in the store.

import type { AwaitedThing, FiberWaits } from '../driver/fiber-waits.ts';
import { describeMessage } from '../driver/waits.ts';
import type { StorePort } from '../store/providers.ts';
import { Place } from '../values/codec-context.ts';
import { fromErrorPayload, fromPayload } from '../values/payload.ts';
import { type EventData, eventsByIds } from './history.ts';
import { hasEnded, type InstanceStatus, type StatusData, statusOf } from './instance-status.ts';
import type { QueueInfo } from './queues.ts';

// The command line shows a description in the same words, and knows nothing of the driver.
export { describeMessage };

/** A worker, by its id and by the `workerName` of its runtime. The name is absent once the worker has left. */
export interface WorkerName {
  readonly id: string;
  readonly name?: string;
}

/** An activity that has not settled. */
export interface OpenActivity {
  /** Number of the event that scheduled it. */
  readonly eventId: number;
  readonly name: string;
  readonly scheduledAt: Date;
  /**
   * `'queued'`: it waits for a worker of its queue, or for the instance to be taken by a worker. `'retrying'`: its next
   * attempt begins at `retryAt`. `'running'`: a worker has it, and runs it or waits for a free slot.
   */
  readonly state: 'queued' | 'retrying' | 'running';
  /** Number of the attempt that runs or comes next, from 1. */
  readonly attempt: number;
  /** The error of the last failed attempt. */
  readonly lastError?: Error;
  /** Earliest start of the attempt, if one has failed before. */
  readonly retryAt?: Date;
  /** The details of the last heartbeat, and the time at which they were stored. */
  readonly heartbeat?: { readonly details: unknown; readonly at: Date };
  /** The queue, if the attempt is offered to other workers. */
  readonly queue?: string;
  /** Its place in the queue, if the queue is set. */
  readonly place?: QueuePlace;
  /** The session of the activity, while the attempt is offered or runs. */
  readonly session?: string;
  /** The worker that has the attempt. */
  readonly worker?: WorkerName;
  /** Number of the fiber that scheduled it, 0 for the main fiber. */
  readonly fiber: number;
}

/** A timer that has not fired. */
export interface OpenTimer {
  /** Number of the event that created it. */
  readonly eventId: number;
  readonly dueAt: Date;
  readonly fiber: number;
}

/** A child that has not ended. */
export interface OpenChild {
  /** Number of the event that scheduled it. */
  readonly eventId: number;
  /** Name of its orchestration. */
  readonly name: string;
  readonly instanceId: string;
  readonly scheduledAt: Date;
  readonly fiber: number;
}

/** A message that a fiber waits for. */
export interface AwaitedMessage {
  readonly kind: 'event' | 'queue';
  /** Name of the event or queue. */
  readonly name: string;
  readonly fiber: number;
}

/** The waits of one fiber. */
export interface FiberWait {
  /** Number of the fiber in order of its start, 0 for the main fiber. */
  readonly fiber: number;
  /** Its name: a label, or the name of its function. */
  readonly name?: string;
  /** The things that it waits for, as words for people: `activity 'charge'`, `event 'approve'`, `fiber 3`. */
  readonly waitsFor: readonly string[];
}

/** The place of an instance, or of an attempt of an activity, in its queue. */
export interface QueuePlace {
  /** Its key in the queue. */
  readonly key?: string;
  /**
   * `'delayed'`: its start time, or the time of a further attempt, has not come. `'waiting'`: it is in line for a slot.
   * `'held'`: its turn had come while its key had no slot or token. `'suspended'`: the instance was suspended before it
   * had a slot. `'running'`: it has a slot, which it keeps until it ends.
   */
  readonly state: 'delayed' | 'waiting' | 'held' | 'suspended' | 'running';
  /** Time at which it came into line, or will. */
  readonly since: Date;
  /** Absent: the queue is not paused. */
  readonly paused?: QueueInfo['paused'];
}

/** The queue of an instance, with its place there. */
export interface InstanceQueue extends QueuePlace {
  /** Name of the queue. */
  readonly name: string;
}

/** The waits of an instance, as its last stored turn left them. None, if the instance has ended or is Pending. */
export interface InstanceDescription {
  readonly status: InstanceStatus;
  /** The worker that owns the instance now. */
  readonly worker?: WorkerName;
  /** Its queue, if it is in one and has not ended. */
  readonly queue?: InstanceQueue;
  /** Time at which it runs next by itself, if no worker owns it: its start time, or that of a timer. */
  readonly dueAt?: Date;
  /** Number of messages that wait for the instance. */
  readonly unread: number;
  readonly activities: readonly OpenActivity[];
  readonly timers: readonly OpenTimer[];
  readonly children: readonly OpenChild[];
  readonly messages: readonly AwaitedMessage[];
  /** The fibers that wait. Empty if only the main fiber is there and waits for operations alone. */
  readonly fibers: readonly FiberWait[];
  /** Number of all open operations, of which at most 64 are named. */
  readonly openOperations: number;
  /** Number of all fibers that have not ended. At most 64 are named, with at most 64 waits in all. */
  readonly openFibers: number;
}

interface WorkerData {
  readonly id: string;
  readonly name: string | null;
}

interface PlaceData {
  readonly name: string;
  readonly key: string;
  readonly state: QueuePlace['state'];
  readonly sinceMs: number;
  readonly pausedMs: number | null;
}

/** The open work of an instance, as the addon returns it. */
interface OpenWorkData {
  readonly status: StatusData;
  readonly openWork: string | null;
  readonly nextEventId: number;
  readonly unread: number;
  readonly worker: WorkerData | null;
  readonly queue: PlaceData | null;
  readonly dueMs: number | null;
  readonly heartbeats: readonly (readonly [scheduled: number, details: string | null, timeMs: number])[];
  readonly tasks: readonly {
    readonly scheduled: number;
    readonly attempt: number;
    readonly queue: string;
    readonly session: string | null;
    readonly worker: WorkerData | null;
    readonly place: PlaceData | null;
  }[];
}

/** The text of a turn: see `crates/engine/src/open_work.rs`. */
interface OpenWorkText {
  readonly open: readonly number[];
  readonly count: number;
  readonly failed?: readonly (readonly [scheduled: number, event: number, attempt: number, notBeforeMs: number])[];
  readonly fibers?: FiberWaits;
}

const NOTHING: OpenWorkText = { open: [], count: 0 };

/** The kinds of events that schedule an operation which stays open. */
const SCHEDULES = new Set<string>(['ActivityScheduled', 'TimerCreated', 'ChildScheduled']);

/** Returns the description of an instance, or `null` when there is none of that id. */
export async function describeInstance(port: StorePort, id: string): Promise<InstanceDescription | null> {
  const reply = JSON.parse((await port.request({ kind: 'openWork', id })) ?? 'null') as OpenWorkData | null;
  if (reply === null) return null;
  const status = statusOf(reply.status, port.texts);
  const written = hasEnded(status.status) ? NOTHING : writtenIn(reply);
  const failures = (written.failed ?? []).map(([, event]) => event);
  const events = await eventsByIds(port, id, status.executionId, [...written.open, ...failures]);
  const isImplied = reply.openWork === null && written.open.length > 0;
  const text = isImplied && !SCHEDULES.has(events.get(reply.nextEventId - 1)?.kind ?? '') ? NOTHING : written;
  return new Description(port, reply, status, text, events).all;
}

/**
 * Returns the open work that the last turn stored. A turn that waits for the last thing that it scheduled, and for
 * nothing else, stores no text. So without a text, the last event is open if it is a schedule.
 */
function writtenIn({ openWork, nextEventId }: OpenWorkData): OpenWorkText {
  return openWork === null ? { open: [nextEventId - 1], count: 1 } : (JSON.parse(openWork) as OpenWorkText);
}

/** Puts the parts of a description together. */
class Description {
  private readonly port: StorePort;
  private readonly data: OpenWorkData;
  private readonly status: InstanceStatus;
  private readonly text: OpenWorkText;
  private readonly events: ReadonlyMap<number, EventData>;

  constructor(
    port: StorePort,
    data: OpenWorkData,
    status: InstanceStatus,
    text: OpenWorkText,
    events: ReadonlyMap<number, EventData>,
  ) {
    this.port = port;
    this.data = data;
    this.status = status;
    this.text = text;
    this.events = events;
  }

  get all(): InstanceDescription {
    const { data, text } = this;
    const activities: OpenActivity[] = [];
    const timers: OpenTimer[] = [];
    const children: OpenChild[] = [];
    for (const eventId of text.open) {
      const event = this.events.get(eventId);
      const meta = metaOf(event);
      const fiber = meta.fiber ?? 0;
      if (event?.kind === 'ActivityScheduled') activities.push(this.activity(event, fiber));
      else if (event?.kind === 'TimerCreated') timers.push({ eventId, dueAt: new Date(meta.fireAtMs ?? 0), fiber });
      else if (event?.kind === 'ChildScheduled')
        children.push({
          eventId,
          name: event.name ?? '',
          instanceId: meta.id ?? '',
          scheduledAt: new Date(event.timeMs),
          fiber,
        });
    }
    const waits = text.fibers?.waits ?? [];
    return {
      status: this.status,
      ...workerOf(data.worker),
      ...(data.queue === null || hasEnded(this.status.status)
        ? {}
        : { queue: { name: data.queue.name, ...placeOf(data.queue) } }),
      ...(data.dueMs === null ? {} : { dueAt: new Date(data.dueMs) }),
      unread: data.unread,
      activities,
      timers,
      children,
      messages: waits.flatMap(([fiber, , awaited]) => awaited.flatMap((thing) => messageOf(thing, fiber))),
      fibers: waits.map(([fiber, name, awaited]) => ({
        fiber,
        ...(name === null ? {} : { name }),
        waitsFor: awaited.map((thing) => this.describe(thing)),
      })),
      openOperations: text.count,
      openFibers: text.fibers?.count ?? (text.count === 0 ? 0 : 1),
    };
  }

  private activity({ eventId, name, timeMs }: EventData, fiber: number): OpenActivity {
    const { data, status } = this;
    const failed = this.text.failed?.find(([scheduled]) => scheduled === eventId);
    const task = data.tasks.find(({ scheduled }) => scheduled === eventId);
    const [, , attempt = 1, retryAtMs] = failed ?? [];
    const worker = task === undefined ? data.worker : task.worker;
    const isEarly = retryAtMs !== undefined && retryAtMs > Date.now();
    const isHeld = worker !== null && status.status !== 'Suspended';
    return {
      eventId,
      name: name ?? '',
      scheduledAt: new Date(timeMs),
      state: isEarly ? 'retrying' : isHeld ? 'running' : 'queued',
      attempt,
      ...(failed === undefined ? {} : this.lastError(eventId, failed[1])),
      ...(retryAtMs === undefined ? {} : { retryAt: new Date(retryAtMs) }),
      ...this.heartbeat(eventId),
      ...(task === undefined ? {} : { queue: task.queue }),
      ...(task === undefined || task.place === null ? {} : { place: placeOf(task.place) }),
      ...(typeof task?.session === 'string' ? { session: task.session } : {}),
      ...workerOf(worker),
      fiber,
    };
  }

  private lastError(scheduled: number, eventId: number): { lastError?: Error } {
    const payload = this.events.get(eventId)?.payload;
    if (payload === undefined || payload === null) return {};
    const { id, executionId } = this.status;
    const place = Place.activity(id, executionId, scheduled, 'error');
    const { texts } = this.port;
    return { lastError: fromErrorPayload(texts.read(payload, `payload of event ${eventId}`, place), texts.types) };
  }

  private heartbeat(scheduled: number): Pick<OpenActivity, 'heartbeat'> {
    const found = this.data.heartbeats.find(([of]) => of === scheduled);
    if (found === undefined) return {};
    const [, details, timeMs] = found;
    const { id, executionId } = this.status;
    const place = Place.activity(id, executionId, scheduled, 'heartbeat');
    const { texts } = this.port;
    const text = texts.read(details, 'heartbeat', place);
    return { heartbeat: { details: fromPayload(text, 'heartbeat', texts.types), at: new Date(timeMs) } };
  }

  /** Returns the words for something that a fiber waits for. */
  private describe(thing: AwaitedThing): string {
    if (typeof thing === 'number') return this.operation(thing);
    const [kind, what] = thing;
    switch (kind) {
      case 'event':
      case 'queue':
        return describeMessage({ kind, name: what });
      case 'fiber':
        return `fiber ${what}`;
      case 'other':
        return String(what);
      default:
        return kind satisfies never;
    }
  }

  private operation(eventId: number): string {
    const event = this.events.get(eventId);
    const { id, fireAtMs } = metaOf(event);
    switch (event?.kind) {
      case 'ActivityScheduled':
        return `activity '${event.name}'`;
      case 'TimerCreated':
        return `timer due at ${new Date(fireAtMs ?? 0).toISOString()}`;
      case 'ChildScheduled':
        return `child '${id}'`;
      default:
        return `operation ${eventId}`;
    }
  }
}

/** The facts of a scheduling event. */
interface EventMeta {
  readonly fiber?: number;
  readonly fireAtMs?: number;
  readonly id?: string;
}

function metaOf(event: EventData | undefined): EventMeta {
  return JSON.parse(event?.meta ?? '{}') as EventMeta;
}

function workerOf(worker: WorkerData | null): { worker?: WorkerName } {
  if (worker === null) return {};
  return { worker: { id: worker.id, ...(worker.name === null ? {} : { name: worker.name }) } };
}

function placeOf({ key, state, sinceMs, pausedMs }: PlaceData): QueuePlace {
  return {
    ...(key === '' ? {} : { key }),
    state,
    since: new Date(sinceMs),
    ...(pausedMs === null ? {} : { paused: { since: new Date(pausedMs) } }),
  };
}

function messageOf(thing: AwaitedThing, fiber: number): AwaitedMessage[] {
  if (typeof thing === 'number') return [];
  const [kind, name] = thing;
  return kind === 'event' || kind === 'queue' ? [{ kind, name, fiber }] : [];
}
