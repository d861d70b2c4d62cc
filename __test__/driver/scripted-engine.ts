// An engine that follows a script. The driver under test cannot distinguish it from the native one.

import type { ActivityOptions } from '../../js/activity/activity-options.ts';
import {
  CANCEL_OPERATION,
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
} from '../../js/driver/command.ts';
import {
  ACTIVITY_FAILED,
  ASKED,
  CANCEL,
  CHILD_FAILED,
  type Delivery,
  MAILBOX_EMPTY,
  MESSAGE,
  REFUSED,
  SUCCEEDED,
} from '../../js/driver/delivery.ts';
import type { EnginePort } from '../../js/driver/engine.ts';
import { ASKS, type Mailbox, type WaitChanges } from '../../js/driver/waits.ts';
import { NondeterminismError } from '../../js/errors/errors.ts';
import type { TraceLevel } from '../../js/logging/fields.ts';
import type { OrchestrationFunction, RunnableOrchestration } from '../../js/orchestration/definition.ts';
import type { OrchestrationHost } from '../../js/orchestration/orchestration-host.ts';
import { Instance, type TurnEnd } from '../../js/runtime/instance.ts';
import { DEFAULT_LIMITS } from '../../js/values/limits.ts';
import { toErrorPayload, toPayload } from '../../js/values/payload.ts';
import { NO_TYPES } from '../../js/values/value-types.ts';

const END_NAMES = ['completed', 'failed', 'cancelled'] as const;

export class ScriptedEngine implements EnginePort {
  /** Every command, as text: `activity a "input"`. */
  readonly commands: string[] = [];
  /** The awaited mailboxes and timers at each `next`, in order. */
  readonly awaited: { mailboxes: string[] | null; timers: number[] | null }[] = [];
  /** The number of mailboxes and operations that all calls of `next` named together. */
  told = 0;
  readonly traces: { level: TraceLevel; message: string; fields: unknown }[] = [];
  /** Commands and mailboxes of fibers other than the main one: `fiber: command`, or `fiber: mailbox`. */
  readonly fibers: string[] = [];
  /** The texts of what the fibers wait for, one for each turn that ended in a wait. */
  readonly rested: (string | null)[] = [];
  readonly statuses: (string | null)[] = [];
  /** The entries that were written to streams, with the names of these. */
  readonly entries: [stream: string, text: string | null][] = [];
  readonly state = new Map<string, string | null>();
  readonly patches: string[] = [];
  end: { kind: (typeof END_NAMES)[number]; payload: string | null } | null = null;
  continued: { input: string | null; version: string | null } | null = null;
  suspendedAt: string | null = null;
  report: string | null = null;
  replaying = false;
  /** True if the execution passed here before any patch was there. */
  lacksPatches = false;
  /** The command with this number (from 0) and all after it do not fit the history. */
  mismatchAt = Number.POSITIVE_INFINITY;
  timeMs = 1_000;
  /** The last command or the mailbox of the last delivered message. */
  private last = '';
  private lastOperation = 1;
  private randoms = 0;
  private uuids = -1;
  /** The answers to asks, by id: `=` and the text of a value, or `!` and the message of an error. */
  readonly answers = new Map<string, string>();
  /** The ids of the asks that were accepted, in order. */
  readonly accepted: string[] = [];
  areAsksClosed = false;
  private readonly asks: { id: string; value: string | null }[] = [];
  private offered: string | null = null;
  private readonly deliveries: Delivery[] = [];
  private readonly mail: { mailbox: string; payload: string | null }[] = [];
  private readonly dueTimers = new Set<number>();
  private readonly awaitedMailboxes = new Set<string>();
  private readonly polled = new Set<string>();
  private readonly awaitedTimers = new Set<number>();

  /** Delivers the result of the activity that is operation `operation`. */
  succeed(operation: number, value?: unknown): void {
    this.deliveries.push({
      ...NOTHING,
      kind: SUCCEEDED,
      operation,
      value: toPayload(value, 'value', DEFAULT_LIMITS, NO_TYPES),
    });
  }

