// The code that a runtime can run: activities by name, orchestrations by name and version.

import type { ActivityDefinition, ActivityFunction } from '../activity/activity.ts';
import {
  type ActivityCall,
  type ActivityKey,
  type ActivityOptions,
  checkActivityOptions,
  recordedOptions,
} from '../activity/activity-options.ts';
import { RuntimeStateError } from '../errors/errors.ts';
import type { OrchestrationDefinition, RunnableOrchestration } from '../orchestration/definition.ts';
import { nearest } from '../util/options.ts';
import { DEFAULT_QUEUE } from '../values/queue.ts';
import type { StandardSchema } from '../values/schema.ts';
import { BUILT_INS } from './built-in.ts';

interface RegisteredActivity {
  readonly fn: ActivityFunction;
  readonly options: ActivityOptions<ActivityKey> | undefined;
  /** The options as the engine records them when the call has none; `undefined`: each call has a key of its own. */
  readonly recorded: string | null | undefined;
}

interface RegisteredOrchestration extends RunnableOrchestration {
  readonly fingerprint: string;
  /** The schema of its input, which `fn` applies. */
  readonly input?: StandardSchema | undefined;
}

/** The code that a runtime can run. It has Perdure's own orchestrations from the beginning. */
export class Registry {
  private readonly activities = new Map<string, RegisteredActivity>();
  private readonly orchestrations = new Map<string, Map<string, RegisteredOrchestration>>();

  constructor() {
    for (const definition of BUILT_INS) this.addOrchestration(definition);
  }

  /** @throws RuntimeStateError when the name is taken */
  addActivity({ name, fn, options }: ActivityDefinition): void {
    if (this.activities.has(name)) throw new RuntimeStateError(`activity '${name}' is already registered`);
    checkActivityOptions(options, `activity '${name}'`);
    const hasOwnKeys = typeof options?.key === 'function';
    const recorded = hasOwnKeys ? undefined : recordedOptions(options, undefined, { name, input: undefined });
    this.activities.set(name, { fn, options, recorded });
  }

  /** @throws RuntimeStateError when the name is taken in that version */
  addOrchestration({ name, version, fn, fingerprint, cancelGraceMs, onEnd, input }: OrchestrationDefinition): void {
    const versions = this.orchestrations.get(name) ?? new Map<string, RegisteredOrchestration>();
    if (versions.has(version)) throw new RuntimeStateError(`orchestration '${name}' ${version} is already registered`);
    versions.set(version, { fn, fingerprint, cancelGraceMs, onEnd, input });
    this.orchestrations.set(name, versions);
  }

  /** Returns the queues that the registered activities name. */
  activityQueues(): Set<string> {
    return new Set(Array.from(this.activities.values(), ({ options }) => options?.queue ?? DEFAULT_QUEUE));
  }

  activityFunction(name: string): ActivityFunction | undefined {
    return this.activities.get(name)?.fn;
  }

  activitiesLike(name: string): string[] {
    return nearest(name, this.activities.keys());
  }

  /**
   * Returns the orchestration of a name and version. An empty version is open and matches any: such an execution has
   * run no code.
   */
  orchestration(name: string, version: string): RunnableOrchestration | undefined {
    const versions = this.orchestrations.get(name);
    return version === '' ? versions?.values().next().value : versions?.get(version);
  }

  /** Returns the schema of the input of an orchestration, if it is registered and has one. */
  inputSchema(name: string, version: string): StandardSchema | undefined {
    return this.orchestrations.get(name)?.get(version)?.input;
  }

  /** Returns the JSON to record with a schedule; see `OrchestrationHost`. */
  recordedOptions(
    call: ActivityCall,
    called: ActivityOptions | undefined,
    defined: ActivityOptions<ActivityKey> | undefined,
  ): string | null {
    const registered = this.activities.get(call.name);
    if (registered === undefined) return recordedOptions(defined, called, call);
    const { options, recorded } = registered;
    return called === undefined && recorded !== undefined ? recorded : recordedOptions(options, called, call);
  }

  /** Yields all registered definitions, in the form that the addon takes. */
  *entries(): Generator<{ kind: 'activity' | 'orchestration'; name: string; version: string; fingerprint: string }> {
    for (const name of this.activities.keys()) yield { kind: 'activity', name, version: '', fingerprint: '' };
    for (const [name, versions] of this.orchestrations) {
      for (const [version, { fingerprint }] of versions) yield { kind: 'orchestration', name, version, fingerprint };
    }
  }
}
