// The subject of a matcher: an instance by its handle, or its exported history.

import type { Client } from '../client/client.ts';
import { InstanceHandle } from '../client/handle.ts';
import { type HistoryEvent, type HistoryExport, readEvent } from '../client/history.ts';
import { boundedInspect } from '../util/bounded-inspect.ts';
import { isInstance, isRecord, show } from '../util/show.ts';
import { fromErrorPayload } from '../values/payload.ts';
import { StoredTexts } from '../values/stored-text.ts';
import { STORED_FORMS } from '../values/value-types.ts';
import { exportsOf } from './exported.ts';

/** State of an execution. */
export interface ExecutionState {
  /** `Completed`, `Failed` and so on; `Running` for an execution that has not ended. */
  readonly state: string;
  /** The output of a Completed execution. */
  readonly output?: unknown;
  readonly error?: Error | undefined;
}

/** Options for values that are shown in a history. */
const SHOWN = { depth: 4, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 200 };

/** The texts of an export, which are decoded. */
const TEXTS = new StoredTexts(undefined).withTypes(STORED_FORMS);

const ENDS: Readonly<Record<string, string>> = {
  ExecutionCompleted: 'Completed',
  ExecutionFailed: 'Failed',
  ExecutionCancelled: 'Cancelled',
  ExecutionTerminated: 'Terminated',
  ExecutionContinuedAsNew: 'ContinuedAsNew',
};

export class MatcherSubject {
  /** Name of the subject in messages. */
  readonly name: string;
  private readonly given: InstanceHandle | HistoryExport;

  /** @throws TypeError when it is neither a handle nor an export */
  constructor(given: unknown, matcher: string) {
    if (!isInstance(given, InstanceHandle) && !(isRecord(given) && 'events' in given)) {
      throw new TypeError(
        `${matcher} takes the handle of an instance, or the result of client.exportHistory; got ${show(given)}`,
      );
    }
    this.given = given as InstanceHandle | HistoryExport;
    this.name = `instance '${isInstance(given, InstanceHandle) ? given.id : (given as HistoryExport).instanceId}'`;
  }

  /** Returns the export. For a handle it is made from the store now. */
  async exported(): Promise<HistoryExport> {
    const { client, given } = this;
    return client === undefined
      ? (exportsOf(given, '')[0] as HistoryExport)
      : client.exportHistory((given as InstanceHandle).id);
  }

  async events(): Promise<HistoryEvent[]> {
    const { events } = await this.exported();
    return events.map((event) => readEvent(event, TEXTS, null));
  }

  /** Returns the state at the end. For a handle it waits until the instance has ended. */
  async end(): Promise<ExecutionState> {
    if (this.client !== undefined) {
      const { status, output, error } = await this.client.waitForOrchestration((this.given as InstanceHandle).id);
      return { state: status, output, error };
    }
    const { events } = await this.exported();
    const last = events.at(-1);
    const state = ENDS[last?.kind ?? ''] ?? 'Running';
    if (state === 'Completed') return { state, output: (await this.events()).at(-1)?.payload };
    return {
      state,
      error:
        state === 'Failed' || state === 'Cancelled' ? fromErrorPayload(last?.payload ?? null, STORED_FORMS) : undefined,
    };
  }

  /** Returns the history as a text, for the end of a message. */
  async shown(): Promise<string> {
    const events = await this.events();
    const width = String(events.length).length;
    const lines = events.map((event) => {
      const payload = 'payload' in event ? `  ${boundedInspect(event.payload, SHOWN).text}` : '';
      return `  ${String(event.eventId).padStart(width)} ${stepOf(event)}${payload}`;
    });
    return `history of ${this.name}:\n${lines.join('\n')}`;
  }

  private get client(): Client | undefined {
    return isInstance(this.given, InstanceHandle) ? InstanceHandle.clientOf(this.given) : undefined;
  }
}

/** Returns an event in short: its kind, and the name that goes with it. */
export function stepOf({ kind, name }: HistoryEvent): string {
  return name === undefined ? kind : `${kind} ${name}`;
}
