// The calls of an entity by a client.

import type { InputArguments } from '../orchestration/call-options.ts';
import type { CallableEntity, EntityAnswer, EntityInput, EntityReading } from '../orchestration/called-entity.ts';
import { entityCaller, entityId, entityStart, readEntity } from '../orchestration/entity-calls.ts';
import { CALL, DELETE, STATE } from '../orchestration/entity-code.ts';
import type { MessageArguments } from '../orchestration/messages.ts';
import type { SendOptions } from '../orchestration/send-options.ts';
import { checkOptions } from '../util/options.ts';
import type { StateValue } from './state.ts';
import { UPDATE_OPTIONS, type UpdateOptions, type UpdateWithStartOptions } from './updating.ts';

/** An entity as a client calls it: a method for each handler and each read, `send` for one-way calls, and `delete`. */
export type EntityHandle<H, R> = {
  /** Resolves with the answer of the handler, or rejects with the error that it threw. */
  readonly [Name in keyof H]: (
    ...args: InputArguments<EntityInput<H[Name]>, UpdateOptions>
  ) => Promise<EntityAnswer<H[Name]>>;
} & {
  /** Resolves with what the function makes of the stored state, at least as new as the last answer. */
  readonly [Name in keyof R]: (
    ...input: MessageArguments<EntityInput<R[Name]>>
  ) => Promise<Awaited<EntityReading<R[Name]>>>;
} & {
  /** The handlers, called without an answer. The promise resolves when the call is durable. */
  readonly send: {
    readonly [Name in keyof H]: (...input: MessageArguments<EntityInput<H[Name]>>) => Promise<void>;
  };
  /** Deletes the entity after the calls before it. A later call makes it anew. */
  delete(options?: UpdateOptions): Promise<void>;
};

/** The part of a client that calls an entity. */
interface EntityClient {
  updateWithStart(id: string, update: string, input: unknown, options: UpdateWithStartOptions): Promise<unknown>;
  enqueueEvent(id: string, queue: string, data: unknown, options: SendOptions): Promise<void>;
  getState(id: string, name: string): Promise<StateValue | null>;
}

/** Returns an entity for a client to call. See {@link Client.entity}. */
export function entityOf<H, R>(
  client: EntityClient,
  definition: CallableEntity<H, R>,
  key: string,
): EntityHandle<H, R> {
  const id = entityId(definition, key, 'client.entity');
  const start = entityStart(definition);
  const update = async (name: string, input: unknown, given: unknown): Promise<unknown> => {
    const options = checkOptions(given as UpdateOptions | undefined, UPDATE_OPTIONS, `entity '${id}'`);
    return await client.updateWithStart(id, name, input, { ...options, start });
  };
  return entityCaller(definition, {
    call: (call, options) => update(CALL, call, options),
    delete: (options) => update(DELETE, undefined, options),
    send: (call) => client.enqueueEvent(id, CALL, call, { start }),
    read: async (name, input) => readEntity(definition, key, name, await client.getState(id, STATE), input),
  }) as EntityHandle<H, R>;
}
