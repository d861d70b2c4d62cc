/**
 * What a context does, as functions that find it: `perdure/orchestration`.
 *
 * Each does what the method of {@link OrchestrationContext} of its name does, for the orchestration whose code is running,
 * so that helpers need no `ctx` handed down. Outside of one they throw `DeterminismError`.
 */

import { currentFiber } from '../driver/current.ts';
import { DeterminismError } from '../errors/errors.ts';
import type { OrchestrationContext } from './orchestration.ts';

export { type Channel, CLOSED, type Closed } from '../driver/channel.ts';
export { type ContextLocal, contextLocal } from '../driver/context-local.ts';
export type { Deferred } from '../driver/deferred.ts';
export type { FiberFuture, Future } from '../driver/future.ts';

type AnyFunction = (...args: any[]) => unknown;

/** The names of the methods; the others are facts. */
type MethodName = {
  [Name in keyof OrchestrationContext]: OrchestrationContext[Name] extends AnyFunction ? Name : never;
}[keyof OrchestrationContext];

/**
 * The context of the orchestration whose code is running: for facts such as `instanceId` and `isReplaying`.
 *
 * @throws DeterminismError when none is running
 *
 * @example
 * ```ts
 * const key = `${currentContext().instanceId}/invoice`;
 * ```
 */
export function currentContext(): OrchestrationContext {
  return contextFor('currentContext');
}

function contextFor(name: string): OrchestrationContext {
  const context = currentFiber()?.scheduler.context as OrchestrationContext | null | undefined;
  if (context) return context;
  throw new DeterminismError(
    `${name}() was called while no orchestration was running: the functions of 'perdure/orchestration' work only in the function* ` +
      'of an orchestration and in what it calls, not in an activity, a promise callback or a timer',
    { called: name, instead: `call ${name}() directly in the function* of an orchestration` },
  );
}

/** A method as a function, of its type. */
function free<Name extends MethodName>(name: Name): OrchestrationContext[Name] {
  const found: AnyFunction = (...args) => {
    const context = contextFor(name);
    return (context[name] as AnyFunction).apply(context, args);
  };
  Object.defineProperty(found, 'name', { value: name });
  return found as OrchestrationContext[Name];
}

/**
 * Run an activity by name. As {@link OrchestrationContext.scheduleActivity}.
 *
 * @example
 * ```ts
 * const receipt = yield scheduleActivity('charge', order, { timeout: '30s' });
 * ```
 */
export const scheduleActivity = free('scheduleActivity');

/**
 * Run an activity by its definition. As {@link OrchestrationContext#call}.
 *
 * @example
 * ```ts
 * const receipt = yield* call(charge, order);
 * ```
 */
export const call = free('call');

/**
 * Run an inline activity. As {@link OrchestrationContext.run}.
 *
 * @example
 * ```ts
 * const rate = yield* run('rate', async ({ signal }) => readRate({ signal }));
 * ```
 */
export const run = free('run');

/**
 * Run another orchestration as a child. As {@link OrchestrationContext.scheduleSubOrchestration}.
 *
 * @example
 * ```ts
 * const part = yield* scheduleSubOrchestration<Part>('pick', item);
 * ```
 */
export const scheduleSubOrchestration = free('scheduleSubOrchestration');

/**
 * Run another orchestration as a child by its definition. As {@link OrchestrationContext.callOrchestration}.
 *
 * @example
 * ```ts
 * const receipt = yield* callOrchestration(payment, { total: 12 });
 * ```
 */
export const callOrchestration = free('callOrchestration');

/**
 * Start an instance that goes its own way. As {@link OrchestrationContext.startOrchestration}.
 *
 * @example
 * ```ts
 * yield startOrchestration('audit', `audit-${order.id}`, order);
 * ```
 */
export const startOrchestration = free('startOrchestration');

/**
 * Raise an event in another instance. As {@link OrchestrationContext.raiseEvent}.
 *
 * @example
 * ```ts
 * yield raiseEvent(order.customer, 'shipped', { order: order.id });
 * ```
 */
export const raiseEvent = free('raiseEvent');

/**
 * Put a message into a queue of another instance. As {@link OrchestrationContext.enqueueEvent}.
 *
 * @example
 * ```ts
 * yield enqueueEvent('printer', 'jobs', { page: 1 });
 * ```
 */
export const enqueueEvent = free('enqueueEvent');

/**
 * A durable timer. As {@link OrchestrationContext.scheduleTimer}.
 *
 * @example
 * ```ts
 * yield scheduleTimer('24h');
 * ```
 */
export const scheduleTimer = free('scheduleTimer');

/**
 * A durable timer. As {@link OrchestrationContext.sleep}.
 *
 * @example
 * ```ts
 * yield sleep('1.5s');
 * ```
 */
export const sleep = free('sleep');

/**
 * The next event of a name. As {@link OrchestrationContext.waitForEvent}.
 *
 * @example
 * ```ts
 * const answer = yield waitForEvent('approve');
 * ```
 */
export const waitForEvent = free('waitForEvent');

/**
 * The next message of a FIFO queue. As {@link OrchestrationContext.dequeueEvent}.
 *
 * @example
 * ```ts
 * const task = yield dequeueEvent('tasks');
 * ```
 */
export const dequeueEvent = free('dequeueEvent');

/**
 * All values, in the order of the branches. As {@link OrchestrationContext.all}.
 *
 * @example
 * ```ts
 * const [user, orders] = yield* all([call(loadUser, id), call(loadOrders, id)]);
 * ```
 */
export const all = free('all');

