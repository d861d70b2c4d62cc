// Replays of exported histories for tests: of one history, or of all the files of a folder.

import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import type { HistoryEvent, HistoryExport } from '../client/history.ts';
import {
  defineOrchestration,
  isBuiltIn,
  isOrchestration,
  type OrchestrationDefinition,
  type OrchestrationFunction,
} from '../orchestration/definition.ts';
import { queryOrchestration } from '../orchestration/query-code.ts';
import { Registry } from '../runtime/registry.ts';
import { checkOptions, func, type OptionTable, oneOf, whole } from '../util/options.ts';
import { isInstance, isList, isRecord, show } from '../util/show.ts';
import { checkRuntimeLimits, DEFAULT_LIMITS, limitsOver, type RuntimeLimits } from '../values/limits.ts';
import type { StandardSchema } from '../values/schema.ts';
import { type Codec, checkSyncCodec, StoredTexts } from '../values/stored-text.ts';
import { checkTypes, TypeRegistry, type ValueTypes } from '../values/value-types.ts';
import { exportsOf, HistoryError } from './exported.ts';
import { type ReplayedExecution, type ReplayHost, replayExecution } from './replay.ts';

/** Code to replay that is not a result of `defineOrchestration`: the arguments of `runtime.registerOrchestration`. */
export interface ReplayCode {
  readonly name: string;
  /** Default `'1.0.0'`. */
  readonly version?: string;
  readonly fn: OrchestrationFunction;
  /** Schema of its input, if there is one. */
  readonly input?: StandardSchema;
}

/**
 * The code to replay: one orchestration, or several. Each execution is replayed with the code of its name and version.
 */
export type ReplayDefinitions =
  | OrchestrationDefinition
  | ReplayCode
  | readonly (OrchestrationDefinition | ReplayCode)[];

/**
 * Options of {@link replay} and {@link replayFiles}: those of the runtime and its provider that are not the default.
 */
export interface ReplayOptions {
  /**
   * Codec for values in the export that are encoded. `client.exportHistory` writes decoded values, which need no codec.
   */
  codec?: Codec;
  /** Classes of the values in the history: the same as the provider's option `types`. Default: none. */
  types?: ValueTypes;
  /** Limits of the runtime. Only `payloadBytes` applies to a replay, as everywhere. */
  limits?: RuntimeLimits;
  /** `'on'`: the determinism guard is active while the code runs. Default `'on'`. */
  determinism?: 'on' | 'off';
}

/** Options of {@link replay}. */
export interface ReplayStepOptions extends ReplayOptions {
  /**
   * The event after which the replay goes no further than the code's next wait: `pending` lists the work it waits for
   * there. Only with the history of one execution. Default: to the end.
   */
  until?: number;
  /**
   * Called with each event as the code comes to it, synchronously. For a command of the code it is called from within
   * that call, so that the stack is the code's; for a delivery it is called right before. Under a debugger a breakpoint
   * or `debugger` in here stops the code at any event, with its variables as they were, and from there on it can be
   * stepped through. An error of this function ends the replay, which throws it.
   */
  onEvent?: (event: HistoryEvent) => void;
}

/** An instance that was replayed. */
export interface ReplayedInstance {
  readonly instanceId: string;
  /** The replayed executions, one for each export, in their order. */
  readonly executions: readonly ReplayedExecution[];
}

/** A file that was replayed. */
export interface ReplayedFile extends ReplayedInstance {
  /** Its path. */
  readonly file: string;
}

const OPTIONS: OptionTable = {
  codec: checkSyncCodec,
  types: checkTypes,
  limits: checkRuntimeLimits,
  determinism: oneOf('on', 'off'),
};
const STEP_OPTIONS: OptionTable = { ...OPTIONS, until: whole(1), onEvent: func };

/**
 * Takes code through the history of an instance, with the engine of a runtime and without a store: no activity runs,
 * and nothing is written or sent. Returns if the code does all that is recorded, in that order, and comes to the
 * recorded end, if there is one: the same output, or an error of the same name, code and message.
 *
 * @param history - the result of `client.exportHistory`, or its JSON text; a list of these for several executions of
 *   one instance
 * @param definitions - the code
 * @param options - those of the runtime that are not the default
 * @returns the state of each execution at the end of its history
 * @throws NondeterminismError when the code does not fit, with the `report` that a suspension has
 * @throws NotRegisteredError when `definitions` have none of the name and version of an execution
 * @throws HistoryError when `history` is no export
 * @throws TypeError when another argument is wrong
 *
 * @example
 * ```ts
 * const { executions } = replay(await client.exportHistory('order-1'), order);
 * console.log(executions[0].outcome, executions[0].pending);
 *
 * replay(exported, order, {
 *   onEvent({ eventId }) {
 *     if (eventId === 7) debugger;   // the code is right here
 *   },
 * });
 * ```
 */
export function replay(
  history: HistoryExport | readonly HistoryExport[] | string,
  definitions: ReplayDefinitions,
  options?: ReplayStepOptions,
): ReplayedInstance {
  const checked = checkOptions(options, STEP_OPTIONS, 'replay') ?? {};
  const host = hostOf(definitions, checked, 'replay');
  const exports = exportsOf(history, '');
  if (checked.until !== undefined && exports.length > 1)
    throw new TypeError(`replay: 'until' needs one execution, and there are ${exports.length}`);
  return replayAll(exports, { ...host, until: checked.until, onEvent: checked.onEvent }, '');
}

