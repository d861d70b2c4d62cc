// The built-in orchestrations of locks: the lock with a name, and the holder, which gives its locks back.
//
// Invariants, of docs/internals/entities.md:
//
//   L1. A lock is given back when the block returns, throws or is cancelled, and when the orchestration that runs it
//       ends in any way: each of these cancels the holder, and the holder's cleanup gives back what it asked for.
//   L2. Each grant waits for the event that gives it back, which has the id of the holder in its name. So it may come
//       before the grant, and changes nothing if nothing was asked for.

import type { Deferred } from '../driver/deferred.ts';
import type { Future } from '../driver/future.ts';
import { CancelledError, LimitError, RuntimeStateError } from '../errors/errors.ts';
import { isInstance, property, show } from '../util/show.ts';
import { defineBuiltIn } from './definition.ts';
import { type AskedLock, LOCK } from './locks.ts';
import type { OrchestrationContext } from './orchestration-context.ts';
import { storeActivity } from './store-activity.ts';

/** The name of the update that asks for a lock. Its answer says that the lock was asked for. Part of the format. */
export const ASK_LOCK = 'perdure.lock';

/** The name of the value in which a lock, or an entity that is locked, shows its holders. Part of the format. */
export const LOCK_STATE = 'lock';

/** The input of the update. Part of the format. */
export interface LockRequest {
  /** The id of the holder: a UUID. */
  readonly holder: string;
  /** The instance whose block holds the lock. */
  readonly by: string;
  /** The instance that gets the event of the grant. */
  readonly to: string;
  /** The number of permits of the lock. Absent for an entity. */
  readonly permits?: number;
}

/** Returns the name of the event that tells a grant. Part of the format. */
export function grantOf(holder: string): string {
  return `perdure.granted/${holder}`;
}

/** Returns the name of the event that gives a lock back. The engine sends it over all limits. Part of the format. */
export function unlockOf(holder: string): string {
  return `perdure.unlock/${holder}`;
}

/** Most requests that wait for one lock. */
const WAITING_MAX = 10_000;

/** Throws when a request is none, or too many wait. */
export function checkRequest(request: LockRequest, waiting: number, id: string): void {
  for (const name of ['holder', 'by', 'to'])
    if (typeof property(request, name) !== 'string') throw new TypeError('a lock is asked for by ctx.lock');
  if (waiting < WAITING_MAX) return;
  throw new LimitError(`${waiting} blocks wait for the lock of '${id}', and no more may`, {
    limit: 'lockWaiters',
    max: WAITING_MAX,
  });
}

/** The requests that wait, as values of the instance, over a `continueAsNew`. Part of the format. */
const WAITING = 'perdure.waiting/';

/** Requests of one such value. The number of names is limited, and so is the size of a value. */
const WAITING_CHUNK = 20;

/** Keeps the requests that wait for the next execution. */
export function keepWaiting({ state }: OrchestrationContext, requests: readonly LockRequest[]): void {
  for (let n = 0; n * WAITING_CHUNK < requests.length; n += 1)
    state.set(`${WAITING}${n}`, requests.slice(n * WAITING_CHUNK, (n + 1) * WAITING_CHUNK));
}

/** Returns the requests that the execution before has kept. */
export function takeWaiting({ state }: OrchestrationContext): LockRequest[] {
  const requests: LockRequest[] = [];
  for (let n = 0; ; n += 1) {
    const chunk = state.get<LockRequest[]>(`${WAITING}${n}`);
    if (chunk === undefined) return requests;
    requests.push(...chunk);
    state.delete(`${WAITING}${n}`);
  }
}

/**
 * The number of events from which a lock, an entity or a schedule continues as new. Part of the format: replays decide
 * by it.
 */
export const HISTORY_MAX = 1_000;

/** The value in which a lock with a name shows its holders. */
interface ShownLock {
  readonly holders: readonly LockRequest[];
  readonly waiting: number;
}

/** One execution of a lock with a name: grants its permits in the order of the requests. */
class Lock {
  readonly #ctx: OrchestrationContext;
  readonly #waiting: LockRequest[];
  readonly #isOver: Deferred<void>;
  #holders: readonly LockRequest[];

  constructor(ctx: OrchestrationContext) {
    this.#ctx = ctx;
    this.#isOver = ctx.deferred();
    this.#waiting = takeWaiting(ctx);
    this.#holders = ctx.state.get<ShownLock>(LOCK_STATE)?.holders ?? [];
  }