  fail(operation: number, error: unknown, attempt = 1): void {
    this.deliveries.push({
      ...NOTHING,
      kind: ACTIVITY_FAILED,
      operation,
      value: toErrorPayload(error, NO_TYPES),
      detail: attempt,
    });
  }

  /** Delivers the end of a child that did not complete. */
  childFails(operation: number, detail: number, value: string | null): void {
    this.deliveries.push({ ...NOTHING, kind: CHILD_FAILED, operation, detail, value });
  }

  /** Delivers the refusal of a start or a message. */
  refuse(operation: number, detail: number, value: string | null = null): void {
    this.deliveries.push({ ...NOTHING, kind: REFUSED, operation, detail, value });
  }

  cancel(reason: string | null = null): void {
    this.deliveries.push({
      ...NOTHING,
      kind: CANCEL,
      value: toPayload(reason ?? undefined, 'reason', DEFAULT_LIMITS, NO_TYPES),
    });
  }

  /** Posts a message, which is delivered when its mailbox is awaited. A mailbox is `'e' + name` or `'q' + name`. */
  post(mailbox: string, value?: unknown): void {
    this.mail.push({ mailbox, payload: toPayload(value, 'value', DEFAULT_LIMITS, NO_TYPES) });
  }

  /** Asks the code: the ask is offered once there is nothing else to deliver. */
  ask(id: string, name: string, input?: unknown): void {
    this.asks.push({ id, value: toPayload({ id, name, input }, 'ask', DEFAULT_LIMITS, NO_TYPES) });
  }

  /** Delivers an ask that history holds. */
  recordedAsk(id: string, name: string, input?: unknown): void {
    const value = toPayload({ id, name, input }, 'ask', DEFAULT_LIMITS, NO_TYPES);
    this.deliveries.push({ ...NOTHING, kind: MESSAGE, mailbox: { kind: 'queue', name: ASKS }, value });
  }

  /** Makes a timer due. It fires when it is awaited. */
  due(operation: number): void {
    this.dueTimers.add(operation);
  }

  get lastAwaited(): { mailboxes: string[] | null; timers: number[] | null } {
    return this.awaited.at(-1) ?? { mailboxes: null, timers: null };
  }

  /** A script is no history, so no operation succeeds next. */
  issue(command: Command): Issued {
    return { operation: this.command(textOf(command)), succeedsNext: false };
  }

  graceTimer(delayMs: number | null): number | null {
    return delayMs === null ? null : this.command(`grace +${delayMs}`);
  }

  /** A script looks into its mailboxes alone: an awaited poll without a message is empty. */
  setPolled({ kind, name }: Mailbox, isPolled: boolean): void {
    const mailbox = (kind === 'event' ? 'e' : 'q') + name;
    if (isPolled) this.polled.add(mailbox);
    else this.polled.delete(mailbox);
  }

  ofFiber(fiber: number): void {
    this.fibers.push(`${fiber}: ${this.last}`);
  }

  next(changes: WaitChanges | null): Delivery | null {
    if (this.offered !== null) throw new Error(`ask ${this.offered} was neither accepted nor refused`);
    const { events, queues, operations, eventsGone, queuesGone, operationsGone } = changes ?? NO_CHANGES;
    for (const list of Object.values(changes ?? {})) this.told += list?.length ?? 0;
    change(this.awaitedMailboxes, namesOf(events, queues), namesOf(eventsGone, queuesGone));
    change(this.awaitedTimers, operations, operationsGone);
    const awaited = { mailboxes: listOf(this.awaitedMailboxes), timers: listOf(this.awaitedTimers) };
    this.awaited.push(awaited);
    const delivery = this.take(awaited.mailboxes, awaited.timers);
    if (delivery === null) return null;
    this.timeMs += 1;
    return { ...delivery, timeMs: this.timeMs };
  }

  acceptAsk(): number {
    this.accepted.push(this.takeOffered());
    return this.timeMs;
  }

  refuseAsk(ask: string, error: string): void {
    this.takeOffered();
    this.answerAsk(ask, true, error);
  }

  answerAsk(ask: string, isError: boolean, text: string | null): void {
    if (this.answers.has(ask)) throw new Error(`ask ${ask} was answered twice`);
    this.answers.set(ask, isError ? `!${JSON.parse(text as string).message}` : `=${text}`);
  }

