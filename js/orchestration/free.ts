/**
 * The methods of a context as functions that find the context themselves: `perdure/orchestration`.
 *
 * Each function does what the method of {@link OrchestrationContext} of its name does, for the orchestration whose code
 * is running, so that helpers need no `ctx` handed down. Outside of one they throw `DeterminismError`.
 */

import { contextFor, free } from './free-function.ts';
import type { OrchestrationContext } from './orchestration-context.ts';
import type { PublishedState } from './published-state.ts';

export { type Channel, CLOSED, type Closed } from '../driver/channel.ts';
export { type ContextLocal, contextLocal } from '../driver/context-local.ts';
export type { Deferred } from '../driver/deferred.ts';
export type { FiberFuture, Future } from '../driver/future.ts';
export { currentContext } from './free-function.ts';
export type { PublishedState } from './published-state.ts';
export type { OrchestrationStream } from './streams.ts';

/**
 * Runs an activity by name. Same as {@link OrchestrationContext.scheduleActivity}.
 *
 * @example
 * ```ts
 * const receipt = yield scheduleActivity('charge', order, { timeout: '30s' });
 * ```
 */
export const scheduleActivity = free('scheduleActivity');

/**
 * Runs an activity by its definition. Same as {@link OrchestrationContext#call}.
 *
 * @example
 * ```ts
 * const receipt = yield* call(charge, order);
 * ```
 */
export const call = free('call');

/**
 * Runs an inline activity. Same as {@link OrchestrationContext.run}.
 *
 * @example
 * ```ts
 * const rate = yield* run('rate', async ({ signal }) => readRate({ signal }));
 * ```
 */
export const run = free('run');

/**
 * Runs another orchestration as a child. Same as {@link OrchestrationContext.scheduleSubOrchestration}.
 *
 * @example
 * ```ts
 * const part = yield* scheduleSubOrchestration<Part>('pick', item);
 * ```
 */
export const scheduleSubOrchestration = free('scheduleSubOrchestration');

/**
 * Runs another orchestration as a child by its definition. Same as {@link OrchestrationContext.callOrchestration}.
 *
 * @example
 * ```ts
 * const receipt = yield* callOrchestration(payment, { total: 12 });
 * ```
 */
export const callOrchestration = free('callOrchestration');

/**
 * Starts a detached instance. Same as {@link OrchestrationContext.startOrchestration}.
 *
 * @example
 * ```ts
 * yield startOrchestration('audit', `audit-${order.id}`, order);
 * ```
 */
export const startOrchestration = free('startOrchestration');

/**
 * Starts a detached instance by its definition. Same as {@link OrchestrationContext.start}.
 *
 * @example
 * ```ts
 * const id = yield* start(audit, order);
 * ```
 */
export const start = free('start');

/**
 * Raises an event in another instance. Same as {@link OrchestrationContext.raiseEvent}.
 *
 * @example
 * ```ts
 * yield raiseEvent(order.customer, 'shipped', { order: order.id });
 * ```
 */
export const raiseEvent = free('raiseEvent');

/**
 * Puts a message into a queue of another instance. Same as {@link OrchestrationContext.enqueueEvent}.
 *
 * @example
 * ```ts
 * yield enqueueEvent('printer', 'jobs', { page: 1 });
 * ```
 */
export const enqueueEvent = free('enqueueEvent');

/**
 * Creates a durable timer. Same as {@link OrchestrationContext.scheduleTimer}.
 *
 * @example
 * ```ts
 * yield scheduleTimer('24h');
 * ```
 */
export const scheduleTimer = free('scheduleTimer');

/**
 * Creates a durable timer. Same as {@link OrchestrationContext.sleep}.
 *
 * @example
 * ```ts
 * yield sleep('1.5s');
 * ```
 */
export const sleep = free('sleep');

