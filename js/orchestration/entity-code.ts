// The code of an entity: an orchestration that handles one call after the other.
//
// Invariants, of docs/internals/entities.md:
//
//   E1. At most one handler runs at a time, in the order in which the calls were taken.
//   E2. A handler works on a copy of the state. The copy is published as the state when the handler returns, in the
//       turn that gives the answer.
//   E7. A lock of the entity is a handler that ends when the lock is given back. Meanwhile the calls of its holder run,
//       one at a time, and no others.

import { PreparedAnswer } from '../driver/asks.ts';
import type { Deferred } from '../driver/deferred.ts';
import { describeValue, isGenerator } from '../driver/generator.ts';
import { NotRegisteredError, RuntimeStateError } from '../errors/errors.ts';
import type { OrchestrationFunction, OrchestrationGenerator } from './definition.ts';
import type { EntityContext, EntityHandlers } from './entities.ts';
import {
  ASK_LOCK,
  checkRequest,
  grantOf,
  HISTORY_MAX,
  keepWaiting,
  LOCK_STATE,
  type LockRequest,
  takeWaiting,
  unlockOf,
} from './lock-code.ts';
import type { OrchestrationContext } from './orchestration-context.ts';

/** The name of the update that calls a handler, and of the queue of one-way calls. Part of the format. */
export const CALL = 'perdure.entity';

/** The name of the update that deletes the entity. Part of the format. */
export const DELETE = 'perdure.entity.delete';

/** The name of the value that holds the state. Part of the format. */
export const STATE = 'state';

/** The methods of the context that an entity uses itself, so its handlers may not. */
export const OWN_METHODS = ['continueAsNew', 'finishUpdates', 'onQuery', 'onUpdate'] as const;

/** A call of a handler, as it is sent. Part of the format. */
export interface EntityCall {
  readonly handler: string;
  readonly input?: unknown;
  /** The holder of the entity's lock, if the caller holds it. */
  readonly holder?: string;
}

/** Returns the name of the queue of one-way calls by the holder of the entity's lock. Part of the format. */
export function heldQueueOf(holder: string): string {
  return `${CALL}/${holder}`;
}

/** Returns the function of the orchestration. */
export function entityCode<S>(initial: (key: string) => S, handlers: EntityHandlers<S>): OrchestrationFunction {
  return function* entity(ctx) {
    yield* new Entity(ctx, initial, handlers).run();
  };
}

/** Blocks that run one after the other, in the order in which they came (E1). */
class Line {
  readonly #ctx: OrchestrationContext;
  /** The end of the block that came last. */
  #last: Deferred<void> | undefined;
  /** The number of blocks that have not ended. */
  length = 0;

  constructor(ctx: OrchestrationContext) {
    this.#ctx = ctx;
  }

  /** Runs a block when those that came before have ended. */
  *run<T>(block: () => Generator<any, T, any>): Generator<any, T, any> {
    const before = this.#last;
    const ended = this.#ctx.deferred();
    this.#last = ended;
    this.length += 1;
    try {
      if (before !== undefined) yield* before;
      return yield* block();
    } finally {
      this.length -= 1;
      ended.resolve();
    }
  }

  /** Waits until all blocks that came have ended. */
  *end(): Generator<any, void, any> {
    if (this.#last !== undefined) yield* this.#last;
  }
}

/** A lock that is held, and the calls of its holder. */
interface Held {
  readonly holder: string;
  readonly calls: Line;
}

/** One execution of an entity. */
class Entity<S> {
  readonly #ctx: OrchestrationContext;
  readonly #initial: (key: string) => S;
  readonly #handlers: EntityHandlers<S>;
  readonly #key: string;
  /** The calls and the locks that were taken. */
  readonly #calls: Line;
  /** Settles when the execution shall end. */
  readonly #isOver: Deferred<void>;
  #held: Held | undefined;
  /** The holders of the lock that was asked for: those that wait, and the one that holds it. */
  readonly #holders = new Set<string>();
  /** The locks that the next execution has to grant. */
  readonly #kept: LockRequest[] = [];
  /** True if the execution ends because the entity was deleted. */
  #isDeleted = false;

  constructor(ctx: OrchestrationContext, initial: (key: string) => S, handlers: EntityHandlers<S>) {
    const prefix = `${ctx.name}/`;
    if (!ctx.instanceId.startsWith(prefix))
      throw new TypeError(`an entity is started by its first call: its id would be '${prefix}…'`);
    this.#ctx = ctx;
    this.#initial = initial;
    this.#handlers = handlers;
    this.#key = ctx.instanceId.slice(prefix.length);
    this.#calls = new Line(ctx);
    this.#isOver = ctx.deferred();
  }

