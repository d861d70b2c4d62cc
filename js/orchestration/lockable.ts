// The types of what an orchestration can lock.

/** A lock with a name, as `defineLock` makes it. */
export interface LockDefinition {
  readonly kind: 'lock';
  readonly name: string;
  readonly permits: number;
}

/** The address of an entity, as `at` of its definition makes it. */
export interface EntityAddress {
  readonly kind: 'entityAddress';
  /** Name of the entity. */
  readonly name: string;
  readonly version: string;
  readonly key: string;
}

/** What `ctx.lock` locks: the name of a lock with one permit, a lock, or an entity. */
export type Lockable = string | LockDefinition | EntityAddress;
