// The definitions of what an orchestration handles by name: updates and queries, with maybe a schema of the input.

import { checkName, checkOptions, type OptionTable } from '../util/options.ts';
import { property, show } from '../util/show.ts';
import { checkSchema, type StandardSchema } from '../values/schema.ts';

/** A definition of one kind. */
interface Handled<K extends string> {
  readonly kind: K;
  readonly name: string;
  readonly input?: StandardSchema;
}

/** A definition that an argument stands for. */
export interface CheckedHandled {
  readonly name: string;
  readonly input: StandardSchema | undefined;
}

const DEFINITION_OPTIONS: OptionTable = { input: checkSchema };

/**
 * Returns a definition.
 *
 * @throws TypeError when an argument is wrong
 */
export function defineHandled<K extends 'update' | 'query'>(
  kind: K,
  name: string,
  options: { input?: StandardSchema } | undefined,
): Handled<K> {
  checkName(name, `${kind} name`);
  const { input } = checkOptions(options, DEFINITION_OPTIONS, `${kind} '${name}'`) ?? {};
  return Object.freeze(input === undefined ? { kind, name } : { kind, name, input });
}

/**
 * Returns the definition that an argument stands for: a name, or a definition.
 *
 * @param definer - the function that makes such definitions, for the error
 * @throws TypeError when the argument is neither
 */
export function handledOf(kind: 'update' | 'query', given: unknown, definer: string): CheckedHandled {
  if (typeof given === 'string') {
    checkName(given, `${kind} name`);
    return { name: given, input: undefined };
  }
  const name = property(given, 'name');
  if (property(given, 'kind') !== kind || typeof name !== 'string')
    throw new TypeError(`the ${kind} must be a name or a result of ${definer}, got ${show(given)}`);
  checkName(name, `${kind} name`);
  const input = property(given, 'input');
  if (input !== undefined) checkSchema(input, `${kind} '${name}': the schema`);
  return { name, input: input as StandardSchema | undefined };
}
