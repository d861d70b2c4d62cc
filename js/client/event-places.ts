// The places of event payloads, which a codec receives with each text.

import { Place } from '../values/codec-context.ts';
import type { HistoryEventKind } from './history.ts';

/** The fields of an event that determine the place of its payload. */
export interface PlacedEvent {
  readonly eventId: number;
  readonly kind: HistoryEventKind;
  readonly refId?: number | null;
  readonly name?: string | null;
  /** The metadata that the engine stores with the event, parsed. */
  readonly meta: Readonly<Record<string, unknown>>;
}

/** True for events whose payload belongs to the child of the event that they refer to. */
function isOfChild(kind: HistoryEventKind): boolean {
  return kind === 'ChildCompleted' || kind === 'ChildFailed';
}

/**
 * Returns the place of an event's payload.
 *
 * @param child - id of the child that the event refers to, when {@link isOfChild}
 */
function placeOfEvent(instance: string, execution: number, event: PlacedEvent, child = ''): Place {
  const { eventId, kind, meta } = event;
  const [refId, name] = [event.refId ?? 0, event.name ?? ''];
  switch (kind) {
    case 'ActivityScheduled':
      return Place.activity(instance, execution, eventId, 'input');
    case 'ActivityCompleted':
      return Place.activity(instance, execution, refId, 'output');
    case 'ActivityAttemptFailed':
    case 'ActivityFailed':
      return Place.activity(instance, execution, refId, 'error');
    case 'ChildScheduled':
    case 'InstanceStarted':
      return Place.input(String(meta.id), 1);
    case 'ChildCompleted':
      return Place.end(child, 'output');
    case 'ChildFailed':
      return Place.end(child, meta.failure === 'Terminated' ? 'termination' : 'error');
    case 'EventSent':
      return Place.mail(String(meta.instance), { kind: 'event', name });
    case 'QueueSent':
      return Place.mail(String(meta.instance), { kind: 'queue', name });
    case 'EventReceived':
      return Place.mail(instance, { kind: 'event', name });
    case 'QueueReceived':
      return Place.mail(instance, { kind: 'queue', name });
    case 'CancelRequested':
      return Place.ofInstance(instance, 'cancellation');
    case 'ExecutionContinuedAsNew':
      return Place.input(instance, execution + 1);
    case 'ExecutionCompleted':
      return Place.end(instance, 'output');
    case 'ExecutionFailed':
    case 'ExecutionCancelled':
      return Place.end(instance, 'error');
    case 'ExecutionTerminated':
      return Place.end(instance, 'termination');
    // All other kinds have no payload.
    default:
      return Place.input(instance, execution);
  }
}

/**
 * Places of the payloads of one execution. The values that children return belong to the children, whose ids are in the
 * events that scheduled them.
 */
export class EventPlaces {
  private readonly instance: string;
  private readonly execution: number;
  private readonly children = new Map<number, string>();

  constructor(instance: string, execution: number) {
    this.instance = instance;
    this.execution = execution;
  }

  /** Notes the id of the child that an event schedules, if it schedules one. */
  note({ eventId, kind, meta }: PlacedEvent): void {
    if (kind === 'ChildScheduled') this.children.set(eventId, String(meta.id));
  }

  /** Returns the number of the scheduling event that is needed for the place and was not noted, or `undefined`. */
  missing({ kind, refId }: Pick<PlacedEvent, 'kind' | 'refId'>): number | undefined {
    return isOfChild(kind) && refId != null && !this.children.has(refId) ? refId : undefined;
  }

  /** Returns the place of an event's payload. The event that scheduled it must have been noted. */
  of(event: PlacedEvent): Place {
    this.note(event);
    return placeOfEvent(this.instance, this.execution, event, this.children.get(event.refId ?? 0));
  }

  /** Place of the custom status that the execution began with. */
  get status(): Place {
    return Place.ofInstance(this.instance, 'status');
  }

  /** Returns the place of a value of the state that the execution began with. */
  stateOf(name: string): Place {
    return Place.ofState(this.instance, name);
  }
}
