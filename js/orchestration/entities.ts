// Entities: keyed objects with one writer, each an orchestration that handles calls one after the other.

import type { Future } from '../driver/future.ts';
import { describeValue, functionRefusal } from '../driver/generator.ts';
import { checkName, checkOptions, type OptionTable } from '../util/options.ts';
import { isRecord, show } from '../util/show.ts';
import { defineOrchestration, type OrchestrationDefinition } from './definition.ts';
import { entityCode, type OWN_METHODS } from './entity-code.ts';
import { fingerprintOf } from './fingerprint.ts';
import type { EntityAddress } from './lockable.ts';
import { entityAddress } from './locks.ts';
import type { OrchestrationContext } from './orchestration-context.ts';

/** The context of a handler: that of the entity's orchestration, with the state of the entity. */
export interface EntityContext<S> extends Omit<OrchestrationContext, 'state' | (typeof OWN_METHODS)[number]> {
  /** The key of the entity. */
  readonly key: string;
  /** A copy of the state, to change or to replace. It becomes the state when the handler returns. */
  state: S;
}

/** A handler: a `function*` whose result is the answer. */
export type EntityHandler<S> = (ctx: EntityContext<S>, input: any) => Generator<Future<any>, any, any>;

/** The handlers of an entity by their names. */
export type EntityHandlers<S> = Readonly<Record<string, EntityHandler<S>>>;

/** The reads of an entity by their names: functions of the state, which return the answer at once. */
export type EntityReads<S> = Readonly<Record<string, (state: S, input: any) => unknown>>;

/** The functions that make an entity. */
export interface EntityOptions<S, H, R> {
  /** Returns the state that an entity begins with. It must answer at once and always alike. */
  initial: (key: string) => S;
  /**
   * The handlers by their names. They run one at a time, in the order in which the calls were taken. A handler that
   * throws leaves the state as it was.
   */
  handlers: H & EntityHandlers<NoInfer<S>>;
  /** The reads by their names. They run in the process of the caller, on a copy of the stored state. Default: none. */
  reads?: R & EntityReads<NoInfer<S>>;
}

/** An entity as {@link defineEntity} returns it: the definition of an orchestration, with its handlers and reads. */
export interface EntityDefinition<S = any, H = any, R = any> extends OrchestrationDefinition<undefined, void> {
  /** The functions that the entity was defined with. */
  readonly entity: Readonly<Required<EntityOptions<S, H, R>>>;
  /**
   * Returns the address of the entity with a key, for `ctx.lock`.
   *
   * @throws TypeError when the key is wrong
   */
  at(key: string): EntityAddress;
}

/** Longest name of an entity, in characters. It leaves room for the key in the id of the instance. */
const NAME_MAX = 200;

/** Names of methods that each caller of an entity has. */
const RESERVED = ['send', 'delete', 'then'];

const ENTITY_OPTIONS: OptionTable = { initial: atOnce, handlers: handlersOf, reads: readsOf };

/**
 * Defines an entity: an object with a key, whose state one handler at a time may change. Register it with
 * `runtime.register`, call it with `client.entity` or `ctx.entity`. An entity is there from its first call, and is a
 * row of the store while it is idle.
 *
 * The entity with the key `user-7` is the instance `cart/user-7`, and its state is the value `state` of that instance.
 *
 * @param name - 1 to 200 characters without `/`
 * @param options - `initial`, `handlers` and maybe `reads`. A name may stand once among handlers and reads, and must
 *   not be `send`, `delete` or `then`
 * @throws TypeError when an argument is wrong
 *
 * @example
 * ```ts
 * const cart = defineEntity('cart', {
 *   initial: () => ({ items: [] as Item[] }),
 *   handlers: {
 *     *add(ctx, item: Item) {
 *       yield* ctx.call(reserve, item);
 *       return ctx.state.items.push(item);
 *     },
 *   },
 *   reads: { items: (state) => state.items },
 * });
 * runtime.register(reserve, cart);
 * const count = await client.entity(cart, 'user-7').add({ sku: 'tea' });   // number
 * ```
 */
export function defineEntity<S, H, R = Record<never, never>>(
  name: string,
  options: EntityOptions<S, H, R>,
): EntityDefinition<S, H, R> {
  checkName(name, 'entity name');
  if (name.includes('/') || name.length > NAME_MAX)
    throw new TypeError(`the entity name must have at most ${NAME_MAX} characters and no '/', got ${show(name)}`);
  const where = `entity '${name}'`;
  const { initial, handlers, reads } =
    checkOptions<Partial<EntityOptions<S, H, R>> | undefined>(options, ENTITY_OPTIONS, where) ?? {};
  if (initial === undefined || handlers === undefined)
    throw new TypeError(`${where} must have 'initial' and 'handlers'`);
  const shared = Object.keys(reads ?? {}).find((read) => Object.hasOwn(handlers, read));
  if (shared !== undefined) throw new TypeError(`${where}: '${shared}' is both a handler and a read`);
  const entity = Object.freeze({ initial, handlers, reads: reads ?? {} }) as Required<EntityOptions<S, H, R>>;
  const code = entityCode(entity.initial, entity.handlers);
  const fingerprint = fingerprintOf(initial, ...Object.values(handlers as EntityHandlers<S>));
  const definition = defineOrchestration(name, code);
  const at = (key: string): EntityAddress => entityAddress(name, definition.version, key);
  return Object.freeze({ ...definition, fingerprint, entity, at });
}

function atOnce(value: unknown, path: string): void {
  const refusal = functionRefusal(value);
  if (refusal !== undefined) throw new TypeError(`${path} must be a function that answers at once, got ${refusal}`);
}

function handlersOf(value: unknown, path: string): void {
  checkMethods(value, path, (handler, at) => {
    const refusal = functionRefusal(handler);
    if (refusal !== undefined) throw new TypeError(`${at} must be a function*, got ${refusal}`);
  });
}

function readsOf(value: unknown, path: string): void {
  checkMethods(value, path, atOnce);
}

function checkMethods(value: unknown, path: string, check: (method: unknown, path: string) => void): void {
  if (!isRecord(value)) throw new TypeError(`${path} must be an object of functions, got ${describeValue(value)}`);
  for (const [name, method] of Object.entries(value)) {
    if (RESERVED.includes(name)) throw new TypeError(`${path} must not have the name '${name}'`);
    check(method, `${path}.${name}`);
  }
}
