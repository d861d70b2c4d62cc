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

/** Returns the entity that an instance of that id would be, which is not there yet. */
export function newEntityOf(entities: readonly EntityDefinition[], id: string): KnownEntity | undefined {
  const found = entities.map(({ name }) => entityOf(entities, { id, name })).filter((one) => one !== undefined);
  // The name of an entity may have a slash, so the id may begin with several names.
  return found.filter(({ key }) => key !== '').sort((one, other) => one.key.length - other.key.length)[0];
}

/** Returns the names of the handlers and reads of the entity that an instance is. */
export function entityNames(entities: readonly EntityDefinition[], instance: InstanceStatus): EntityNames | undefined {
  const found = entityOf(entities, instance);
  return found === undefined ? undefined : namesOf(found.definition);
}

/** Returns the names of the handlers and reads of an entity. */
export function namesOf({ entity: { handlers, reads } }: EntityDefinition): EntityNames {
  return { handlers: Object.keys(handlers), reads: Object.keys(reads) };
}
