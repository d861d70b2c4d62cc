// The engine of one instance of a lane, as the driver uses it.

import {
  CANCEL_OPERATION,
  COMPLETED,
  CONTINUED_AS_NEW,
  type Command,
  CREATE_TIMER,
  CREATE_TIMER_AT,
  type Issued,
  type Outcome,
  SCHEDULE_ACTIVITY,
  SEND_MESSAGE,
  START_CHILD,
  START_INSTANCE,
} from '../driver/command.ts';
import {
  ACTIVITY_FAILED,
  ASKED,
  CANCEL,
  CHILD_FAILED,
  CHILD_TERMINATED,
  type Delivery,
  MAILBOX_EMPTY,
  MESSAGE,
  REFUSED,
  SUCCEEDED,
} from '../driver/delivery.ts';
import type { EnginePort } from '../driver/engine.ts';
import { ASKS, type Mailbox, type WaitChanges } from '../driver/waits.ts';
import type { TraceLevel } from '../logging/fields.ts';
import { Place, statePath } from '../values/codec-context.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import { storedEntry } from '../values/stream-entries.ts';
import type { StreamKeep } from '../values/stream-options.ts';
import { decodeDelivery, decodeDescription, type InstanceDescription } from './answers.ts';
import type { TurnCalls } from './calls.ts';
import { encodeCommand, encodeOutcome, MAILBOX_KINDS } from './commands.ts';
import type { Frame } from './frame.ts';

/** The calls of a lane or of a replay, and the frame in which they cross. */
export interface TurnBinding {
  readonly calls: TurnCalls;
  readonly frame: Frame;
}

/**
 * The engine of one instance. It makes the lane's calls with the instance's token. Its texts are those on this side of
 * the store's codec: encoded on the way in, decoded on the way out.
 */
export class NativeEngine implements EnginePort {
  private readonly calls: TurnCalls;
  private readonly frame: Frame;
  private readonly token: number;
  private readonly texts: StoredTexts;
  private instanceId = '';
  private executionId = 0;
  /** Ids of the children whose end is still to come, by operation. Only filled for a store with a codec. */
  private readonly children = new Map<number, string>();

  constructor({ calls, frame }: TurnBinding, token: number, texts: StoredTexts) {
    this.calls = calls;
    this.frame = frame;
    this.token = token;
    this.texts = texts;
  }

  describe(): InstanceDescription {
    const { texts } = this;
    const description = decodeDescription(this.calls.describe(this.token), this.frame);
    this.instanceId = description.instanceId;
    this.executionId = description.executionId;
    const values = [description.input, description.customStatus, ...(description.state?.values() ?? [])];
    if (values.every((text) => texts.isPlain(text))) return description;
    const input = texts.read(description.input, 'input', Place.input(this.instanceId, this.executionId));
    const customStatus = texts.read(description.customStatus, 'status', Place.ofInstance(this.instanceId, 'status'));
    return { ...description, input, customStatus, state: this.readState(description.state) };
  }

  issue(command: Command): Issued {
    const operation = this.calls.issue(this.token, encodeCommand(this.stored(command), this.frame));
    const succeedsNext = this.frame.kind === 1;
    if (command.kind === START_CHILD && this.texts.hasCodec) this.children.set(operation, command.id);
    return { operation, succeedsNext };
  }

  ofFiber(fiber: number): void {
    this.calls.ofFiber(this.token, fiber);
  }

  setPolled({ kind, name }: Mailbox, isPolled: boolean): void {
    this.calls.setPolled(this.token, MAILBOX_KINDS.indexOf(kind), name, isPolled);
  }

  graceTimer(delayMs: number | null): number | null {
    return this.calls.graceTimer(this.token, delayMs);
  }

  next(changes: WaitChanges | null): Delivery | null {
    const { calls, token } = this;
    let text: string | null;
    if (changes === null) text = calls.next(token);
    else {
      const { events, queues, operations, eventsGone, queuesGone, operationsGone } = changes;
      text = calls.next(token, events, queues, operations, eventsGone, queuesGone, operationsGone);
    }
    return text === null ? null : this.decoded(decodeDelivery(text, this.frame));
  }

  acceptAsk(): number {
    return this.calls.acceptAsk(this.token);
  }

  refuseAsk(ask: string, error: string): void {
    this.calls.refuseAsk(this.token, ask, this.storedAnswer(ask, true, error) as string);
  }

  answerAsk(ask: string, isError: boolean, text: string | null): void {
    this.calls.answerAsk(this.token, ask, isError, this.storedAnswer(ask, isError, text));
  }

  closeAsks(): void {
    this.calls.closeAsks(this.token);
  }

  rest(fibers: string | null): boolean {
    return this.calls.rest(this.token, fibers);
  }

  interrupt(): Delivery | null {
    const text = this.calls.interrupt(this.token);
    return text === null ? null : this.decoded(decodeDelivery(text, this.frame));
  }

  finish(outcome: Outcome): void {
    this.calls.finish(this.token, encodeOutcome(this.storedOutcome(outcome), this.frame));
  }

  suspend(source: string, report: string | null): void {
    this.calls.suspend(this.token, source, report);
  }

  isReplaying(): boolean {
    return this.calls.isReplaying(this.token);
  }

  historyLength(): number {
    return this.calls.historyLength(this.token);
  }

  trace(level: TraceLevel, message: string, ofInstance: string | null, own: string | null): void {
    this.calls.trace(this.token, level, message, ofInstance, own);
  }

