// The options and last arguments of calls that start an instance.

import { named, type OptionTable, priority, textsByName } from '../util/options.ts';

/** Options of an instance that is started. */
export interface InstanceOptions {
  /**
   * Version of its orchestration. Default: the highest version that a runtime of this process has registered. If no
   * such runtime has that orchestration, the default is the newest version that any live worker of the store has. That
   * version is settled when a worker comes by the instance, and the worker may be started later.
   */
  version?: string;
  /** Instances of higher priority are taken first. Default 0. */
  priority?: number;
  /** Texts to find the instance by. */
  tags?: Readonly<Record<string, string>>;
}

/** The checks of {@link InstanceOptions}. */
export const INSTANCE_OPTIONS = {
  version: named,
  priority,
  tags: textsByName,
} satisfies OptionTable;

/** Options of a child. */
export interface ChildOptions extends InstanceOptions {
  /** The child's id. Default: the id of the parent, a slash, and a UUID. */
  id?: string;
}

export const CHILD_OPTIONS: OptionTable = { ...INSTANCE_OPTIONS, id: named };

/** The last arguments of a call. The input may be left out where it may be `undefined`. */
export type InputArguments<I, Options> = undefined extends I
  ? [input?: I, options?: Options]
  : [input: I, options?: Options];
