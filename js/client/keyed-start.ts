// Starts that depend on the start before them: how they are sent.

import type { ReceiverStartRequest } from '../binding/store.ts';
import { InstanceExistsError, RuntimeStateError } from '../errors/errors.ts';
import type { Requests } from './requests.ts';
import type { StartKey } from './start-key.ts';

/** Most times that a start is sent. It is sent again when the instance that it is for has begun, or was replaced. */
const SENDS_MAX = 16;

/**
 * Starts an instance under a key.
 *
 * @param first - the start
 * @param again - makes the start for an instance of another id
 * @returns the id of the instance that stands for the start
 * @throws RuntimeStateError when the instance of the key has changed each time that the start was sent
 */
export async function startUnderKey(
  requests: Requests,
  { key, rule }: StartKey,
  first: ReceiverStartRequest,
  again: (id: string) => ReceiverStartRequest,
): Promise<string> {
  const { id } = first.request;
  let target = id;
  for (let sends = 0; sends < SENDS_MAX; sends += 1) {
    const { request, input } = target === id ? first : forWaiting(again(target));
    const keyed = { kind: 'keyedStart', request, scope: request.name, key, rule } as const;
    try {
      const answer = await requests.keyedStart(keyed, input);
      if (answer === null) return target;
      if (answer.kind === 'joined') return answer.id;
      target = answer.id;
    } catch (error) {
      if (target === id || !(error instanceof InstanceExistsError)) throw error;
      target = id;
    }
  }
  throw new RuntimeStateError(
    `the start of instance '${id}' was sent ${SENDS_MAX} times, and each time the key '${key}' had another instance`,
  );
}

/**
 * Starts an instance of a batch, or gives the input to one that has room for it.
 *
 * @param start - the start of the instance
 * @param queue - the queue of the inputs
 * @param value - the input, as the store keeps it
 * @returns the id of the instance that has the input
 */
export async function startInBatch(
  requests: Requests,
  { key, rule }: StartKey,
  { request, input }: ReceiverStartRequest,
  queue: string,
  value: string | null,
): Promise<string> {
  // Another version of the code is another batch.
  const scope = JSON.stringify([request.name, request.version]);
  const keyed = { kind: 'keyedStart', request, scope, key, rule, batch: { queue, input } } as const;
  const answer = await requests.keyedStart(keyed, value);
  return answer?.id ?? request.id;
}

/** Returns the start of an instance that waits. One that begins meanwhile is not replaced. */
function forWaiting({ request, input }: ReceiverStartRequest): ReceiverStartRequest {
  return { request: { ...request, onConflict: 'error' }, input };
}
