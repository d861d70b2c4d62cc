// Modules of the user, which a command loads by path.

import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

import { type Datasource, isDatasource } from '../datasource/datasource.ts';
import { isOrchestration, type OrchestrationDefinition } from '../orchestration/definition.ts';
import type { EntityDefinition } from '../orchestration/entities.ts';
import { isEntity } from '../orchestration/entity-calls.ts';
import { isList } from '../util/show.ts';
import { usageError } from './exit.ts';

/** Returns the exports of a module, by name. A TypeScript module is loaded where this Node, or its loader, can. */
export async function exportsOfModule(path: string): Promise<Record<string, unknown>> {
  try {
    return (await import(pathToFileURL(resolve(path)).href)) as Record<string, unknown>;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const { code } = error instanceof Error ? (error as NodeJS.ErrnoException) : {};
    const advice = /\.[mc]?tsx?$/.test(path) && TYPESCRIPT_ERRORS.has(code ?? '') ? `\n${typescriptAdvice()}` : '';
    throw usageError(`${path} cannot be loaded: ${message}${advice}`);
  }
}

/** Codes of the errors of Node about TypeScript that it does not run, and about an import without the ending `.ts`. */
const TYPESCRIPT_ERRORS: ReadonlySet<string> = new Set([
  'ERR_UNKNOWN_FILE_EXTENSION',
  'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX',
  'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING',
  'ERR_MODULE_NOT_FOUND',
]);

function typescriptAdvice(): string {
  const { version, features } = process;
  const isStripped = Boolean((features as { typescript?: unknown }).typescript);
  const runs = isStripped
    ? `Node ${version} runs a .ts file if its types can be erased (no enum, no namespace, no parameter property) and ` +
      'its imports name files with their endings.'
    : `Node ${version} does not run TypeScript: Node 22.18, 23.6 and later do, for types that can be erased.`;
  return `${runs} Compile the module and pass the JavaScript file, or run the command with a loader: \
NODE_OPTIONS='--import tsx' npx perdure …`;
}

/** Returns the datasources that modules export, by the names of the exports. */
export async function datasourcesOf(
  paths: readonly string[],
): Promise<{ readonly name: string; readonly datasource: Datasource<unknown> }[]> {
  const found: { name: string; datasource: Datasource<unknown> }[] = [];
  for (const path of paths) {
    const exported = Object.entries(await exportsOfModule(path)).filter(([, value]) => isDatasource(value));
    if (exported.length === 0)
      throw usageError(`${path} exports no datasource: export what pgDatasource or another of its kind returned`);
    for (const [name, value] of exported) found.push({ name, datasource: value as Datasource<unknown> });
  }
  return found;
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

/** Returns the entities that modules export, under any name and in lists. */
export async function entitiesOf(paths: readonly string[]): Promise<EntityDefinition[]> {
  return (await orchestrationsOf(paths)).filter(isEntity) as EntityDefinition[];
}
