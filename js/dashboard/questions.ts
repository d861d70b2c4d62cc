// Questions to an instance: updates and queries, and the calls and reads of entities. An error that a handler throws is
// an answer as well.

import type { InstanceStatus } from '../client/instance-status.ts';
import { NotRegisteredError, ProviderError } from '../errors/errors.ts';
import { entityStart, entityUpdate, readEntity } from '../orchestration/entity-calls.ts';
import { STATE } from '../orchestration/entity-code.ts';
import { isInstance } from '../util/show.ts';
import { uuidv7 } from '../util/uuid.ts';
import type { Question, QuestionAnswer, QuestionBodies } from './answers.ts';
import { deadline } from './deadline.ts';
import { entityOf } from './entities.ts';
import { badRequest, Refusal } from './refusal.ts';
import { type RouteContext, statusOf } from './route-context.ts';

/** Longest wait for an answer, ms. */
const ANSWER_MS = 20_000;

type Context = Pick<RouteContext, 'client' | 'options' | 'presenter'>;

/** Asks an instance, and resolves with the answer of its handler, or rejects with the error that this threw. */
type Ask<Q extends Question> = (
  context: Context,
  instance: InstanceStatus,
  body: QuestionBodies[Q],
  signal: AbortSignal,
) => Promise<unknown>;

const ASKS: { readonly [Q in Question]: Ask<Q> } = { update, query };

export function isQuestion(path: string): path is Question {
  return Object.hasOwn(ASKS, path);
}

/**
 * Returns the answer to a question, as far as it comes in time.
 *
 * @param leaving - aborted when the client leaves. An update goes on
 * @throws Refusal when there is no instance of that id
 */
export async function answerTo<Q extends Question>(
  context: Context,
  question: Q,
  given: QuestionBodies[Q],
  leaving: AbortSignal,
): Promise<QuestionAnswer> {
  const instance = await statusOf(context.client, given.id);
  const id = question === 'update' ? { updateId: (given as QuestionBodies['update']).updateId ?? uuidv7() } : {};
  const { signal, clear } = deadline(ANSWER_MS, leaving);
  const answered = (outcome: 'value' | 'error', of: unknown): QuestionAnswer => {
    const kind = outcome === 'value' ? 'answer' : 'error';
    const value = context.presenter.answer(of, kind, given.name, instance);
    return { outcome, ...(value === undefined ? {} : { value }), ...id };
  };
  try {
    return answered('value', await ASKS[question](context, instance, { ...given, ...id }, signal));
  } catch (error) {
    if (signal.aborted) return { outcome: 'waiting', ...id };
    if (isRefusal(error)) throw error;
    return answered('error', error);
  } finally {
    clear();
  }
}

/** True if an error refuses the question. Any other one may have values of the user, so it is redacted as an answer. */
function isRefusal(error: unknown): boolean {
  return isInstance(error, Refusal) || isInstance(error, NotRegisteredError) || isInstance(error, ProviderError);
}

async function update(
  { client, options: { entities = [] } }: Context,
  instance: InstanceStatus,
  { id, name, input, updateId, isCall = false }: QuestionBodies['update'],
  signal: AbortSignal,
): Promise<unknown> {
  const options = { signal, ...(updateId === undefined ? {} : { updateId }) };
  if (!isCall) return await client.update(id, name, input, options);
  const call = entityUpdate(name, input);
  const entity = entityOf(entities, instance);
  // Only what is known to be an entity is started again after its end.
  return entity === undefined
    ? await client.update(id, ...call, options)
    : await client.updateWithStart(id, ...call, { ...options, start: entityStart(entity.definition) });
}

async function query(
  { client, options: { entities = [] } }: Context,
  instance: InstanceStatus,
  { id, name, input, isRead = false }: QuestionBodies['query'],
  signal: AbortSignal,
): Promise<unknown> {
  if (!isRead) return await client.query(id, name, input, { signal });
  const entity = entityOf(entities, instance);
  if (entity === undefined) {
    const why = `the dashboard does not have the definition of the entity '${instance.name}', which has its reads`;
    throw badRequest(`${why}: pass it in the option \`entities\``);
  }
  const { definition, key } = entity;
  const names = Object.keys(definition.entity.reads);
  if (!names.includes(name))
    throw badRequest(`entity '${instance.name}' has no read '${name}'; it has ${names.join(', ') || 'none'}`);
  return readEntity(definition, key, name, await client.getState(id, STATE), input);
}
