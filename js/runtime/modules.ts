// Modules that every thread loads: their definitions, and the codec and classes of the store and the telemetry of the
// runtime, if any.

import { isAbsolute } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type ActivityDefinition, type ActivityFunction, defineActivity, isActivity } from '../activity/activity.ts';
import type { ActivityKey, ActivityOptions } from '../activity/activity-options.ts';
import { RuntimeStateError } from '../errors/errors.ts';
import {
  defineOrchestration,
  isOrchestration,
  type OrchestrationDefinition,
  type OrchestrationFunction,
  type OrchestrationOptions,
} from '../orchestration/definition.ts';
import { checkTelemetry, type Telemetry } from '../tracing/telemetry-hooks.ts';
import { isInstance, isList, show } from '../util/show.ts';
import type { AsyncCodec } from '../values/async-codec.ts';
import { type Codec, checkCodec } from '../values/stored-text.ts';
import { checkTypes, type ValueTypes } from '../values/value-types.ts';

/** The object that a module's default function registers with. It has the same methods as a runtime. */
export interface Registrar {
  registerActivity(name: string, fn: ActivityFunction, options?: ActivityOptions<ActivityKey>): this;
  registerOrchestration(name: string, fn: OrchestrationFunction, options?: OrchestrationOptions): this;
  register(...definitions: readonly (ActivityDefinition | OrchestrationDefinition)[]): this;
}

/** The exports of the loaded modules. */
export interface LoadedModules {
  readonly definitions: readonly (ActivityDefinition | OrchestrationDefinition)[];
  /** The export `codec` of one of the modules. */
  readonly codec: Codec | AsyncCodec | undefined;
  /** The export `types` of one of the modules. */
  readonly types: ValueTypes | undefined;
  /** The export `telemetry` of one of the modules. */
  readonly telemetry: Telemetry | undefined;
}

/** @throws TypeError when `value` is no list of URLs or absolute paths */
export function checkModules(value: unknown, path: string): void {
  if (!isList(value)) throw new TypeError(`${path} must be a list of URLs`);
  for (const [i, module] of value.entries()) {
    const isOne = isInstance(module, URL) || (typeof module === 'string' && module.length > 0);
    if (!isOne) throw new TypeError(`${path}[${i}] must be a URL, or the text of a URL`);
    if (typeof module === 'string' && !isAbsolute(module) && !URL.canParse(module)) {
      // Only the caller knows the base of a relative path, and whose packages a bare name means.
      const shown = show(module);
      const how = module.startsWith('.') ? `new URL(${shown}, import.meta.url)` : `import.meta.resolve(${shown})`;
      throw new TypeError(`${path}[${i}] ${shown} must be a URL or an absolute path: use ${how}`);
    }
  }
}

/** Returns the modules as texts that any thread can import. */
export function specifiersOf(modules: readonly (string | URL)[]): string[] {
  return modules.map((module) => {
    if (module instanceof URL) return module.href;
    return isAbsolute(module) ? pathToFileURL(module).href : module;
  });
}

/**
 * Loads modules. Returns the definitions that they export, and those that their default function registers.
 *
 * @throws RuntimeStateError when one cannot be loaded, or defines nothing
 */
export async function loadModules(specifiers: readonly string[]): Promise<LoadedModules> {
  const definitions = new Set<ActivityDefinition | OrchestrationDefinition>();
  let codec: Codec | AsyncCodec | undefined;
  let types: ValueTypes | undefined;
  let telemetry: Telemetry | undefined;
  for (const specifier of specifiers) {
    const before = definitions.size;
    let exports: Record<string, unknown>;
    try {
      exports = (await import(specifier)) as Record<string, unknown>;
      for (const value of Object.values(exports)) if (isDefinition(value)) definitions.add(value);
      if (typeof exports.default === 'function') await exports.default(registrar(definitions));
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new RuntimeStateError(`the module '${specifier}' cannot be loaded: ${why}`, { cause });
    }
    if (exports.codec !== undefined) {
      checkCodec(exports.codec, `the export codec of '${specifier}'`);
      codec = exports.codec as Codec | AsyncCodec;
    }
    if (exports.types !== undefined) {
      checkTypes(exports.types, `the export types of '${specifier}'`);
      types = exports.types as ValueTypes;
    }
    if (exports.telemetry !== undefined) {
      checkTelemetry(exports.telemetry, `the export telemetry of '${specifier}'`);
      telemetry = exports.telemetry as Telemetry;
    }
    const hasOthers = ['codec', 'types', 'telemetry'].some((name) => exports[name] !== undefined);
    if (!hasOthers && definitions.size === before) {
      const hint =
        'export the definitions that defineActivity and defineOrchestration returned, ' +
        'or a default function that registers';
      throw new RuntimeStateError(`the module '${specifier}' exports no definitions: ${hint}`);
    }
  }
  return { definitions: [...definitions], codec, types, telemetry };
}

function isDefinition(value: unknown): value is ActivityDefinition | OrchestrationDefinition {
  return isActivity(value) || isOrchestration(value);
}

function registrar(definitions: Set<ActivityDefinition | OrchestrationDefinition>): Registrar {
  return {
    registerActivity(name, fn, options) {
      return this.register(defineActivity(name, fn, options));
    },
    registerOrchestration(name, fn, options) {
      return this.register(defineOrchestration(name, fn, options));
    },
    register(...more) {
      for (const definition of more) {
        if (!isDefinition(definition))
          throw new TypeError(
            `register takes definitions that defineActivity and defineOrchestration returned, not ${show(definition)}`,
          );
        definitions.add(definition);
      }
      return this;
    },
  };
}
