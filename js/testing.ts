/**
 * What tests of orchestrations use: `perdure/testing`.
 *
 * A replay takes new code through the history of an instance that old code has run, and says whether it fits: the check to make
 * before a deployment, with histories that `client.exportHistory` gave.
 */

import { readFile, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { exportsOf, HistoryError } from './exported.ts';
import type { HistoryExport } from './history.ts';
import { checkRuntimeLimits, DEFAULT_LIMITS, limitsOver, type RuntimeLimits } from './limits.ts';
import { checkOptions, oneOf, type OptionTable } from './options.ts';
import { defineOrchestration, isOrchestration, type OrchestrationDefinition, type OrchestrationFunction } from './orchestration.ts';
import { Registry } from './registry.ts';
import { type ReplayedExecution, replayExecution, type ReplayHost } from './replay.ts';
import type { StandardSchema } from './schema.ts';
import { isInstance, isList, isRecord, show } from './show.ts';
import { checkCodec, type Codec, StoredTexts } from './stored-text.ts';

export { HistoryError } from './exported.ts';
export { StuckError } from './stuck.ts';
export type { ActivityCall, Hang } from './test-activities.ts';
export { type ActivityName, TestRuntime, type TestRuntimeOptions } from './test-runtime.ts';
export type { PendingWork, ReplayedExecution, ReplayOutcome } from './replay.ts';

/** Code to replay, where it is not what `defineOrchestration` returned: what `runtime.registerOrchestration` is given. */
export interface ReplayCode {
  readonly name: string;
  /** Default `'1.0.0'`. */
  readonly version?: string;
  readonly fn: OrchestrationFunction;
  /** What its input is checked by, if anything. */
  readonly input?: StandardSchema;
}

/** The code to replay: one orchestration, or several, of which each execution is replayed with that of its name and version. */
export type ReplayDefinitions = OrchestrationDefinition | ReplayCode | readonly (OrchestrationDefinition | ReplayCode)[];

/** Options of {@link replay} and {@link replayFiles}: what the runtime and its provider have, where that is not the default. */
export interface ReplayOptions {
  /** For values in the export that are as a codec made them. `client.exportHistory` writes what was handed to the codec, and needs none. */
  codec?: Codec;
  /** Of these, a replay is measured by `payloadBytes` alone, as everywhere. */
  limits?: RuntimeLimits;
  /** Whether the determinism guard is there while the code runs. Default `'on'`. */
  determinism?: 'on' | 'off';
}

/** An instance that was replayed. */
export interface ReplayedInstance {
  readonly instanceId: string;
  /** One for each export, in their order. */
  readonly executions: readonly ReplayedExecution[];
}

/** A file that was replayed. */
export interface ReplayedFile extends ReplayedInstance {
  /** Its path. */
  readonly file: string;
}

const OPTIONS: OptionTable = { codec: checkCodec, limits: checkRuntimeLimits, determinism: oneOf('on', 'off') };

/**
 * Take code through the history of an instance, with the engine that a runtime has, and without a store: no activity runs, and nothing is
 * written or sent. It returns when the code does all that is recorded, in that order, and comes to the recorded end, if there is one: the same
 * output, or an error of the same name, code and message.
 *
 * @param history - what `client.exportHistory` returned, or its JSON text; a list of these for several executions of one instance
 * @param definitions - the code
 * @param options - what the runtime has that is not the default
 * @returns how each execution stands at the end of its history
 * @throws NondeterminismError when the code does not fit, with the `report` that a suspension has
 * @throws NotRegisteredError when `definitions` have none of the name and version of an execution
 * @throws HistoryError when `history` is no export
 * @throws TypeError when another argument is wrong
 *
 * @example
 * ```ts
 * const { executions } = replay(await client.exportHistory('order-1'), order);
 * console.log(executions[0].outcome, executions[0].pending);
 * ```
 */
export function replay(
  history: HistoryExport | readonly HistoryExport[] | string,
  definitions: ReplayDefinitions,
  options?: ReplayOptions,
): ReplayedInstance {
  return replayWith(history, hostOf(definitions, options, 'replay'), '');
}

/**
 * {@link replay} with a file, or with each `.json` file of a folder and of those in it. All of them are replayed, also where one does not fit.
 *
 * @param path - of the file or folder: a text, or a `file:` URL
 * @param definitions - the code
 * @param options - what the runtime has that is not the default
 * @returns what was replayed, in order of the paths
 * @throws (rejects with) what `replay` throws, where the message begins with the file; an `AggregateError` of these when it is more than one
 *
 * @example
 * ```ts
 * test('the histories of production fit', async () => {
 *   await replayFiles(new URL('histories/', import.meta.url), [order, payment]);
 * });
 * ```
 */
export async function replayFiles(path: string | URL, definitions: ReplayDefinitions, options?: ReplayOptions): Promise<ReplayedFile[]> {
  const host = hostOf(definitions, options, 'replayFiles');
  const replayed: ReplayedFile[] = [];
  const errors: Error[] = [];
  for (const file of await filesAt(pathOf(path))) {
    try {
      replayed.push({ file, ...replayWith(await textOf(file), host, `${file}: `) });
    } catch (error) {
      errors.push(error as Error);
    }
  }
  if (errors.length > 1) throw new AggregateError(errors, `${errors.length} histories cannot be replayed:\n${errors.map(({ message }) => message).join('\n')}`);
  if (errors.length === 1) throw errors[0];
  return replayed;
}

function replayWith(history: unknown, host: ReplayHost, file: string): ReplayedInstance {
  const exports = exportsOf(history, file);
  const executions = exports.map((exported) => {
    const { instanceId, executionId } = exported;
    return replayExecution(exported, host, `${file}instance '${instanceId}', execution ${executionId}`);
  });
  return { instanceId: exports[0]?.instanceId as string, executions };
}

function hostOf(definitions: unknown, options: ReplayOptions | undefined, where: string): ReplayHost {
  const { codec, limits, determinism = 'on' } = checkOptions(options, OPTIONS, where) ?? {};
  const registry = new Registry();
  for (const [i, definition] of (isList(definitions) ? definitions : [definitions]).entries()) {
    registry.addOrchestration(definitionOf(definition, isList(definitions) ? `${where}: definitions[${i}]` : `${where}: the definition`));
  }
  const known = [...registry.entries()].map(({ name, version }) => `'${name}' ${version}`);
  if (known.length === 0) throw new TypeError(`${where}: the list of definitions is empty`);
  return {
    orchestrationFunction: (name, version) => registry.orchestrationFunction(name, version),
    known,
    limits: limitsOver(limits, DEFAULT_LIMITS),
    texts: new StoredTexts(codec),
    isGuarded: determinism === 'on',
  };
}

const CODE: OptionTable = { name: () => {}, version: () => {}, fn: () => {}, input: () => {} };

function definitionOf(value: unknown, where: string): OrchestrationDefinition {
  if (isOrchestration(value)) return value;
  if (!isRecord(value)) throw new TypeError(`${where} must be what defineOrchestration returned, or { name, version, fn }; got ${show(value)}`);
  const { name, fn, version, input } = checkOptions(value as ReplayCode, CODE, where);
  return defineOrchestration(name, fn, { ...(version === undefined ? {} : { version }), ...(input === undefined ? {} : { input }) } as object);
}

function pathOf(path: unknown): string {
  if (typeof path === 'string' && path !== '') return path;
  if (isInstance(path, URL) && path.protocol === 'file:') return fileURLToPath(path);
  throw new TypeError(`replayFiles: the path must be a text or a file: URL, got ${show(path)}`);
}

async function filesAt(path: string): Promise<string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = await readdir(path, { recursive: true });
    const files = names.filter((name) => name.endsWith('.json')).sort();
    // To have replayed nothing would look as if all of it fitted.
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
