// The part of a client that sends messages, updates and queries to instances.

import type { InputArguments } from '../orchestration/call-options.ts';
import { type EventDefinition, mailboxOf, type QueueDefinition } from '../orchestration/messages.ts';
import type { QueryDefinition } from '../orchestration/queries.ts';
import type { SendArguments } from '../orchestration/send-options.ts';
import type { UpdateDefinition } from '../orchestration/updates.ts';
import type { StorePort } from '../store/providers.ts';
import { checkName } from '../util/options.ts';
import { PublicationClient } from './publication-client.ts';
import { query as ask, type QueryOptions } from './querying.ts';
import type { Requests } from './requests.ts';
import { send } from './sending.ts';
import { endToken, type ListTokensOptions, listTokens, rejectionOf, type TokenInfo } from './tokens.ts';
import {
  update as sendUpdate,
  updateWithStart as startByUpdate,
  type UpdateOptions,
  type UpdateWithStartOptions,
} from './updating.ts';
import type { WaitOptions } from './watching.ts';

/** The methods of a {@link Client} that send to instances. It has no constructor of its own: make a `Client`. */
export abstract class MessageClient extends PublicationClient {
  readonly #port: StorePort;
  readonly #requests: Requests;

  /** @internal */
  protected constructor(port: StorePort, requests: Requests) {
    super(port, requests);
    this.#port = port;
    this.#requests = requests;
  }

