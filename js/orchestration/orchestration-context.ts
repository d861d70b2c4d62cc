// Orchestrations: their definition, and the context that their code works with.

import { types } from 'node:util';
import { type ActivityDefinition, isActivity } from '../activity/activity.ts';
import type { ActivityContext } from '../activity/activity-context.ts';
import {
  type ActivityOptions,
  checkActivityOptions,
  checkInlineOptions,
  type InlineOptions,
  recordedInline,
} from '../activity/activity-options.ts';
import type { OnEnd } from '../driver/cancelling.ts';
import { type Channel, FiberChannel } from '../driver/channel.ts';
import { CheckedEventFuture } from '../driver/checked-event.ts';
import type {
  Branch,
  BranchValue,
  BranchValues,
  CombineOptions,
  RaceResult,
  SelectResult,
  SettledRaceResult,
  SettledSelectResult,
} from '../driver/combinator.ts';
import * as combinators from '../driver/combinator.ts';
import { Continuation } from '../driver/continuation.ts';
import { type Deferred, DeferredFuture } from '../driver/deferred.ts';
import { asyncRefusal, claim, describeValue, isGenerator } from '../driver/fiber.ts';
import type { FiberFuture, Future } from '../driver/future.ts';
import { MailboxFuture } from '../driver/mailbox.ts';
import { ActivityFuture, InlineFuture, TimerFuture } from '../driver/operation.ts';
import { ChildFuture, SentFuture } from '../driver/others.ts';
import type { FiberScheduler } from '../driver/scheduler.ts';
import { captureSource } from '../driver/source.ts';
import { getCustomStatus, setCustomStatus } from '../driver/status.ts';
import type { TraceFields, TraceLevel } from '../logging/fields.ts';
import { type TraceOrigin, trace } from '../tracing/trace.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import {
  checkName,
  checkOptions,
  duration,
  ISO_TIME,
  named,
  type OptionTable,
  oneOf,
  priority,
  textsByName,
} from '../util/options.ts';
import { isDefined, property } from '../util/show.ts';
import type { RuntimeLimits } from '../values/limits.ts';
import { toPayload } from '../values/payload.ts';
import { checkSchema, parseSync, type SchemaInput, type SchemaOutput, type StandardSchema } from '../values/schema.ts';
import { fingerprintOf } from './fingerprint.ts';

/** The generator that an orchestration function returns. */
export type OrchestrationGenerator<O = any> = Generator<any, O, any>;

/** The function of an orchestration: a `function*` that yields futures. */
export type OrchestrationFunction<I = any, O = any> = (
  ctx: OrchestrationContext,
  input: I,
) => OrchestrationGenerator<O>;

/** Options of {@link defineOrchestration} and `runtime.registerOrchestration`. */
export interface OrchestrationOptions {
  /** Its version, such as `'1.2.0'`. Instances stay with the version that they were started with. Default `'1.0.0'`. */
  version?: string;
  /**
   * The time for which an instance may go on after it was asked to cancel. The instance then ends as Cancelled, no
   * matter what its code does, and cleanup that has not ended is dropped. The time counts from when the code hears of
   * the request, and is the one of the code that runs then. Default: no limit.
   */
  cancelGrace?: Duration;
  /**
   * The policy for fibers that have not ended when the function returns or throws. If the execution continued as new,
   * the policy applies before the next execution begins. `'drop'` (default): the fibers end where they are, without
   * their cleanup. `'cancel'`: they are cancelled, and the instance ends when they have cleaned up. `'join'`: the
   * instance ends when they have ended. With `'cancel'` and `'join'` the instance fails with the first error of such a
   * fiber, unless its function threw.
   */
  onEnd?: OnEnd;
}

/** An orchestration with its name and version, as {@link defineOrchestration} makes it. */
export interface OrchestrationDefinition<I = any, O = any> {
  readonly kind: 'orchestration';
  readonly name: string;
  readonly version: string;
  readonly fn: OrchestrationFunction<I, O>;
  /**
   * The fingerprint of the text of the function that it was defined with. An instance that this code does not fit goes
   * on once the fingerprint is another.
   */
  readonly fingerprint: string;
  /** The time for which an instance may go on after it was asked to cancel, in ms; `undefined` for no limit. */
  readonly cancelGraceMs?: number | undefined;
  /** The policy for fibers that are left when the function has ended; `undefined` drops them. */
  readonly onEnd?: OnEnd | undefined;
  /** The schema that checks the input, if there is one. */
  readonly input?: StandardSchema | undefined;
}

/** The parts of a definition that running it needs. */
export type RunnableOrchestration = Pick<OrchestrationDefinition, 'fn' | 'cancelGraceMs' | 'onEnd'>;

/** Options of an instance that is started. */
export interface InstanceOptions {
  /**
   * Version of its orchestration. Default: the highest version that a runtime of this process has registered. If no
   * such runtime has that orchestration, the default is the newest version that any live worker of the store has. That
   * version is settled when a worker comes by the instance, and the worker may be started later.
   */
  version?: string;
  /** Instances of higher priority are taken first. Default 0. */
  priority?: number;
  /** Texts to find the instance by. */
  tags?: Readonly<Record<string, string>>;
}

/** The checks of {@link InstanceOptions}. */
export const INSTANCE_OPTIONS = {
  version: named,
  priority,
  tags: textsByName,
} satisfies OptionTable;

/** Options of a child. */
export interface ChildOptions extends InstanceOptions {
  /** The child's id. Default: the id of the parent, a slash, and a UUID. */
  id?: string;
}

const CHILD_OPTIONS: OptionTable = { ...INSTANCE_OPTIONS, id: named };

