// Updates of clients: asks, and the waits for their answers.

import { ASKS } from '../driver/waits.ts';
import { RuntimeStateError, TimeoutError } from '../errors/errors.ts';
import { type CheckedReceiverStart, receiverStart, SEND_OPTIONS } from '../orchestration/receiver-start.ts';
import type { ReceiverStart } from '../orchestration/send-options.ts';
import { updateOf } from '../orchestration/updates.ts';
import type { StorePort } from '../store/providers.ts';
import { parseDuration } from '../util/duration.ts';
import { checkOptions, named, type OptionTable } from '../util/options.ts';
import { uuidv7 } from '../util/uuid.ts';
import { Place } from '../values/codec-context.ts';
import { fromErrorPayload, fromPayload } from '../values/payload.ts';
import { parse } from '../values/schema.ts';
import type { InstanceState } from './instance-status.ts';
import type { Requests } from './requests.ts';
import { WAIT_OPTIONS, type WaitOptions, within } from './watching.ts';

/** Options of {@link Client.update}. */
export interface UpdateOptions extends WaitOptions {
  /**
   * Id of the update, 1 to 256 characters. Calls with the same id are one update: the first one runs, and all of them
   * get its answer, no matter what input they have. An instance keeps its last 1 000 answers. Default: a UUID, so each
   * call is an update of its own.
   */
  updateId?: string;
}

/** Options of {@link Client.updateWithStart}. */
export interface UpdateWithStartOptions<R = any> extends UpdateOptions {
  /** The start of the instance, in the same commit, if there is none of that id. */
  start: ReceiverStart<R>;
}

export const UPDATE_OPTIONS = { ...WAIT_OPTIONS, updateId: named } satisfies OptionTable;
const UPDATE_WITH_START_OPTIONS = { ...UPDATE_OPTIONS, ...SEND_OPTIONS } satisfies OptionTable;

/** The answer as the store replies with it. */
type AnswerData =
  | { readonly kind: 'value' | 'error'; readonly text: string | null }
  /** The instance has ended without an answer. */
  | { readonly kind: 'ended'; readonly status: InstanceState };

/** Sends an update to an instance, and waits for the answer. See {@link Client.update}. */
export async function update(
  port: StorePort,
  requests: Requests,
  id: string,
  given: unknown,
  [input, options]: readonly [input?: unknown, options?: UpdateOptions],
): Promise<unknown> {
  const where = 'client.update';
  const checked = checkOptions(options, UPDATE_OPTIONS, where) ?? {};
  return await ask(port, requests, id, given, { input, options: checked, start: undefined, where });
}

/** Sends an update that starts its instance if there is none. See {@link Client.updateWithStart}. */
export async function updateWithStart(
  port: StorePort,
  requests: Requests,
  id: string,
  given: unknown,
  input: unknown,
  options: UpdateWithStartOptions,
): Promise<unknown> {
  const where = 'client.updateWithStart';
  const checked = checkOptions(options, UPDATE_WITH_START_OPTIONS, where);
  const start = receiverStart(checked, where);
  if (start === undefined) throw new TypeError(`${where}: the options must have a start`);
  return await ask(port, requests, id, given, { input, options: checked, start, where });
}

/** The arguments of an update, checked. */
interface Sent {
  readonly input: unknown;
  readonly options: UpdateOptions;
  /** `undefined`: the update starts no instance. */
  readonly start: CheckedReceiverStart | undefined;
  /** The call, for errors. */
  readonly where: string;
}

/** The number of completions of its instance that one update outlives. */
const COMPLETIONS_MAX = 100;

/**
 * Sends an update, and returns its answer. If the instance completes before it takes the update, and the start may
 * replace it, the update goes to the next instance.
 */
async function ask(
  port: StorePort,
  requests: Requests,
  id: string,
  given: unknown,
  { input, options, start, where }: Sent,
): Promise<unknown> {
  const { name, input: schema } = updateOf(given);
  const { updateId = uuidv7(), timeout, signal } = options;
  const timeoutMs = timeout === undefined ? undefined : parseDuration(timeout, `${where}: timeout`);
  if (schema !== undefined) await parse(schema, input, 'input');
  const place = Place.mail(id, { kind: 'queue', name: ASKS });
  const payload = requests.valueText({ id: updateId, name, input }, 'update', place);
  if (start?.definition?.input !== undefined) await parse(start.definition.input, start.input, 'input');
  const started = start === undefined ? null : requests.start(id, start.name, start.input, start);
  const { mailboxMessages: unreadMax } = requests.limits;
  const late = async (): Promise<never> => {
    const message =
      `update '${name}' of instance '${id}' was not answered within ${timeoutMs} ms: it may still be, ` +
      `and a call with the updateId '${updateId}' waits for the same answer`;
    throw new TimeoutError(message, timeoutMs === undefined ? {} : { timeoutMs });
  };
  const request = { kind: 'ask', id, ask: updateId, unreadMax, start: started } as const;
  for (let completions = 0; ; completions += 1) {
    const reply = await requests.asking(request, payload, name, (begin) => {
      const waits = within(begin, { timeoutMs, signal }, port.timers, late);
      if (started !== null) port.tellStart(started.request.name, started.request.version);
      return waits;
    });
    const answer = JSON.parse(reply as string) as AnswerData;
    const wasTaken = answer.kind !== 'ended' || answer.status !== 'Completed';
    if (wasTaken || start?.onConflict !== 'restartIfTerminal' || completions === COMPLETIONS_MAX)
      return answerOf(answer, port, id, updateId, name);
  }
}

function answerOf(answer: AnswerData, port: StorePort, id: string, ask: string, name: string): unknown {
  const { texts } = port;
  switch (answer.kind) {
    case 'value':
      return fromPayload(texts.read(answer.text, 'answer', Place.ofAsk(id, ask, 'output')), 'answer', texts.types);
    case 'error':
      throw fromErrorPayload(texts.read(answer.text, 'error', Place.ofAsk(id, ask, 'error')), texts.types);
    case 'ended':
      throw new RuntimeStateError(`instance '${id}' ended before it answered update '${name}'`);
    default:
      return answer satisfies never;
  }
}
