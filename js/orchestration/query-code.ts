// The built-in orchestrations that answer queries of processes without the code. Each orchestration has one, under its
// own version, so only a worker that has that code acquires it.

import type { Future } from '../driver/future.ts';
import { defineBuiltIn, type OrchestrationDefinition } from './definition.ts';
import type { OrchestrationContext } from './orchestration-context.ts';

/** The begin of the names of the orchestrations, and the name of their activity. Part of the format. */
const QUERY = 'perdure.query';

/** The input of such an orchestration. Part of the format. */
export interface QueryRequest {
  readonly id: string;
  readonly query: string;
  readonly input?: unknown;
}

/** The output of such an orchestration. Part of the format. */
export type QueryOutcome =
  | { readonly kind: 'answered'; readonly value?: unknown }
  | { readonly kind: 'refused'; readonly error: Error };

/** Returns the name of the orchestration that answers queries of the instances of another one. */
export function queryCodeOf(name: string): `perdure.${string}` {
  return `${QUERY}/${name}`;
}

/** Returns the orchestration that answers queries of the instances of another one. */
export function queryOrchestration({ name, version }: Pick<OrchestrationDefinition, 'name' | 'version'>) {
  return defineBuiltIn(queryCodeOf(name), answer, version);
}

function* answer(
  ctx: OrchestrationContext,
  { id, query, input }: QueryRequest,
): Generator<Future<any>, QueryOutcome, any> {
  return yield* ctx.run(QUERY, async ({ client, signal }): Promise<QueryOutcome> => {
    try {
      return { kind: 'answered', value: await client.query(id, query, input, { signal }) };
    } catch (error) {
      signal.throwIfAborted();
      return { kind: 'refused', error: error as Error };
    }
  });
}
