// Queries of clients. Code of this process answers, or a worker that has the code.

import type { QueryAnswer } from '../driver/queries.ts';
import { queryOf } from '../orchestration/queries.ts';
import type { QueryRequest } from '../orchestration/query-code.ts';
import type { StorePort } from '../store/providers.ts';
import type { HistoryPlace, MissingCode } from '../store/query-host.ts';
import { type Duration, parseDuration } from '../util/duration.ts';
import { checkOptions } from '../util/options.ts';
import { fromErrorPayload, fromPayload, toPayload } from '../values/payload.ts';
import { parse } from '../values/schema.ts';
import { codeOf, historyTail } from './history.ts';
import { askWorker } from './remote-query.ts';
import type { Requests } from './requests.ts';
import { WAIT_OPTIONS } from './watching.ts';

/** Options of {@link Client.query}. */
export interface QueryOptions {
  /** Longest wait for a worker that has the code, if this process does not have it. Default 10 s. */
  timeout?: Duration;
  /** Ends the wait. The promise then rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** Asks the code of an instance. See {@link Client.query}. */
export async function query(
  port: StorePort,
  requests: Requests,
  id: string,
  given: unknown,
  [input, options]: readonly [input?: unknown, options?: QueryOptions],
): Promise<unknown> {
  const { name, input: schema } = queryOf(given);
  const { timeout = '10s', signal } = checkOptions(options, WAIT_OPTIONS, 'client.query') ?? {};
  const limits = { timeoutMs: parseDuration(timeout, 'client.query: timeout'), signal };
  if (schema !== undefined) await parse(schema, input, 'input');
  const { types } = port.texts;
  // The handler gets a copy, as it would from another process.
  const copy = fromPayload(toPayload(input, 'query', requests.limits, types), 'query', types);
  return await requests.query(
    'query',
    id,
    async () => {
      const found = await answerHere(port, { id, query: name, input: copy }, signal);
      if (!('isError' in found))
        return await askWorker(port, requests, { id, query: name, input: copy }, found, limits);
      if (found.isError) throw fromErrorPayload(found.text, types);
      return fromPayload(found.text, 'answer', types);
    },
    name,
  );
}

/** Lets a runtime of this process answer. Returns the code that is missing, if none has it. */
async function answerHere(
  port: StorePort,
  { id, query, input }: QueryRequest,
  signal: AbortSignal | undefined,
): Promise<QueryAnswer | MissingCode> {
  const read = (after: HistoryPlace | null) => historyTail(port, id, after, signal);
  let missing: MissingCode | undefined;
  for (const host of port.queryHosts) {
    const found = await host.answer(id, query, input, read);
    if ('isError' in found) return found;
    missing = found;
  }
  return missing ?? codeOf((await read(null)).events);
}
