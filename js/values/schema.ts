// Schemas of inputs and events: the interface of standardschema.dev, which Zod, Valibot, ArkType and others implement,
// and the functions that apply them.
//
// A value is checked where it is handed over, and is stored unchanged. It is checked again where code receives it, and
// the code gets the schema's output. In an orchestration this happens in every replay, so there the schema must answer
// synchronously and the same each time.

import { PayloadError } from '../errors/errors.ts';
import { property } from '../util/show.ts';
import { isThenable } from '../util/thenable.ts';
import { formatStep } from './rich-check.ts';

/**
 * A schema as standardschema.dev (version 1) describes it. A validator of Zod, Valibot, ArkType and others is one
 * unchanged, and so is any object with these few properties.
 *
 * @example
 * ```ts
 * const total: StandardSchema<{ total: number }> = {
 *   '~standard': {
 *     version: 1,
 *     vendor: 'me',
 *     validate: (value: any) =>
 *       typeof value?.total === 'number' ? { value } : { issues: [{ message: 'must be a number', path: ['total'] }] },
 *   },
 * };
 * ```
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    /** Used by the compiler only. */
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** The result of a schema: the value for the code, or the issues with the given value. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** One problem of a value, and its path in the value. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/**
 * The input type of a schema.
 *
 * @example
 * ```ts
 * type Raw = SchemaInput<typeof orderSchema>;   // { placedAt: string }
 * ```
 */
export type SchemaInput<S extends StandardSchema> = NonNullable<S['~standard']['types']>['input'];

/**
 * The output type of a schema.
 *
 * @example
 * ```ts
 * type Order = SchemaOutput<typeof orderSchema>;   // { placedAt: Date }
 * ```
 */
export type SchemaOutput<S extends StandardSchema> = NonNullable<S['~standard']['types']>['output'];

/** The most issues that an error lists. */
const ISSUES_MAX = 100;

/** @throws TypeError when `value` is no Standard Schema */
export function checkSchema(value: unknown, path: string): void {
  // Some schemas are functions.
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function';
  if (isObject && typeof property(property(value, '~standard'), 'validate') === 'function') return;
  throw new TypeError(
    `${path} must be a Standard Schema (standardschema.dev), such as a schema of Zod, Valibot or ArkType`,
  );
}

/**
 * Returns the schema's output for a value; a promise of it if the schema is asynchronous.
 *
 * @param path - the user's name for the value, for the error: `input`
 * @throws PayloadError when the schema refuses it, maybe through the promise; its `path` is that of the first issue,
 *   its message lists all, and its `cause` is their list as `{ path, message }`
 */
export function parse(schema: StandardSchema, value: unknown, path: string): unknown {
  const result = schema['~standard'].validate(value);
  return isThenable<Promise<SchemaResult<unknown>>>(result)
    ? result.then((settled) => valueOf(settled, path))
    : valueOf(result, path);
}

/**
 * Returns the schema's output where no promise can be awaited.
 *
 * @param where - the owner of the schema, for the error
 * @throws PayloadError when the schema refuses the value
 * @throws TypeError when the schema is asynchronous
 */
export function parseSync(schema: StandardSchema, value: unknown, path: string, where: string): unknown {
  const result = schema['~standard'].validate(value);
  if (!isThenable<Promise<SchemaResult<unknown>>>(result)) return valueOf(result, path);
  // The result is not used; a rejection must not go unhandled.
  Promise.resolve(result).catch(() => {});
  throw new TypeError(
    `the schema of ${where} returned a promise, and an orchestration cannot wait for it: ` +
      'use a schema without asynchronous checks, and do such checks in an activity',
  );
}

function valueOf(result: SchemaResult<unknown>, path: string): unknown {
  if (result.issues === undefined) return result.value;
  const issues = Array.from(result.issues, (issue) => ({ path: pathOf(issue, path), message: String(issue.message) }));
  const lines = issues.slice(0, ISSUES_MAX).map((issue) => `${issue.path}: ${issue.message}`);
  if (issues.length > ISSUES_MAX) lines.push(`${issues.length - ISSUES_MAX} more`);
  const list = lines.length === 0 ? 'the schema reported no issue' : lines.join('; ');
  throw new PayloadError(`${path} does not fit its schema: ${list}`, {
    path: issues[0]?.path ?? path,
    cause: issues.slice(0, ISSUES_MAX),
  });
}

function pathOf({ path = [] }: SchemaIssue, root: string): string {
  const keys = path.map((step) => (typeof step === 'object' ? step.key : step));
  return root + keys.map((key) => (typeof key === 'symbol' ? `[${String(key)}]` : formatStep(key))).join('');
}
