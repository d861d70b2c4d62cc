// The engine of one execution that has a history and nothing else.

import { COMPLETED, CONTINUED_AS_NEW, type Outcome } from '../driver/command.ts';
import type { Delivery } from '../driver/delivery.ts';
import type { WaitChanges } from '../driver/waits.ts';
import type { NativeErrorData } from '../values/error-data.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import { addon } from './addon.ts';
import { turnCalls } from './calls.ts';
import { NativeEngine } from './engine.ts';
import { Frame } from './frame.ts';
import { guard } from './native-error.ts';

/** It keeps facts that a store would have been told. */
export class ReplayEngine extends NativeEngine {
  /**
   * Names and operations that the code waited for at its last wait. Activities and children are not among the
   * operations.
   */
  readonly awaited = { events: new Set<string>(), queues: new Set<string>(), operations: new Set<number>() };
  /** Text of the error that the code ended with; `null` if it has not ended with one. */
  thrown: string | null = null;
  /** Reason why the code must not go on; `null` if it may. */
  refusal: NativeErrorData | null = null;
  /**
   * Appends events that were written since, for the code to go on. `events` is JSON as for {@link open}. Returns
   * `false` if the code has gone beyond the history that it had: it must be taken through all of it again.
   *
   * @throws PerdureError when these events do not follow
   */
  readonly extend: (events: string) => boolean;
  private readonly mismatch: (source: string) => string | null;

  /**
   * @param events - JSON of the events of an export
   * @throws PerdureError when these are no history
   */
  static readonly open = guard(
    (instanceId: string, executionId: number, events: string, texts: StoredTexts): ReplayEngine =>
      new ReplayEngine(instanceId, executionId, events, texts),
  );

  private constructor(instanceId: string, executionId: number, events: string, texts: StoredTexts) {
    const frame = new Frame();
    const native = new addon.NativeReplay(instanceId, executionId, events, frame.numbers);
    // A replay has no store in which it could be suspended, or a turn of it be kept.
    super({ calls: turnCalls(native, { suspend: () => {}, rest: () => false }), frame }, 0, texts);
    this.extend = guard((events: string) => native.extend(events));
    this.mismatch = (source) => native.mismatch(source);
  }

  override next(changes: WaitChanges | null): Delivery | null {
    this.noteWaits(changes);
    return super.next(changes);
  }

  /** Notes the changes to what is awaited. */
  noteWaits(changes: WaitChanges | null): void {
    const { events, queues, operations } = this.awaited;
    note(events, changes?.events, changes?.eventsGone);
    note(queues, changes?.queues, changes?.queuesGone);
    note(operations, changes?.operations, changes?.operationsGone);
  }

  override finish(outcome: Outcome): void {
    super.finish(outcome);
    if (outcome.kind !== COMPLETED && outcome.kind !== CONTINUED_AS_NEW) this.thrown = outcome.payload;
  }

  override suspend(source: string, report: string | null): void {
    const text = this.mismatch(source) ?? report;
    this.refusal = text === null ? { code: 'SUSPENDED', message: source } : (JSON.parse(text) as NativeErrorData);
  }
}

function note<K>(awaited: Set<K>, more: readonly K[] | null | undefined, gone: readonly K[] | null | undefined): void {
  for (const key of gone ?? []) awaited.delete(key);
  for (const key of more ?? []) awaited.add(key);
}