/** Longest id of an instance, in characters. */
const ID_MAX = 256;

/** Options of {@link OrchestrationContext.continueAsNew}. */
export interface ContinueAsNewOptions {
  /** Version of the orchestration that the next execution runs. Default: the version of this execution. */
  version?: string;
}

const CONTINUE_OPTIONS: OptionTable = { version: named };

/**
 * The number of open operations up to which the source lines of new ones are kept. A line costs more time and memory
 * than the operation itself.
 */
const SOURCES_MAX = 10_000;

/**
 * The number of events from which an execution is advised to continue as new. Part of the format: replays decide by it.
 */
const LONG_HISTORY = 10_000;

/** The version of an orchestration that names none. */
export const DEFAULT_VERSION = '1.0.0';

/**
 * Defines an orchestration: register it with `runtime.register`, start it with `client.start`.
 *
 * @param name - 1 to 256 characters
 * @param fn - a `function*`; it runs again from its start after a crash, with the recorded results, so it must do the
 *   same things again: no clock, randomness or IO of its own
 * @param options - its `version`, its `cancelGrace` and `onEnd`, and `input`: a Standard Schema (Zod, Valibot, ArkType
 *   …). `client.start` throws `PayloadError` for an input that does not fit the schema. An execution that was started
 *   by name with such an input fails with that error. `fn` gets the schema's output for the input. The output is made
 *   anew in each replay, so the schema must answer at once (no promise) and always alike
 * @throws TypeError when an argument is wrong
 *
 * @example
 * ```ts
 * const order = defineOrchestration('order', function* (ctx, input: Order) {
 *   const receipt = yield* ctx.call(charge, input);
 *   return receipt.id;
 * }, { version: '1.2.0' });
 * runtime.register(charge, order);
 * const handle = await client.start(order, { total: 12 });
 * ```
 */
export function defineOrchestration<S extends StandardSchema, O = unknown>(
  name: string,
  fn: (ctx: OrchestrationContext, input: SchemaOutput<S>) => OrchestrationGenerator<O>,
  options: OrchestrationOptions & { input: S },
): OrchestrationDefinition<SchemaInput<S>, O>;
export function defineOrchestration<I = undefined, O = unknown>(
  name: string,
  fn: (ctx: OrchestrationContext, input: I) => OrchestrationGenerator<O>,
  options?: OrchestrationOptions,
): OrchestrationDefinition<I, O>;
export function defineOrchestration(
  name: string,
  fn: OrchestrationFunction,
  options?: OrchestrationOptions & { input?: StandardSchema | undefined },
): OrchestrationDefinition {
  checkName(name, 'orchestration name');
  checkOrchestrationFunction(fn, name);
  const {
    version = DEFAULT_VERSION,
    input: schema,
    cancelGrace,
    onEnd,
  } = checkOptions(options, DEFINITION_OPTIONS, `orchestration '${name}'`) ?? {};
  const cancelGraceMs = cancelGrace === undefined ? undefined : parseDuration(cancelGrace, 'cancelGrace');
  const common = {
    kind: 'orchestration',
    name,
    version,
    fingerprint: fingerprintOf(fn),
    ...(cancelGraceMs === undefined ? {} : { cancelGraceMs }),
    ...(onEnd === undefined ? {} : { onEnd }),
  } as const;
  if (schema === undefined) return Object.freeze({ ...common, fn });
  const checked: OrchestrationFunction = (ctx, input) =>
    fn(ctx, parseSync(schema, input, 'input', `orchestration '${name}'`));
  return Object.freeze({ ...common, fn: checked, input: schema });
}

/** True if a value is a result of {@link defineOrchestration}, here or in another copy of this package. */
export function isOrchestration(value: unknown): value is OrchestrationDefinition {
  return (
    isDefined(value, 'orchestration') &&
    ['version', 'fingerprint'].every((key) => typeof property(value, key) === 'string')
  );
}

const DEFINITION_OPTIONS: OptionTable = {
  version: named,
  input: checkSchema,
  cancelGrace: duration(),
  onEnd: oneOf('drop', 'cancel', 'join'),
};

function checkOrchestrationFunction(fn: unknown, name: string): void {
  const refusal = typeof fn === 'function' ? asyncRefusal(fn) : describeValue(fn);
  if (refusal !== undefined) throw new TypeError(`orchestration '${name}' must be a function*, got ${refusal}`);
}

/** Returns the kind of a function, in JavaScript's words; a proxy may not tell. */
function tagOf(fn: unknown): string {
  try {
    return Object.prototype.toString.call(fn);
  } catch {
    return '';
  }
}

/** Checks the block that a method was given to run as a fiber, and claims it if it is a generator. */
function checkBlock(body: unknown, method: string): void {
  if (typeof body !== 'function' && isGenerator(body)) return claim(body, `ctx.${method}: the block`);
  const refusal = typeof body === 'function' ? asyncRefusal(body) : describeValue(body);
  if (refusal !== undefined)
    throw new TypeError(`ctx.${method} takes a function*, or what a call of one returned, not ${refusal}`);
}

function checkInlineFunction(fn: unknown, name: string): void {
  if (typeof fn === 'function' && !tagOf(fn).endsWith('GeneratorFunction]')) return;
  const got = typeof fn === 'function' ? 'a function*: what it waits for is not recorded by itself' : describeValue(fn);
  throw new TypeError(`inline activity '${name}' must be a function, often an async one, got ${got}`);
}

/** The last arguments of a call. The input may be left out where it may be `undefined`. */
export type InputArguments<I, Options> = undefined extends I
  ? [input?: I, options?: Options]
  : [input: I, options?: Options];

