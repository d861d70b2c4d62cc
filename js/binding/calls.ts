// The calls that the code of an instance makes in a turn, as the addon has them. They name the instance by its token;
// commands and answers cross in a frame.

import { guard } from './native-error.ts';

export interface TurnCalls {
  /** Returns the texts of the description. */
  describe(instance: number): string;
  /**
   * Issues the command in the frame, whose texts are `text`. Returns the id of its operation. The kind of the answer is
   * 1 if history says next that the operation succeeded.
   */
  issue(instance: number, text: string): number;
  /**
   * Returns the texts of the next delivery. `null`: there is none, and the turn is to be ended. Without the changes of
   * the waits, nothing has changed.
   */
  next(
    instance: number,
    ...changes:
      | []
      | [
          events: string[] | null,
          queues: string[] | null,
          operations: number[] | null,
          eventsGone: string[] | null,
          queuesGone: string[] | null,
          operationsGone: number[] | null,
        ]
  ): string | null;
  /** Ends the turn of code that waits. `true`: the instance is released. */
  rest(instance: number, fibers: string | null): boolean;
  interrupt(instance: number): string | null;
  /** Ends the code with the outcome in the frame, whose texts are `text`. */
  finish(instance: number, text: string): void;
  /** Accepts the ask that was delivered last. Returns the deterministic time from here on, in ms since 1970. */
  acceptAsk(instance: number): number;
  refuseAsk(instance: number, ask: string, error: string): void;
  answerAsk(instance: number, ask: string, isError: boolean, text: string | null): void;
  closeAsks(instance: number): void;
  ofFiber(instance: number, fiber: number): void;
  /** Says if the code polls a mailbox that it waits for. `kind` is the number of the mailbox's kind. */
  setPolled(instance: number, kind: number, name: string, isPolled: boolean): void;
  graceTimer(instance: number, delayMs: number | null): number | null;
  /**
   * Suspends an instance. `report` is JSON of an error. Without one, the error is the engine's own, or `source` is its
   * text.
   */
  suspend(instance: number, source: string, report: string | null): void;
  /** Returns the payload that history holds for the next command or for the end; `null` past the history. */
  recordedPayload(instance: number): string | null;
  /** Returns the id of the event that the next command has in history, or will have. */
  nextCommandId(instance: number): number;
  isReplaying(instance: number): boolean;
  historyLength(instance: number): number;
  trace(instance: number, level: string, message: string, ofInstance: string | null, own: string | null): void;
  setCustomStatus(instance: number, text: string | null): void;
  setState(instance: number, name: string, text: string | null): void;
  deleteState(instance: number, name: string): void;
  writeStream(
    instance: number,
    stream: string,
    entry: string | null,
    entriesMax: number | null,
    retainMs: number | null,
  ): boolean;
  closeStream(instance: number, stream: string): void;
  random(instance: number): number;
  randomUuid(instance: number): string;
  isCancelling(instance: number): boolean;
  patched(instance: number, patch: string): boolean;
  drawn(instance: number, name: string): string | null;
}

/** The calls that are made at each step. They are functions, not methods, which are slower. */
type EachStep = Pick<TurnCalls, 'describe' | 'issue' | 'next' | 'rest' | 'finish'> & {
  nextJob(looksAgain: boolean): string | null;
  completeActivity(activity: number, output: string | null): boolean;
};

/** A lane of the addon. */
export interface RawLane extends Omit<TurnCalls, keyof EachStep> {
  eachStep(): EachStep;
  attach(wake: () => void, warns: boolean): void;
  pause(): void;
  heartbeat(activity: number, details: string): void;
  failActivity(
    activity: number,
    error: string,
    errorName: string,
    errorCodes: readonly string[],
    nonRetryable: boolean,
    retryAfterMs: number | null,
  ): boolean;
}

/**
 * The engine of one execution that has a history and no store. It has the calls of a lane's turn, and ignores
 * `instance`.
 */
export interface RawReplay extends Omit<TurnCalls, 'suspend'> {
  /** Appends events. Returns `false` if the code has gone beyond the history that it had. */
  extend(events: string): boolean;
  /** Returns JSON of the mismatch that was found, as the error of a suspension; `null` if there was none. */
  mismatch(source: string): string | null;
}

const TURN_CALLS = [
  'describe',
  'issue',
  'next',
  'rest',
  'interrupt',
  'finish',
  'acceptAsk',
  'refuseAsk',
  'answerAsk',
  'closeAsks',
  'ofFiber',
  'setPolled',
  'graceTimer',
  'suspend',
  'recordedPayload',
  'nextCommandId',
  'isReplaying',
  'historyLength',
  'trace',
  'setCustomStatus',
  'setState',
  'deleteState',
  'writeStream',
  'closeStream',
  'random',
  'randomUuid',
  'isCancelling',
  'patched',
  'drawn',
] as const satisfies readonly (keyof TurnCalls)[];

/** Returns the calls of a lane or a replay, with Perdure's errors. The `functions` take precedence over its methods. */
export function turnCalls<F extends keyof TurnCalls>(
  native: Omit<TurnCalls, F>,
  functions: Pick<TurnCalls, F>,
): TurnCalls {
  type AnyCall = (...args: unknown[]) => unknown;
  const all = { ...functions } as Record<string, AnyCall | undefined>;
  const methods = native as unknown as Record<string, AnyCall>;
  const guarded = TURN_CALLS.map((name) => [name, guard(all[name] ?? (methods[name] as AnyCall).bind(native))]);
  return Object.fromEntries(guarded) as unknown as TurnCalls;
}
