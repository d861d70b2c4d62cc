// The methods of a context for messages: events, queues, updates and queries, of this instance and of others.

import type { Future } from '../driver/future.ts';
import type { Duration } from '../util/duration.ts';
import type { SchemaOutput, StandardSchema } from '../values/schema.ts';
import type { CallableEntity, CalledEntity } from './called-entity.ts';
import type { EventDefinition, MessageArguments, QueueDefinition } from './messages.ts';
import type { QueryDefinition, QueryHandler } from './queries.ts';
import type { SendArguments } from './send-options.ts';
import type { Token, TokenOptions } from './token-types.ts';
import type { UpdateDefinition, UpdateHandler, UpdateHandlerOptions } from './updates.ts';

/** Methods of {@link OrchestrationContext} that send and receive messages and updates. */
export interface OrchestrationMessages {
  /**
   * Raises an event in another instance, once, as `client.raiseEvent` does.
   *
   * @param event - a name, or a result of `defineEvent`, which types and checks the data
   * @param data - the data, and `SendOptions`: `start` starts the instance if there is none of that id
   * @returns a future that settles when the event is durable; it fails with `InstanceNotFoundError`, or with
   *   `RuntimeStateError` when that instance has ended. The event is sent whether or not a fiber waits
   * @throws PayloadError when the data cannot be stored, or does not fit the schema of the event
   * @throws TypeError when the id or the event is wrong
   *
   * @example
   * ```ts
   * yield ctx.raiseEvent(order.customer, 'shipped', { order: ctx.instanceId });
   * ```
   */
  raiseEvent<I, R = undefined>(
    id: string,
    event: string | EventDefinition<I, unknown>,
    ...data: SendArguments<NoInfer<I>, R>
  ): Future<void>;

  /**
   * Puts a message into a queue of another instance, once, as `client.enqueueEvent` does. Otherwise the same as
   * {@link raiseEvent}.
   *
   * @param queue - a name, or a result of `defineQueue`
   *
   * @example
   * ```ts
   * yield ctx.enqueueEvent('printer', 'jobs', { page: 1 });
   * ```
   */
  enqueueEvent<I, R = undefined>(
    id: string,
    queue: string | QueueDefinition<I, unknown>,
    ...data: SendArguments<NoInfer<I>, R>
  ): Future<void>;

  /**
   * Returns a future of the next event of a name, raised with `client.raiseEvent`. An event that was raised early is
   * kept until it is waited for. An event is consumed only by a future that a fiber waits on; of several, by the one
   * that has waited longest. A future that lost a race consumes no event, and can be waited for again.
   *
   * @param event - a name, or a result of `defineEvent`. An event that the schema of the definition refuses is
   *   consumed, and the future fails with `PayloadError`
   * @throws TypeError when the event is wrong
   *
   * @example
   * ```ts
   * const answer = yield ctx.race(ctx.waitForEvent('approve'), ctx.scheduleTimer('24h'));
   * ```
   */
  waitForEvent<T = unknown>(event: string | EventDefinition<any, T>): Future<T>;

  /**
   * The same, with a schema that checks the event.
   *
   * @param schema - a Standard Schema (Zod, Valibot, ArkType …): the future gives its output for the event. An event
   *   that the schema refuses is consumed, and the future fails with `PayloadError`. The schema runs again in every
   *   replay, so it must answer at once (no promise) and always alike
   * @throws TypeError when the name is wrong, or the schema is none
   *
   * @example
   * ```ts
   * const { by } = yield* ctx.waitForEvent('approve', approvalSchema);
   * ```
   */
  waitForEvent<S extends StandardSchema>(name: string, schema: S): Future<SchemaOutput<S>>;

