// The replay of one exported execution: the usual driver and engine, with a history in place of a store.
//
// No activity runs, nothing is written and nothing is sent. The code's commands are compared with the recorded ones,
// and recorded results are handed to the code, up to the end of the history.

import { ReplayEngine } from '../binding/replay-engine.ts';
import { EventPlaces } from '../client/event-places.ts';
import type { ExportedEvent, HistoryEventKind, HistoryExport } from '../client/history.ts';
import { NondeterminismError, NotRegisteredError, PerdureError } from '../errors/errors.ts';
import type { RunnableOrchestration } from '../orchestration/definition.ts';
import { withoutGuard } from '../orchestration/determinism.ts';
import { Instance } from '../runtime/instance.ts';
import { replayHost, replayTurn } from '../runtime/replay-turn.ts';
import { Place } from '../values/codec-context.ts';
import { fromNative } from '../values/error-data.ts';
import type { RuntimeLimits } from '../values/limits.ts';
import { fromErrorPayload } from '../values/payload.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import { STORED_FORMS } from '../values/value-types.ts';
import { HistoryError } from './exported.ts';
import { type EventListener, ReplaySteps } from './replay-steps.ts';

/** State of an execution at the end of its history. */
export type ReplayOutcome =
  /** The execution has not ended: {@link ReplayedExecution.pending} lists the work it waits for. */
  | 'waiting'
  /** The execution waits for its first turn: there is nothing yet that code would have to fit. */
  | 'notBegun'
  | 'completed'
  | 'failed'
  | 'cancelled'
  | 'terminated'
  | 'continuedAsNew';

/** Work that an execution waits for. `eventId` is the event that requested it. */
export type PendingWork =
  | { readonly kind: 'activity'; readonly eventId: number; readonly name: string }
  | { readonly kind: 'timer'; readonly eventId: number; readonly fireAt: Date }
  /** `name` is that of the child's orchestration. */
  | { readonly kind: 'child'; readonly eventId: number; readonly name: string; readonly instanceId: string }
  /** A detached start whose confirmation is awaited. */
  | { readonly kind: 'start'; readonly eventId: number; readonly name: string; readonly instanceId: string }
  /** A message to another instance whose confirmation is awaited. */
  | { readonly kind: 'message'; readonly eventId: number; readonly name: string; readonly instanceId: string }
  /** An event with this name. */
  | { readonly kind: 'event'; readonly name: string }
  /** A message in this queue. */
  | { readonly kind: 'queue'; readonly name: string };

/** The result of the replay of one execution. */
export interface ReplayedExecution {
  readonly executionId: number;
  /** Name of its orchestration. */
  readonly name: string;
  readonly version: string;
  /** Number of events that the code was taken through. */
  readonly events: number;
  readonly outcome: ReplayOutcome;
  /**
   * Work that the code waits for where the history ends, in the order of its requests; mailboxes come last. Empty
   * unless the outcome is `'waiting'`.
   */
  readonly pending: readonly PendingWork[];
}

/** The inputs of a replay besides the history. */
export interface ReplayHost {
  orchestration(name: string, version: string): RunnableOrchestration | undefined;
  /** Names and versions of the given orchestrations, for the error if one is missing. */
  readonly known: readonly string[];
  readonly limits: Required<RuntimeLimits>;
  readonly texts: StoredTexts;
  readonly isGuarded: boolean;
  /** The event after which the replay goes no further than the code's next wait. Default: the last one. */
  readonly until?: number | undefined;
  readonly onEvent?: EventListener | undefined;
}

const OUTCOMES: Partial<Record<HistoryEventKind, ReplayOutcome>> = {
  ExecutionCompleted: 'completed',
  ExecutionFailed: 'failed',
  ExecutionCancelled: 'cancelled',
  ExecutionTerminated: 'terminated',
  ExecutionContinuedAsNew: 'continuedAsNew',
};

/**
 * Takes the code of an execution through its history.
 *
 * @param where - the name of the export in errors
 * @throws NondeterminismError when the code does not fit
 * @throws HistoryError, NotRegisteredError, PayloadError when this cannot be determined
 */
export function replayExecution(exported: HistoryExport, host: ReplayHost, where: string): ReplayedExecution {
  const { name, version, executionId, events } = exported;
  const orchestration = orchestrationOf(exported, host, where);
  const engine = open(exported, host, where);
  if (!exported.hasBegun)
    return { executionId, name, version, events: events.length, outcome: 'notBegun', pending: [] };
  const steps = run(engine, exported, host, orchestration);
  if (engine.refusal !== null) throw fromNative({ ...engine.refusal, message: `${where}: ${engine.refusal.message}` });
  const passed = events.slice(0, steps.passed);
  const outcome = OUTCOMES[passed.at(-1)?.kind as HistoryEventKind] ?? 'waiting';
  if (outcome === 'failed' || outcome === 'cancelled') compareErrors(exported, engine.thrown, host.texts, where);
  const pending = outcome === 'waiting' ? pendingOf(passed, engine.awaited) : [];
  return { executionId, name, version, events: passed.length, outcome, pending };
}