/**
 * Returns a future of the next event of a name. Same as {@link OrchestrationContext.waitForEvent}.
 *
 * @example
 * ```ts
 * const answer = yield waitForEvent('approve');
 * ```
 */
export const waitForEvent = free('waitForEvent');

/**
 * Returns a future of the next message of a FIFO queue. Same as {@link OrchestrationContext.dequeueEvent}.
 *
 * @example
 * ```ts
 * const task = yield dequeueEvent('tasks');
 * ```
 */
export const dequeueEvent = free('dequeueEvent');

/**
 * Runs a step for each item, a limited number at a time. Same as {@link OrchestrationContext#map}.
 *
 * @example
 * ```ts
 * const receipts = yield* map(orders, (order) => call(charge, order), { concurrency: 10 });
 * ```
 */
export const map = free('map');

/**
 * Runs a block whose steps are undone if it fails. Same as {@link OrchestrationContext#saga}.
 *
 * @example
 * ```ts
 * yield* saga(function* (undo) {
 *   undo(() => call(cancelFlight, trip));
 *   yield* call(bookFlight, trip);
 * });
 * ```
 */
export const saga = free('saga');

/**
 * Gives the next event of a name if there is one. Same as {@link OrchestrationContext#pollEvent}.
 *
 * @example
 * ```ts
 * if ((yield* pollEvent('stop')) !== undefined) return;
 * ```
 */
export const pollEvent = free('pollEvent');

/**
 * Gives the next message of a FIFO queue if there is one. Same as {@link OrchestrationContext#tryDequeue}.
 *
 * @example
 * ```ts
 * const task = yield* tryDequeue<Task>('tasks');
 * ```
 */
export const tryDequeue = free('tryDequeue');

/**
 * Gives the messages that a FIFO queue holds. Same as {@link OrchestrationContext#drainQueue}.
 *
 * @example
 * ```ts
 * const tasks = yield* drainQueue<Task>('tasks', 100);
 * ```
 */
export const drainQueue = free('drainQueue');

/**
 * Gives the next messages of a FIFO queue, up to a number and a time. Same as
 * {@link OrchestrationContext#dequeueBatch}.
 *
 * @example
 * ```ts
 * const batch = yield* dequeueBatch<Order>('orders', 100, '5s');
 * ```
 */
export const dequeueBatch = free('dequeueBatch');

/**
 * Gives the values of all branches, in their order. Same as {@link OrchestrationContext.all}.
 *
 * @example
 * ```ts
 * const [user, orders] = yield* all([call(loadUser, id), call(loadOrders, id)]);
 * ```
 */
export const all = free('all');

/**
 * Gives the outcome of each branch. Same as {@link OrchestrationContext.allSettled}.
 *
 * @example
 * ```ts
 * const results = yield* allSettled(orders.map((order) => call(charge, order)));
 * ```
 */
export const allSettled = free('allSettled');

/**
 * Gives the value of the first branch that succeeds. Same as {@link OrchestrationContext.any}.
 *
 * @example
 * ```ts
 * const quote = yield* any([call(askA, item), call(askB, item)], { cancelLosers: true });
 * ```
 */
export const any = free('any');

/**
 * Gives the first branch that settles, as `{ index, value }`. Same as {@link OrchestrationContext.race}.
 *
 * @example
 * ```ts
 * const first = yield* race(waitForEvent<Answer>('approve'), sleep('24h'));
 * ```
 */
export const race = free('race');

/**
 * Gives the first branch that settles, and its outcome, by its index. Same as {@link OrchestrationContext.raceSettled}.
 *
 * @example
 * ```ts
 * const first = yield* raceSettled(call(askA, item), call(askB, item));
 * ```
 */
export const raceSettled = free('raceSettled');

/**
 * Gives the first branch that settles, as `{ tag, value }`. Same as {@link OrchestrationContext.select}.
 *
 * @example
 * ```ts
 * const first = yield* select({ answer: waitForEvent<Answer>('answer'), late: sleep('24h') });
 * ```
 */