  /**
   * Returns a future of the next message of a FIFO queue, which `client.enqueueEvent` feeds. Each message goes to
   * exactly one dequeue, and only to one that a fiber waits on.
   *
   * @param queue - a name, or a result of `defineQueue`. A message that the schema of the definition refuses is
   *   consumed, and the future fails with `PayloadError`
   * @throws TypeError when the queue is wrong
   *
   * @example
   * ```ts
   * for (;;) {
   *   const task = yield ctx.dequeueEvent('tasks');
   *   yield ctx.scheduleActivity('work', task);
   * }
   * ```
   */
  dequeueEvent<T = unknown>(queue: string | QueueDefinition<any, T>): Future<T>;

  /**
   * Returns a future of the next event of a name, if there is one: its data, or `undefined` without waiting for it.
   * A poll finds each event that was acknowledged before. It takes a read of the store if none is at hand, so poll
   * where there is other work in between, and use `waitForEvent` to wait.
   *
   * @param event - as in {@link waitForEvent}
   * @throws TypeError when the event is wrong
   *
   * @example
   * ```ts
   * for (const page of pages) {
   *   if ((yield* ctx.pollEvent('stop')) !== undefined) break;
   *   yield* ctx.call(work, page);
   * }
   * ```
   */
  pollEvent<T = unknown>(event: string | EventDefinition<any, T>): Future<T | undefined>;

  /**
   * The same, with a schema that checks the event.
   *
   * @param schema - checks the event, as that of `waitForEvent` does
   * @throws TypeError when the name is wrong, or the schema is none
   */
  pollEvent<S extends StandardSchema>(name: string, schema: S): Future<SchemaOutput<S> | undefined>;

  /**
   * Returns a future of the next message of a FIFO queue, if there is one, or of `undefined`. Otherwise the same as
   * {@link pollEvent}.
   *
   * @param queue - as in {@link dequeueEvent}
   * @throws TypeError when the queue is wrong
   *
   * @example
   * ```ts
   * const task = yield* ctx.tryDequeue<Task>('tasks');
   * ```
   */
  tryDequeue<T = unknown>(queue: string | QueueDefinition<any, T>): Future<T | undefined>;

  /**
   * Returns a future of the messages that a FIFO queue holds, the oldest first, without waiting for any: an empty list
   * if there are none. A drain that is cancelled drops the messages that it has taken, so do not race it. So does one
   * that meets a message that the schema of the queue refuses.
   *
   * @param queue - as in {@link dequeueEvent}
   * @param max - the number of messages that it takes at most, 1 to 10 000. Default 1 000. The others stay
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const tasks = yield* ctx.drainQueue<Task>('tasks');
   * ```
   */
  drainQueue<T = unknown>(queue: string | QueueDefinition<any, T>, max?: number): Future<T[]>;

  /**
   * Returns a future of the next `max` messages of a FIFO queue, or of fewer when the time is up: of those that have
   * come by then, maybe none. The time runs from now on. A batch that is cancelled drops the messages that it has
   * taken, so do not race it. So does one that meets a message that the schema of the queue refuses.
   *
   * @param queue - as in {@link dequeueEvent}
   * @param max - 1 to 10 000
   * @param within - from now on
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const batch = yield* ctx.dequeueBatch<Order>('orders', 100, '5s');
   * ```
   */
  dequeueBatch<T = unknown>(queue: string | QueueDefinition<any, T>, max: number, within: Duration): Future<T[]>;

  /**
   * Handles the updates of a name from now on, in the place of a former handler. Synchronous. Each update runs the
   * handler in a fiber of its own, several at a time, and gets its result, or the error that it throws, as the answer.
   *
   * An update is taken while all fibers wait, so handlers that are set before the first `yield` miss none. An update of
   * a name without a handler is answered with `NotRegisteredError`. Once the function has ended, no more updates are
   * taken: those that came too late go to the next execution, if there is one.
   *
   * @param update - a name, or a result of `defineUpdate`
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * ctx.onUpdate(addItem, function* (item) {
   *   yield* ctx.call(reserve, item);
   *   return items.push(item);
   * }, { validate: () => { if (items.length >= 100) throw new Error('the cart is full'); } });
   * ```
   */
  onUpdate<P, O>(
    update: string | UpdateDefinition<any, O, P>,
    handler: UpdateHandler<P, NoInfer<O>>,
    options?: UpdateHandlerOptions<NoInfer<P>>,
  ): void;

