// The engine of an instance that is traced. It sees every turn, every delivery to the code and every command.
//
// Invariants:
//
//   X1. A segment is open while the execution is in memory and belongs to this worker: from its first turn until it
//       ends, sleeps or is dropped.
//   X2. A replay makes one span, however many turns it takes, and provides no context.
//   X3. The code runs below no span: a span that it could read would differ in a replay.

import type { InstanceDescription } from '../binding/answers.ts';
import { NativeEngine, type TurnBinding } from '../binding/engine.ts';
import {
  type Command,
  FAILED_FOR_GOOD,
  type Issued,
  type Outcome,
  SCHEDULE_ACTIVITY,
  START_CHILD,
  START_INSTANCE,
} from '../driver/command.ts';
import type { Delivery } from '../driver/delivery.ts';
import type { WaitChanges } from '../driver/waits.ts';
import type { Segment, Telemetry, TraceContext, TracedError, TracedTurn } from '../tracing/telemetry-hooks.ts';
import type { ErrorData } from '../values/error-data.ts';
import type { StoredTexts } from '../values/stored-text.ts';
import type { TurnEnd } from './instance.ts';

export class TracedEngine extends NativeEngine {
  private readonly telemetry: Telemetry;
  private description: InstanceDescription | null = null;
  private open: Segment | null = null;
  private span: TracedTurn | null = null;
  private isReplay = false;
  private hasRun = false;
  private deliveries = 0;
  private commands = 0;
  /** True if the last turn released the instance. */
  private isReleased = false;
  private error: TracedError | undefined;

  constructor(lane: TurnBinding, token: number, texts: StoredTexts, telemetry: Telemetry) {
    super(lane, token, texts);
    this.telemetry = telemetry;
  }

  /** Segment below which its attempts nest. */
  get segment(): Segment | null {
    return this.open;
  }

  /** Runs a turn of the described execution. */
  turn(run: () => TurnEnd): TurnEnd {
    const isReplay = this.isReplaying();
    const segment = (this.open ??= this.begin(isReplay || this.hasRun));
    this.hasRun = true;
    // A replay of several pages is several turns (X2).
    if (!this.isReplay) this.beginTurn(segment, isReplay);
    let end: TurnEnd;
    try {
      end = this.telemetry.outside(run);
    } catch (error) {
      this.error = error instanceof Error ? error : { name: 'Error', message: String(error) };
      this.endSegment('suspended');
      throw error;
    }
    if (end === 'waiting' && this.isReplay && !this.isReleased) return end;
    this.endTurn();
    if (end !== 'waiting') this.endSegment(end);
    else if (this.isReleased) this.endSegment('sleeping');
    return end;
  }

  /** Ends the segment, because the instance is no longer in memory. */
  release(): void {
    this.endSegment('dropped');
  }

  override describe(): InstanceDescription {
    return (this.description = super.describe());
  }

  override issue(command: Command): Issued {
    const context = this.command();
    return super.issue(context === null ? command : inContext(command, context));
  }

  override next(changes: WaitChanges | null): Delivery | null {
    const delivery = super.next(changes);
    if (delivery !== null) this.delivered();
    return delivery;
  }

  override rest(fibers: string | null): boolean {
    this.isReleased = super.rest(fibers);
    return this.isReleased;
  }

  override interrupt(): Delivery | null {
    const delivery = super.interrupt();
    if (delivery !== null) this.delivered();
    return delivery;
  }

  override finish(outcome: Outcome): void {
    this.goLive();
    super.finish(outcome);
    if (outcome.kind === FAILED_FOR_GOOD) this.error = errorOf(outcome.payload);
  }

  override suspend(source: string, report: string | null): void {
    this.error = reportedError(report) ?? {
      name: 'NondeterminismError',
      message: 'the code no longer fits its history',
      stack: source,
    };
    super.suspend(source, report);
  }

  private begin(isResumed: boolean): Segment {
    const { instanceId, executionId, name, version, trace } = this.description ?? this.describe();
    return this.telemetry.segment({ instanceId, executionId, name, version, isResumed }, trace);
  }

  /** Counts a command of the code. Returns the context below which its work nests. */
  private command(): TraceContext | null {
    this.goLive();
    this.commands += 1;
    return this.isReplay ? null : (this.open?.context ?? null);
  }

  private delivered(): void {
    this.goLive();
    this.deliveries += 1;
  }

  /** Ends the replay and begins a turn, once the code is past its history. */
  private goLive(): void {
    if (!this.isReplay || this.open === null || this.isReplaying()) return;
    this.endTurn();
    this.beginTurn(this.open, false);
  }

  private beginTurn(segment: Segment, isReplay: boolean): void {
    this.isReplay = isReplay;
    this.deliveries = this.commands = 0;
    this.span = segment.turn(isReplay);
  }

  private endTurn(): void {
    this.isReplay = false;
    this.span?.end(this.deliveries, this.commands);
    this.span = null;
  }

  private endSegment(how: Parameters<Segment['end']>[0]): void {
    this.endTurn();
    this.open?.end(how, this.error);
    this.open = null;
    this.error = undefined;
  }
}

/** Adds the trace context to a command that begins work elsewhere. */
function inContext(command: Command, trace: TraceContext): Command {
  switch (command.kind) {
    case SCHEDULE_ACTIVITY:
      return { ...command, options: withTrace(command.options, trace) };
    case START_CHILD:
    case START_INSTANCE:
      return { ...command, trace };
    default:
      return command;
  }
}

/** Adds the trace context to the options of an activity, which are JSON of an object. */
function withTrace(options: string | null, trace: TraceContext): string {
  const text = `"trace":${JSON.stringify(trace)}}`;
  return options === null || options === '{}' ? `{${text}` : `${options.slice(0, -1)},${text}`;
}

function errorOf(payload: string | null): TracedError {
  const { name, message, stack } = JSON.parse(payload ?? '{}') as Partial<ErrorData>;
  return { name: name ?? 'Error', message: message ?? '', ...(stack === undefined ? {} : { stack }) };
}

function reportedError(report: string | null): TracedError | undefined {
  if (report === null) return undefined;
  const { code, message } = JSON.parse(report) as { code: string; message: string };
  return { name: code, message };
}
