// The code that a start runs: a definition, or the name of an orchestration and maybe its version.

import { named, type OptionTable } from '../util/options.ts';
import { show } from '../util/show.ts';
import { isOrchestration } from './definition.ts';
import type { ReceiverDefinition } from './send-options.ts';

/** The checks of the options that name the code and the input of a start. */
export const STARTED_CODE = {
  definition: (value, path) => {
    if (!isOrchestration(value))
      throw new TypeError(`${path} must be what defineOrchestration returned, got ${show(value)}`);
  },
  name: named,
  version: named,
  input: () => {},
} satisfies OptionTable;

/** The options that name the code of a start. */
interface NamedCode {
  readonly definition?: ReceiverDefinition | undefined;
  readonly name?: string | undefined;
  readonly version?: string | undefined;
}

/**
 * Returns the name and the version that a start runs.
 *
 * @param what - the start, for an error: `client.raiseEvent: start`
 * @throws TypeError when it names both a definition and a name or a version, or neither
 */
export function startedCode(
  { definition, name, version }: NamedCode,
  what: string,
): { readonly name: string; readonly version?: string } {
  if (definition !== undefined && (name !== undefined || version !== undefined))
    throw new TypeError(`${what} takes a definition, or a name and maybe a version, not both`);
  const code = definition ?? { name, version };
  if (code.name === undefined) throw new TypeError(`${what} must have a definition or a name`);
  return { name: code.name, ...(code.version === undefined ? {} : { version: code.version }) };
}
