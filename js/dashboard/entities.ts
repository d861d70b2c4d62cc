// The entities whose definitions the dashboard has.

import type { InstanceStatus } from '../client/instance-status.ts';
import type { EntityDefinition } from '../orchestration/entities.ts';
import type { EntityNames } from './answers.ts';

/** An entity, by its definition and its key. */
export interface KnownEntity {
  readonly definition: EntityDefinition;
  readonly key: string;
}

/** Returns the entity that an instance is, if its definition is one of these. */
export function entityOf(
  entities: readonly EntityDefinition[],
  { id, name }: Pick<InstanceStatus, 'id' | 'name'>,
): KnownEntity | undefined {
  const definition = entities.find((one) => one.name === name);
  return definition !== undefined && id.startsWith(`${name}/`)
    ? { definition, key: id.slice(name.length + 1) }
    : undefined;
}

/** Returns the names of the handlers and reads of the entity that an instance is. */
export function entityNames(entities: readonly EntityDefinition[], instance: InstanceStatus): EntityNames | undefined {
  const found = entityOf(entities, instance);
  if (found === undefined) return undefined;
  const { handlers, reads } = found.definition.entity;
  return { handlers: Object.keys(handlers), reads: Object.keys(reads) };
}
