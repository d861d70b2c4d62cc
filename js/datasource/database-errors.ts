// The errors of databases and of their libraries: the codes that say that a transaction may run again.

import { isRecord, property } from '../util/show.ts';

/** Serialization failure and deadlock of Postgres, a busy SQLite file, and Prisma's name for such conflicts. */
const CONFLICTS = new Set(['40001', '40P01', 'SQLITE_BUSY', 'SQLITE_BUSY_SNAPSHOT', 'SQLITE_LOCKED', 'P2034']);

/** Errors of Node, of Postgres (classes 08 and 57) and of libraries that say that the connection is gone. */
const LOST = new Set([
  'ECONNRESET',
  'ECONNREFUSED',
  'EPIPE',
  'ETIMEDOUT',
  '57P01',
  '57P02',
  '57P03',
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'CONNECTION_ENDED',
  'CONNECT_TIMEOUT',
  'P1001',
  'P1017',
]);
/** Messages of `pg` without a code. */
const LOST_MESSAGES = /^(Connection terminated|Client has encountered a connection error|terminating connection)/;

/** Number of SQLite's result code SQLITE_BUSY, in the property `errcode` of `node:sqlite`. */
const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;

/** Prisma's own codes, which have as many characters as those of Postgres. */
const OF_PRISMA = /^P[1-9]/;

/** Levels of causes that are looked at. */
const DEPTH_MAX = 6;

/** True if the database rolled the transaction back because of another one, so that it may run again. */
export function isConflict(error: unknown): boolean {
  return some(error, (code) => CONFLICTS.has(code));
}

/** True if the connection was lost, so that it is not known what the server did last. */
export function connectionLost(error: unknown): boolean {
  return some(error, (code, message) => LOST.has(code) || code.startsWith('08') || LOST_MESSAGES.test(message));
}

/** Returns the code of an error of Postgres, also below the error of a library. */
export function sqlStateOf(error: unknown): string | undefined {
  let found: string | undefined;
  some(error, (code) => {
    if (/^[0-9A-Z]{5}$/.test(code) && !OF_PRISMA.test(code)) found ??= code;
    return found !== undefined;
  });
  return found;
}

/** Returns the message of an error, also of a library's that keeps the database's error as its cause. */
export function messageOf(error: unknown): string {
  const cause = property(error, 'cause');
  const message = property(cause, 'code') === undefined ? property(error, 'message') : property(cause, 'message');
  return typeof message === 'string' ? message : '';
}

/** True if one of an error's codes fits. The codes are those of the error and of its causes, by any library's name. */
function some(error: unknown, fits: (code: string, message: string) => boolean, depth = DEPTH_MAX): boolean {
  if (!isRecord(error) || depth === 0) return false;
  const message = property(error, 'message');
  const text = typeof message === 'string' ? message : '';
  const errcode = property(error, 'errcode');
  const busy = errcode === SQLITE_BUSY || errcode === SQLITE_LOCKED ? 'SQLITE_BUSY' : '';
  const codes = ['code', 'originalCode', 'sqlState'].map((name) => property(error, name));
  if ([...codes, busy].some((code) => typeof code === 'string' && fits(code, text))) return true;
  const below = ['cause', 'meta', 'driverAdapterError', 'originalError'].map((name) => property(error, name));
  return below.some((cause) => some(cause, fits, depth - 1));
}
