// Queries whose code is in other processes: a worker that has the code runs a built-in orchestration, which asks there.

import { ActivityError, NotRegisteredError, PayloadError, RuntimeStateError, TimeoutError } from '../errors/errors.ts';
import { type QueryOutcome, type QueryRequest, queryCodeOf } from '../orchestration/query-code.ts';
import type { StorePort } from '../store/providers.ts';
import type { MissingCode } from '../store/query-host.ts';
import { isInstance } from '../util/show.ts';
import { uuidv7 } from '../util/uuid.ts';
import { shareWorkers } from './description.ts';
import type { Requests } from './requests.ts';
import { ServedWork } from './served-work.ts';
import { type WaitLimits, within } from './watching.ts';

/**
 * Asks a worker that has the code of an instance. What the store has of the query is deleted at its end.
 *
 * @throws NotRegisteredError when no live worker has the code
 * @throws TimeoutError when no worker has answered in time
 * @throws the error that the worker's query ended with
 */
export async function askWorker(
  port: StorePort,
  requests: Requests,
  request: QueryRequest,
  code: MissingCode,
  limits: WaitLimits,
): Promise<unknown> {
  const { name, version } = code;
  const missing = new ServedWork(await shareWorkers(port)).missingOrchestration(name, version);
  if (missing !== undefined) throw notRegistered(request, code, missing);
  const asking = queryCodeOf(name);
  const id = `${asking}/${uuidv7()}`;
  const start = requests.start(id, asking, request, version === '' ? {} : { version });
  limits.signal?.throwIfAborted();
  await port.request({ kind: 'start', ...start.request }, start.input);
  try {
    const begin = () => port.open({ kind: 'waitForEnd', id, orSuspension: true });
    const reply = await within(begin, limits, port.timers, () => Promise.reject(late(request, code, limits)));
    const status = requests.statusOf<QueryOutcome>(reply);
    if (status?.output === undefined)
      throw failure(status?.error) ?? new RuntimeStateError(`query '${id}' was stopped`);
    if (status.output.kind === 'refused') throw status.output.error;
    return status.output.value;
  } finally {
    // What stays is an ended instance, or one that ends: a prune deletes it.
    await remove(port, id).catch(() => {});
  }
}

/** Returns the error of a query. What surrounds an answer in the store may make it too large by some bytes. */
function failure(error: Error | undefined): Error | undefined {
  return isInstance(error, ActivityError) && isInstance(error.cause, PayloadError) ? error.cause : error;
}

async function remove(port: StorePort, id: string): Promise<void> {
  const deleted = () => port.request({ kind: 'delete', id });
  try {
    await deleted();
  } catch {
    // It has not ended: the wait for its end was cut short.
    await port.request({ kind: 'terminate', id });
    await deleted();
  }
}

function notRegistered({ id, query }: QueryRequest, { name, version }: MissingCode, why: string): NotRegisteredError {
  return new NotRegisteredError(
    `query '${query}' of instance '${id}' needs the code of its orchestration, which no runtime of this process ` +
      `has; ${why}`,
    { kind: 'orchestration', missing: name, ...(version === '' ? {} : { version }) },
  );
}

function late({ id, query }: QueryRequest, { name, version }: MissingCode, { timeoutMs }: WaitLimits): TimeoutError {
  return new TimeoutError(
    `query '${query}' of instance '${id}' was not answered within ${timeoutMs} ms by a worker that has registered ` +
      `orchestration '${name}'${version === '' ? '' : ` version '${version}'`}`,
    timeoutMs === undefined ? {} : { timeoutMs },
  );
}