/** Facts of an execution, the same in every replay. */
export interface OrchestrationFacts {
  readonly instanceId: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
  readonly parentId: string | undefined;
}

/** The part of the runtime that a context needs. */
export interface OrchestrationHost {
  /**
   * Returns the JSON to record with a schedule: the options of the call over those of the activity's registration here,
   * or over `defined` if the activity is not registered here.
   */
  recordedOptions(
    name: string,
    called: ActivityOptions | undefined,
    defined: ActivityOptions | undefined,
  ): string | null;
  /** True if futures remember the line that made them. */
  readonly sourceStacks: boolean;
  readonly limits: Required<RuntimeLimits>;
}

/**
 * The context of an orchestration. Its methods schedule work at once and return a {@link Future}, unless they are said
 * to be synchronous. Two calls before the first `yield` run in parallel. The methods work only inside the `function*`
 * that was given this context.
 */
export class OrchestrationContext {
  readonly #scheduler: FiberScheduler;
  readonly #facts: OrchestrationFacts;
  readonly #host: OrchestrationHost;
  readonly #origin: TraceOrigin;

  /** @internal */
  constructor(scheduler: FiberScheduler, facts: OrchestrationFacts, host: OrchestrationHost) {
    this.#scheduler = scheduler;
    this.#facts = facts;
    this.#host = host;
    scheduler.context = this;
    this.#origin = { instanceId: facts.instanceId, executionId: facts.executionId, orchestrationName: facts.name };
  }

  /** Id of this instance. */
  get instanceId(): string {
    return this.#facts.instanceId;
  }

  /** Number of this execution of the instance, from 1. */
  get executionId(): number {
    return this.#facts.executionId;
  }

  /** Name of this orchestration. */
  get name(): string {
    return this.#facts.name;
  }

  /** Version of this orchestration that the instance was started with. */
  get version(): string {
    return this.#facts.version;
  }

  /** Id of the instance that waits for this one, if it is a child. */
  get parentId(): string | undefined {
    return this.#facts.parentId;
  }

  /** Number of events recorded in this execution up to here, the same in every replay. */
  get historyLength(): number {
    this.#scheduler.assertRunning('historyLength');
    return this.#scheduler.port.historyLength();
  }

  /**
   * True once this execution has become so long (10 000 events) that it should {@link continueAsNew} at its next
   * convenience. The same in every replay.
   */
  get continueAsNewSuggested(): boolean {
    return this.historyLength >= LONG_HISTORY;
  }

  /**
   * True while a replay takes the code through the steps that it took before. For logging only: all else that depends
   * on it breaks the replay.
   */
  get isReplaying(): boolean {
    this.#scheduler.assertRunning('isReplaying');
    return this.#scheduler.port.isReplaying();
  }

  /**
   * Runs an activity: at least once, and its result is recorded once.
   *
   * @param name - the name that the activity is registered under
   * @param input - any value that can be stored
   * @param options - over those of the registration
   * @returns a future of its output; it fails with `ActivityError` (`cause` is what the activity threw)
   * @throws PayloadError when the input cannot be stored
   * @throws TypeError when a name or an option is wrong
   *
   * @example
   * ```ts
   * const receipt = yield ctx.scheduleActivity('charge', order, { timeout: '30s' });
   * ```
   */
  scheduleActivity<T = any>(name: string, input?: unknown, options?: ActivityOptions): Future<T> {
    this.#scheduler.assertRunning('scheduleActivity');
    checkName(name, 'activity name');
    return this.#activity<T>(name, input, options).askedAt(this.#marks ? captureSource() : undefined);
  }

