// Queries of clients.

import { NotRegisteredError } from '../errors/errors.ts';
import { queryOf } from '../orchestration/queries.ts';
import type { StorePort } from '../store/providers.ts';
import type { HistoryPlace, MissingCode } from '../store/query-host.ts';
import { abortSignal } from '../util/abort.ts';
import { checkOptions, type OptionTable } from '../util/options.ts';
import { fromErrorPayload, fromPayload, toPayload } from '../values/payload.ts';
import { parse } from '../values/schema.ts';
import { codeOf, historyTail } from './history.ts';
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
  const { isError, text } = await requests.query('query', id, () => answered(port, id, name, copy, signal), name);
  if (isError) throw fromErrorPayload(text, types);
  return fromPayload(text, 'answer', types);
}

/** Lets a runtime of this process answer. */
async function answered(port: StorePort, id: string, query: string, input: unknown, signal: AbortSignal | undefined) {
  const read = (after: HistoryPlace | null) => historyTail(port, id, after, signal);
  let missing: MissingCode | undefined;
  for (const host of port.queryHosts) {
    const found = await host.answer(id, query, input, read);
    if ('isError' in found) return found;
    missing = found;
  }
  const { name, version } = missing ?? codeOf((await read(null)).events);
  throw new NotRegisteredError(
    `no runtime of this process has registered orchestration '${name}' ${version}, whose code answers query ` +
      `'${query}' of instance '${id}': register it with a Runtime of this provider, which need not be started`,
    { kind: 'orchestration', missing: name, ...(version === '' ? {} : { version }) },
  );
}
