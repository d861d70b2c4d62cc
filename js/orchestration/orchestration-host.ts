// The execution and the runtime, as a context sees them.

import type { ActivityCall, ActivityKey, ActivityOptions } from '../activity/activity-options.ts';
import type { RuntimeLimits } from '../values/limits.ts';
import type { TypeRegistry } from '../values/value-types.ts';

/** Facts of an execution, the same in every replay. */
export interface OrchestrationFacts {
  readonly instanceId: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
  readonly parentId: string | undefined;
}

/** The part of the runtime that a context needs. */
export interface OrchestrationHost {
  /**
   * Returns the JSON to record with a schedule: the options of the call over those of the activity's registration here,
   * or over `defined` if the activity is not registered here.
   *
   * @throws TypeError when the function of the key throws, or returns no key
   */
  recordedOptions(
    call: ActivityCall,
    called: ActivityOptions | undefined,
    defined: ActivityOptions<ActivityKey> | undefined,
  ): string | null;
  /** True if futures remember the line that made them. */
  readonly sourceStacks: boolean;
  readonly limits: Required<RuntimeLimits>;
  /** The classes whose instances values may hold. */
  readonly types: TypeRegistry;
}
