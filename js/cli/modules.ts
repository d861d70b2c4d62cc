// Modules of the user, which a command loads by path.

import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

import { isOrchestration, type OrchestrationDefinition } from '../orchestration/definition.ts';
import { isList } from '../util/show.ts';
import { usageError } from './exit.ts';

/** Returns the exports of a module, by name. */
export async function exportsOfModule(path: string): Promise<Record<string, unknown>> {
  try {
    return (await import(pathToFileURL(resolve(path)).href)) as Record<string, unknown>;
  } catch (error) {
    throw usageError(`${path} cannot be loaded: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Returns the orchestrations that modules export, under any name and in lists. */
export async function orchestrationsOf(paths: readonly string[]): Promise<OrchestrationDefinition[]> {
  const found = new Set<OrchestrationDefinition>();
  for (const path of paths) {
    const exported = Object.values(await exportsOfModule(path)).flatMap((value) => (isList(value) ? value : [value]));
    const definitions = exported.filter((value) => isOrchestration(value));
    if (definitions.length === 0)
      throw usageError(`${path} exports no orchestration: export a definition that defineOrchestration returned`);
    for (const definition of definitions) found.add(definition);
  }
  return [...found];
}
