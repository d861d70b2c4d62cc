// Asks: messages that get an answer, and the handlers that give it.
//
// Asks are mail for the queue ASKS, which the code awaits without a future. The engine offers an ask before anything of
// it is recorded. An ask without a handler, or one that its validator refuses, leaves no event. An accepted ask is
// recorded as a message, and its handler runs as a fiber of the main fiber. A replay meets accepted asks alone.
//
//   ask        on                                            to
//              the engine offers it                          offered
//   offered    there is no handler, or the validator throws  refused
//   offered    otherwise                                     accepted
//   accepted   the handler returns or throws                 answered
//   accepted   the execution ends before, and the handler    answered with an error
//              is not awaited
//
// Invariants:
//
//   A1. An answer goes with the turn in which the handler ends, so it is never told before it is stored.
//   A2. Once the function of the main fiber has ended, no more asks are offered. The main fiber settles when the
//       handlers that it awaits have ended.

import { CancelledError, NondeterminismError } from '../errors/errors.ts';
import { property } from '../util/show.ts';
import { toErrorPayload, toPayload } from '../values/payload.ts';
import { enter, leave } from './current.ts';
import type { Fiber } from './fiber.ts';
import { PENDING } from './future.ts';
import { describeValue, isGenerator } from './generator.ts';
import { atOnce, knownNames, unknownHandler } from './handlers.ts';
import type { FiberScheduler } from './scheduler.ts';

/** The payload of an ask, in the queue of asks. Part of the format. */
export interface AskMessage {
  /** Id of the ask, unique in its instance. */
  readonly id: string;
  /** Name of the handler. */
  readonly name: string;
  readonly input?: unknown;
}

/** A handler of asks of one name. */
export interface AskHandler {
  /** Returns the block that answers an ask with its result. */
  readonly run: (input: any) => unknown;
  /** Returns the input for the handler. Throws to refuse the ask. */
  readonly check: (input: unknown) => unknown;
  /** Throws to refuse the ask. */
  readonly validate: ((input: any) => unknown) | undefined;
  /** Says if the end of the execution waits for the handler. */
  readonly onEnd: 'wait' | 'reject';
}

/** The result of a handler that publishes something with its answer, if the answer can be stored. */
export class PreparedAnswer {
  constructor(
    readonly value: unknown,
    /** Called once the answer is encoded. What it throws is the answer. */
    readonly publish: () => void,
  ) {}
}

/** A handler that runs. */
interface Running {
  readonly fiber: Fiber<unknown>;
  readonly onEnd: AskHandler['onEnd'];
}

/** The asks of one execution. */
export class Asks {
  private readonly scheduler: FiberScheduler;
  private readonly handlers = new Map<string, AskHandler>();
  /** The handlers that run, by the id of the ask. */
  private readonly running = new Map<string, Running>();
  private isClosed = false;

  constructor(scheduler: FiberScheduler) {
    this.scheduler = scheduler;
  }

  /** Sets the handler of a name, in the place of the former one. */
  handle(name: string, handler: AskHandler): void {
    if (this.handlers.size === 0 && !this.isClosed) this.scheduler.mailboxes.setAwaitsAsks(true);
    this.handlers.set(name, handler);
  }

  /** Accepts or refuses an ask that is not recorded yet. */
  offered(text: string | null): void {
    const { scheduler } = this;
    const { port } = scheduler;
    const { id, name, input } = this.read(text);
    if (typeof id !== 'string' || typeof name !== 'string') {
      // Another program has put this into the queue. Nobody waits for an answer.
      return port.refuseAsk('', toErrorPayload(new TypeError('this is no update'), scheduler.types));
    }
    const handler = this.handlers.get(name);
    try {
      if (handler === undefined) throw unknownHandler('update', name, this.handlers);
      validate(handler, input);
    } catch (error) {
      port.refuseAsk(id, toErrorPayload(error, scheduler.types));
      return;
    }
    scheduler.now = port.acceptAsk();
    this.begin(id, name, handler, input);
  }

  /** Begins to answer an ask that history holds. */
  recorded(text: string | null): void {
    const { id, name, input } = this.read(text);
    const handler = this.handlers.get(name);
    if (handler === undefined) throw this.mismatch(name);
    this.begin(id, name, handler, input);
  }

  /** Takes no more asks, and waits for all handlers that run. */
  finish(): Fiber<void> {
    this.close();
    const running = [...this.running.values()].map(({ fiber }) => fiber);
    return this.scheduler.spawn(function* finishUpdates(): Generator<any, void, any> {
      for (const fiber of running) yield fiber;
    });
  }

  /** The handlers that run and that the main fiber awaits. */
  get awaited(): Fiber<unknown>[] {
    const awaited = [...this.running.values()].filter(({ onEnd }) => onEnd === 'wait');
    return awaited.map(({ fiber }) => fiber).filter(({ state }) => state === PENDING);
  }

  /** Takes no more asks (A2). */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    if (this.handlers.size > 0) this.scheduler.mailboxes.setAwaitsAsks(false);
    this.scheduler.port.closeAsks();
  }

  /** Answers the asks whose handlers have not ended: the execution is about to end. */
  rejectRunning(): void {
    for (const id of this.running.keys()) {
      const error = new CancelledError('the execution ended before the handler of the update');
      this.scheduler.port.answerAsk(id, true, toErrorPayload(error, this.scheduler.types));
    }
    this.running.clear();
  }

  private read(text: string | null): AskMessage {
    const read = this.scheduler.read(text, 'update');
    return { id: property(read, 'id'), name: property(read, 'name'), input: property(read, 'input') } as AskMessage;
  }

  private mismatch(name: string): NondeterminismError {
    const eventId = this.scheduler.port.historyLength();
    const recorded = `the update '${name}'`;
    const attempted = `no handler of update '${name}'${knownNames(this.handlers)}`;
    return new NondeterminismError(
      `the code no longer fits its history (event ${eventId}: recorded ${recorded}, attempted ${attempted})`,
      { report: { eventId, recorded, attempted } },
    );
  }

  private begin(id: string, name: string, handler: AskHandler, input: unknown): void {
    const { scheduler } = this;
    // The handler belongs to the main fiber, as a fiber that this had spawned.
    enter(scheduler.main);
    try {
      const fiber = scheduler.spawn<unknown>(() => this.answer(id, handler, input));
      fiber.label = `update ${name}`;
      this.running.set(id, { fiber, onEnd: handler.onEnd });
    } finally {
      leave();
    }
  }

  private *answer(id: string, handler: AskHandler, input: unknown): Generator<any, void, any> {
    const { scheduler } = this;
    let text: string | null;
    let isError = false;
    try {
      const block: unknown = handler.run(handler.check(input));
      if (!isGenerator(block)) {
        throw new TypeError(`the handler of an update is a function*, and this one returned ${describeValue(block)}`);
      }
      const result: unknown = yield* block as Generator<any, unknown, any>;
      const isPrepared = result instanceof PreparedAnswer;
      text = toPayload(isPrepared ? result.value : result, 'answer', scheduler.limits, scheduler.types);
      if (isPrepared) result.publish();
    } catch (error) {
      isError = true;
      text = toErrorPayload(error, scheduler.types);
    }
    if (scheduler.refusal !== null || !this.running.delete(id)) return;
    scheduler.port.answerAsk(id, isError, text);
  }
}

/** Throws what the checks of a handler throw at an input. */
function validate({ check, validate: throwUnlessValid }: AskHandler, input: unknown): void {
  const checked = check(input);
  if (throwUnlessValid !== undefined) atOnce(throwUnlessValid(checked), 'the validate of an update decides');
}