  *run(): Generator<Future<any>, void, any> {
    const ctx = this.#ctx;
    ctx.onUpdate(ASK_LOCK, (request: LockRequest) => this.#ask(request), {
      validate: (request) => checkRequest(request, this.#waiting.length, ctx.instanceId),
    });
    for (const request of this.#holders) this.#awaitEnd(request);
    this.#grant();
    yield* this.#isOver;
    yield* ctx.finishUpdates();
    keepWaiting(ctx, this.#waiting);
    yield* ctx.continueAsNew();
  }

  *#ask(request: LockRequest): Generator<Future<any>, void, any> {
    const isThere = ({ holder }: LockRequest): boolean => holder === request.holder;
    if (!this.#waiting.some(isThere) && !this.#holders.some(isThere)) this.#waiting.push(request);
    this.#grant();
  }

  /** Grants what can be granted. The first in the line decides how many permits there are. */
  #grant(): void {
    const ctx = this.#ctx;
    const waiting = this.#waiting;
    for (let first = waiting[0]; first !== undefined; first = waiting[0]) {
      if (this.#holders.length >= (first.permits ?? 1)) break;
      waiting.shift();
      this.#holders = [...this.#holders, first];
      ctx.raiseEvent(first.to, grantOf(first.holder));
      this.#awaitEnd(first);
    }
    ctx.state.set(LOCK_STATE, { holders: this.#holders, waiting: waiting.length } satisfies ShownLock);
    if (ctx.historyLength >= HISTORY_MAX) this.#isOver.resolve();
  }

  #awaitEnd(request: LockRequest): void {
    this.#ctx.spawn(this.#untilUnlocked(request));
  }

  *#untilUnlocked(request: LockRequest): Generator<Future<any>, void, any> {
    yield* this.#ctx.waitForEvent(unlockOf(request.holder));
    this.#holders = this.#holders.filter(({ holder }) => holder !== request.holder);
    this.#grant();
  }
}

/** The name of the orchestration of holders. Part of the format. */
export const HOLDER = 'perdure.lock.holder';

/** The input of a holder. Part of the format. */
export interface HolderInput {
  readonly holder: string;
  /** The instance that runs the block. */
  readonly by: string;
  /** In the order in which they are asked for. */
  readonly locks: readonly AskedLock[];
}

/** Attempts of a holder to ask for a lock while the store fails. */
const ATTEMPTS_MAX = 10;

/** Requests of a holder for one lock while its instance is replaced. */
const REPLACED_MAX = 10;

/** An event that is never raised. A holder waits for it until it is cancelled. */
const NEVER = 'perdure.never';

/** The name of the activity that asks for a lock. Part of the format. */
const ASK_ACTIVITY = 'perdure.askLock';

function* holder(ctx: OrchestrationContext, { holder, by, locks }: HolderInput): Generator<Future<any>, void, any> {
  const asked: AskedLock[] = [];
  let answered = 0;
  try {
    for (const lock of locks) {
      asked.push(lock);
      // The last grant is the one that the block waits for.
      const to = asked.length === locks.length ? by : ctx.instanceId;
      const { permits } = lock;
      yield* ask(ctx, lock, { holder, by, to, ...(permits === undefined ? {} : { permits }) });
      answered += 1;
      if (to !== by) yield* ctx.waitForEvent(grantOf(holder));
    }
    yield* ctx.waitForEvent(NEVER);
  } catch (error) {
    // The usual end: the block has ended.
    if (!(error instanceof CancelledError)) throw error;
  } finally {
    for (const [n, lock] of asked.entries()) unlock(ctx, lock, holder, n < answered);
  }
}

/**
 * Asks for a lock. An instance that was replaced before it told its answer is asked again: if it has the request after
 * all, it takes the second one for the first.
 */
function ask(ctx: OrchestrationContext, { id, name, version }: AskedLock, request: LockRequest): Future<void> {
  const start = { name, version, onConflict: 'restartIfTerminal' } as const;
  const run = storeActivity(async ({ client, signal }) => {
    for (let n = 1; ; n += 1) {
      const updateId = `${request.holder}/${n}`;
      try {
        return await client.updateWithStart(id, ASK_LOCK, request, { updateId, start, signal });
      } catch (error) {
        if (n === REPLACED_MAX || !isInstance(error, RuntimeStateError)) throw error;
      }
    }
  });
  return ctx.run(ASK_ACTIVITY, async (activity) => void (await run(activity, undefined)), {
    retry: { maxAttempts: ATTEMPTS_MAX },
  });
}

/**
 * Gives a lock back. If it is not known that the lock was asked for, the request may still come. Then the instance is
 * started, so that the request meets this event.
 */
export function unlock(ctx: OrchestrationContext, lock: AskedLock, holder: string, isAsked: boolean): void {
  const { id, name, version } = lock;
  const options = isAsked ? [] : [undefined, { start: { name, version, onConflict: 'restartIfTerminal' } }];
  ctx.raiseEvent(id, unlockOf(holder), ...(options as []));
}

/** The orchestration that a lock with a name is. Its id is `perdure.lock/` and the name. */
export const lockOrchestration = defineBuiltIn(LOCK, function* lock(ctx: OrchestrationContext) {
  if (!ctx.instanceId.startsWith(`${LOCK}/`))
    throw new TypeError(`a lock is started by ctx.lock, and has another id than ${show(ctx.instanceId)}`);
  yield* new Lock(ctx).run();
});

/** The child of an orchestration that holds the locks of one block. */
export const holderOrchestration = defineBuiltIn(HOLDER, holder);
