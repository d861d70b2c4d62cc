// A method of a context as a function that finds the context itself.

import { currentScheduler } from '../driver/current-scheduler.ts';
import { DeterminismError } from '../errors/errors.ts';
import type { OrchestrationContext } from './orchestration-context.ts';

type AnyFunction = (...args: any[]) => unknown;

/** The names of the methods. The other members are facts. */
type MethodName = {
  [Name in keyof OrchestrationContext]: OrchestrationContext[Name] extends AnyFunction ? Name : never;
}[keyof OrchestrationContext];

/**
 * Returns the context of the orchestration whose code is running, for facts such as `instanceId` and `isReplaying`.
 *
 * @throws DeterminismError when no orchestration is running
 *
 * @example
 * ```ts
 * const key = `${currentContext().instanceId}/invoice`;
 * ```
 */
export function currentContext(): OrchestrationContext {
  return contextFor('currentContext');
}

/** Returns the context of the orchestration whose code is running. `name` is the function that was called. */
export function contextFor(name: string): OrchestrationContext {
  const context = currentScheduler()?.context as OrchestrationContext | null | undefined;
  if (context) return context;
  throw new DeterminismError(
    `${name}() was called while no orchestration was running: ` +
      "the functions of 'perdure/orchestration' work only in the function* " +
      'of an orchestration and in what it calls, not in an activity, a promise callback or a timer',
    { called: name, instead: `call ${name}() directly in the function* of an orchestration` },
  );
}

/** Returns a method as a function of the same type. */
export function free<Name extends MethodName>(name: Name): OrchestrationContext[Name] {
  const found: AnyFunction = (...args) => {
    const context = contextFor(name);
    return (context[name] as AnyFunction).apply(context, args);
  };
  Object.defineProperty(found, 'name', { value: name });
  return found as OrchestrationContext[Name];
}
