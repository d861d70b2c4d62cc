// Activities, errors and blocks that several programs use.

import {
  type ActivityOptions,
  defineActivity,
  defineOrchestration,
  type Future,
  NonRetryableError,
  type OrchestrationContext,
  RetryAfterError,
} from 'perdure';

import type { Expected, Program, Stage } from '../stage.ts';

/** A part of an orchestration. */
export type Steps<T> = Generator<any, T, any>;

export const echo = defineActivity('echo', async (_, value: unknown) => value);
export const nothing = defineActivity('nothing', async () => undefined);
/** Runs until its signal is aborted. */
export const hang = defineActivity(
  'hang',
  (ctx) => new Promise((resolve) => ctx.signal.addEventListener('abort', () => resolve('aborted'), { once: true })),
);

export const ONCE: ActivityOptions = { retry: { maxAttempts: 1 } };

/** Returns the text of an error and of its causes. */
export function told(error: unknown): string {
  if (!(error instanceof Error)) return `thrown: ${JSON.stringify(error)}`;
  const { name, message, cause } = error;
  const code = (error as { code?: unknown }).code;
  const named = code === undefined ? name : `${name} ${String(code)}`;
  return `${named}: ${message}${cause === undefined ? '' : ` <- ${told(cause)}`}`;
}

/** Returns the value of a future, or the text of its error. */
export function* outcome(future: Future<unknown>): Steps<unknown> {
  try {
    return yield future;
  } catch (error) {
    return told(error);
  }
}

export const ended: Expected = { outcomes: ['completed'] };

/** Starts the one instance of a program, which has the program's name, and waits for its end. */
export async function throughout(stage: Stage, program: Program, input?: unknown): Promise<void> {
  await stage.start([...program.code, ...ACTIVITIES]);
  await stage.client.startOrchestration(program.name, program.name, input);
  await stage.end(program.name);
}

export const flaky = defineActivity(
  'flaky',
  async (ctx, failure: string) => {
    if (ctx.attempt > 1) return `attempt ${ctx.attempt} after ${failure}`;
    if (failure === 'asks for time') throw new RetryAfterError('1ms', 'not now');
    throw new Error(failure);
  },
  { retry: { maxAttempts: 3, initialInterval: 1, jitter: 0 } },
);

export class StockError extends RangeError {
  override readonly name = 'StockError';
  readonly code = 'E_STOCK';
  readonly left = 0;
  readonly since = new Date(0);
}

export const broken = defineActivity('broken', async (_, how: string) => {
  const root = Object.assign(new TypeError('the root \0 \ud800 😀'), { code: 42 });
  const middle = new Error('in between', { cause: root });
  switch (how) {
    case 'chain':
      throw new StockError('none left', { cause: middle });
    case 'for good':
      throw new NonRetryableError('never', { cause: 'a text' });
    case 'many':
      throw new AggregateError([middle, 'no error'], 'several');
    case 'value':
      throw { reason: 'a value', at: [1, 2] };
    default:
      throw undefined;
  }
});

export const ACTIVITIES = [echo, nothing, hang, flaky, broken];

export const child = defineOrchestration('child', function* (ctx, how: string) {
  ctx.setCustomStatus('runs');
  if (how === 'returns') return { parent: ctx.parentId, how };
  if (how === 'throws') throw new StockError('in the child', { cause: new Error('its cause') });
  return yield* ctx.waitForEvent('never');
});

export const listener = defineOrchestration('listener', function* (ctx, name: string) {
  const greeting = yield* ctx.waitForEvent('greeting');
  ctx.setCustomStatus('greeted');
  return [name, greeting, yield* ctx.dequeueEvent('jobs')];
});

export function* twice(ctx: OrchestrationContext, name: string): Steps<string> {
  const first = yield* ctx.waitForEvent(name);
  return `${name} ${first} ${yield* ctx.waitForEvent(name)}`;
}
