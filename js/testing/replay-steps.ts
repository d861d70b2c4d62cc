// The steps of a replay: each event as the code passes it, on the stack of the code, and the event after which it goes no further.

import type { ReplayEngine } from '../binding/binding.ts';
import type { EventPlaces } from '../client/event-places.ts';
import { type ExportedEvent, type HistoryEvent, readEvent } from '../client/history.ts';
import type { StoredTexts } from '../values/stored-text.ts';

/** Told of an event that the code has come to. */
export type EventListener = (event: HistoryEvent) => void;

/** Calls in which the code passes events. */
const PASSING = [
  'scheduleActivity',
  'createTimer',
  'createTimerAt',
  'graceTimer',
  'startInstance',
  'sendMessage',
  'cancelOperation',
  'patched',
  'finish',
  'continueAsNew',
] as const;

export class ReplaySteps {
  /** How many events the code has passed. */
  passed = 0;
  private readonly engine: ReplayEngine;
  private readonly events: readonly ExportedEvent[];
  private readonly texts: StoredTexts;
  private readonly places: EventPlaces;
  private readonly until: number;
  private readonly listener: EventListener | undefined;
  private thrown: { readonly error: unknown } | null = null;

  /**
   * Watch an engine.
   *
   * @param until - the code goes no further than to where it waits with this event behind it
   */
  constructor(
    engine: ReplayEngine,
    events: readonly ExportedEvent[],
    texts: StoredTexts,
    places: EventPlaces,
    until: number,
    listener: EventListener | undefined,
  ) {
    this.engine = engine;
    this.events = events;
    this.texts = texts;
    this.places = places;
    this.until = until;
    this.listener = listener;
    for (const name of PASSING) {
      const call = engine[name].bind(engine) as (...args: unknown[]) => never;
      engine[name] = (...args: unknown[]) => {
        const result = call(...args);
        this.look();
        return result;
      };
    }
    const next = engine.next.bind(engine);
    engine.next = (...waits) => {
      if (this.passed >= until || this.thrown !== null) {
        engine.noteWaits(...waits);
        return null;
      }
      const delivery = next(...waits);
      this.look();
      // What the listener stops the replay with comes before what the code would make of the delivery.
      return this.thrown === null ? delivery : null;
    };
    this.look();
  }

  /** @throws what the listener has thrown */
  end(): void {
    // A termination comes from outside: it is behind the code wherever that stands.
    const isTerminated = this.events.at(-1)?.kind === 'ExecutionTerminated' && this.engine.refusal === null;
    if (isTerminated && this.passed < this.until) this.pass(this.events.length);
    if (this.thrown !== null) throw this.thrown.error;
  }

  /** What the listener throws is not for the code, which could catch it. */
  private look(): void {
    this.pass(Math.min(this.engine.historyLength(), this.events.length));
  }

  private pass(length: number): void {
    while (this.passed < length) {
      const event = this.events[this.passed] as ExportedEvent;
      this.passed += 1;
      if (this.listener === undefined || this.thrown !== null) continue;
      try {
        this.listener(readEvent(event, this.texts, this.places));
      } catch (error) {
        this.thrown = { error };
      }
    }
  }
}