  setCustomStatus(text: string | null): void {
    const stored = this.texts.hasCodec
      ? this.texts.write(text, 'status', Place.ofInstance(this.instanceId, 'status'))
      : text;
    this.calls.setCustomStatus(this.token, stored);
  }

  setState(name: string, text: string | null): void {
    const stored = this.texts.hasCodec
      ? this.texts.write(text, statePath(name), Place.ofState(this.instanceId, name))
      : text;
    this.calls.setState(this.token, name, stored);
  }

  deleteState(name: string): void {
    this.calls.deleteState(this.token, name);
  }

  writeStream(name: string, text: string | null, { entriesMax, retainMs }: StreamKeep): boolean {
    const stored = this.texts.hasCodec ? storedEntry(this.texts, this.instanceId, name, text) : text;
    return this.calls.writeStream(this.token, name, stored, entriesMax, retainMs);
  }

  closeStream(name: string): void {
    this.calls.closeStream(this.token, name);
  }

  random(): number {
    return this.calls.random(this.token);
  }

  randomUuid(): string {
    return this.calls.randomUuid(this.token);
  }

  isCancelling(): boolean {
    return this.calls.isCancelling(this.token);
  }

  patched(id: string): boolean {
    return this.calls.patched(this.token, id);
  }

  drawn(name: string): string | null {
    return this.calls.drawn(this.token, name);
  }

  /** See {@link TurnCalls.recordedPayload}. */
  recordedPayload(): string | null {
    return this.calls.recordedPayload(this.token);
  }

  private storedAnswer(ask: string, isError: boolean, text: string | null): string | null {
    if (!this.texts.hasCodec || text === null) return text;
    const place = Place.ofAsk(this.instanceId, ask, isError ? 'error' : 'output');
    return isError ? this.texts.writeError(text, place) : this.texts.write(text, 'answer', place);
  }

  private readState(state: InstanceDescription['state']): InstanceDescription['state'] {
    const { texts, instanceId } = this;
    return (
      state &&
      new Map(
        Array.from(state, ([name, text]) => [name, texts.read(text, statePath(name), Place.ofState(instanceId, name))]),
      )
    );
  }

  /** Returns the command with its value as the store keeps it. */
  private stored(command: Command): Command {
    const { texts } = this;
    switch (command.kind) {
      case SCHEDULE_ACTIVITY: {
        if (texts.leaves(command.input)) return command;
        const place = texts.hasCodec ? this.ofActivity(this.calls.nextCommandId(this.token), 'input') : null;
        return { ...command, input: texts.rewrite(command.input, this, 'input', place) };
      }
      case START_CHILD:
      case START_INSTANCE:
        if (texts.leaves(command.input)) return command;
        return { ...command, input: texts.rewrite(command.input, this, 'input', Place.input(command.id, 1)) };
      case SEND_MESSAGE: {
        if (texts.leaves(command.payload)) return command;
        const place = Place.mail(command.receiver, command.mailbox);
        return { ...command, payload: texts.rewrite(command.payload, this, 'data', place) };
      }
      case CREATE_TIMER:
      case CREATE_TIMER_AT:
      case CANCEL_OPERATION:
        return command;
      default:
        return command satisfies never;
    }
  }

  private storedOutcome(outcome: Outcome): Outcome {
    const { texts } = this;
    if (outcome.kind === CONTINUED_AS_NEW) {
      if (texts.leaves(outcome.input)) return outcome;
      const place = Place.input(this.instanceId, this.executionId + 1);
      return { ...outcome, input: texts.rewrite(outcome.input, this, 'input', place) };
    }
    if (texts.leaves(outcome.payload)) return outcome;
    const path = outcome.kind === COMPLETED ? 'output' : 'error';
    return { ...outcome, payload: texts.rewrite(outcome.payload, this, path, Place.end(this.instanceId, path)) };
  }

  /** Returns the delivery with its value as the code reads it. */
  private decoded(delivery: Delivery): Delivery {
    const { texts } = this;
    if (
      delivery.kind === REFUSED ||
      delivery.kind === MAILBOX_EMPTY ||
      (!texts.hasCodec && texts.isPlain(delivery.value))
    )
      return delivery;
    const place = this.placeOf(delivery);
    return texts.isPlain(delivery.value)
      ? delivery
      : { ...delivery, value: texts.read(delivery.value, 'value', place) };
  }

  private ofActivity(operation: number, what: 'input' | 'output' | 'error'): Place {
    return Place.activity(this.instanceId, this.executionId, operation, what);
  }

  /** Returns the place of the value that a delivery holds. A child whose end is delivered is forgotten. */
  private placeOf({ kind, operation, detail, mailbox }: Delivery): Place {
    switch (kind) {
      case SUCCEEDED: {
        const child = this.takeChild(operation);
        return child === undefined ? this.ofActivity(operation, 'output') : Place.end(child, 'output');
      }
      case ACTIVITY_FAILED:
        return this.ofActivity(operation, 'error');
      case CHILD_FAILED:
        return Place.end(this.takeChild(operation) ?? '', detail === CHILD_TERMINATED ? 'termination' : 'error');
      case MESSAGE:
        return Place.mail(this.instanceId, mailbox ?? { kind: 'event', name: '' });
      case ASKED:
        return Place.mail(this.instanceId, { kind: 'queue', name: ASKS });
      case CANCEL:
      case REFUSED:
      case MAILBOX_EMPTY:
        return Place.ofInstance(this.instanceId, 'cancellation');
      default:
        return kind satisfies never;
    }
  }

  private takeChild(operation: number): string | undefined {
    const child = this.children.get(operation);
    this.children.delete(operation);
    return child;
  }
}
