// Matchers for tests of orchestrations, in the form that vitest's `expect.extend` takes. They do not depend on the test
// runner.

import { type ActivityDefinition, isActivity } from '../activity/activity.ts';
import type { HistoryEvent } from '../client/history.ts';
import { NondeterminismError } from '../errors/errors.ts';
import { isOrchestration, type OrchestrationDefinition } from '../orchestration/definition.ts';
import { isInstance, isRecord, show } from '../util/show.ts';
import { type ExecutionState, MatcherSubject, stepOf } from './matcher-subject.ts';
import { type ReplayDefinitions, type ReplayOptions, replay } from './replays.ts';

/**
 * The expected error of {@link PerdureMatchers.toHaveFailed}: a part of its message, its class, or some of its fields.
 */
export type ExpectedError = string | RegExp | (new (...args: any[]) => Error) | Readonly<Record<string, unknown>>;

/** The part of vitest's matcher state that is used. */
interface State {
  readonly isNot: boolean;
  equals(a: unknown, b: unknown): boolean;
  readonly utils: { stringify(value: unknown, depth: number, options: object): string };
}

interface Result {
  readonly pass: boolean;
  message(): string;
}

/**
 * The matchers that `perdure/testing/vitest` adds to `expect`. Each takes the handle of an instance, or an exported
 * history, and must be awaited. The message of a failed matcher shows the history.
 */
export interface PerdureMatchers<R = Promise<void>> {
  /**
   * Passes if the instance ends as Completed, with this output if one is given. Given a handle, it waits for the end.
   *
   * @example
   * ```ts
   * await expect(handle).toHaveCompleted({ id: expect.any(String) });
   * ```
   */
  toHaveCompleted(output?: unknown): R;
  /**
   * Passes if the instance ends as Failed. If an error is given, it must match the instance's error or one of its
   * causes. Given a handle, it waits for the end.
   *
   * @example
   * ```ts
   * await expect(handle).toHaveFailed('the bank is down');
   * ```
   */
  toHaveFailed(error?: ExpectedError): R;
  /**
   * Passes if the history has these events and no others. Each event is named by its kind, or by its kind and name.
   *
   * @example
   * ```ts
   * await expect(handle).toHaveHistory(['ExecutionStarted', 'ExecutionBegan', 'ActivityScheduled charge']);
   * ```
   */
  toHaveHistory(steps: readonly string[]): R;
  /**
   * Passes if the instance has scheduled an activity, or started a child or another instance: with this input, if one
   * is given.
   *
   * @example
   * ```ts
   * await expect(handle).toHaveScheduled(charge, { total: 12 });
   * await expect(handle).not.toHaveScheduled('refund');
   * ```
   */
  toHaveScheduled(work: string | ActivityDefinition<any, any> | OrchestrationDefinition<any, any>, input?: unknown): R;
  /**
   * Passes if this code fits the history, as `replay` finds.
   *
   * @example
   * ```ts
   * await expect(JSON.parse(text)).toFit([order, payment]);
   * ```
   */
  toFit(definitions: ReplayDefinitions, options?: ReplayOptions): R;
}

/**
 * Returns a matcher's result. `expected` and `received` are words that follow the name of the subject in the message.
 */
async function result(
  state: State,
  subject: MatcherSubject,
  pass: boolean,
  expected: string,
  received: string,
): Promise<Result> {
  if (pass === !state.isNot) return { pass, message: () => '' };
  const history = await subject.shown();
  return {
    pass,
    message: () => `expected ${subject.name} ${state.isNot ? 'not ' : ''}${expected}, and it ${received}\n\n${history}`,
  };
}

