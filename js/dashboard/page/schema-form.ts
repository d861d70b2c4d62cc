// The fields of an input, from its JSON Schema. A schema that is no plain object has no fields, and the input is JSON.

import type { InputIssue } from '../answers.ts';
import type { FieldDefinition, Texts } from './fields.tsx';

/** Most properties that have fields of their own. */
const FIELDS_MAX = 40;

/** The beginning of the path of an issue. */
const ROOT = 'input';

interface Schema {
  readonly type?: unknown;
  readonly properties?: unknown;
  readonly required?: unknown;
  readonly additionalProperties?: unknown;
  readonly enum?: unknown;
  readonly description?: unknown;
  readonly title?: unknown;
  readonly default?: unknown;
}

/** Returns a field for each property; `undefined` if the schema is no object with named properties. */
export function fieldsOf(schema: Schema | null): FieldDefinition[] | undefined {
  if (schema?.type !== 'object' || !isObject(schema.properties)) return undefined;
  const properties = Object.entries(schema.properties);
  if (properties.length === 0 || properties.length > FIELDS_MAX) return undefined;
  const required = Array.isArray(schema.required) ? (schema.required as unknown[]) : [];
  return properties.map(([name, property]) =>
    fieldOf(name, isObject(property) ? property : {}, required.includes(name)),
  );
}

function fieldOf(name: string, schema: Schema, isRequired: boolean): FieldDefinition {
  const { description, title } = schema;
  const note = [description, constraintsOf(schema)]
    .filter((part) => typeof part === 'string' && part !== '')
    .join('. ');
  return {
    name,
    label: typeof title === 'string' ? title : name,
    ...controlOf(schema),
    isNeeded: isRequired && schema.default === undefined,
    ...(schema.default === undefined ? {} : { placeholder: `default: ${JSON.stringify(schema.default)}` }),
    ...(note === '' ? {} : { note }),
  };
}

function controlOf({ type, enum: words }: Schema): Pick<FieldDefinition, 'kind' | 'known'> {
  if (Array.isArray(words) && words.every((word) => typeof word === 'string')) return { kind: 'choice', known: words };
  if (type === 'boolean') return { kind: 'choice', known: ['true', 'false'] };
  if (type === 'string') return { kind: 'text' };
  return { kind: type === 'number' || type === 'integer' ? 'number' : 'json' };
}

const CONSTRAINTS: Readonly<Record<string, string>> = {
  minimum: 'at least',
  maximum: 'at most',
  exclusiveMinimum: 'more than',
  exclusiveMaximum: 'less than',
  minLength: 'characters at least',
  maxLength: 'characters at most',
  format: 'format',
  pattern: 'pattern',
};

/** Limits beyond which no number can be anyway. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER;

function constraintsOf(schema: object): string {
  return Object.entries(CONSTRAINTS)
    .flatMap(([key, words]) => {
      const value = (schema as Record<string, unknown>)[key];
      const isLimit = typeof value === 'string' || (typeof value === 'number' && Math.abs(value) < NO_LIMIT);
      return isLimit ? [`${words} ${value}`] : [];
    })
    .join(', ');
}

/** Returns the messages of the issues by the fields that they are about. */
export function problemsOf(issues: readonly InputIssue[], fields: readonly FieldDefinition[]): Texts {
  const problems: Record<string, string> = {};
  for (const { path, message } of issues) {
    const field = fields.find(({ name }) =>
      [`${ROOT}.${name}`, `${ROOT}[${JSON.stringify(name)}]`].some(
        (root) => path === root || path.startsWith(`${root}.`) || path.startsWith(`${root}[`),
      ),
    );
    if (field !== undefined) problems[field.name] ??= `${path}: ${message}`;
  }
  return problems;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
