// Starts from the dashboard: the orchestrations that can be started, the form of an input, and the check of an input.

import { isBuiltIn } from '../orchestration/definition.ts';
import { Runtime } from '../runtime/runtime.ts';
import { isRecord } from '../util/show.ts';
import { parse, type StandardSchema } from '../values/schema.ts';
import type { FormAnswer, MessageStart, OrchestrationsAnswer, StartableAnswer } from './answers.ts';
import { newestFirst } from './orchestrations.ts';
import type { RouteContext } from './route-context.ts';

/** Most orchestrations that are offered for a start. */
const NAMES_MAX = 1_000;

/** A schema that can also be converted to JSON Schema, as standardschema.dev describes it. */
interface ConvertibleSchema {
  readonly '~standard': { readonly jsonSchema?: { readonly input?: (options: { target: string }) => unknown } };
}

/** Returns the orchestrations of the runtime and of the sample, sorted by name, their versions newest first. */
export function startableOf(runtime: Runtime | undefined, { items }: OrchestrationsAnswer): StartableAnswer['items'] {
  const found = new Map<string, Set<string>>();
  const add = (name: string, version: string): void => {
    const versions = found.get(name) ?? new Set<string>();
    found.set(name, versions);
    if (version !== '') versions.add(version);
  };
  if (runtime !== undefined)
    for (const { kind, name, version } of Runtime.partsOf(runtime).registry.entries())
      if (kind === 'orchestration' && !isBuiltIn(name)) add(name, version);
  for (const { name, versions } of items) for (const { version } of versions) add(name, version);
  return [...found]
    .map(([name, versions]) => ({ name, versions: [...versions].sort(newestFirst) }))
    .sort((one, other) => (one.name < other.name ? -1 : 1))
    .slice(0, NAMES_MAX);
}

/** Returns the form of an orchestration's input, as far as the runtime beside the dashboard knows it. */
export function formOf(runtime: Runtime | undefined, name: string, version: string | undefined): FormAnswer {
  const schema = schemaOf(runtime, name, version);
  return { schema: schema === undefined ? null : jsonSchemaOf(schema), isChecked: schema !== undefined };
}

/**
 * Checks the input of a start, as `client.start` does.
 *
 * @throws PayloadError when the runtime beside the dashboard has a schema that the input does not fit
 */
export async function checkInput(
  runtime: Runtime | undefined,
  name: string,
  version: string | undefined,
  input: unknown,
): Promise<void> {
  const schema = schemaOf(runtime, name, version);
  if (schema !== undefined) await parse(schema, input, 'input');
}

/**
 * Returns a start without the options that are not given, when its input was checked.
 *
 * @throws PayloadError when the runtime beside the dashboard has a schema that the input does not fit
 */
export async function checkedStart(
  { options: { runtime } }: Pick<RouteContext, 'options'>,
  { name, version, input, tags, priority }: MessageStart,
): Promise<MessageStart> {
  await checkInput(runtime, name, version, input);
  return {
    name,
    input,
    ...(version === undefined ? {} : { version }),
    ...(tags === undefined ? {} : { tags }),
    ...(priority === undefined ? {} : { priority }),
  };
}

function schemaOf(runtime: Runtime | undefined, name: string, version: string | undefined): StandardSchema | undefined {
  return runtime === undefined || version === undefined
    ? undefined
    : Runtime.partsOf(runtime).registry.inputSchema(name, version);
}

function jsonSchemaOf(schema: StandardSchema): Record<string, unknown> | null {
  try {
    const converted = (schema as ConvertibleSchema)['~standard'].jsonSchema?.input?.({ target: 'draft-2020-12' });
    // The JSON text shows that it can be sent.
    return isRecord(converted) ? (JSON.parse(JSON.stringify(converted)) as Record<string, unknown>) : null;
  } catch {
    // Some schemas have no JSON Schema, such as one with a function. The form is then a field for JSON.
    return null;
  }
}
