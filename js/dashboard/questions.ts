// Questions to an instance: updates and queries, and the calls and reads of entities. An error that a handler throws is
// an answer as well.

import type { InstanceStatus } from '../client/instance-status.ts';
import { NotRegisteredError, ProviderError } from '../errors/errors.ts';
import type { EntityDefinition } from '../orchestration/entities.ts';
import { entityStart, entityUpdate, readEntity } from '../orchestration/entity-calls.ts';
import { CALL, STATE } from '../orchestration/entity-code.ts';
import { isInstance } from '../util/show.ts';
import { uuidv7 } from '../util/uuid.ts';
import type { Question, QuestionAnswer } from './answers.ts';
import { deadline } from './deadline.ts';
import { entityOf, type KnownEntity, namesOf, newEntityOf } from './entities.ts';
import type { CheckedQuestion } from './query.ts';
import { badRequest, Refusal } from './refusal.ts';
import { found, type RouteContext } from './route-context.ts';
import { checkedStart } from './starting.ts';

/** Longest wait for an answer, ms. */
const ANSWER_MS = 20_000;

type Context = Pick<RouteContext, 'client' | 'options' | 'presenter'>;

/** The instance that is asked. An update may start it. */
type Asked = Pick<InstanceStatus, 'id' | 'name'>;

/** Asks an instance, and resolves with the answer of its handler, or rejects with the error that this threw. */
type Ask<Q extends Question> = (
  context: Context,
  instance: Asked,
  body: CheckedQuestion<Q>,
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
  given: CheckedQuestion<Q>,
  leaving: AbortSignal,
): Promise<QuestionAnswer> {
  const instance = await askedOf(context, given);
  if ((given as CheckedQuestion<'update'>).isOneWay === true) return await sent(context, instance, given);
  const ids: Ids = question === 'update' ? idsOf(given) : {};
  const body = { ...given, ...(ids.updateId === undefined ? {} : { updateId: ids.updateId }) };
  const { signal, clear } = deadline(ANSWER_MS, leaving);
  const answered = (outcome: 'value' | 'error', of: unknown): QuestionAnswer => {
    const kind = outcome === 'value' ? 'answer' : 'error';
    const value = context.presenter.answer(of, kind, given.name, instance);
    return { outcome, ...(value === undefined ? {} : { value }), ...ids };
  };
  try {
    return answered('value', await ASKS[question](context, instance, body, signal));
  } catch (error) {
    if (signal.aborted) return { outcome: 'waiting', ...ids };
    if (isRefusal(error)) throw error;
    return answered('error', error);
  } finally {
    clear();
  }
}

/**
 * Returns the instance that is asked, or the one that an update or a call of an entity starts if there is none.
 *
 * @throws Refusal when there is no instance of that id, and the question starts none
 * @throws PayloadError when the input of the start does not fit its schema
 */
async function askedOf(context: Context, given: CheckedQuestion<'update'>): Promise<Asked> {
  const { id, name, start, isCall = false } = given;
  const { client, options } = context;
  if (start !== undefined && isCall) throw badRequest('update: a call of an entity takes no start');
  if (start !== undefined) await checkedStart(context, start);
  const instance = await client.getStatus(id);
  if (instance !== null) return instance;
  if (start !== undefined) return { id, name: start.name };
  const entity = isCall ? newEntityOf(options.entities ?? [], id) : undefined;
  if (entity === undefined) return found<Asked>(id, null);
  checkMethod(entity, 'handler', name);
  return { id, name: entity.definition.name };
}

/** Sends a one-way call to an entity. */
async function sent(
  { client, options: { entities = [] } }: Context,
  instance: Asked,
  { id, name, input, isCall = false }: CheckedQuestion<'update'>,
): Promise<QuestionAnswer> {
  if (!isCall) throw badRequest('update: isOneWay belongs to the call of an entity');
  const entity = knownEntity(entities, instance, 'handlers');
  checkMethod(entity, 'handler', name);
  await client.enqueueEvent(id, CALL, { handler: name, input }, { start: entityStart(entity.definition) });
  return { outcome: 'sent' };
}

/** @throws Refusal when the dashboard does not have the definition of the entity that an instance is */
function knownEntity(entities: readonly EntityDefinition[], instance: Asked, has: 'handlers' | 'reads'): KnownEntity {
  const entity = entityOf(entities, instance);
  if (entity !== undefined) return entity;
  const why = `the dashboard does not have the definition of the entity '${instance.name}', which has its ${has}`;
  throw badRequest(`${why}: pass it in the option \`entities\``);
}

/** @throws Refusal when the entity has no handler or read of that name */
function checkMethod({ definition }: KnownEntity, kind: 'handler' | 'read', name: string): void {
  const names = namesOf(definition)[`${kind}s`];
  if (!names.includes(name))
    throw badRequest(`entity '${definition.name}' has no ${kind} '${name}'; it has ${names.join(', ') || 'none'}`);
}

/** Returns the ids of an update for its answer. */
function idsOf({ id, updateId = uuidv7(), start }: CheckedQuestion<'update'>): Ids {
  return { updateId, ...(start === undefined ? {} : { instanceId: id }) };
}

type Ids = Pick<QuestionAnswer, 'updateId' | 'instanceId'>;

/** True if an error refuses the question. Any other one may have values of the user, so it is redacted as an answer. */
function isRefusal(error: unknown): boolean {
  return isInstance(error, Refusal) || isInstance(error, NotRegisteredError) || isInstance(error, ProviderError);
}

async function update(
  { client, options: { entities = [] } }: Context,
  instance: Asked,
  { id, name, input, updateId, isCall = false, start }: CheckedQuestion<'update'>,
  signal: AbortSignal,
): Promise<unknown> {
  const options = { signal, ...(updateId === undefined ? {} : { updateId }) };
  if (start !== undefined) return await client.updateWithStart(id, name, input, { ...options, start });
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
  instance: Asked,
  { id, name, input, isRead = false }: CheckedQuestion<'query'>,
  signal: AbortSignal,
): Promise<unknown> {
  if (!isRead) return await client.query(id, name, input, { signal });
  const entity = knownEntity(entities, instance, 'reads');
  checkMethod(entity, 'read', name);
  const { definition, key } = entity;
  return readEntity(definition, key, name, await client.getState(id, STATE), input);
}