  /**
   * Raises an event for `ctx.waitForEvent(event)`. The event is kept until the instance waits for it. With the option
   * `start`, the event starts the instance if there is none of that id: both are one commit.
   *
   * @param event - a name, or a result of `defineEvent`, which types and checks the data
   * @throws InstanceNotFoundError when there is no instance of that id, and the event does not start it
   * @throws LimitError when too many unread messages wait for the instance (`limits.mailboxMessages`); nothing is
   *   stored then
   * @throws PayloadError when the data cannot be stored, or does not fit the schema of the event
   */
  async raiseEvent<I, R = undefined>(
    id: string,
    event: string | EventDefinition<I, unknown>,
    ...data: SendArguments<NoInfer<I>, R>
  ): Promise<void> {
    checkName(id, 'instance id');
    await send(this.#port, this.#requests, id, mailboxOf('event', event), data);
  }

  /**
   * Puts a message into a queue for `ctx.dequeueEvent(queue)`: first in, first out, each message to exactly one
   * dequeue. It may start the instance, as in {@link raiseEvent}.
   *
   * @param queue - a name, or a result of `defineQueue`, which types and checks the data
   * @throws InstanceNotFoundError when there is no instance of that id, and the message does not start it
   * @throws LimitError when too many unread messages wait for the instance (`limits.mailboxMessages`); nothing is
   *   stored then
   * @throws PayloadError when the data cannot be stored, or does not fit the schema of the queue
   */
  async enqueueEvent<I, R = undefined>(
    id: string,
    queue: string | QueueDefinition<I, unknown>,
    ...data: SendArguments<NoInfer<I>, R>
  ): Promise<void> {
    checkName(id, 'instance id');
    await send(this.#port, this.#requests, id, mailboxOf('queue', queue), data);
  }

  /**
   * Sends an update to an instance, and resolves with what the handler of its `ctx.onUpdate` returned. The answer is
   * stored with the turn of the instance that gave it. A call that ends early, by its timeout, its signal or the end of
   * its process, takes nothing back: a call with the same `updateId` gets the same answer.
   *
   * While the instance is suspended, its updates wait.
   *
   * @param update - a name, or a result of `defineUpdate`, which types and checks the input and types the answer
   * @returns what the handler returned
   * @throws the error that the handler, or its `validate`, threw
   * @throws NotRegisteredError when the orchestration has no handler of that name at its first wait, or later
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws RuntimeStateError when the instance has ended, or ends without an answer
   * @throws TimeoutError when there is no answer in time
   * @throws the signal's reason when `signal` is aborted
   * @throws LimitError when too many unread messages wait for the instance (`limits.mailboxMessages`)
   * @throws PayloadError when the input cannot be stored, or does not fit the schema of the update
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const count = await client.update('cart-7', addItem, { sku: 'tea' }, { timeout: '5s' });
   * ```
   */
  async update<I, O>(
    id: string,
    update: string | UpdateDefinition<I, O, any>,
    ...args: InputArguments<NoInfer<I>, UpdateOptions>
  ): Promise<O> {
    checkName(id, 'instance id');
    return (await sendUpdate(this.#port, this.#requests, id, update, args)) as O;
  }

  /**
   * Sends an update to an instance as {@link Client.update} does, and starts the instance if there is none of that id.
   * Start and update are one commit, so of several callers one starts the instance, and the updates of all reach it.
   * The instance stays when its validator refuses the update, or when it has no handler of that name.
   *
   * A call with the `updateId` of an update that the instance has taken starts nothing, also after the instance has
   * ended. If the instance completes before it takes the update, and `onConflict` of the start is `restartIfTerminal`,
   * the update goes to the next instance.
   *
   * @param update - a name, or a result of `defineUpdate`, which types and checks the input and types the answer
   * @param options - `start` as in {@link Client.raiseEvent}; the others as in {@link Client.update}
   * @returns what the handler returned
   * @throws the error that the handler, or its `validate`, threw
   * @throws NotRegisteredError when the orchestration has no handler of that name at its first wait, or later
   * @throws RuntimeStateError when the instance has ended and the start may not replace it, or ends without an answer
   * @throws TimeoutError when there is no answer in time
   * @throws the signal's reason when `signal` is aborted
   * @throws LimitError when too many unread messages wait for the instance (`limits.mailboxMessages`)
   * @throws PayloadError when an input cannot be stored, or does not fit its schema
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const count = await client.updateWithStart('cart-7', addItem, { sku: 'tea' }, { start: { definition: cart } });
   * ```
   */
  async updateWithStart<I, O, R = undefined>(
    id: string,
    update: string | UpdateDefinition<I, O, any>,
    input: NoInfer<I>,
    options: UpdateWithStartOptions<R>,
  ): Promise<O> {
    checkName(id, 'instance id');
    return (await startByUpdate(this.#port, this.#requests, id, update, input, options)) as O;
  }

  /**
   * Ends a token of `ctx.token` with a value, once. It needs no more than the id, which is a secret.
   *
   * @param value - any value that can be stored
   * @param options - `timeout` and `signal`, which end the wait for a worker that takes the value. One may still do so
   * @throws InstanceNotFoundError when there is no token of that id
   * @throws RuntimeStateError when the token was resolved or rejected before, has expired, or its orchestration has
   *   ended
   * @throws TimeoutError when no worker has taken the value in time
   * @throws the signal's reason when `signal` is aborted
   * @throws PayloadError when the value cannot be stored
   * @throws TypeError when the text is not the id of a token
   *
   * @example
   * ```ts
   * await client.resolveToken(request.query.token, { by: request.user });
   * ```
   */
  async resolveToken(id: string, value?: unknown, options?: WaitOptions): Promise<void> {
    await endToken(this, id, { kind: 'resolved', value }, options, 'client.resolveToken');
  }

  /**
   * Ends a token with an error, which its future fails with. Otherwise the same as {@link resolveToken}.
   *
   * @param error - an error, or the message of one
   * @throws TypeError when it is neither
   */
  async rejectToken(id: string, error: Error | string, options?: WaitOptions): Promise<void> {
    await endToken(this, id, { kind: 'rejected', error: rejectionOf(error) }, options, 'client.rejectToken');
  }

  /**
   * Returns the tokens of the store, the newest first, with their ids: whoever sees the list can resolve them. Those of
   * an instance are there until it is deleted.
   *
   * @throws TypeError naming the option that is unknown or wrong
   *
   * @example
   * ```ts
   * for await (const { id, data } of client.listTokens({ open: true })) console.log(id, data);
   * ```
   */
  listTokens(options?: ListTokensOptions): AsyncIterable<TokenInfo> {
    return listTokens(this, options);
  }

  /**
   * Asks the code of an instance: the handler of its `ctx.onQuery` reads variables and returns the answer. Writes
   * nothing, takes no turn, and starts nothing.
   *
   * The code is taken through the stored history of the current execution, or of the last one if the instance has
   * ended, and is asked where that history ends. So the answer is at least as new as all that was told before: answers
   * of updates, statuses, results. The first query costs the replay of that history, in this thread. The code of the
   * 100 instances that were queried last is kept, and later queries go on from there.
   *
   * If no `Runtime` of this provider in this process, started or not, has registered the orchestration, a worker that
   * has registered it answers. The store then has an instance `perdure.query/…` while the query runs.
   *
   * @param query - a name, or a result of `defineQuery`, which types and checks the input and types the answer
   * @returns what the handler returned, as a copy
   * @throws the error that the handler threw; `DeterminismError` if it called a method of its context
   * @throws NotRegisteredError when the orchestration has no handler of that name by then, or neither this process nor
   *   a running worker has registered it
   * @throws InstanceNotFoundError when there is no instance of that id
   * @throws TimeoutError when no worker has answered in time
   * @throws NondeterminismError when the code does not fit the history
   * @throws the signal's reason when `signal` is aborted
   * @throws PayloadError when the input cannot be stored, or does not fit the schema of the query
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const count = await client.query('cart-7', itemCount);
   * ```
   */
  async query<I, O>(
    id: string,
    query: string | QueryDefinition<I, O, any>,
    ...args: InputArguments<NoInfer<I>, QueryOptions>
  ): Promise<O> {
    checkName(id, 'instance id');
    return (await ask(this.#port, this.#requests, id, query, args)) as O;
  }
}
