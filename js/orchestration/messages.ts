// Definitions of messages: an event or a queue, with the type of its data and maybe a schema that checks the data.
//
// A message is checked by its sender and stored as it was handed over. It is checked again where it is received, and
// the code gets the output of the schema.

import { ASKS, type Mailbox } from '../driver/waits.ts';
import { checkName } from '../util/options.ts';
import { property, show } from '../util/show.ts';
import { batchOf } from '../values/batch.ts';
import { checkSchema, type SchemaInput, type SchemaOutput, type StandardSchema } from '../values/schema.ts';

/** An event with its name and the type of its data, as {@link defineEvent} returns it: `I` is sent, `O` received. */
export interface EventDefinition<I = any, O = I> {
  readonly kind: 'event';
  readonly name: string;
  /** Schema of the data, if there is one. */
  readonly schema?: StandardSchema<I, O> | undefined;
}

/** A queue with its name and the type of its messages, as {@link defineQueue} returns it. */
export interface QueueDefinition<I = any, O = I> {
  readonly kind: 'queue';
  readonly name: string;
  /** Schema of the messages, if there is one. */
  readonly schema?: StandardSchema<I, O> | undefined;
}

/** The data of a message, as the last argument of a call. It may be left out where it may be `undefined`. */
export type MessageArguments<I> = undefined extends I ? [data?: I] : [data: I];

/**
 * Defines an event, for each place that takes the name of one. Its data then has the same type where it is sent and
 * where it is received.
 *
 * @param name - 1 to 256 characters
 * @param schema - a Standard Schema (Zod, Valibot, ArkType …). Sending throws `PayloadError` for data that does not fit
 *   it, and nothing is sent. The data is stored as it was handed over, and the receiver gets the schema's output for
 *   it. An event that does not fit all the same, because it was sent by name, fails the wait with `PayloadError`. The
 *   schema runs again in every replay, so it must answer at once (no promise) and always alike
 * @throws TypeError when an argument is wrong
 *
 * @example
 * ```ts
 * const approved = defineEvent<{ by: string }>('approved');
 * // in an orchestration:
 * const { by } = yield* ctx.waitForEvent(approved);   // string
 * // anywhere:
 * await client.raiseEvent('order-1', approved, { by: 'Ada' });
 * ```
 */
export function defineEvent<S extends StandardSchema>(
  name: string,
  schema: S,
): EventDefinition<SchemaInput<S>, SchemaOutput<S>>;
export function defineEvent<T = undefined>(name: string, schema?: StandardSchema<T>): EventDefinition<T>;
export function defineEvent(name: string, schema?: StandardSchema): EventDefinition {
  return define('event', name, schema);
}

/**
 * Defines a FIFO queue, for each place that takes the name of one. Otherwise the same as {@link defineEvent}.
 *
 * @throws TypeError when an argument is wrong
 *
 * @example
 * ```ts
 * const tasks = defineQueue('tasks', taskSchema);
 * // in an orchestration:
 * const task = yield* ctx.dequeueEvent(tasks);
 * // anywhere:
 * await client.enqueueEvent('printer', tasks, { page: 1 });
 * ```
 */
export function defineQueue<S extends StandardSchema>(
  name: string,
  schema: S,
): QueueDefinition<SchemaInput<S>, SchemaOutput<S>>;
export function defineQueue<T = undefined>(name: string, schema?: StandardSchema<T>): QueueDefinition<T>;
export function defineQueue(name: string, schema?: StandardSchema): QueueDefinition {
  return define('queue', name, schema);
}

function define<Kind extends Mailbox['kind']>(kind: Kind, name: string, schema: StandardSchema | undefined) {
  checkName(name, `${kind} name`);
  if (schema === undefined) return Object.freeze({ kind, name });
  checkSchema(schema, `${kind} '${name}': the schema`);
  return Object.freeze({ kind, name, schema });
}

/** A mailbox, and the schema of its messages if there is one. */
export interface TypedMailbox extends Mailbox {
  readonly schema: StandardSchema | undefined;
}

/**
 * Returns the mailbox that an argument stands for: a name, or a definition of that kind.
 *
 * @param schema - of this call, in place of the definition's
 * @throws TypeError when the argument is neither, or the schema is none
 */
export function mailboxOf(kind: Mailbox['kind'], given: unknown, schema?: unknown): TypedMailbox {
  const name = typeof given === 'string' ? given : definedName(kind, given);
  // The name of the queue of a batch may be longer than that of any other.
  if (kind === 'event' || batchOf(name) === undefined) checkName(name, `${kind} name`);
  if (kind === 'queue' && name === ASKS) throw new TypeError(`the queue '${ASKS}' is Perdure's own: use updates`);
  const used = schema === undefined && typeof given !== 'string' ? property(given, 'schema') : schema;
  if (used !== undefined) checkSchema(used, `${kind} '${name}': the schema`);
  return { kind, name, schema: used as StandardSchema | undefined };
}

function definedName(kind: Mailbox['kind'], given: unknown): string {
  const [name, ofKind] = [property(given, 'name'), property(given, 'kind')];
  if (typeof name === 'string' && ofKind === kind) return name;
  const [definer, other] = kind === 'event' ? ['defineEvent', 'queue'] : ['defineQueue', 'event'];
  const got = typeof name === 'string' && ofKind === other ? `the ${other} ${show(name)}` : show(given);
  throw new TypeError(`the ${kind} must be a name or a result of ${definer}, got ${got}`);
}