export const select = free('select');

/**
 * Gives the first branch that settles, and its outcome, by its tag. Same as {@link OrchestrationContext.selectSettled}.
 *
 * @example
 * ```ts
 * const first = yield* selectSettled({ a: call(askA, item), b: call(askB, item) });
 * ```
 */
export const selectSettled = free('selectSettled');

/**
 * Starts a fiber. Same as {@link OrchestrationContext.spawn}.
 *
 * @example
 * ```ts
 * const audit = spawn(function* () {
 *   yield* call(note, 'begun');
 * });
 * ```
 */
export const spawn = free('spawn');

/**
 * Makes a future that the code settles itself. Synchronous. Same as {@link OrchestrationContext.deferred}.
 *
 * @example
 * ```ts
 * const ready = deferred<Config>();
 * ```
 */
export const deferred = free('deferred');

/**
 * Makes a channel between fibers. Same as {@link OrchestrationContext.channel}.
 *
 * @example
 * ```ts
 * const jobs = channel<Order>();
 * ```
 */
export const channel = free('channel');

/**
 * Limits a branch in time. Same as {@link OrchestrationContext.withTimeout}.
 *
 * @example
 * ```ts
 * const receipt = yield* withTimeout('30s', call(charge, order));
 * ```
 */
export const withTimeout = free('withTimeout');

/**
 * Runs a block that no cancellation interrupts. Same as {@link OrchestrationContext.uncancellable}.
 *
 * @example
 * ```ts
 * yield* uncancellable(function* () {
 *   yield* call(debit, transfer);
 *   yield* call(credit, transfer);
 * });
 * ```
 */
export const uncancellable = free('uncancellable');

/**
 * Ends this execution and goes on as the next one of the same instance. Same as
 * {@link OrchestrationContext.continueAsNew}.
 *
 * @example
 * ```ts
 * return yield* continueAsNew(found.total);
 * ```
 */
export const continueAsNew = free('continueAsNew');

/**
 * Shows a status. Synchronous. Same as {@link OrchestrationContext.setCustomStatus}.
 *
 * @example
 * ```ts
 * setCustomStatus({ step: 'charged', done: 0.5 });
 * ```
 */
export const setCustomStatus = free('setCustomStatus');

/**
 * Removes the custom status. Synchronous. Same as {@link OrchestrationContext.resetCustomStatus}.
 *
 * @example
 * ```ts
 * resetCustomStatus();
 * ```
 */
export const resetCustomStatus = free('resetCustomStatus');

/**
 * Returns the custom status that was set last. Synchronous. Same as {@link OrchestrationContext.getCustomStatus}.
 *
 * @example
 * ```ts
 * const status = getCustomStatus<{ step: string }>();
 * ```
 */
export const getCustomStatus = free('getCustomStatus');

/**
 * Values that the instance publishes under names. Same as {@link OrchestrationContext.state}.
 *
 * @example
 * ```ts
 * state.set('progress', { done: 3, of: 10 });
 * ```
 */
export const state: PublishedState = {
  set: (name, value) => contextFor('state.set').state.set(name, value),
  get: (name) => contextFor('state.get').state.get(name),
  delete: (name) => contextFor('state.delete').state.delete(name),
  keys: () => contextFor('state.keys').state.keys(),
  clear: () => contextFor('state.clear').state.clear(),
};

/**
 * Reads a value, or all values, of another instance. Same as {@link OrchestrationContext#readState}.
 *
 * @example
 * ```ts
 * const progress = yield* readState<Progress>('order-1', 'progress');
 * ```
 */
export const readState = free('readState');

/**
 * Returns a stream of the instance, to write to. Synchronous. Same as {@link OrchestrationContext.stream}.
 *
 * @example
 * ```ts
 * stream('log').write({ step: 'charged' });
 * ```
 */
export const stream = free('stream');