  closeAsks(): void {
    this.areAsksClosed = true;
  }

  private takeOffered(): string {
    const { offered } = this;
    if (offered === null) throw new Error('no ask is offered');
    this.offered = null;
    return offered;
  }

  rest(fibers: string | null): boolean {
    this.rested.push(fibers);
    return false;
  }

  /** The n-th call of `interrupt` delivers a request to cancel, although the code does not wait. */
  interruptAt = Number.POSITIVE_INFINITY;
  private questions = 0;

  interrupt(): Delivery | null {
    this.questions += 1;
    if (this.questions !== this.interruptAt) return null;
    this.timeMs += 1;
    return {
      ...NOTHING,
      kind: CANCEL,
      value: toPayload('stop', 'reason', DEFAULT_LIMITS, NO_TYPES),
      timeMs: this.timeMs,
    };
  }

  finish(outcome: Outcome): void {
    if (outcome.kind === CONTINUED_AS_NEW) {
      this.check('continueAsNew');
      this.continued = { input: outcome.input, version: outcome.version };
    } else {
      this.check('finish');
      this.end = { kind: END_NAMES[outcome.kind], payload: outcome.payload };
    }
  }

  suspend(source: string, report: string | null): void {
    this.suspendedAt = source;
    this.report = report;
  }

  isReplaying(): boolean {
    return this.replaying;
  }

  historyLength(): number {
    return this.lastOperation;
  }

  trace(level: TraceLevel, message: string, ofInstance: string | null, own: string | null): void {
    const fields = { ...JSON.parse(ofInstance ?? 'null'), ...JSON.parse(own ?? 'null') };
    this.traces.push({ level, message, fields });
  }

  setCustomStatus(text: string | null): void {
    this.statuses.push(text);
  }

  setState(name: string, text: string | null): void {
    this.state.set(name, text);
  }

  deleteState(name: string): void {
    this.state.delete(name);
  }

  writeStream(name: string, text: string | null): boolean {
    this.entries.push([name, text]);
    return true;
  }

  closeStream(): void {}

  random(): number {
    this.randoms += 1;
    return this.randoms / 1_000;
  }

  randomUuid(): string {
    this.uuids += 1;
    return `00000000-0000-4000-8000-${String(this.uuids).padStart(12, '0')}`;
  }

  isCancelling(): boolean {
    return false;
  }

  patched(id: string): boolean {
    this.patches.push(id);
    return !this.replaying && !this.lacksPatches;
  }

  drawn(name: string): string | null {
    const number = '0'.repeat(32);
    return this.patched(name + number) ? number : null;
  }

  private command(text: string): number {
    this.check(text);
    this.commands.push(text);
    this.last = text;
    this.lastOperation += 1;
    return this.lastOperation;
  }

  private check(attempted: string): void {
    if (this.commands.length < this.mismatchAt) return;
    const report = { eventId: 2, recorded: 'something else', attempted };
    throw new NondeterminismError('the code no longer fits its history', { report });
  }

  private take(mailboxes: string[] | null, timers: number[] | null): Delivery | null {
    const ready = this.deliveries.shift();
    if (ready !== undefined) return ready;
    const i = this.mail.findIndex(({ mailbox }) => mailboxes?.includes(mailbox));
    const [message] = i < 0 ? [] : this.mail.splice(i, 1);
    if (message !== undefined) this.last = message.mailbox;
    if (message !== undefined)
      return { ...NOTHING, kind: MESSAGE, mailbox: mailboxOf(message.mailbox), value: message.payload };
    const empty = i < 0 ? mailboxes?.find((mailbox) => this.polled.has(mailbox)) : undefined;
    if (empty !== undefined) return { ...NOTHING, kind: MAILBOX_EMPTY, mailbox: mailboxOf(empty) };
    const operation = timers?.find((timer) => this.dueTimers.delete(timer));
    const ask = operation === undefined && !this.areAsksClosed ? this.asks.shift() : undefined;
    if (ask !== undefined) {
      this.offered = ask.id;
      return { ...NOTHING, kind: ASKED, value: ask.value };
    }
    return operation === undefined ? null : { ...NOTHING, kind: SUCCEEDED, operation };
  }
}