export const matchers = {
  async toHaveCompleted(this: State, received: unknown, ...expected: [unknown?]): Promise<Result> {
    const subject = new MatcherSubject(received, 'toHaveCompleted');
    const standing = await subject.end();
    const pass = standing.state === 'Completed' && (expected.length === 0 || this.equals(standing.output, expected[0]));
    const what = expected.length === 0 ? 'to have completed' : `to have completed with ${shown(this, expected[0])}`;
    return result(this, subject, pass, what, shownEnd(this, standing));
  },

  async toHaveFailed(this: State, received: unknown, ...expected: [ExpectedError?]): Promise<Result> {
    const subject = new MatcherSubject(received, 'toHaveFailed');
    const standing = await subject.end();
    const [error] = expected;
    const pass =
      standing.state === 'Failed' &&
      (error === undefined || chainOf(standing.error).some((one) => isLike(this, one, error)));
    const what =
      error === undefined
        ? 'to have failed'
        : `to have failed with ${typeof error === 'function' ? (error as Function).name : shown(this, error)}`;
    return result(this, subject, pass, what, shownEnd(this, standing));
  },

  async toHaveHistory(this: State, received: unknown, steps: readonly string[]): Promise<Result> {
    const subject = new MatcherSubject(received, 'toHaveHistory');
    const events = await subject.events();
    const isAt = (step: string | undefined, event: HistoryEvent | undefined): boolean =>
      step !== undefined && event !== undefined && (step === event.kind || step === stepOf(event));
    const differs = Array.from({ length: Math.max(steps.length, events.length) }, (_, i) => i).find(
      (i) => !isAt(steps[i], events[i]),
    );
    if (differs === undefined) return result(this, subject, true, 'to have this history', 'has');
    const has = events[differs] === undefined ? 'nothing' : shown(this, stepOf(events[differs]));
    const step = steps[differs] === undefined ? 'nothing' : shown(this, steps[differs]);
    return result(this, subject, false, `to have ${step} as event ${differs + 1}`, `has ${has}`);
  },

  async toHaveScheduled(this: State, received: unknown, work: unknown, ...expected: [unknown?]): Promise<Result> {
    const subject = new MatcherSubject(received, 'toHaveScheduled');
    const name = typeof work === 'string' ? work : isActivity(work) || isOrchestration(work) ? work.name : undefined;
    if (name === undefined) throw new TypeError(`toHaveScheduled takes a name or a definition, got ${show(work)}`);
    const kinds = typeof work === 'string' ? SCHEDULES : isActivity(work) ? SCHEDULES.slice(0, 1) : SCHEDULES.slice(1);
    const scheduled = (await subject.events()).filter((event) => kinds.includes(event.kind) && event.name === name);
    const pass =
      expected.length === 0 ? scheduled.length > 0 : scheduled.some(({ payload }) => this.equals(payload, expected[0]));
    const what =
      expected.length === 0
        ? `to have scheduled '${name}'`
        : `to have scheduled '${name}' with ${shown(this, expected[0])}`;
    const inputs = scheduled.map(({ payload }) => shown(this, payload)).join(', ');
    return result(this, subject, pass, what, scheduled.length === 0 ? 'has not' : `has with ${inputs}`);
  },

  async toFit(
    this: State,
    received: unknown,
    definitions: ReplayDefinitions,
    options?: ReplayOptions,
  ): Promise<Result> {
    const subject = new MatcherSubject(received, 'toFit');
    try {
      replay(await subject.exported(), definitions, options);
    } catch (error) {
      if (!isInstance(error, NondeterminismError)) throw error;
      return result(this, subject, false, 'to fit the code', `does not: ${error.message}`);
    }
    return result(this, subject, true, 'to fit the code', 'does');
  },
};

/**
 * Returns a value in one line. A matcher that stands for many values, such as `expect.any(String)`, is shown by its
 * name.
 */
function shown({ utils }: State, value: unknown): string {
  return utils.stringify(value, SHOWN_DEPTH, { min: true });
}

/** Depth to which a value is shown. */
const SHOWN_DEPTH = 6;

const SCHEDULES = ['ActivityScheduled', 'ChildScheduled', 'InstanceStarted'];

function shownEnd(matcher: State, { state, output, error }: ExecutionState): string {
  if (state === 'Completed') return `is Completed with ${shown(matcher, output)}`;
  return error === undefined ? `is ${state}` : `is ${state} with ${chainOf(error).map(String).join(', caused by ')}`;
}

function chainOf(error: unknown): Error[] {
  return isInstance(error, Error) ? [error, ...chainOf(error.cause)] : [];
}

function isLike({ equals }: State, error: Error, expected: ExpectedError): boolean {
  if (typeof expected === 'string') return error.message.includes(expected);
  if (isInstance(expected, RegExp)) return expected.test(error.message);
  // A user's class comes back from the store by its name.
  if (typeof expected === 'function') return error.name === expected.name || error instanceof expected;
  if (!isRecord(expected))
    throw new TypeError(
      `toHaveFailed: the error must be a string, a RegExp, a class or an object, got ${show(expected)}`,
    );
  return Object.entries(expected).every(([name, value]) => equals(error[name as keyof Error], value));
}