  /**
   * Runs an activity by its definition. Otherwise the same as {@link scheduleActivity}, with types.
   *
   * @example
   * ```ts
   * const receipt = yield* ctx.call(charge, order);
   * ```
   */
  call<I, O>(activity: ActivityDefinition<I, O>, ...args: InputArguments<I, ActivityOptions>): Future<O> {
    this.#scheduler.assertRunning('call');
    if (!isActivity(activity)) {
      const hint = isOrchestration(activity) ? ', which ctx.callOrchestration takes' : '';
      throw new TypeError(`ctx.call takes what defineActivity returned, not ${describeValue(activity)}${hint}`);
    }
    if (activity.input !== undefined) parseSync(activity.input, args[0], 'input', `activity '${activity.name}'`);
    return this.#activity<O>(activity.name, args[0], args[1], activity.options).askedAt(
      this.#marks ? captureSource() : undefined,
    );
  }

  /**
   * Runs a function as an inline activity: right here, in this process, and records its result. The function may do
   * what an orchestration may not (IO, clocks, randomness) and is given the context of an activity. It runs at least
   * once, as any activity does, with the same options. Its result, and what it takes from the code around it, must not
   * depend on it being called only once. It cannot use this `ctx`.
   *
   * While the activity is open, the orchestration stays in memory. Another process that goes on with the instance runs
   * the activity there.
   *
   * @param name - 1 to 256 characters; recorded in histories, so it must stay the same over versions
   * @param fn - often `async`; its result is recorded, and must be a value that can be stored
   * @param options - the same as of any activity, except for the queue; none are registered
   * @returns a future of its output; it fails with `ActivityError` (`cause` is what the function threw)
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const rate = yield* ctx.run('rate', async ({ signal }) => {
   *   const response = await fetch(`https://rates.example/${input.currency}`, { signal });
   *   return (await response.json()) as Rate;
   * }, { timeout: '10s' });
   * ```
   */
  run<O>(name: string, fn: (ctx: ActivityContext) => O | PromiseLike<O>, options?: InlineOptions): Future<O> {
    const scheduler = this.#scheduler;
    scheduler.assertRunning('run');
    checkName(name, 'activity name');
    checkInlineFunction(fn, name);
    const checked = options === undefined ? options : checkInlineOptions(options, `activity '${name}'`);
    const operation = this.#schedule(name, null, recordedInline(checked));
    return new InlineFuture<O>(scheduler, operation, name, fn).askedAt(this.#marks ? captureSource() : undefined);
  }

  /**
   * Runs another orchestration as a child: an instance of its own, whose end this instance waits for. The child is
   * cancelled when the future or this instance is cancelled, and when this execution ends.
   *
   * @param name - the name that the orchestration is registered under, here or in another process
   * @param input - any value that can be stored
   * @param options - its `id`, `version`, `tags` and `priority`
   * @returns a future of its output; it fails with `SubOrchestrationError` (`cause` is the error that the child ended
   *   with, or `InstanceExistsError` when the id is in use)
   * @throws PayloadError when the input cannot be stored
   * @throws TypeError when a name or an option is wrong
   *
   * @example
   * ```ts
   * const parts = yield* ctx.all(order.items.map((item) => ctx.scheduleSubOrchestration<Part>('pick', item)));
   * ```
   */
  scheduleSubOrchestration<T = any>(name: string, input?: unknown, options?: ChildOptions): Future<T> {
    this.#scheduler.assertRunning('scheduleSubOrchestration');
    checkName(name, 'orchestration name');
    return this.#child<T>(name, input, options).askedAt(this.#marks ? captureSource() : undefined);
  }

  /**
   * Runs another orchestration as a child by its definition, in the version of the definition unless the options name
   * another. Otherwise the same as {@link scheduleSubOrchestration}, with types.
   *
   * @example
   * ```ts
   * const receipt = yield* ctx.callOrchestration(payment, { total: 12 });
   * ```
   */
  callOrchestration<I, O>(
    orchestration: OrchestrationDefinition<I, O>,
    ...args: InputArguments<I, ChildOptions>
  ): Future<O> {
    this.#scheduler.assertRunning('callOrchestration');
    if (!isOrchestration(orchestration)) {
      const hint = isActivity(orchestration) ? ', which ctx.call takes' : '';
      throw new TypeError(
        `ctx.callOrchestration takes what defineOrchestration returned, not ${describeValue(orchestration)}${hint}`,
      );
    }
    const { name, version, input: schema } = orchestration;
    const [input, options] = args;
    if (schema !== undefined) parseSync(schema, input, 'input', `orchestration '${name}'`);
    return this.#child<O>(name, input, options, version).askedAt(this.#marks ? captureSource() : undefined);
  }

  /**
   * Starts a detached instance: this instance does not learn of its end, and neither the end nor a cancellation of this
   * instance reaches it.
   *
   * @param name - the name that the orchestration is registered under, here or in another process
   * @param id - its id
   * @param input - any value that can be stored
   * @param options - its `version`, `tags` and `priority`
   * @returns a future of the id, which settles when the start is durable; it fails with `InstanceExistsError` when the
   *   id is in use. The instance is started whether or not a fiber waits
   * @throws PayloadError when the input cannot be stored
   * @throws TypeError when a name, an id or an option is wrong
   *
   * @example
   * ```ts
   * yield ctx.startOrchestration('audit', `audit-${ctx.instanceId}`, order);
   * ```
   */
  startOrchestration(name: string, id: string, input?: unknown, options?: InstanceOptions): Future<string> {
    const scheduler = this.#scheduler;
    scheduler.assertRunning('startOrchestration');
    checkName(name, 'orchestration name');
    checkName(id, 'instance id');
    const checked = checkOptions(options, INSTANCE_OPTIONS, `orchestration '${name}'`);
    const operation = this.#startInstance(false, name, id, input, checked);
    return new SentFuture(scheduler, operation, id, id).askedAt(this.#marks ? captureSource() : undefined);
  }

  /**
   * Raises an event in another instance, once, as `client.raiseEvent` does.
   *
   * @returns a future that settles when the event is durable; it fails with `InstanceNotFoundError`, or with
   *   `RuntimeStateError` when that instance has ended. The event is sent whether or not a fiber waits
   * @throws PayloadError when the data cannot be stored
   * @throws TypeError when the id or the name is wrong
   *
   * @example
   * ```ts
   * yield ctx.raiseEvent(order.customer, 'shipped', { order: ctx.instanceId });
   * ```
   */
  raiseEvent(id: string, name: string, data?: unknown): Future<void> {
    this.#scheduler.assertRunning('raiseEvent');
    checkName(name, 'event name');
    return this.#send(id, `e${name}`, data).askedAt(this.#marks ? captureSource() : undefined);
  }

  /**
   * Puts a message into a queue of another instance, once, as `client.enqueueEvent` does. Otherwise the same as
   * {@link raiseEvent}.
   *
   * @example
   * ```ts
   * yield ctx.enqueueEvent('printer', 'jobs', { page: 1 });
   * ```
   */
  enqueueEvent(id: string, queue: string, data?: unknown): Future<void> {
    this.#scheduler.assertRunning('enqueueEvent');
    checkName(queue, 'queue name');
    return this.#send(id, `q${queue}`, data).askedAt(this.#marks ? captureSource() : undefined);
  }

  /**
   * Creates a durable timer. Its due time is fixed now. A timer that no fiber waits for wakes no fiber.
   *
   * @param due - a duration (ms, or text such as `'24h'`), or a time (a `Date`, or ISO text)
   * @throws TypeError when it is neither
   *
   * @example
   * ```ts
   * yield ctx.scheduleTimer('24h');
   * yield ctx.scheduleTimer(new Date('2030-01-01T00:00:00Z'));
   * ```
   */
  scheduleTimer(due: Duration | Date): Future<void> {
    this.#scheduler.assertRunning('scheduleTimer');
    return this.#timer(due, 'scheduleTimer').askedAt(this.#marks ? captureSource() : undefined);
  }

  /** The same as {@link scheduleTimer}. */
  sleep(due: Duration | Date): Future<void> {
    this.#scheduler.assertRunning('sleep');
    return this.#timer(due, 'sleep').askedAt(this.#marks ? captureSource() : undefined);
  }

  /**
   * Returns a future of the next event of a name, raised with `client.raiseEvent`. An event that was raised early is
   * kept until it is waited for. An event is consumed only by a future that a fiber waits on; of several, by the one
   * that has waited longest. A future that lost a race consumes no event, and can be waited for again.
   *
   * @throws TypeError when the name is wrong
   *
   * @example
   * ```ts
   * const answer = yield ctx.race(ctx.waitForEvent('approve'), ctx.scheduleTimer('24h'));
   * ```
   */
  waitForEvent<T = any>(name: string): Future<T>;
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
  waitForEvent(name: string, schema?: StandardSchema): Future<unknown> {
    this.#scheduler.assertRunning('waitForEvent');
    checkName(name, 'event name');
    if (schema === undefined) return new MailboxFuture(this.#scheduler, `e${name}`);
    checkSchema(schema, 'ctx.waitForEvent: the schema');
    return new CheckedEventFuture(this.#scheduler, `e${name}`, schema, `event '${name}'`);
  }

  /**
   * Returns a future of the next message of a FIFO queue, which `client.enqueueEvent` feeds. Each message goes to
   * exactly one dequeue, and only to one that a fiber waits on.
   *
   * @throws TypeError when the name is wrong
   *
   * @example
   * ```ts
   * for (;;) {
   *   const task = yield ctx.dequeueEvent('tasks');
   *   yield ctx.scheduleActivity('work', task);
   * }
   * ```
   */
  dequeueEvent<T = any>(queue: string): Future<T> {
    this.#scheduler.assertRunning('dequeueEvent');
    checkName(queue, 'queue name');
    return new MailboxFuture<T>(this.#scheduler, `q${queue}`);
  }

  /**
   * Gives the values of all branches, in the order of the branches; fails with the first failure. Branches are futures,
   * other combinators and generators (which become fibers).
   *
   * @throws TypeError when one of the branches is no branch
   *
   * @example
   * ```ts
   * const [user, orders] = yield* ctx.all([ctx.call(loadUser, id), ctx.call(loadOrders, id)]);
   * ```
   */
  all<const B extends readonly Branch[]>(branches: B, options?: CombineOptions): Future<BranchValues<B>> {
    this.#scheduler.assertRunning('all');
    return combinators.all(this.#scheduler, branches, options) as unknown as Future<BranchValues<B>>;
  }

  /**
   * Gives the outcome of each branch, in their order, as `Promise.allSettled` does. Fails only when it is cancelled.
   *
   * @throws TypeError when one of the branches is no branch
   *
   * @example
   * ```ts
   * const results = yield* ctx.allSettled(orders.map((order) => ctx.call(charge, order)));
   * const failed = results.filter((result) => result.status === 'rejected');
   * ```
   */
  allSettled<const B extends readonly Branch[]>(
    branches: B,
  ): Future<{ -readonly [K in keyof B]: PromiseSettledResult<BranchValue<B[K]>> }> {
    this.#scheduler.assertRunning('allSettled');
    return combinators.allSettled(this.#scheduler, branches) as unknown as Future<{
      -readonly [K in keyof B]: PromiseSettledResult<BranchValue<B[K]>>;
    }>;
  }

  /**
   * Gives the value of the first branch that succeeds; fails with an `AggregateError` when all have failed.
   *
   * @throws TypeError when one of the branches is no branch, or there is none
   *
   * @example
   * ```ts
   * const quote = yield* ctx.any([ctx.call(askA, item), ctx.call(askB, item)], { cancelLosers: true });
   * ```
   */
  any<const B extends readonly Branch[]>(branches: B, options?: CombineOptions): Future<BranchValue<B[number]>> {
    this.#scheduler.assertRunning('any');
    return combinators.any(this.#scheduler, branches, options) as Future<BranchValue<B[number]>>;
  }

  /**
   * Gives the first branch that settles, as `{ index, value }`; fails if that branch failed. The others go on, unless
   * `{ cancelLosers: true }` is the last argument. Branches are given one by one or as a list.
   *
   * @throws TypeError when one of the branches is no branch, or there is none
   *
   * @example
   * ```ts
   * const first = yield* ctx.race(ctx.waitForEvent<Answer>('approve'), ctx.scheduleTimer('24h'), { cancelLosers: true });
   * return first.index === 0 ? first.value : 'expired';
   * ```
   */
  race<const B extends readonly Branch[]>(branches: B, options?: CombineOptions): Future<RaceResult<B>>;
  race<const B extends readonly Branch[]>(...branches: B): Future<RaceResult<B>>;
  race<const B extends readonly Branch[]>(
    ...args: readonly [...branches: B, options: CombineOptions]
  ): Future<RaceResult<B>>;
  race(...args: readonly unknown[]): Future<never> {
    this.#scheduler.assertRunning('race');
    return combinators.race(this.#scheduler, 'race', args) as Future<unknown> as Future<never>;
  }

  /**
   * Gives the first branch that settles, and its outcome: `{ index, status: 'fulfilled', value }` or
   * `{ index, status: 'rejected', reason }`. So a failed branch does not make it fail, and the result tells which
   * branch failed. Otherwise the same as {@link race}.
   *
   * @throws TypeError when one of the branches is no branch, or there is none
   *
   * @example
   * ```ts
   * const first = yield* ctx.raceSettled(ctx.call(askA, item), ctx.call(askB, item));
   * if (first.status === 'rejected') ctx.traceWarn(`${['A', 'B'][first.index]} failed`, { reason: String(first.reason) });
   * ```
   */
  raceSettled<const B extends readonly Branch[]>(branches: B, options?: CombineOptions): Future<SettledRaceResult<B>>;
  raceSettled<const B extends readonly Branch[]>(...branches: B): Future<SettledRaceResult<B>>;
  raceSettled<const B extends readonly Branch[]>(
    ...args: readonly [...branches: B, options: CombineOptions]
  ): Future<SettledRaceResult<B>>;
  raceSettled(...args: readonly unknown[]): Future<never> {
    this.#scheduler.assertRunning('raceSettled');
    return combinators.race(this.#scheduler, 'raceSettled', args) as Future<unknown> as Future<never>;
  }

  /**
   * Gives the first branch that settles, as `{ tag, value }`; fails if that branch failed. Otherwise the same as
   * {@link race}.
   *
   * @throws TypeError when one of the branches is no branch, or there is none
   *
   * @example
   * ```ts
   * const first = yield* ctx.select({ answer: ctx.waitForEvent<Answer>('answer'), late: ctx.scheduleTimer('24h') });
   * if (first.tag === 'answer') return first.value;   // Answer
   * ```
   */
  select<const B extends Readonly<Record<string, Branch>>>(
    branches: B,
    options?: CombineOptions,
  ): Future<SelectResult<B>> {
    this.#scheduler.assertRunning('select');
    return combinators.select(this.#scheduler, 'select', branches, options) as unknown as Future<SelectResult<B>>;
  }

  /**
   * Gives the first branch that settles, and its outcome: `{ tag, status: 'fulfilled', value }` or
   * `{ tag, status: 'rejected', reason }`. So a failed branch does not make it fail, and the result tells which branch
   * failed. Otherwise the same as {@link select}.
   *
   * @throws TypeError when one of the branches is no branch, or there is none
   *
   * @example
   * ```ts
   * const first = yield* ctx.selectSettled({ a: ctx.call(askA, item), b: ctx.call(askB, item) });
   * if (first.status === 'rejected') ctx.traceWarn(`${first.tag} failed`, { reason: String(first.reason) });
   * ```
   */
  selectSettled<const B extends Readonly<Record<string, Branch>>>(
    branches: B,
    options?: CombineOptions,
  ): Future<SettledSelectResult<B>> {
    this.#scheduler.assertRunning('selectSettled');
    return combinators.select(this.#scheduler, 'selectSettled', branches, options) as unknown as Future<
      SettledSelectResult<B>
    >;
  }

  /**
   * Starts a fiber: a strand of this orchestration that runs beside the others. The fiber begins when the code that
   * spawned it waits. When the orchestration returns or throws, fibers that have not ended are dropped, unless its
   * `onEnd` says otherwise. When the orchestration was cancelled, it ends after the fibers have cleaned up.
   *
   * @param body - a `function*`, or the generator that a call of one returned
   * @returns a future of its result, with `interrupt`
   * @throws TypeError when `body` is neither
   *
   * @example
   * ```ts
   * const audit = ctx.spawn(function* () {
   *   yield ctx.scheduleActivity('audit', 'begin');
   *   yield ctx.scheduleTimer('1h');
   *   yield ctx.scheduleActivity('audit', 'still there');
   * });
   * ```
   */
  spawn<T>(body: (() => Generator<any, T, any>) | Generator<any, T, any>): FiberFuture<T> {
    this.#scheduler.assertRunning('spawn');
    checkBlock(body, 'spawn');
    return this.#scheduler.spawn<T>(body);
  }

  /**
   * Makes a future that this orchestration settles itself, once, for any number of fibers. In memory. Synchronous.
   *
   * @example
   * ```ts
   * const ready = ctx.deferred<Config>();
   * const worker = ctx.spawn(function* () {
   *   const config = yield* ready;
   *   yield* ctx.call(work, config);
   * });
   * ready.resolve(yield* ctx.call(loadConfig));
   * yield* worker;
   * ```
   */
  deferred<T = void>(): Deferred<T> {
    this.#scheduler.assertRunning('deferred');
    return new DeferredFuture<T>(this.#scheduler);
  }

  /**
   * Makes a channel between the fibers of this orchestration, in memory. Synchronous.
   *
   * @param capacity - the number of values that the channel holds before a `send` waits; without one it holds any
   *   number. With 0 every `send` waits until its value is received
   * @throws TypeError when the capacity is no whole number >= 0
   *
   * @example
   * ```ts
   * const jobs = ctx.channel<Order>(10);
   * const worker = ctx.spawn(jobs.forEach(function* (order) {
   *   yield* ctx.call(charge, order);
   * }));
   * for (const order of orders) yield* jobs.send(order);   // waits while ten are waiting
   * jobs.close();
   * yield* worker;
   * ```
   */
  channel<T = any>(capacity: number = Number.POSITIVE_INFINITY): Channel<T> {
    this.#scheduler.assertRunning('channel');
    return new FiberChannel<T>(this.#scheduler, capacity, this.#host.sourceStacks);
  }

  /**
   * Limits a branch in time: gives its value, or a `TimeoutError` when it has not settled by then. When the time is up,
   * the branch is cancelled, and the error comes when the branch has cleaned up. When the branch is first, the timer is
   * cancelled. The time runs from now on, whether or not a fiber waits.
   *
   * @param duration - from now on
   * @param branch - a future, a combinator, or the result of calling a `function*`, which becomes a fiber
   * @throws TypeError when an argument is wrong
   *
   * @example
   * ```ts
   * const receipt = yield* ctx.withTimeout('30s', ctx.call(charge, order));
   * ```
   */
  withTimeout<B extends Branch>(duration: Duration, branch: B): Future<BranchValue<B>> {
    this.#scheduler.assertRunning('withTimeout');
    const timeoutMs = parseDuration(duration, 'ctx.withTimeout: the duration');
    const source = this.#keepsLines ? captureSource() : undefined;
    return combinators.withTimeout(this.#scheduler, timeoutMs, branch, () =>
      this.#timerIn(timeoutMs).askedAt(source),
    ) as Future<BranchValue<B>>;
  }

  /**
   * Runs a block that no cancellation interrupts, neither of the instance nor of a fiber. The work that it schedules
   * and the fibers that it starts are not cancelled either, and a cancelled instance ends only when its blocks have. A
   * waiter of the block gets the block's outcome first. The cancellation comes at the next `yield` after it that would
   * wait. Blocks may nest.
   *
   * Futures from outside that the block waits for are cancelled as usual, and `client.terminateInstance` ends the
   * block.
   *
   * @param body - a `function*`, or the generator that a call of one returned
   * @returns a future of its result; cancelling the future does nothing
   * @throws TypeError when `body` is neither
   *
   * @example
   * ```ts
   * yield* ctx.uncancellable(function* () {
   *   yield* ctx.call(debit, transfer);
   *   yield* ctx.call(credit, transfer);
   * });
   * ```
   */
  uncancellable<T>(body: (() => Generator<any, T, any>) | Generator<any, T, any>): Future<T> {
    this.#scheduler.assertRunning('uncancellable');
    checkBlock(body, 'uncancellable');
    return this.#scheduler.spawnUncancellable<T>(body);
  }

  /**
   * Ends this execution and goes on as the next one of the same instance, with an empty history: for instances that
   * live long. The next execution begins where the function begins, with `input`. Messages that were not read, the
   * custom status, tags and parent stay. Activities, timers and fibers that have not ended are given up, as when the
   * function returns.
   *
   * Waiting for the future ends the execution there: `finally` blocks run, the code after the `yield` does not. Without
   * a wait the execution ends when the function returns. If the function throws instead, the instance fails.
   *
   * @param input - any value that can be stored
   * @throws PayloadError when the input cannot be stored
   * @throws TypeError when an option is wrong
   *
   * @example
   * ```ts
   * const monitor = defineOrchestration('monitor', function* (ctx, seen: number) {
   *   const found = yield* ctx.call(poll, seen);
   *   if (found.isDone) return found.total;
   *   yield* ctx.sleep('5m');
   *   return yield* ctx.continueAsNew(found.total);
   * });
   * ```
   */
  continueAsNew(input?: unknown, options?: ContinueAsNewOptions): Future<never> {
    this.#scheduler.assertRunning('continueAsNew');
    const { version = null } = checkOptions(options, CONTINUE_OPTIONS, 'ctx.continueAsNew') ?? {};
    return new Continuation(this.#scheduler, toPayload(input, 'input', this.#host.limits), version);
  }

  /**
   * Shows a status to any client that asks for this instance. Synchronous. The status is stored with the turn, and its
   * version goes up by one with each stored change. `undefined` is the same as {@link resetCustomStatus}.
   *
   * @throws PayloadError when the value cannot be stored
   *
   * @example
   * ```ts
   * ctx.setCustomStatus({ step: 'charged', done: 0.5 });
   * ```
   */
  setCustomStatus(value: unknown): void {
    this.#scheduler.assertRunning('setCustomStatus');
    this.#setCustomStatus(toPayload(value, 'status', this.#host.limits));
  }

  /** Removes the custom status. Synchronous. */
  resetCustomStatus(): void {
    this.#scheduler.assertRunning('resetCustomStatus');
    this.#setCustomStatus(null);
  }

  /**
   * Returns a copy of the custom status that was set last, in a replay too; `undefined` when there is none.
   * Synchronous.
   */
  getCustomStatus<T = any>(): T | undefined {
    this.#scheduler.assertRunning('getCustomStatus');
    return getCustomStatus(this.#scheduler) as T | undefined;
  }

  /** Logs a line at level debug, with the instance beside it. Synchronous; silent while replaying. */
  traceDebug(message: string, fields?: TraceFields): void {
    this.#trace('debug', message, fields);
  }

  /** Logs a line at level info. Synchronous; silent while replaying. */
  traceInfo(message: string, fields?: TraceFields): void {
    this.#trace('info', message, fields);
  }

  /** Logs a line at level warn. Synchronous; silent while replaying. */
  traceWarn(message: string, fields?: TraceFields): void {
    this.#trace('warn', message, fields);
  }

  /** Logs a line at level error. Synchronous; silent while replaying. */
  traceError(message: string, fields?: TraceFields): void {
    this.#trace('error', message, fields);
  }

  /**
   * Returns the deterministic time, in ms since 1970 as `Date.now()` gives it. It is the time of the last delivery, so
   * it stands still until the next `yield`. Synchronous.
   *
   * @example
   * ```ts
   * const deadline = new Date(ctx.now() + 60_000);
   * ```
   */
  now(): number {
    this.#scheduler.assertRunning('now');
    return this.#scheduler.now;
  }

  /** Returns a number in 0..1, the same in every replay. Synchronous. */
  random(): number {
    this.#scheduler.assertRunning('random');
    return this.#scheduler.port.random();
  }

  /** Returns a UUID of version 4, the same in every replay. Synchronous. */
  randomUUID(): string {
    this.#scheduler.assertRunning('randomUUID');
    return this.#scheduler.port.randomUuid();
  }

  /**
   * Returns true if this execution has a change of its code. Synchronous. A new execution has the change, which is
   * recorded where the execution first asks. An execution that passed this place before the change was deployed does
   * not have it, and stays with the old code until it ends. Asked again, the answer is the same.
   *
   * When no execution is left that runs the old code, delete the question and the old code with it: histories in which
   * the change is recorded fit code that does not ask. Give every change an id of its own, and do not use one again
   * elsewhere.
   *
   * @param id - names the change, 1 to 256 characters
   * @throws TypeError when the id is wrong
   *
   * @example
   * ```ts
   * if (ctx.patched('check-fraud-first')) yield* ctx.call(checkFraud, order);
   * yield* ctx.call(charge, order);
   * ```
   */
  patched(id: string): boolean {
    this.#scheduler.assertRunning('patched');
    checkName(id, 'patch id');
    return this.#scheduler.port.patched(id);
  }

  #setCustomStatus(text: string | null): void {
    const scheduler = this.#scheduler;
    try {
      setCustomStatus(scheduler, scheduler.port, text);
    } catch (error) {
      throw scheduler.refused(error);
    }
  }

  /**
   * True if the place where the code asked for the operation that was issued last matters. The place is shown when the
   * operation fails, or when the code waits elsewhere.
   */
  get #marks(): boolean {
    return this.#keepsLines && !this.#scheduler.port.succeedsNext();
  }

  /** True if the execution may keep another line of its code: see {@link SOURCES_MAX}. */
  get #keepsLines(): boolean {
    return this.#host.sourceStacks && this.#scheduler.operations.size <= SOURCES_MAX;
  }

  #activity<T>(
    name: string,
    input: unknown,
    options: ActivityOptions | undefined,
    defined?: ActivityOptions,
  ): ActivityFuture<T> {
    const scheduler = this.#scheduler;
    const checked = options === undefined ? options : checkActivityOptions(options, `activity '${name}'`);
    const payload = toPayload(input, 'input', this.#host.limits);
    const recorded = this.#host.recordedOptions(name, checked, defined);
    return new ActivityFuture<T>(scheduler, this.#schedule(name, payload, recorded), name);
  }

  #schedule(name: string, input: string | null, recorded: string | null): number {
    return this.#scheduler.issue((port) => port.scheduleActivity(name, input, recorded));
  }

  #child<T>(name: string, input: unknown, given: ChildOptions | undefined, version?: string): ChildFuture<T> {
    const scheduler = this.#scheduler;
    const options = checkOptions(given, CHILD_OPTIONS, `orchestration '${name}'`);
    const id = options?.id ?? this.#childId();
    const operation = this.#startInstance(true, name, id, input, { ...options, version: options?.version ?? version });
    return new ChildFuture<T>(scheduler, operation, name, id);
  }

  /** Returns an id that differs for any two children, and is the same in every replay. */
  #childId(): string {
    const uuid = this.#scheduler.port.randomUuid();
    const below = `${this.instanceId}/${uuid}`;
    return below.length <= ID_MAX ? below : uuid;
  }

  #startInstance(
    isChild: boolean,
    name: string,
    id: string,
    input: unknown,
    options: { [Name in keyof InstanceOptions]: InstanceOptions[Name] | undefined } | undefined,
  ): number {
    const payload = toPayload(input, 'input', this.#host.limits);
    const { version = null, tags, priority = 0 } = options ?? {};
    const tagText = tags === undefined ? null : JSON.stringify(tags);
    return this.#scheduler.issue((port) => port.startInstance(isChild, name, id, version, payload, tagText, priority));
  }

  #send(id: string, mailbox: string, data: unknown): SentFuture<void> {
    const scheduler = this.#scheduler;
    checkName(id, 'instance id');
    const payload = toPayload(data, 'data', this.#host.limits);
    const operation = scheduler.issue((port) => port.sendMessage(id, mailbox, payload));
    return new SentFuture<void>(scheduler, operation, id, undefined);
  }

  #timer(due: unknown, method: string): TimerFuture {
    const scheduler = this.#scheduler;
    const at = timeOf(due, method);
    if (at === undefined) return this.#timerIn(parseDuration(due as Duration, `ctx.${method}: the duration`));
    const operation = scheduler.issue((port) => port.createTimerAt(at));
    return new TimerFuture(scheduler, operation);
  }

  #timerIn(delayMs: number): TimerFuture {
    const scheduler = this.#scheduler;
    const operation = scheduler.issue((port) => port.createTimer(delayMs));
    return new TimerFuture(scheduler, operation);
  }

  #trace(level: TraceLevel, message: string, fields: TraceFields | undefined): void {
    const scheduler = this.#scheduler;
    scheduler.assertRunning(`trace${level[0]?.toUpperCase()}${level.slice(1)}`);
    trace(scheduler, scheduler.port, this.#origin, level, message, fields);
  }
}

/** Returns the time that `due` names, in ms since 1970; `undefined` when `due` is a duration (or neither). */
function timeOf(due: unknown, method: string): number | undefined {
  let at: number;
  if (types.isDate(due)) at = due.getTime();
  else if (typeof due === 'string' && ISO_TIME.test(due)) at = Date.parse(due);
  else return undefined;
  if (Number.isNaN(at))
    throw new TypeError(`ctx.${method}: ${typeof due === 'string' ? `'${due}'` : 'the Date'} is no valid time`);
  return at;
}