const NO_CHANGES: WaitChanges = {
  events: null,
  queues: null,
  operations: null,
  eventsGone: null,
  queuesGone: null,
  operationsGone: null,
};

/** Returns a command as text. */
function textOf(command: Command): string {
  switch (command.kind) {
    case SCHEDULE_ACTIVITY:
      return words('activity', command.name, command.input, command.options);
    case CREATE_TIMER:
      return `timer +${command.delayMs}`;
    case CREATE_TIMER_AT:
      return `timer @${command.atMs}`;
    case START_CHILD:
    case START_INSTANCE: {
      const { kind, name, id, version, input, tags, priority, admission } = command;
      const what = kind === START_CHILD ? 'child' : 'start';
      return words(what, name, id, version, input, tags, priority === 0 ? null : `${priority}`, admission);
    }
    case SEND_MESSAGE:
      return words('send', command.receiver, nameOf(command.mailbox), command.payload);
    case CANCEL_OPERATION:
      return `cancel ${command.operation}`;
    default:
      return command satisfies never;
  }
}

function words(...texts: (string | null)[]): string {
  return texts.filter((text) => text !== null).join(' ');
}

/** Returns the short name of a mailbox: `e` or `q` and its name. */
function nameOf({ kind, name }: Mailbox): string {
  return `${kind === 'event' ? 'e' : 'q'}${name}`;
}

function mailboxOf(short: string): Mailbox {
  return { kind: short.startsWith('e') ? 'event' : 'queue', name: short.slice(1) };
}

function namesOf(events: string[] | null, queues: string[] | null): string[] {
  return [...(events ?? []).map((name) => `e${name}`), ...(queues ?? []).map((name) => `q${name}`)];
}

/** Changes the set of awaited keys. Each key is added only once, and removed only if it was there. */
function change<K>(awaited: Set<K>, more: readonly K[] | null, gone: readonly K[] | null): void {
  for (const key of gone ?? []) {
    if (!awaited.delete(key)) throw new Error(`${String(key)} is no longer waited for, and was not`);
  }
  for (const key of more ?? []) {
    if (awaited.has(key)) throw new Error(`${String(key)} is waited for, and was already`);
    awaited.add(key);
  }
}

function listOf<K>(keys: ReadonlySet<K>): K[] | null {
  return keys.size === 0 ? null : [...keys];
}

const NOTHING = { operation: 0, value: null, detail: 0, mailbox: null, timeMs: 0 };

export const HOST: OrchestrationHost = {
  recordedOptions: (_call: unknown, called: ActivityOptions | undefined) =>
    called === undefined ? null : JSON.stringify(called),
  sourceStacks: true,
  limits: DEFAULT_LIMITS,
  types: NO_TYPES,
};

/** An instance of `fn` on an engine of its own. */
export class Script {
  readonly engine = new ScriptedEngine();
  readonly instance: Instance;

  constructor(
    fn: OrchestrationFunction,
    input?: unknown,
    host: OrchestrationHost = HOST,
    executionId = 1,
    options: Omit<RunnableOrchestration, 'fn'> = {},
  ) {
    const description = {
      instanceId: 'i',
      executionId,
      name: 'test',
      version: '1.0.0',
      parentId: null,
      customStatus: null,
      state: null,
      timeMs: 1_000,
      trace: null,
    };
    this.instance = new Instance(
      this.engine,
      { ...description, input: toPayload(input, 'input', DEFAULT_LIMITS, NO_TYPES) },
      { fn, ...options },
      host,
    );
  }

  turn(): TurnEnd {
    return this.instance.turn();
  }

  /** Runs a turn that must complete, and returns the output. */
  output(): unknown {
    const end = this.turn();
    if (end !== 'completed') throw new Error(`the turn ended as ${end}: ${this.engine.end?.payload}`);
    return JSON.parse(this.engine.end?.payload ?? 'null');
  }
}

/** Returns the output of an orchestration that needs one turn. */
export function outputOf(fn: OrchestrationFunction, input?: unknown): unknown {
  return new Script(fn, input).output();
}