/**
 * Replays a file, or each `.json` file of a folder and its subfolders, as {@link replay} does. All files are replayed,
 * even after one that does not fit.
 *
 * @param path - of the file or folder: a text, or a `file:` URL
 * @param definitions - the code
 * @param options - those of the runtime that are not the default
 * @returns the replayed files, in order of the paths
 * @throws (rejects with) the error of `replay`, with a message that begins with the file; an `AggregateError` of these
 *   when there is more than one
 *
 * @example
 * ```ts
 * test('the histories of production fit', async () => {
 *   await replayFiles(new URL('histories/', import.meta.url), [order, payment]);
 * });
 * ```
 */
export async function replayFiles(
  path: string | URL,
  definitions: ReplayDefinitions,
  options?: ReplayOptions,
): Promise<ReplayedFile[]> {
  const replayed: ReplayedFile[] = [];
  const errors: Error[] = [];
  for await (const one of replayEach(path, definitions, options)) {
    if (one instanceof Error) errors.push(one);
    else replayed.push(one);
  }
  if (errors.length > 1)
    throw new AggregateError(
      errors,
      `${errors.length} histories cannot be replayed:\n${errors.map(({ message }) => message).join('\n')}`,
    );
  if (errors.length === 1) throw errors[0];
  return replayed;
}

/**
 * Replays files as {@link replayFiles}, one after the other. Yields each file that was replayed, or the error.
 *
 * @internal
 */
export async function* replayEach(
  path: string | URL,
  definitions: ReplayDefinitions,
  options?: ReplayOptions,
): AsyncGenerator<ReplayedFile | Error, void> {
  const host = hostOf(definitions, checkOptions(options, OPTIONS, 'replayFiles') ?? {}, 'replayFiles');
  for (const file of await filesAt(pathOf(path))) {
    try {
      yield { file, ...replayAll(exportsOf(await textOf(file), `${file}: `), host, `${file}: `) };
    } catch (error) {
      yield error as Error;
    }
  }
}

function replayAll(exports: readonly HistoryExport[], host: ReplayHost, file: string): ReplayedInstance {
  const executions = exports.map((exported) => {
    const { instanceId, executionId } = exported;
    return replayExecution(exported, host, `${file}instance '${instanceId}', execution ${executionId}`);
  });
  return { instanceId: exports[0]?.instanceId as string, executions };
}

function hostOf(
  definitions: unknown,
  { codec, types, limits, determinism = 'on' }: ReplayOptions,
  where: string,
): ReplayHost {
  const registry = new Registry();
  for (const [i, given] of (isList(definitions) ? definitions : [definitions]).entries()) {
    const definition = definitionOf(
      given,
      isList(definitions) ? `${where}: definitions[${i}]` : `${where}: the definition`,
    );
    registry.addOrchestration(definition);
    registry.addOrchestration(queryOrchestration(definition));
  }
  const entries = [...registry.entries()].filter(({ name }) => !isBuiltIn(name));
  const known = entries.map(({ name, version }) => `'${name}' ${version}`);
  if (known.length === 0) throw new TypeError(`${where}: the list of definitions is empty`);
  return {
    orchestration: (name, version) => registry.orchestration(name, version),
    known,
    limits: limitsOver(limits, DEFAULT_LIMITS),
    texts: new StoredTexts(codec).withTypes(new TypeRegistry(types)).ofExports,
    isGuarded: determinism === 'on',
  };
}

const CODE: OptionTable = { name: () => {}, version: () => {}, fn: () => {}, input: () => {} };

function definitionOf(value: unknown, where: string): OrchestrationDefinition {
  if (isOrchestration(value)) return value;
  if (!isRecord(value))
    throw new TypeError(
      `${where} must be a result of defineOrchestration, or { name, version, fn }; got ${show(value)}`,
    );
  const { name, fn, version, input } = checkOptions(value as ReplayCode, CODE, where);
  return defineOrchestration(name, fn, {
    ...(version === undefined ? {} : { version }),
    ...(input === undefined ? {} : { input }),
  } as object);
}

function pathOf(path: unknown): string {
  if (typeof path === 'string' && path !== '') return path;
  if (isInstance(path, URL) && path.protocol === 'file:') return fileURLToPath(path);
  throw new TypeError(`replayFiles: the path must be a string or a file: URL, got ${show(path)}`);
}

async function filesAt(path: string): Promise<string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = await readdir(path, { recursive: true });
    const files = names.filter((name) => name.endsWith('.json')).sort();
    // An empty folder must not look as if all histories fitted.
    if (files.length === 0) throw new HistoryError(`there is no .json file in ${path}`, { path: '' });
    return files.map((name) => join(path, name));
  } catch (error) {
    throw unreadable(path, error);
  }
}

async function textOf(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw unreadable(file, error);
  }
}

function unreadable(path: string, cause: unknown): HistoryError {
  if (cause instanceof HistoryError) return cause;
  return new HistoryError(`${path} cannot be read: ${(cause as Error).message}`, { path: '', cause });
}
