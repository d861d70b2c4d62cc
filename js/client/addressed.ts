// Instances that are addressed by a definition and an id, so that their output and status have types.

import { WrongDefinitionError } from '../errors/errors.ts';
import { isOrchestration, type OrchestrationDefinition } from '../orchestration/definition.ts';
import { checkName } from '../util/options.ts';
import type { InstanceStatus } from './instance-status.ts';

/** An instance as a method was given it. */
export interface Addressed {
  readonly id: string;
  readonly definition: OrchestrationDefinition | undefined;
  /** The arguments behind the id. */
  readonly others: readonly unknown[];
}

/**
 * Returns the instance that the first arguments of a method stand for: an id, or a definition and an id.
 *
 * @throws TypeError when they are neither
 */
export function addressed([first, ...others]: readonly unknown[]): Addressed {
  const definition = isOrchestration(first) ? first : undefined;
  const id = definition === undefined ? first : others.shift();
  checkName(id, 'instance id');
  return { id, definition, others };
}

/** @throws WrongDefinitionError when the instance runs another orchestration than the definition, if there is one */
export function checkRuns(
  definition: Pick<OrchestrationDefinition, 'name'> | undefined,
  { id, name: actual }: InstanceStatus,
): void {
  if (definition === undefined || definition.name === actual) return;
  throw new WrongDefinitionError(`instance '${id}' runs orchestration '${actual}', not '${definition.name}'`, {
    instanceId: id,
    expected: definition.name,
    actual,
  });
}