/**
 * Handles the updates of a name. Synchronous. Same as {@link OrchestrationContext.onUpdate}.
 *
 * @example
 * ```ts
 * onUpdate(addItem, function* (item) {
 *   yield* call(reserve, item);
 *   return items.push(item);
 * });
 * ```
 */
export const onUpdate = free('onUpdate');

/**
 * Answers the queries of a name. Synchronous. Same as {@link OrchestrationContext.onQuery}.
 *
 * @example
 * ```ts
 * onQuery(count, () => items.length);
 * ```
 */
export const onQuery = free('onQuery');

/**
 * Takes no more updates, and waits for the handlers that run. Same as {@link OrchestrationContext.finishUpdates}.
 *
 * @example
 * ```ts
 * yield* finishUpdates();
 * return items.length;
 * ```
 */
export const finishUpdates = free('finishUpdates');

/**
 * Sends an update to another instance. Same as {@link OrchestrationContext.update}.
 *
 * @example
 * ```ts
 * const count = yield* update('cart-7', addItem, { sku: 'tea' });
 * ```
 */
export const update = free('update');

/**
 * Returns an entity to call. Same as {@link OrchestrationContext.entity}.
 *
 * @example
 * ```ts
 * const count = yield* entity(cart, 'user-7').add({ sku: 'tea' });
 * ```
 */
export const entity = free('entity');

/**
 * Makes a token. Same as {@link OrchestrationContext.token}.
 *
 * @example
 * ```ts
 * const approval = token<{ by: string }>({ timeout: '3d' });
 * ```
 */
export const token = free('token');

/**
 * Runs a block that holds locks. Same as {@link OrchestrationContext.lock}.
 *
 * @example
 * ```ts
 * yield* lock('printer', printAll(pages));
 * ```
 */
export const lock = free('lock');

/**
 * Logs a line at level debug. Synchronous; silent while replaying. Same as {@link OrchestrationContext.traceDebug}.
 *
 * @example
 * ```ts
 * traceDebug('charging', { order: order.id });
 * ```
 */
export const traceDebug = free('traceDebug');

/**
 * Logs a line at level info. Synchronous; silent while replaying. Same as {@link OrchestrationContext.traceInfo}.
 *
 * @example
 * ```ts
 * traceInfo('charged', { order: order.id });
 * ```
 */
export const traceInfo = free('traceInfo');

/**
 * Logs a line at level warn. Synchronous; silent while replaying. Same as {@link OrchestrationContext.traceWarn}.
 *
 * @example
 * ```ts
 * traceWarn('no answer yet');
 * ```
 */
export const traceWarn = free('traceWarn');

/**
 * Logs a line at level error. Synchronous; silent while replaying. Same as {@link OrchestrationContext.traceError}.
 *
 * @example
 * ```ts
 * traceError('gave up', { after: '24h' });
 * ```
 */
export const traceError = free('traceError');

/**
 * Returns the deterministic time, in ms since 1970. Synchronous. Same as {@link OrchestrationContext.now}.
 *
 * @example
 * ```ts
 * const deadline = new Date(now() + 60_000);
 * ```
 */
export const now = free('now');

/**
 * Returns a number in 0..1, the same in every replay. Synchronous. Same as {@link OrchestrationContext.random}.
 *
 * @example
 * ```ts
 * const delay = 1_000 * random();
 * ```
 */
export const random = free('random');

/**
 * Returns a UUID of version 4, the same in every replay. Synchronous. Same as {@link OrchestrationContext.randomUUID}.
 *
 * @example
 * ```ts
 * const key = randomUUID();
 * ```
 */
export const randomUUID = free('randomUUID');

/**
 * Returns true if this execution has a change of its code. Synchronous. Same as {@link OrchestrationContext.patched}.
 *
 * @example
 * ```ts
 * if (patched('check-fraud-first')) yield* call(checkFraud, order);
 * ```
 */
export const patched = free('patched');
