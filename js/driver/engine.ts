// The part of the replay engine that the driver needs, and nothing more. The native addon provides it, and tests script
// it.

import type { TraceLevel } from '../logging/fields.ts';
import type { StreamKeep } from '../values/stream-options.ts';
import type { Command, Issued, Outcome } from './command.ts';
import type { Delivery } from './delivery.ts';
import type { Mailbox, WaitChanges } from './waits.ts';

/**
 * The engine of one execution, as the driver sees it. All calls are synchronous.
 *
 * A call may be refused: with a `NondeterminismError` when history holds something else in its place, with a
 * `LimitError`, or with a `PayloadError` when the store's codec fails. After that the only sensible call is `suspend`.
 */
export interface EnginePort {
  /** Issues a command. */
  issue(command: Command): Issued;
  /**
   * Names the fiber of the last command or delivery, for readers of the history. Without this call it is the main
   * fiber.
   */
  ofFiber(fiber: number): void;
  /**
   * Says if the code polls a mailbox that it waits for. A poll is answered with `MAILBOX_EMPTY` if the mailbox holds no
   * message. Said again for each further poll of the mailbox.
   */
  setPolled(mailbox: Mailbox, isPolled: boolean): void;
  /**
   * Creates the timer that limits how long an execution may go on after it is cancelled: for `delayMs`, or without a
   * limit if that is `null`. Returns `null` if there is no timer. A replay has the timer that was recorded.
   */
  graceTimer(delayMs: number | null): number | null;

  /**
   * Asks for the next delivery when all fibers wait. `changes` tells what has changed of what is awaited since the last
   * call; `null`: nothing. Returns `null` if there is no delivery: the only sensible call is then `rest`.
   */
  next(changes: WaitChanges | null): Delivery | null;
  /**
   * Accepts the ask that was delivered last, which is recorded. Returns the deterministic time from here on, in ms
   * since 1970.
   */
  acceptAsk(): number;
  /** Refuses the ask that was delivered last. `error` is its answer, JSON of an `ErrorData`. Nothing is recorded. */
  refuseAsk(ask: string, error: string): void;
  /**
   * Answers an accepted ask, with codec text of a value or JSON of an `ErrorData`. Stored with the turn, unless this is
   * a replay.
   */
  answerAsk(ask: string, isError: boolean, text: string | null): void;
  /** Takes no more asks: those that wait are left to the next execution. */
  closeAsks(): void;
  /**
   * Ends the turn of code that waits. `fibers` is the text of `FiberWaits`, or `null`. Returns true if the worker
   * releases the instance, which sleeps in the store from then on.
   */
  rest(fibers: string | null): boolean;
  /**
   * Returns a request to cancel that has come although the code does not wait, or `null`. Asked before the first step
   * of an execution that continues another one, and after every `INTERRUPT_EVERY` commands without a wait. Asked in a
   * replay too, because history tells where there was a request.
   */
  interrupt(): Delivery | null;
  /** Ends the execution after its code returned or threw, or continues it as a new one. The turn is over. */
  finish(outcome: Outcome): void;
  /**
   * Suspends the instance because a call was refused. The turn is over. `source` holds the lines of user code that led
   * to it. `report` is JSON of the reason; `null` for a mismatch, which the engine knows.
   */
  suspend(source: string, report: string | null): void;

  isReplaying(): boolean;
  /** Returns the number of events recorded up to this point of the code, the same in a replay. */
  historyLength(): number;
  /** Logs a line; dropped while replaying. `fields` is JSON. */
  trace(level: TraceLevel, message: string, ofInstance: string | null, own: string | null): void;
  /** Sets the custom status to codec text; `null` resets it. Stored with the turn, unless this is a replay. */
  setCustomStatus(text: string | null): void;
  /** Sets a value of the state to codec text; `null` is `undefined`. Stored with the turn, unless this is a replay. */
  setState(name: string, text: string | null): void;
  /** Deletes a value of the state. Stored with the turn, unless this is a replay. */
  deleteState(name: string): void;
  /**
   * Adds an entry to a stream: codec text, or `null` for `undefined`. Stored with the turn, unless this is a replay.
   * Returns false, and writes nothing, if the stream is closed.
   */
  writeStream(name: string, text: string | null, keep: StreamKeep): boolean;
  /** Closes a stream for good. Stored with the turn, unless this is a replay. */
  closeStream(name: string): void;
  random(): number;
  randomUuid(): string;
  /**
   * True if the instance was asked to cancel, even if the request is not delivered yet. The instance may exceed its
   * limits then.
   */
  isCancelling(): boolean;
  /** True if the execution has a patch of its code. Recorded when the execution gets the patch. */
  patched(id: string): boolean;
  /**
   * Returns the number of 128 bits, in hexadecimal, that this execution has drawn under a name: at the first time a new
   * one that cannot be guessed, which is recorded as the patch `name` + number. The same from then on, and in a replay.
   * `null` in a replay whose history has none.
   */
  drawn(name: string): string | null;
}
