// The code of an entity: an orchestration that handles one call after the other.
//
// Invariants, of docs/internals/entities.md:
//
//   E1. At most one handler runs at a time, in the order in which the calls were taken.
//   E2. A handler works on a copy of the state. The copy is published as the state when the handler returns, in the
//       turn that gives the answer.

import { PreparedAnswer } from '../driver/asks.ts';
import type { Deferred } from '../driver/deferred.ts';
import { describeValue, isGenerator } from '../driver/generator.ts';
import { NotRegisteredError } from '../errors/errors.ts';
import type { OrchestrationFunction, OrchestrationGenerator } from './definition.ts';
import type { EntityContext, EntityHandlers } from './entities.ts';
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
}

/** The number of events from which an entity continues as new. Part of the format: replays decide by it. */
const HISTORY_MAX = 1_000;

/** Returns the function of the orchestration. */
export function entityCode<S>(initial: (key: string) => S, handlers: EntityHandlers<S>): OrchestrationFunction {
  return function* entity(ctx) {
    yield* new Entity(ctx, initial, handlers).run();
  };
}

/** One execution of an entity. */
class Entity<S> {
  readonly #ctx: OrchestrationContext;
  readonly #initial: (key: string) => S;
  readonly #handlers: EntityHandlers<S>;
  readonly #key: string;
  /** Settles when the execution shall end. */
  readonly #isOver: Deferred<void>;
  /** The end of the handler that was taken last. */
  #last: Deferred<void> | undefined;
  /** The number of calls that were taken and have not ended. */
  #taken = 0;
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
    this.#isOver = ctx.deferred();
  }

  *run(): OrchestrationGenerator<void> {
    const ctx = this.#ctx;
    ctx.onUpdate<EntityCall | undefined, unknown>(CALL, (call) => this.#exclusive(() => this.#handle(call)), {
      validate: (call) => void this.#handler(call?.handler),
    });
    ctx.onUpdate(DELETE, () => this.#exclusive(() => this.#delete()));
    for (;;) {
      // The end goes first: a message that comes later stays in the store for the next execution.
      const first = yield* ctx.race(this.#isOver, ctx.dequeueEvent<EntityCall | undefined>(CALL));
      if (first.index === 0) break;
      yield* this.#oneWay(first.value);
    }
    yield* ctx.finishUpdates();
    if (!this.#isDeleted) yield* ctx.continueAsNew();
  }

  /** Runs a block when those that were taken before have ended (E1). */
  *#exclusive<T>(block: () => Generator<any, T, any>): Generator<any, T, any> {
    const ctx = this.#ctx;
    const before = this.#last;
    const ended = ctx.deferred();
    this.#last = ended;
    this.#taken += 1;
    try {
      if (before !== undefined) yield* before;
      return yield* block();
    } finally {
      this.#taken -= 1;
      ended.resolve();
      if (ctx.historyLength >= HISTORY_MAX) this.#isOver.resolve();
    }
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
    // The answer and the end are one commit, so no call can come between them. If other calls wait, they make the
    // entity anew, and the execution goes on.
    this.#isDeleted = this.#taken === 1;
    if (this.#isDeleted) this.#isOver.resolve();
  }

  /** Runs the handler of a one-way call. Its error is logged. */
  *#oneWay(call: EntityCall | undefined): Generator<any, void, any> {
    try {
      const { publish } = yield* this.#exclusive(() => this.#handle(call));
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
