// Whose values the payloads of events are, as the codec of their store is told.

import { Place } from '../values/codec-context.ts';
import type { HistoryEventKind } from './history.ts';

/** What of an event says whose value its payload is. */
export interface PlacedEvent {
  readonly eventId: number;
  readonly kind: HistoryEventKind;
  readonly refId?: number | null;
  readonly name?: string | null;
  /** What the engine keeps with it, read. */
  readonly meta: Readonly<Record<string, unknown>>;
}

/** Kinds of events whose payload belongs to the child of the event that they refer to. */
function isOfChild(kind: HistoryEventKind): boolean {
  return kind === 'ChildCompleted' || kind === 'ChildFailed';
}

/**
 * Whose value the payload of an event is.
 *
 * @param child - id of the child that the event is about, when {@link isOfChild}
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
      return Place.mail(String(meta.instance), `e${name}`);
    case 'QueueSent':
      return Place.mail(String(meta.instance), `q${name}`);
    case 'EventReceived':
      return Place.mail(instance, `e${name}`);
    case 'QueueReceived':
      return Place.mail(instance, `q${name}`);
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
    // All others have no payload.
    default:
      return Place.input(instance, execution);
  }
}

/** Those of the events of one execution. The values that children leave are the children's, whose ids are in the events that scheduled them. */
export class EventPlaces {
  private readonly instance: string;
  private readonly execution: number;
  private readonly children = new Map<number, string>();

  constructor(instance: string, execution: number) {
    this.instance = instance;
    this.execution = execution;
  }

  /** Note whom an event schedules, if it is a child. */
  note({ eventId, kind, meta }: PlacedEvent): void {
    if (kind === 'ChildScheduled') this.children.set(eventId, String(meta.id));
  }

  /** Whether the event that says whose value it is was not noted: which one that is. */
  missing({ kind, refId }: Pick<PlacedEvent, 'kind' | 'refId'>): number | undefined {
    return isOfChild(kind) && refId != null && !this.children.has(refId) ? refId : undefined;
  }

  /** Whose value the payload of an event is; the one that scheduled it was noted. */
  of(event: PlacedEvent): Place {
    this.note(event);
    return placeOfEvent(this.instance, this.execution, event, this.children.get(event.refId ?? 0));
  }

  /** The custom status that the execution began with. */
  get status(): Place {
    return Place.ofInstance(this.instance, 'status');
  }
}
