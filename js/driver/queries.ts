// Queries: handlers that read the variables of an execution, and change nothing.
//
// A query is no message and leaves no trace. Its handler runs while all fibers wait, and outside of each of them, so no
// method of the context works in it.

import type { RuntimeLimits } from '../values/limits.ts';
import { toErrorPayload, toPayload } from '../values/payload.ts';
import type { TypeRegistry } from '../values/value-types.ts';
import { atOnce, unknownHandler } from './handlers.ts';

/** The handler of a query: returns the answer, or throws. */
export type QueryCall = (input: unknown) => unknown;

/** The answer to a query, as it would be stored. */
export interface QueryAnswer {
  readonly isError: boolean;
  readonly text: string | null;
}

/** The part of the scheduler that queries use. */
export interface SchedulerForQueries {
  readonly limits: Required<RuntimeLimits>;
  readonly types: TypeRegistry;
  reader: string | null;
}

/** The queries of one execution. */
export class Queries {
  private readonly scheduler: SchedulerForQueries;
  private readonly handlers = new Map<string, QueryCall>();

  constructor(scheduler: SchedulerForQueries) {
    this.scheduler = scheduler;
  }

  /** Sets the handler of a name, in the place of the former one. */
  handle(name: string, handler: QueryCall): void {
    this.handlers.set(name, handler);
  }

  /** Answers a query. Called when no fiber runs. */
  answer(name: string, input: unknown): QueryAnswer {
    const { scheduler } = this;
    scheduler.reader = `the handler of query '${name}'`;
    try {
      const text = toPayload(this.read(name, input), 'answer', scheduler.limits, scheduler.types);
      return { isError: false, text };
    } catch (error) {
      return { isError: true, text: toErrorPayload(error, scheduler.types) };
    } finally {
      scheduler.reader = null;
    }
  }

  private read(name: string, input: unknown): unknown {
    const handler = this.handlers.get(name);
    if (handler === undefined) throw unknownHandler('query', name, this.handlers);
    return atOnce(handler(input), `the handler of query '${name}' answers`);
  }
}
