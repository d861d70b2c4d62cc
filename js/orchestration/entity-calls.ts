// The calls of an entity: its id and its start, an object with its methods, and its reads.

import type { ActivityFunction } from '../activity/activity.ts';
import type { Issued } from '../driver/command.ts';
import { describeValue } from '../driver/generator.ts';
import type { SchedulerForOperations } from '../driver/operation.ts';
import type { FiberScheduler } from '../driver/scheduler.ts';
import { checkName } from '../util/options.ts';
import { property } from '../util/show.ts';
import type { CallableEntity } from './called-entity.ts';
import { isOrchestration, type OrchestrationDefinition } from './definition.ts';
import { CALL, DELETE, type EntityCall, heldQueueOf, STATE } from './entity-code.ts';
import { holderOf } from './locks.ts';
import type { OrchestrationContext } from './orchestration-context.ts';
import type { CheckedReceiverStart } from './receiver-start.ts';
import { StoreActivityFuture, storeActivity } from './store-activity.ts';

/** True if a value is a result of `defineEntity`, here or in another copy of this package. */
export function isEntity(value: unknown): value is CallableEntity & OrchestrationDefinition {
  return isOrchestration(value) && property(value, 'entity') !== undefined;
}

/**
 * Returns the id of the instance that an entity is.
 *
 * @param where - the call, for the error: `client.entity`
 * @throws TypeError when the definition is none, or the key is wrong
 */
export function entityId(definition: CallableEntity, key: string, where: string): string {
  if (!isEntity(definition))
    throw new TypeError(`${where} takes what defineEntity returned, not ${describeValue(definition)}`);
  checkName(key, 'entity key');
  const id = `${definition.name}/${key}`;
  checkName(id, 'id of the entity');
  return id;
}

/** Returns the start that goes with each message to an entity. One that has ended begins anew. */
export function entityStart({ name, version }: Pick<CallableEntity, 'name' | 'version'>): CheckedReceiverStart {
  return { name, version, input: undefined, onConflict: 'restartIfTerminal' };
}

/** The ways of a caller to reach an entity. */
interface EntityPorts {
  call(call: EntityCall, options: unknown): unknown;
  send(call: EntityCall): unknown;
  read(name: string, input: unknown): unknown;
  delete(options: unknown): unknown;
}

/** Returns an object with a method for each handler and each read. */
export function entityCaller({ entity }: CallableEntity, ports: EntityPorts): object {
  const methods = (names: object, method: (name: string) => unknown) =>
    Object.fromEntries(Object.keys(names).map((name) => [name, method(name)]));
  const call = (handler: string) => (input?: unknown, options?: unknown) => ports.call({ handler, input }, options);
  const send = (handler: string) => (input?: unknown) => ports.send({ handler, input });
  const read = (name: string) => (input?: unknown) => ports.read(name, input);
  return {
    ...methods(entity.handlers, call),
    ...methods(entity.reads, read),
    send: methods(entity.handlers, send),
    delete: (options?: unknown) => ports.delete(options),
  };
}

/** Returns what a read gives for the stored state of an entity, or for its initial state. */
export function readEntity(
  { entity }: CallableEntity,
  key: string,
  name: string,
  stored: { readonly value: unknown } | null,
  input: unknown,
): unknown {
  const state: unknown = stored === null ? entity.initial(key) : stored.value;
  return entity.reads[name](state, input);
}

/** The names of the inline activities of an orchestration that calls an entity. Part of the format. */
export const CALL_ENTITY = 'perdure.callEntity';
export const READ_ENTITY = 'perdure.readEntity';
export const DELETE_ENTITY = 'perdure.deleteEntity';

/** The input of such an activity, which a replay compares with that of the history. Part of the format. */
export interface EntityRequest {
  readonly id: string;
  /** The handler or the read. Absent if the entity is deleted. */
  readonly method?: string;
  readonly input?: unknown;
  /** Drawn once, so that each attempt waits for the same answer. Absent for a read. */
  readonly updateId?: string;
  /** The holder of the entity's lock, if the caller holds it. */
  readonly holder?: string;
}

/** Returns the function of such an activity. It calls the entity by the client of its attempt. */
function attemptOf(definition: CallableEntity, key: string): ActivityFunction<EntityRequest> {
  return storeActivity(async ({ client, signal }, { id, method, input, updateId, holder }: EntityRequest) => {
    if (updateId === undefined)
      return readEntity(definition, key, method as string, await client.getState(id, STATE), input);
    const [update, sent] = entityUpdate(method, input, holder);
    return await client.updateWithStart(id, update, sent, { updateId, signal, start: entityStart(definition) });
  });
}

/** Returns the name and the input of the update that a call of an entity is. */
export function entityUpdate(
  handler: string | undefined,
  input: unknown,
  holder?: string,
): [name: string, input: EntityCall | { holder: string } | undefined] {
  const held = holder === undefined ? undefined : { holder };
  return handler === undefined ? [DELETE, held] : [CALL, { handler, input, ...held }];
}

/** Returns the queue and the message of a one-way call by the running fiber, which may hold the lock of the entity. */
function oneWay(id: string, call: EntityCall): [queue: string, call: EntityCall] {
  const holder = holderOf(id);
  return holder === undefined ? [CALL, call] : [heldQueueOf(holder), { ...call, holder }];
}

/** The answer of an entity. */
export class EntityFuture<T> extends StoreActivityFuture<T> {
  private readonly request: EntityRequest;

  constructor(
    scheduler: SchedulerForOperations,
    issued: Issued,
    name: string,
    request: EntityRequest,
    [definition, key]: readonly [CallableEntity, string],
  ) {
    super(scheduler, issued, name, attemptOf(definition, key));
    this.request = request;
  }

  override describe(): string {
    const { id, method } = this.request;
    return method === undefined ? `the deletion of entity '${id}'` : `the answer of entity '${id}' to '${method}'`;
  }
}

/** Runs a call as an inline activity of Perdure's own. */
type Stored = (
  name: string,
  request: EntityRequest,
  future: (issued: Issued) => EntityFuture<unknown>,
) => EntityFuture<unknown>;

/** Returns an entity as an orchestration calls it. See `ctx.entity`. */
export function calledEntity(
  scheduler: FiberScheduler,
  ctx: OrchestrationContext,
  definition: CallableEntity,
  key: string,
  stored: Stored,
): object {
  const id = entityId(definition, key, 'ctx.entity');
  const ask = (name: string, request: Omit<EntityRequest, 'id'>): EntityFuture<unknown> => {
    scheduler.assertRunning('entity');
    if (id === ctx.instanceId && name !== READ_ENTITY)
      throw new TypeError(`entity '${id}' cannot wait for itself: use send`);
    const holder = name === READ_ENTITY ? undefined : holderOf(id);
    const full: EntityRequest = { id, ...request, ...(holder === undefined ? {} : { holder }) };
    return stored(name, full, (issued) => new EntityFuture(scheduler, issued, name, full, [definition, key]));
  };
  const updateId = (): string => scheduler.port.randomUuid();
  return entityCaller(definition, {
    call: ({ handler, input }) => ask(CALL_ENTITY, { method: handler, input, updateId: updateId() }),
    read: (method, input) => ask(READ_ENTITY, { method, input }),
    delete: () => ask(DELETE_ENTITY, { updateId: updateId() }),
    send: (call) => ctx.enqueueEvent(id, ...oneWay(id, call), { start: entityStart(definition) }),
  });
}
