// Tokens: waits that another party ends with a secret. Each is a child of the orchestration that made it, so the child
// lists it, ends it once and in time, and is cancelled with its parent.

import { createHmac, timingSafeEqual } from 'node:crypto';

import type { Issued } from '../driver/command.ts';
import { currentScheduler } from '../driver/current-scheduler.ts';
import type { EnginePort } from '../driver/engine.ts';
import { FAILED, type Future, OK } from '../driver/future.ts';
import { ChildFuture } from '../driver/other-instances.ts';
import type { FiberScheduler } from '../driver/scheduler.ts';
import { withCallerStack } from '../driver/source.ts';
import { InstanceNotFoundError, RuntimeStateError, SubOrchestrationError, TimeoutError } from '../errors/errors.ts';
import { parseDuration } from '../util/duration.ts';
import { checkOptions, duration, type OptionTable } from '../util/options.ts';
import { isInstance, property } from '../util/show.ts';
import { toPayload } from '../values/payload.ts';
import { defineBuiltIn } from './definition.ts';
import type { OrchestrationContext } from './orchestration-context.ts';
import type { Token, TokenOptions } from './token-types.ts';

/** The name of the orchestration that a token is, and of the update that ends it. Part of the format. */
export const TOKEN = 'perdure.token';

const TOKEN_OPTIONS: OptionTable = { timeout: duration(), data: () => {} };

/** The input of the orchestration. Part of the format. */
export interface TokenInput {
  readonly id: string;
  readonly timeoutMs?: number;
  readonly data?: unknown;
}

/** The output of the orchestration. Part of the format. */
export type TokenOutcome =
  | { readonly kind: 'resolved'; readonly value?: unknown }
  | { readonly kind: 'rejected'; readonly error: Error }
  | { readonly kind: 'expired' };

/** The input of the update. Part of the format. */
export interface TokenAnswer {
  readonly id: string;
  readonly outcome: Exclude<TokenOutcome, { kind: 'expired' }>;
}

/** Bytes of the part of an id that finds the token, and of its secret. */
const PART_BYTES = 16;

/** The beginning of the patch in which an execution records the key of its tokens. Part of the format. */
export const TOKEN_KEY = 'perdure.tokenKey/';

/**
 * Returns the input of a token. Its id is an HMAC of the number of the token, under a key of 128 bits that the
 * execution has drawn and recorded. So a replay returns the same id.
 *
 * @param n - the number of the token in its execution
 * @throws TypeError when an option is wrong
 */
export function tokenInput(port: Pick<EnginePort, 'drawn'>, n: number, options: TokenOptions | undefined): TokenInput {
  const { timeout, data } = checkOptions(options, TOKEN_OPTIONS, 'ctx.token') ?? {};
  // A replay without a key is one of other code. The command that follows does not fit then.
  const key = Buffer.from(port.drawn(TOKEN_KEY) ?? '', 'hex');
  const idOf = (text: string): string => createHmac('sha256', key).update(text).digest('base64url');
  let text = String(n);
  // A command line would take an id that begins with a dash for an option.
  while (idOf(text).startsWith('-')) text += '+';
  const id = idOf(text);
  return {
    id,
    ...(timeout === undefined ? {} : { timeoutMs: parseDuration(timeout, 'ctx.token: timeout') }),
    ...(data === undefined ? {} : { data }),
  };
}

/** Returns the id of the instance that a token is; `undefined` if the text is not the id of a token. */
export function tokenInstance(id: unknown): string | undefined {
  if (typeof id !== 'string' || !/^[\w-]{43}$/.test(id)) return undefined;
  const found = Buffer.from(id, 'base64url').subarray(0, PART_BYTES);
  return `${TOKEN}/${found.toString('base64url')}`;
}

/** True if two ids are the same. Takes the same time for all ids that differ. */
function isSame(given: unknown, id: string): boolean {
  const [one, other] = [Buffer.from(String(given)), Buffer.from(id)];
  return one.length === other.length && timingSafeEqual(one, other);
}

/** Returns the error for an id that no token has. */
export function noToken(): InstanceNotFoundError {
  return new InstanceNotFoundError('there is no token of that id', { instanceId: TOKEN });
}

/** Returns the error of a token whose instance was stopped. It does not name the id, which is a secret. */
function stopped({ cause }: SubOrchestrationError): RuntimeStateError {
  return new RuntimeStateError('the instance of the token was stopped before the token was resolved', { cause });
}

/** Returns the error for a token that has ended. */
export function tokenEnded(): RuntimeStateError {
  return new RuntimeStateError('the token was resolved before, has expired, or its orchestration has ended');
}

/** The orchestration that a token is. */
export const tokenOrchestration = defineBuiltIn(
  TOKEN,
  function* token(ctx: OrchestrationContext, { id, timeoutMs }: TokenInput): Generator<Future<any>, TokenOutcome, any> {
    const { limits, types } = currentScheduler() as FiberScheduler;
    const ended = ctx.deferred<TokenOutcome>();
    ctx.onUpdate(
      TOKEN,
      function* ({ outcome }: TokenAnswer) {
        if (!ended.resolve(outcome)) throw tokenEnded();
      },
      {
        validate: (answer) => {
          if (!isSame(property(answer, 'id'), id)) throw noToken();
          // The client may have another limit. A value that could not be the output would end the token without it.
          toPayload(property(answer, 'outcome'), 'value of the token', limits, types);
        },
      },
    );
    if (timeoutMs === undefined) return yield* ended;
    const first = yield* ctx.race([ended, ctx.sleep(timeoutMs)], { cancelLosers: true });
    return first.index === 0 ? first.value : { kind: 'expired' };
  },
);

/** The future of a token. */
export class TokenFuture<T> extends ChildFuture<T> implements Token<T> {
  // The id of the child is that of its instance.
  override readonly id: string;
  private readonly timeoutMs: number | undefined;

  constructor(scheduler: FiberScheduler, issued: Issued, { id, timeoutMs }: TokenInput) {
    super(scheduler, issued, TOKEN, id);
    this.id = id;
    this.timeoutMs = timeoutMs;
  }

  override settle(state: typeof OK | typeof FAILED, value: unknown): void {
    if (state === FAILED) return super.settle(state, isInstance(value, SubOrchestrationError) ? stopped(value) : value);
    const outcome = value as TokenOutcome;
    if (outcome.kind === 'resolved') return super.settle(OK, outcome.value);
    const { timeoutMs } = this;
    const error =
      outcome.kind === 'rejected'
        ? outcome.error
        : new TimeoutError(`the token was not resolved within ${timeoutMs} ms`, { timeoutMs: timeoutMs as number });
    super.settle(FAILED, withCallerStack(error, undefined, this.source));
  }

  override describe(): string {
    return 'a token';
  }
}