  *run(): OrchestrationGenerator<void> {
    const ctx = this.#ctx;
    ctx.onUpdate<EntityCall | undefined, unknown>(CALL, (call) => this.#called(call), {
      validate: (call) => void this.#handler(call?.handler),
    });
    ctx.onUpdate<{ holder?: string } | undefined, void>(DELETE, (call) =>
      this.#exclusive(call?.holder, () => this.#delete()),
    );
    ctx.onUpdate<LockRequest, void>(ASK_LOCK, (request) => this.#ask(request), {
      validate: (request) => checkRequest(request, this.#holders.size, ctx.instanceId),
    });
    for (const request of takeWaiting(ctx)) this.#lock(request);
    for (;;) {
      // The end goes first: a message that comes later stays in the store for the next execution.
      const first = yield* ctx.race(this.#isOver, ctx.dequeueEvent<EntityCall | undefined>(CALL));
      if (first.index === 0) break;
      yield* this.#oneWay(first.value);
    }
    yield* ctx.finishUpdates();
    yield* this.#calls.end();
    keepWaiting(ctx, this.#kept);
    if (!this.#isDeleted) yield* ctx.continueAsNew();
  }

  *#called(call: EntityCall | undefined): Generator<any, PreparedAnswer, any> {
    return yield* this.#exclusive(call?.holder, () => this.#handle(call));
  }

  /** Runs a block of a call when those that came before have ended. The calls of a holder have a line of their own. */
  *#exclusive<T>(holder: string | undefined, block: () => Generator<any, T, any>): Generator<any, T, any> {
    try {
      return yield* this.#lineOf(holder).run(block);
    } finally {
      this.#endIfLong();
    }
  }

  #lineOf(holder: string | undefined): Line {
    if (holder === undefined) return this.#calls;
    if (this.#held?.holder === holder) return this.#held.calls;
    throw new RuntimeStateError(`the block that called entity '${this.#ctx.instanceId}' holds its lock no longer`);
  }

  /** Ends the execution if its history is long. Not while a lock is held: the calls of its holder come to this one. */
  #endIfLong(): void {
    if (this.#held === undefined && this.#ctx.historyLength >= HISTORY_MAX) this.#isOver.resolve();
  }

  *#ask(request: LockRequest): Generator<any, void, any> {
    this.#lock(request);
  }

  #lock(request: LockRequest): void {
    if (this.#holders.has(request.holder)) return;
    this.#holders.add(request.holder);
    this.#ctx.spawn(this.#calls.run(() => this.#hold(request)));
  }

  /** Grants the lock, and takes the calls of its holder alone, until it is given back (E7). */
  *#hold(request: LockRequest): Generator<any, void, any> {
    const ctx = this.#ctx;
    const { holder, by, to } = request;
    if (this.#isOver.isSettled) {
      this.#kept.push(request);
      return;
    }
    const calls = new Line(ctx);
    this.#held = { holder, calls };
    ctx.state.set(LOCK_STATE, { by, holder });
    ctx.raiseEvent(to, grantOf(holder));
    const unlocked = ctx.waitForEvent(unlockOf(holder));
    for (;;) {
      const first = yield* ctx.race(ctx.dequeueEvent<EntityCall>(heldQueueOf(holder)), unlocked);
      if (first.index === 1) break;
      yield* this.#oneWay(first.value);
    }
    yield* calls.end();
    this.#held = undefined;
    this.#holders.delete(holder);
    ctx.state.delete(LOCK_STATE);
    this.#endIfLong();
  }

  *#handle(call: EntityCall | undefined): Generator<any, PreparedAnswer, any> {
    const run = this.#handler(call?.handler);
    const context = this.#contextOf();
    const block: unknown = run(context, call?.input);
    if (!isGenerator(block))
      throw new TypeError(
        `handler '${call?.handler}' of an entity is a function*, and returned ${describeValue(block)}`,
      );
    const answer: unknown = yield* block as Generator<any, unknown, any>;
    return new PreparedAnswer(answer, () => this.#ctx.state.set(STATE, context.state));
  }

  *#delete(): Generator<any, void, any> {
    this.#ctx.state.delete(STATE);
    // The answer and the end are one commit, so no call can come between them. If other calls or locks wait, they make
    // the entity anew, and the execution goes on.
    this.#isDeleted = this.#calls.length === 1 && this.#kept.length === 0;
    if (this.#isDeleted) this.#isOver.resolve();
  }

  /** Runs the handler of a one-way call. Its error is logged. */
  *#oneWay(call: EntityCall | undefined): Generator<any, void, any> {
    try {
      const { publish } = yield* this.#called(call);
      publish();
    } catch (error) {
      this.#ctx.traceError(`the one-way call of handler '${call?.handler}' failed`, { error: String(error) });
    }
  }

  #handler(name: string | undefined): EntityHandlers<S>[string] {
    const handlers = this.#handlers;
    const handler = name !== undefined && Object.hasOwn(handlers, name) ? handlers[name] : undefined;
    if (handler !== undefined) return handler;
    const known = Object.keys(handlers).map((handler) => `'${handler}'`);
    const message = `entity '${this.#ctx.name}' has no handler '${name}'; it has ${known.join(', ') || 'none'}`;
    throw new NotRegisteredError(message, { kind: 'update', missing: String(name) });
  }

  /** Returns the context of a handler, with a copy of the state. */
  #contextOf(): EntityContext<S> {
    const ctx = this.#ctx;
    const key = this.#key;
    const isThere = ctx.state.keys().includes(STATE);
    const own = { key, state: isThere ? (ctx.state.get(STATE) as S) : this.#initial(key) };
    return new Proxy(own as EntityContext<S>, {
      get(target, name) {
        if (name in own) return Reflect.get(target, name);
        if ((OWN_METHODS as readonly unknown[]).includes(name))
          throw new TypeError(`a handler of an entity has no ctx.${String(name)}`);
        const member: unknown = Reflect.get(ctx, name);
        return typeof member === 'function' ? member.bind(ctx) : member;
      },
    });
  }
}
