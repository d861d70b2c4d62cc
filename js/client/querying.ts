// Queries of clients.

import { NotRegisteredError } from '../errors/errors.ts';
import { queryOf } from '../orchestration/queries.ts';
import type { StorePort } from '../store/providers.ts';
import { abortSignal } from '../util/abort.ts';
import { checkOptions, type OptionTable } from '../util/options.ts';
import { fromErrorPayload, fromPayload, toPayload } from '../values/payload.ts';
import { parse } from '../values/schema.ts';
import { exportHistory } from './history.ts';
import type { Requests } from './requests.ts';

/** Options of {@link Client.query}. */
export interface QueryOptions {
  /** Ends the wait for the history. The promise then rejects with the signal's reason. */
  signal?: AbortSignal;
}

const QUERY_OPTIONS = { signal: abortSignal } satisfies OptionTable;

/** Asks the code of an instance. See {@link Client.query}. */
export async function query(
  port: StorePort,
  requests: Requests,
  id: string,
  given: unknown,
  [input, options]: readonly [input?: unknown, options?: QueryOptions],
): Promise<unknown> {
  const { name, input: schema } = queryOf(given);
  const { signal } = checkOptions(options, QUERY_OPTIONS, 'client.query') ?? {};
  if (schema !== undefined) await parse(schema, input, 'input');
  const { types } = port.texts;
  // The handler gets a copy, as it would from another process.
  const copy = fromPayload(toPayload(input, 'query', requests.limits, types), 'query', types);
  const { isError, text } = await requests.query('query', id, () => replayed(port, id, name, copy, signal), name);
  if (isError) throw fromErrorPayload(text, types);
  return fromPayload(text, 'answer', types);
}

/** Answers a query by a replay of the current or last execution. */
async function replayed(port: StorePort, id: string, query: string, input: unknown, signal: AbortSignal | undefined) {
  const exported = await exportHistory(port, id, undefined, signal);
  const { instanceId, executionId, name, version } = exported;
  const execution = { instanceId, executionId, name, version, events: JSON.stringify(exported.events) };
  for (const host of port.queryHosts) {
    const answer = host.answer(execution, query, input);
    if (answer !== undefined) return answer;
  }
  throw new NotRegisteredError(
    `no runtime of this process has registered orchestration '${name}' ${version}, whose code answers query ` +
      `'${query}' of instance '${id}': register it with a Runtime of this provider, which need not be started`,
    { kind: 'orchestration', missing: name, ...(version === '' ? {} : { version }) },
  );
}