/**
 * What became of each branch. As {@link OrchestrationContext.allSettled}.
 *
 * @example
 * ```ts
 * const results = yield* allSettled(orders.map((order) => call(charge, order)));
 * ```
 */
export const allSettled = free('allSettled');

/**
 * The value of the first branch that succeeds. As {@link OrchestrationContext.any}.
 *
 * @example
 * ```ts
 * const quote = yield* any([call(askA, item), call(askB, item)], { cancelLosers: true });
 * ```
 */
export const any = free('any');

/**
 * The first branch that settles, as `{ index, value }`. As {@link OrchestrationContext.race}.
 *
 * @example
 * ```ts
 * const first = yield* race(waitForEvent<Answer>('approve'), sleep('24h'));
 * ```
 */
export const race = free('race');

/**
 * The first branch that settles, and what became of it, by its index. As {@link OrchestrationContext.raceSettled}.
 *
 * @example
 * ```ts
 * const first = yield* raceSettled(call(askA, item), call(askB, item));
 * ```
 */
export const raceSettled = free('raceSettled');

/**
 * The first branch that settles, as `{ tag, value }`. As {@link OrchestrationContext.select}.
 *
 * @example
 * ```ts
 * const first = yield* select({ answer: waitForEvent<Answer>('answer'), late: sleep('24h') });
 * ```
 */
export const select = free('select');

/**
 * The first branch that settles, and what became of it, by its tag. As {@link OrchestrationContext.selectSettled}.
 *
 * @example
 * ```ts
 * const first = yield* selectSettled({ a: call(askA, item), b: call(askB, item) });
 * ```
 */
export const selectSettled = free('selectSettled');

/**
 * Start a fiber. As {@link OrchestrationContext.spawn}.
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
 * A future that the code settles itself. Synchronous. As {@link OrchestrationContext.deferred}.
 *
 * @example
 * ```ts
 * const ready = deferred<Config>();
 * ```
 */
export const deferred = free('deferred');

/**
 * A channel between fibers. As {@link OrchestrationContext.channel}.
 *
 * @example
 * ```ts
 * const jobs = channel<Order>();
 * ```
 */
export const channel = free('channel');

/**
 * A branch with a limit of time. As {@link OrchestrationContext.withTimeout}.
 *
 * @example
 * ```ts
 * const receipt = yield* withTimeout('30s', call(charge, order));
 * ```
 */
export const withTimeout = free('withTimeout');

/**
 * Run a block that no cancellation interrupts. As {@link OrchestrationContext.uncancellable}.
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
 * End this execution and go on as the next one of the same instance. As {@link OrchestrationContext.continueAsNew}.
 *
 * @example
 * ```ts
 * return yield* continueAsNew(found.total);
 * ```
 */
export const continueAsNew = free('continueAsNew');

/**
 * Show a status. Synchronous. As {@link OrchestrationContext.setCustomStatus}.
 *
 * @example
 * ```ts
 * setCustomStatus({ step: 'charged', done: 0.5 });
 * ```
 */
export const setCustomStatus = free('setCustomStatus');

/**
 * Take the custom status away. Synchronous. As {@link OrchestrationContext.resetCustomStatus}.
 *
 * @example
 * ```ts
 * resetCustomStatus();
 * ```
 */
export const resetCustomStatus = free('resetCustomStatus');

/**
 * The custom status that was set last. Synchronous. As {@link OrchestrationContext.getCustomStatus}.
 *
 * @example
 * ```ts
 * const status = getCustomStatus<{ step: string }>();
 * ```
 */
export const getCustomStatus = free('getCustomStatus');

/**
 * Log a line at level debug. Synchronous; silent while replaying. As {@link OrchestrationContext.traceDebug}.
 *
 * @example
 * ```ts
 * traceDebug('charging', { order: order.id });
 * ```
 */
export const traceDebug = free('traceDebug');

/**
 * Log a line at level info. Synchronous; silent while replaying. As {@link OrchestrationContext.traceInfo}.
 *
 * @example
 * ```ts
 * traceInfo('charged', { order: order.id });
 * ```
 */
export const traceInfo = free('traceInfo');

/**
 * Log a line at level warn. Synchronous; silent while replaying. As {@link OrchestrationContext.traceWarn}.
 *
 * @example
 * ```ts
 * traceWarn('no answer yet');
 * ```
 */
export const traceWarn = free('traceWarn');

/**
 * Log a line at level error. Synchronous; silent while replaying. As {@link OrchestrationContext.traceError}.
 *
 * @example
 * ```ts
 * traceError('gave up', { after: '24h' });
 * ```
 */
export const traceError = free('traceError');

/**
 * The deterministic time, in ms since 1970. Synchronous. As {@link OrchestrationContext.now}.
 *
 * @example
 * ```ts
 * const deadline = new Date(now() + 60_000);
 * ```
 */
export const now = free('now');

/**
 * A number in 0..1, the same in every replay. Synchronous. As {@link OrchestrationContext.random}.
 *
 * @example
 * ```ts
 * const delay = 1_000 * random();
 * ```
 */
export const random = free('random');

/**
 * A UUID of version 4, the same in every replay. Synchronous. As {@link OrchestrationContext.randomUUID}.
 *
 * @example
 * ```ts
 * const key = randomUUID();
 * ```
 */
export const randomUUID = free('randomUUID');

/**
 * Whether this execution has a change of its code. Synchronous. As {@link OrchestrationContext.patched}.
 *
 * @example
 * ```ts
 * if (patched('check-fraud-first')) yield* call(checkFraud, order);
 * ```
 */
export const patched = free('patched');
