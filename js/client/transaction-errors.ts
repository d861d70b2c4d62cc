// The errors of requests in a user's transaction: those of the functions and triggers of the store, as the client's.

import {
  InstanceExistsError,
  InstanceNotFoundError,
  LimitError,
  ProviderError,
  QueueNotFoundError,
  RuntimeStateError,
} from '../errors/errors.ts';
import { property } from '../util/show.ts';

/** What a request was for, and where. */
export interface RequestFacts {
  readonly instanceId: string;
  /** Queue of a start. */
  readonly queue: string | undefined;
  /** Limit of unread messages, of a message. */
  readonly unreadMax: number;
  /** Name of the functions or views, for people. */
  readonly place: string;
}

type Kind = 'exists' | 'absent' | 'noQueue' | 'state' | 'full' | 'wrong' | 'foreign' | 'denied';

/** The SQLSTATE that each function of a Postgres store raises, and those of a database without such functions. */
const STATES: Readonly<Record<string, Kind>> = {
  '23505': 'exists',
  P0002: 'absent',
  '42704': 'noQueue',
  '55000': 'state',
  '54000': 'full',
  '22023': 'wrong',
  '42883': 'foreign',
  '3F000': 'foreign',
  '42501': 'denied',
};

/** Beginnings of the messages of a SQLite store, the most special ones first. */
const MESSAGES: readonly (readonly [string, Kind])[] = [
  ['perdure: an instance with this id exists', 'exists'],
  ['perdure: there is no instance', 'absent'],
  ['perdure: there is no queue', 'noQueue'],
  ['perdure: the instance has ended', 'state'],
  ['perdure: the instance is suspended', 'state'],
  ['perdure: the instance waits for its start', 'state'],
  ['perdure: the instance has reached its limit', 'full'],
  ['perdure: ', 'wrong'],
  ['no such table: perdure_', 'foreign'],
];

/**
 * Returns the client's error for an error of the database, which becomes its cause. An error that has nothing to do
 * with the request, such as a lost connection or a serialization failure, is returned unchanged.
 */
export function requestError(error: unknown, facts: RequestFacts): unknown {
  const { instanceId, queue, unreadMax: max, place } = facts;
  const message = String(property(error, 'message')).replace(/^perdure: /, '');
  const options = { cause: error };
  switch (kindOf(error)) {
    case 'exists':
      return new InstanceExistsError(`an instance with the id '${instanceId}' exists already`, {
        instanceId,
        ...options,
      });
    case 'absent':
      return new InstanceNotFoundError(`there is no instance with the id '${instanceId}'`, { instanceId, ...options });
    case 'noQueue':
      if (queue === undefined) return error;
      return new QueueNotFoundError(`there is no queue '${queue}'; set its limits first, with client.queues.set`, {
        queue,
        ...options,
      });
    case 'state':
      return new RuntimeStateError(message.replace(/^the instance/, `instance '${instanceId}'`), options);
    case 'full':
      return new LimitError(
        `instance '${instanceId}' has reached its limit of ${max} unread messages (limits.mailboxMessages): send ` +
          'again when the instance has read messages, or raise the limit',
        { limit: 'mailboxMessages', max, ...options },
      );
    case 'wrong':
      return new TypeError(message, options);
    case 'foreign':
      return new TypeError(
        `client.within: the database of the transaction does not have ${place}. The transaction must be of the ` +
          "database that holds the client's store",
        options,
      );
    case 'denied':
      return new ProviderError(
        `the role of the transaction may not call ${place}: grant it USAGE on the schema and EXECUTE on its functions`,
        { retryable: false, ...options },
      );
    default:
      return error;
  }
}

/** Some libraries wrap the error of the driver. */
function kindOf(error: unknown): Kind | undefined {
  for (const found of [error, property(error, 'cause')]) {
    const [code, message] = [property(found, 'code'), property(found, 'message')];
    if (typeof code === 'string' && code in STATES) return STATES[code];
    const text = typeof message === 'string' ? message : '';
    const known = MESSAGES.find(([beginning]) => text.startsWith(beginning));
    if (known !== undefined) return known[1];
  }
  return undefined;
}
