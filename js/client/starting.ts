// Starts of clients: of one instance, and many by one call (`client.startMany`).

import type { ReceiverStartRequest } from '../binding/store.ts';
import { LimitError } from '../errors/errors.ts';
import type { InstanceOptions } from '../orchestration/call-options.ts';
import type { ReceiverDefinition } from '../orchestration/send-options.ts';
import { STARTED_CODE, startedCode } from '../orchestration/started-code.ts';
import type { StorePort } from '../store/providers.ts';
import { checkOptions, named, type OptionTable } from '../util/options.ts';
import { isList, show } from '../util/show.ts';
import { uuidv7 } from '../util/uuid.ts';
import type { OnConflict } from '../values/conflicts.ts';
import { parse } from '../values/schema.ts';
import { START_OPTIONS, type StartOptions } from './client-options.ts';
import { startUnderKey } from './keyed-start.ts';
import type { Requests } from './requests.ts';
import { type KeyedStartOptions, ownOptions, type StartKey, startKeyOf } from './start-key.ts';

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

/** A start that was checked. */
interface PreparedStart {
  readonly first: ReceiverStartRequest;
  /** The key, if the start depends on the one before it. */
  readonly key: StartKey | undefined;
  /** Makes the start again for an instance of another id. */
  readonly again: (id: string) => ReceiverStartRequest;
}

/**
 * Checks a start, and encodes its input.
 *
 * @param where - the begin of errors. Default: the name of the orchestration
 */
export function prepareStart(
  requests: Requests,
  id: string,
  name: string,
  input: unknown,
  options: StartOptions,
  where = `orchestration '${name}'`,
): PreparedStart {
  const key = startKeyOf(options, where);
  const own = key === undefined ? options : ownOptions(options);
  const again = (id: string) => requests.start(id, name, input, own, where);
  return { first: again(id), key, again };
}

/** Sends a start. Returns the id of the instance, or of the one that stands for it. */
export async function sendStart(
  port: StorePort,
  requests: Requests,
  { first, key, again }: PreparedStart,
): Promise<string> {
  const { id, name, version } = first.request;
  let started = id;
  if (key === undefined) await requests.command('start', { kind: 'start', ...first.request }, first.input, name);
  else started = await startUnderKey(requests, key, first, again);
  port.tellStart(name, version);
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
    outcomes.push(...(await Promise.all(group.map((start) => started(port, requests, start)))));
  }
  return outcomes;
}

async function preparedStart(requests: Requests, given: InstanceStart, where: string): Promise<PreparedStart> {
  const start = checkOptions(given as Record<string, any>, OPTIONS, where) ?? {};
  const { definition, input, id = uuidv7(), ...options } = start;
  const { name, version } = startedCode(start, where);
  if (definition?.input !== undefined) await parse(definition.input, input, 'input');
  return prepareStart(requests, id, name, input, { ...options, version } as StartOptions, where);
}

async function started(port: StorePort, requests: Requests, start: PreparedStart): Promise<StartOutcome> {
  try {
    return { id: await sendStart(port, requests, start) };
  } catch (error) {
    return { id: start.first.request.id, error: error as Error };
  }
}