function orchestrationOf({ name, version }: HistoryExport, host: ReplayHost, where: string): RunnableOrchestration {
  const found = host.orchestration(name, version);
  if (found !== undefined) return host.isGuarded ? found : withoutGuard(found);
  throw new NotRegisteredError(
    `${where}: it is an execution of orchestration '${name}' ${version}, ` +
      `but only these are known: ${host.known.join(', ')}`,
    {
      kind: 'orchestration',
      missing: name,
      version,
    },
  );
}

function open({ instanceId, executionId, events }: HistoryExport, { texts }: ReplayHost, where: string): ReplayEngine {
  try {
    return ReplayEngine.open(instanceId, executionId, JSON.stringify(events), texts);
  } catch (cause) {
    if (!(cause instanceof PerdureError)) throw cause;
    throw new HistoryError(`${where}: the history cannot be replayed: ${cause.message}`, { path: 'events', cause });
  }
}

function run(
  engine: ReplayEngine,
  { instanceId, executionId, events }: HistoryExport,
  host: ReplayHost,
  orchestration: RunnableOrchestration,
): ReplaySteps {
  const { limits, isGuarded, texts, until = Number.POSITIVE_INFINITY, onEvent } = host;
  const steps = new ReplaySteps(engine, events, texts, new EventPlaces(instanceId, executionId), until, onEvent);
  const services = replayHost({ sourceStacks: true, limits, types: texts.types });
  const instance = new Instance(engine, engine.describe(), orchestration, services);
  try {
    replayTurn(instance, isGuarded);
  } finally {
    instance.release();
  }
  steps.end();
  return steps;
}

/**
 * Compares the errors of an execution that failed or was cancelled. The engine compares outputs, but of errors only
 * that there is one, because stacks change with every edit. Here the errors must agree in everything but stacks.
 */
function compareErrors(
  { instanceId, events }: HistoryExport,
  thrown: string | null,
  texts: StoredTexts,
  where: string,
): void {
  const last = events.at(-1);
  const recorded = shortError(texts.read(last?.payload ?? null, 'error', Place.end(instanceId, 'error')));
  const attempted = shortError(thrown);
  if (recorded === attempted) return;
  const what = last?.kind === 'ExecutionFailed' ? 'the orchestration throws' : 'the orchestration ends as cancelled';
  const field = { name: 'error', recorded, attempted };
  const hint = 'What it throws was another error when it first ran.';
  const lines = [
    `the code no longer fits its history, at event ${events.length}:`,
    `  recorded:  ${what}`,
    `  attempted: ${what}`,
    `  error recorded:  ${recorded}`,
    `  error attempted: ${attempted}`,
    `  ${hint}`,
  ];
  const report = { eventId: events.length, recorded: what, attempted: what, field, hint };
  throw new NondeterminismError(`${where}: ${lines.join('\n')}`, { report });
}

/**
 * Returns the names, codes and first lines of the messages of an error and its causes. Other lines may hold places in
 * the code.
 */
function shortError(text: string | null): string {
  const chain: string[] = [];
  for (let error: unknown = fromErrorPayload(text, STORED_FORMS); error instanceof Error; error = error.cause) {
    const { name, message, code } = error as Error & { code?: string | number };
    chain.push(`${name}${code === undefined ? '' : ` (${code})`}: ${message.split('\n', 1)[0]}`);
  }
  return chain.join(', caused by ');
}

/** Kinds of events that settle the operation they refer to. */
const SETTLES: ReadonlySet<HistoryEventKind> = new Set([
  'ActivityCompleted',
  'ActivityFailed',
  'ChildCompleted',
  'ChildFailed',
  'OperationRefused',
  'OperationCancelled',
]);

function pendingOf(events: readonly ExportedEvent[], awaited: ReplayEngine['awaited']): PendingWork[] {
  const settled = new Set(events.filter(({ kind }) => SETTLES.has(kind)).map(({ refId }) => refId));
  // Timers, starts and messages are handed over only while they are awaited.
  const onDemand = awaited.operations;
  const isOpen = ({ kind, eventId }: Operation): boolean =>
    kind === 'activity' || kind === 'child' ? !settled.has(eventId) : onDemand.has(eventId);
  const operations = events
    .map(operationOf)
    .filter((operation) => operation !== undefined && isOpen(operation)) as Operation[];
  const mailboxes = (kind: 'event' | 'queue', names: Set<string>): PendingWork[] =>
    Array.from(names, (name) => ({ kind, name }));
  return [...operations, ...mailboxes('event', awaited.events), ...mailboxes('queue', awaited.queues)];
}

type Operation = PendingWork & { readonly eventId: number };

/** Returns the operation that an event requested. */
function operationOf({ kind, eventId, name = '', meta }: ExportedEvent): Operation | undefined {
  switch (kind) {
    case 'ActivityScheduled':
      return { kind: 'activity', eventId, name };
    case 'ChildScheduled':
      return { kind: 'child', eventId, name, instanceId: String(meta?.id) };
    case 'TimerCreated':
      return { kind: 'timer', eventId, fireAt: new Date(Number(meta?.fireAtMs)) };
    case 'InstanceStarted':
      return { kind: 'start', eventId, name, instanceId: String(meta?.id) };
    case 'EventSent':
    case 'QueueSent':
      return { kind: 'message', eventId, name, instanceId: String(meta?.instance) };
    default:
      return undefined;
  }
}
