// The titles of events whose names are Perdure's own: updates, and calls and reads of other instances.

import type { HistoryEvent } from '../client/history.ts';
import type { AwaitedMessage } from '../client/instance-description.ts';
import { ASKS } from '../driver/waits.ts';
import { isBuiltIn } from '../orchestration/definition.ts';
import { CALL_ENTITY, DELETE_ENTITY, READ_ENTITY } from '../orchestration/entity-calls.ts';
import { CALL, DELETE, heldQueueOf } from '../orchestration/entity-code.ts';
import { ASK_LOCK, grantOf, HOLDER, unlockOf } from '../orchestration/lock-code.ts';
import { READ_STATE } from '../orchestration/read-state.ts';
import { UPDATE } from '../orchestration/sent-update.ts';
import { TOKEN, TOKEN_KEY } from '../orchestration/tokens.ts';
import { isList, property } from '../util/show.ts';
import { batchOf } from '../values/batch.ts';

/** Returns the title of an event, such as `update addItem`; `undefined` if its name is its title. */
export function titleOf({ kind, name = '', payload }: HistoryEvent): string | undefined {
  const of = (key: string): string => String(property(payload, key));
  switch (`${kind} ${name}`) {
    case `QueueReceived ${ASKS}`:
      if (of('name') === CALL) return `call ${String(property(property(payload, 'input'), 'handler'))}`;
      if (of('name') === TOKEN) return 'answer of the token';
      if (of('name') === ASK_LOCK) return `ask for the lock, by ${String(property(property(payload, 'input'), 'by'))}`;
      return of('name') === DELETE ? 'delete' : `update ${of('name')}`;
    case `QueueReceived ${CALL}`:
      return `call ${of('handler')}`;
    case `ActivityScheduled ${CALL_ENTITY}`:
      return `call ${of('method')} of ${of('id')}`;
    case `ActivityScheduled ${READ_ENTITY}`:
      return `read ${of('method')} of ${of('id')}`;
    case `ActivityScheduled ${DELETE_ENTITY}`:
      return `delete ${of('id')}`;
    case `ChildScheduled ${HOLDER}`:
      return `lock ${locksOf(payload).join(', ')}`;
    case `ChildScheduled ${TOKEN}`:
      return 'token';
    case `ActivityScheduled ${UPDATE}`:
      return `update ${of('update')} of ${of('id')}`;
    case `ActivityScheduled ${READ_STATE}`:
      return `state of ${of('id')}`;
    default:
      if (kind === 'PatchApplied' && name.startsWith(TOKEN_KEY)) return 'key of tokens';
      if (kind === 'QueueReceived' && batchOf(name) !== undefined) return 'input of the batch';
      return lockTitleOf(kind, name);
  }
}

/** Returns the title of an awaited message whose name is Perdure's own. Users send no such message. */
export function awaitedTitleOf({ kind, name }: Pick<AwaitedMessage, 'kind' | 'name'>): string | undefined {
  if (kind === 'queue' && (name === CALL || name.startsWith(heldQueueOf(''))))
    return name === CALL ? 'one-way call' : 'one-way call of the holder';
  return lockTitleOf('EventReceived', name) ?? (isBuiltIn(name) ? name : undefined);
}

/** Returns the title of an event whose name has the id of a holder at its end. */
function lockTitleOf(kind: HistoryEvent['kind'], name: string): string | undefined {
  const isSent = kind === 'EventSent';
  if (!isSent && kind !== 'EventReceived') return undefined;
  if (name.startsWith(grantOf(''))) return isSent ? 'grant the lock' : 'lock granted';
  if (name.startsWith(unlockOf(''))) return isSent ? 'unlock' : 'unlocked';
  return undefined;
}

/** Returns the ids of the locks that a holder asks for. */
function locksOf(payload: unknown): string[] {
  const locks = property(payload, 'locks');
  return isList(locks) ? locks.map((lock) => String(property(lock, 'id'))) : [];
}
