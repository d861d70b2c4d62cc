// The steps of a replay: each event as the code passes it, on the stack of the code, and the event after which the
// replay goes no further.

import type { ReplayEngine } from '../binding/replay-engine.ts';
import type { EventPlaces } from '../client/event-places.ts';
import { type ExportedEvent, type HistoryEvent, readEvent } from '../client/history.ts';
import type { StoredTexts } from '../values/stored-text.ts';

/** Receives an event that the code has come to. */
export type EventListener = (event: HistoryEvent) => void;

/** Calls in which the code passes events. */
const PASSING = ['issue', 'graceTimer', 'patched', 'drawn', 'finish'] as const;

export class ReplaySteps {
  /** Number of events that the code has passed. */
  passed = 0;
  private readonly engine: ReplayEngine;
  private readonly events: readonly ExportedEvent[];
  private readonly texts: StoredTexts;
  private readonly places: EventPlaces;
  private readonly until: number;
  private readonly listener: EventListener | undefined;
  private thrown: { readonly error: unknown } | null = null;

  /**
   * Watches an engine.
   *
   * @param until - the code goes no further than its first wait after this event
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
    engine.next = (changes) => {
      if (this.passed >= until || this.thrown !== null) {
        engine.noteWaits(changes);
        return null;
      }
      const delivery = next(changes);
      this.look();
      // An error of the listener stops the replay before the code acts on the delivery.
      return this.thrown === null ? delivery : null;
    };
    this.look();
  }

  /** @throws the listener's error */
  end(): void {
    // A termination comes from outside, so it follows the code's last event at any position of the code.
    const isTerminated = this.events.at(-1)?.kind === 'ExecutionTerminated' && this.engine.refusal === null;
    if (isTerminated && this.passed < this.until) this.pass(this.events.length);
    if (this.thrown !== null) throw this.thrown.error;
  }

  /** Passes events. The listener's errors are kept from the code, which could catch them. */
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
