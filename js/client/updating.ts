// Updates of clients: asks, and the waits for their answers.

import { ASKS } from '../driver/waits.ts';
import { RuntimeStateError, TimeoutError } from '../errors/errors.ts';
import { updateOf } from '../orchestration/updates.ts';
import type { StorePort } from '../store/providers.ts';
import { parseDuration } from '../util/duration.ts';
import { checkOptions, named, type OptionTable } from '../util/options.ts';
import { uuidv7 } from '../util/uuid.ts';
import { Place } from '../values/codec-context.ts';
import { fromErrorPayload, fromPayload } from '../values/payload.ts';
import { parse } from '../values/schema.ts';
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

const UPDATE_OPTIONS = { ...WAIT_OPTIONS, updateId: named } satisfies OptionTable;

/** The answer as the store replies with it. */
type AnswerData =
  | { readonly kind: 'value' | 'error'; readonly text: string | null }
  /** The instance has ended without an answer. */
  | { readonly kind: 'ended' };

/** Sends an update to an instance, and waits for the answer. See {@link Client.update}. */
export async function update(
  port: StorePort,
  requests: Requests,
  id: string,
  given: unknown,
  [input, options]: readonly [input?: unknown, options?: UpdateOptions],
): Promise<unknown> {
  const { name, input: schema } = updateOf(given);
  const checked = checkOptions(options, UPDATE_OPTIONS, 'client.update') ?? {};
  const { updateId: ask = uuidv7(), timeout, signal } = checked;
  const timeoutMs = timeout === undefined ? undefined : parseDuration(timeout, 'client.update: timeout');
  if (schema !== undefined) await parse(schema, input, 'input');
  const place = Place.mail(id, { kind: 'queue', name: ASKS });
  const payload = requests.valueText({ id: ask, name, input }, 'update', place);
  const { mailboxMessages: unreadMax } = requests.limits;
  const begin = () => port.open({ kind: 'ask', id, ask, unreadMax }, payload);
  const late = async (): Promise<never> => {
    const message =
      `update '${name}' of instance '${id}' was not answered within ${timeoutMs} ms: it may still be, ` +
      `and a call with the updateId '${ask}' waits for the same answer`;
    throw new TimeoutError(message, timeoutMs === undefined ? {} : { timeoutMs });
  };
  const reply = await requests.asking(id, name, () => within(begin, { timeoutMs, signal }, port.timers, late));
  return answerOf(JSON.parse(reply as string) as AnswerData, port, id, ask, name);
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
