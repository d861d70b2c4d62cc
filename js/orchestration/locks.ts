// Locks as a user names them: locks by name, and the locks of entities.

import { contextLocal } from '../driver/context-local.ts';
import { describeValue } from '../driver/generator.ts';
import { checkName, checkOptions, type OptionTable, whole } from '../util/options.ts';
import { isList, property } from '../util/show.ts';
import { DEFAULT_VERSION } from './definition.ts';
import type { EntityAddress, LockDefinition } from './lockable.ts';

/** Options of {@link defineLock}. */
export interface LockOptions {
  /** The number of blocks that may run at a time, 1 to 100. Default 1. */
  permits?: number;
}

/** A lock to ask for: the instance that grants it, and its start. Part of the format. */
export interface AskedLock {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  /** Absent for an entity, which has one. */
  readonly permits?: number;
}

/** The name of the orchestration that a lock with a name is. Part of the format. */
export const LOCK = 'perdure.lock';

/** Most permits of a lock. Its value lists the holders. */
const PERMITS_MAX = 100;

/** Most locks of one block. */
const LOCKS_MAX = 100;

const LOCK_OPTIONS: OptionTable = { permits: whole(1, PERMITS_MAX) };

/**
 * Defines a lock with a number of permits, for `ctx.lock`. It needs no registration. A lock is known by its name in
 * all orchestrations and processes of a store.
 *
 * @param name - 1 to 243 characters
 * @throws TypeError when an argument is wrong
 *
 * @example
 * ```ts
 * const printers = defineLock('printers', { permits: 2 });
 * yield* ctx.lock(printers, function* () {
 *   yield* ctx.call(print, page);
 * });
 * ```
 */
export function defineLock(name: string, options?: LockOptions): LockDefinition {
  checkName(name, 'lock name');
  checkName(idOfLock(name), 'id of the lock');
  const { permits = 1 } = checkOptions(options, LOCK_OPTIONS, `lock '${name}'`) ?? {};
  return Object.freeze({ kind: 'lock', name, permits });
}

/** Returns the id of the instance that a lock with a name is. */
function idOfLock(name: string): string {
  return `${LOCK}/${name}`;
}

/** Returns the address of an entity. See `EntityDefinition.at`. */
export function entityAddress(name: string, version: string, key: string): EntityAddress {
  checkName(key, 'entity key');
  checkName(`${name}/${key}`, 'id of the entity');
  return Object.freeze({ kind: 'entityAddress', name, version, key });
}

/**
 * Returns the locks that a block asks for, each once, in the order of their ids. Blocks that ask in this order never
 * wait for each other in a circle.
 *
 * @param instanceId - the instance that runs the block
 * @throws TypeError when the argument is wrong, the running block holds locks already, or an entity locks itself
 */
export function askedLocks(what: unknown, instanceId: string): AskedLock[] {
  const held = heldLocks.get();
  if (held !== undefined) {
    const ids = [...held.ids].map((id) => `'${id}'`).join(', ');
    throw new TypeError(`ctx.lock was called in a block that holds ${ids}: take all locks in one call of ctx.lock`);
  }
  const all: readonly unknown[] = isList(what) ? what : [what];
  if (all.length === 0 || all.length > LOCKS_MAX)
    throw new TypeError(`ctx.lock takes 1 to ${LOCKS_MAX} locks, got ${all.length}`);
  const byId = new Map<string, AskedLock>();
  for (const some of all) {
    const lock = askedLock(some);
    if (lock.id === instanceId) throw new TypeError(`entity '${instanceId}' cannot lock itself`);
    const other = byId.get(lock.id);
    if (other !== undefined && other.permits !== lock.permits)
      throw new TypeError(`ctx.lock: '${lock.id}' stands there with ${other.permits} and with ${lock.permits} permits`);
    byId.set(lock.id, lock);
  }
  return [...byId.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
}

function askedLock(what: unknown): AskedLock {
  const lock = typeof what === 'string' ? defineLock(what) : what;
  const [kind, name, version, key] = ['kind', 'name', 'version', 'key'].map((field) => property(lock, field));
  const permits = property(lock, 'permits');
  if (kind === 'lock' && typeof name === 'string' && typeof permits === 'number')
    return { id: idOfLock(name), name: LOCK, version: DEFAULT_VERSION, permits };
  if (kind === 'entityAddress' && typeof name === 'string' && typeof version === 'string' && typeof key === 'string')
    return { id: `${name}/${key}`, name, version };
  const hint = property(lock, 'entity') === undefined ? '' : ": take one entity of it, with its `at('key')`";
  throw new TypeError(
    `ctx.lock takes names, what defineLock returned and addresses of entities, not ${describeValue(what)}${hint}`,
  );
}

/** The locks that the running block of `ctx.lock` holds. */
interface HeldLocks {
  /** The id of the holder, which calls of the locked entities carry. */
  readonly holder: string;
  readonly ids: ReadonlySet<string>;
}

/** The locks that the running fiber holds by a block that it is part of. */
export const heldLocks = contextLocal<HeldLocks>();

/** Returns the holder for calls of an entity that the running block has locked. */
export function holderOf(id: string): string | undefined {
  const held = heldLocks.get();
  return held?.ids.has(id) === true ? held.holder : undefined;
}
