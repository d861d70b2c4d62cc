// Starts of clients: of one instance, and many by one call (`client.startMany`).

import type { ReceiverStartRequest } from '../binding/store.ts';
import { LimitError } from '../errors/errors.ts';
import type { Batches, BatchInput } from '../orchestration/batch.ts';
import type { InstanceOptions } from '../orchestration/call-options.ts';
import type { ReceiverDefinition } from '../orchestration/send-options.ts';
import { STARTED_CODE, startedCode } from '../orchestration/started-code.ts';
import type { StorePort } from '../store/providers.ts';
import { checkOptions, named, type OptionTable } from '../util/options.ts';
import { isList, show } from '../util/show.ts';
import { uuidv7 } from '../util/uuid.ts';
import { batchQueueOf } from '../values/batch.ts';
import { Place } from '../values/codec-context.ts';
import type { OnConflict } from '../values/conflicts.ts';
import { parse } from '../values/schema.ts';
import { START_OPTIONS, type StartOptions } from './client-options.ts';
import { startInBatch, startUnderKey } from './keyed-start.ts';
import type { Requests } from './requests.ts';
import { batchStartKeyOf, type KeyedStartOptions, ownOptions, type StartKey, startKeyOf } from './start-key.ts';

/** One of the starts of {@link Client.startMany}: by a definition, or by the name of an orchestration. */
export type InstanceStart<I = any> = Omit<InstanceOptions, 'version'> &
  KeyedStartOptions & {
    /** Id of the new instance. Default: a UUID of version 7. */
    id?: string;
    /** Behaviour when the id is in use. Default `'error'`. */
    onConflict?: OnConflict;
  } & (
    | ({ definition: ReceiverDefinition<I> } & (undefined extends I ? { input?: I } : { input: I }))
    | { name: string; version?: string; input?: unknown }
  );

/** What became of one of the starts of {@link Client.startMany}. */
export interface StartOutcome {
  /** Id of the instance, or of the one that stands for it: see {@link KeyedStartOptions}. */
  readonly id: string;
  /** The error that {@link Client.startOrchestration} rejects with. Absent: the instance is there. */
  readonly error?: Error;
}

/** The most starts of one call. */
const STARTS_MAX = 10_000;

/** Starts that are on their way to the store at once. */
const AT_ONCE_MAX = 1_000;

const OPTIONS: OptionTable = { ...START_OPTIONS, ...STARTED_CODE, id: named };

/** A start that was checked, and whose input is encoded. */
interface PreparedStart {
  readonly request: ReceiverStartRequest['request'];
  /** Sends the start. Returns the id of the instance, or of the one that stands for it. */
  send(): Promise<string>;
}

/** The orchestration of a start, and its batches if the start is one input of a batch. */
interface Started {
  readonly name: string;
  readonly batch?: Batches | undefined;
}

/**
 * Checks a start, and encodes its input.
 *
 * @param where - the begin of errors. Default: the name of the orchestration
 */
export function prepareStart(
  requests: Requests,
  id: string,
  { name, batch }: Started,
  input: unknown,
  options: StartOptions,
  where = `orchestration '${name}'`,
): PreparedStart {
  if (batch !== undefined) {
    const key = batchStartKeyOf(batch, input, options, where);
    return prepareBatchStart(requests, id, name, input, options, key);
  }
  const key = startKeyOf(options, where);
  const own = key === undefined ? options : ownOptions(options);
  const again = (id: string) => requests.start(id, name, input, own, where);
  const first = again(id);
  const { request } = first;
  if (key !== undefined) return { request, send: () => startUnderKey(requests, key, first, again) };
  const send = async () => {
    await requests.command('start', { kind: 'start', ...request }, first.input, name);
    return id;
  };
  return { request, send };
}

function prepareBatchStart(
  requests: Requests,
  id: string,
  name: string,
  input: unknown,
  options: StartOptions,
  key: StartKey,
): PreparedStart {
  const own: BatchInput = { batch: key.key };
  const start = requests.start(id, name, own, options);
  const queue = batchQueueOf({ orchestration: name, key: key.key });
  const value = requests.valueText(input, 'input', Place.mail(id, { kind: 'queue', name: queue }));
  return { request: start.request, send: () => startInBatch(requests, key, start, queue, value) };
}

/** Sends a start. Returns the id of the instance, or of the one that stands for it. */
export async function sendStart(port: StorePort, { request, send }: PreparedStart): Promise<string> {
  const started = await send();
  port.tellStart(request.name, request.version);
  return started;
}

/** Starts instances. Nothing is started if one of the starts is wrong. See {@link Client.startMany}. */
export async function startMany(
  port: StorePort,
  requests: Requests,
  starts: readonly InstanceStart[],
): Promise<StartOutcome[]> {
  const where = 'client.startMany';
  if (!isList(starts)) throw new TypeError(`${where} takes a list of starts, got ${show(starts)}`);
  if (starts.length > STARTS_MAX)
    throw new LimitError(`${where}: the list has ${starts.length} starts, and may have ${STARTS_MAX}`, {
      limit: 'startMany',
      max: STARTS_MAX,
    });
  const prepared: PreparedStart[] = [];
  for (const [n, start] of starts.entries()) prepared.push(await preparedStart(requests, start, `${where}: [${n}]`));
  const outcomes: StartOutcome[] = [];
  for (let n = 0; n < prepared.length; n += AT_ONCE_MAX) {
    const group = prepared.slice(n, n + AT_ONCE_MAX);
    outcomes.push(...(await Promise.all(group.map((start) => started(port, start)))));
  }
  return outcomes;
}

async function preparedStart(requests: Requests, given: InstanceStart, where: string): Promise<PreparedStart> {
  const start = checkOptions(given as Record<string, any>, OPTIONS, where) ?? {};
  const { definition, input, id = uuidv7(), ...options } = start;
  const { name, version } = startedCode(start, where);
  if (definition?.input !== undefined) await parse(definition.input, input, 'input');
  const code = { name, batch: definition?.batch };
  return prepareStart(requests, id, code, input, { ...options, version } as StartOptions, where);
}

async function started(port: StorePort, start: PreparedStart): Promise<StartOutcome> {
  try {
    return { id: await sendStart(port, start) };
  } catch (error) {
    return { id: start.request.id, error: error as Error };
  }
}