  /**
   * Answers the queries of a name from now on, in the place of a former handler. Synchronous. The handler returns the
   * answer at once. It reads variables of the function, takes no steps and must change nothing: no method of the
   * context works in it. A query of a name without a handler is refused with `NotRegisteredError`.
   *
   * @param query - a name, or a result of `defineQuery`
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * ctx.onQuery(count, () => items.length);
   * ```
   */
  onQuery<P, O>(query: string | QueryDefinition<any, O, P>, handler: QueryHandler<P, NoInfer<O>>): void;

  /**
   * Takes no more updates from now on, and waits until the handlers that run have ended. Call it before you compute
   * what the handlers may still change: the output, or the input of the next execution. Updates that come later go to
   * that execution.
   *
   * @returns a future that settles when no handler runs
   *
   * @example
   * ```ts
   * yield* ctx.finishUpdates();
   * return yield* ctx.continueAsNew(items);
   * ```
   */
  finishUpdates(): Future<void>;

  /**
   * Sends an update to another instance. The future settles with the answer that its handler gives. Each update of this
   * execution is one update, over any number of replays and attempts to send it. The request is an inline activity, so
   * this history records the answer.
   *
   * @param update - a name, or a result of `defineUpdate`, which types and checks the input and types the answer
   * @returns a future of the answer; it fails with the errors of `client.update`
   * @throws PayloadError when the input cannot be stored, or does not fit the schema of the update
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const count = yield* ctx.update('cart-7', addItem, { sku: 'tea' });
   * ```
   */
  update<I, O>(
    id: string,
    update: string | UpdateDefinition<I, O, any>,
    ...input: MessageArguments<NoInfer<I>>
  ): Future<O>;

  /**
   * Returns an entity to call: an object with a method for each handler and each read of the definition. Each call is
   * one call, over any number of replays and attempts to send it. The entity is there from its first call.
   *
   * A call of a handler gives a future of its answer; it fails with the error that the handler threw. A call by `send`
   * waits for no answer: its future settles when the call is durable. A read gives a future of what the function makes
   * of the stored state, at least as new as the last answer. An entity cannot wait for itself.
   *
   * @param definition - a result of `defineEntity`
   * @param key - with the name of the entity and a `/` it makes the id of the instance, at most 256 characters
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const count = yield* ctx.entity(cart, 'user-7').add({ sku: 'tea' });
   * yield* ctx.entity(cart, 'user-7').send.add({ sku: 'milk' });
   * const items = yield* ctx.entity(cart, 'user-7').items();
   * ```
   */
  entity<H, R>(definition: CallableEntity<H, R>, key: string): CalledEntity<H, R>;

  /**
   * Makes a token: a wait that another party ends, who is given its id. `client.resolveToken(id, value)` ends it with a
   * value, and `client.rejectToken(id, error)` with an error, once. The token is there from the next wait on, so pass
   * the id on in an activity. It is gone when this execution ends.
   *
   * @param options - `timeout`: how long it can be resolved; `data`: a value for those who list the tokens
   * @returns a future of the value, with the `id`; it fails with the error of the rejection, with `TimeoutError`, and
   *   with `RuntimeStateError` when somebody stopped the instance that the token is
   * @throws PayloadError when the data cannot be stored
   * @throws TypeError when an option is wrong
   *
   * @example
   * ```ts
   * const approval = ctx.token<{ by: string }>({ timeout: '3d', data: { order: order.id } });
   * yield* ctx.call(mail, { to: 'boss', link: `https://shop.example/approve?token=${approval.id}` });
   * const { by } = yield* approval;
   * ```
   */
  token<T = unknown>(options?: TokenOptions): Token<T>;
}
