// The start of an instance by a message that is sent to it, checked.

import { nested, type OptionTable, oneOf, priority, textsByName } from '../util/options.ts';
import type { OnConflict } from '../values/conflicts.ts';
import { ADMISSION_OPTIONS } from './admission.ts';
import type { DetachedOptions } from './call-options.ts';
import type { ReceiverConflict, ReceiverDefinition, ReceiverOptions, SendOptions } from './send-options.ts';
import { STARTED_CODE, startedCode } from './started-code.ts';

/** The same behaviours as those of a start that accepts an instance which goes on. */
export const RECEIVER_CONFLICTS = {
  error: 'return',
  restartIfTerminal: 'returnOrRestart',
  restartIfFailed: 'restartIfFailed',
} as const satisfies Record<ReceiverConflict, OnConflict>;

/** The checks of {@link SendOptions}. */
export const SEND_OPTIONS: OptionTable = {
  start: nested({
    ...STARTED_CODE,
    priority,
    tags: textsByName,
    ...ADMISSION_OPTIONS,
    onConflict: oneOf(...Object.keys(RECEIVER_CONFLICTS)),
  }),
};

/** The start of a receiver, checked. */
export interface CheckedReceiverStart extends ReceiverOptions {
  /** The definition that it is started by, if it is not started by name. */
  readonly definition?: ReceiverDefinition;
  readonly name: string;
  readonly version?: string;
  readonly input: unknown;
}

/**
 * Returns the start in the options of a message, which are {@link SEND_OPTIONS}, with the name and the version of its
 * definition. `undefined`: there is none.
 *
 * @param where - the call, for the error: `client.raiseEvent`
 * @throws TypeError when it names both a definition and a name or a version, or neither
 */
export function receiverStart(options: SendOptions | undefined, where: string): CheckedReceiverStart | undefined {
  const start = options?.start as Partial<CheckedReceiverStart> | undefined;
  if (start === undefined) return undefined;
  return { ...start, ...startedCode(start, `${where}: start`), input: start.input };
}

/** Returns the options of the detached start that goes before the message of an orchestration. */
export function detachedOptions(start: CheckedReceiverStart) {
  const { version, priority, tags, onConflict = 'error' } = start;
  const { queue, key, delay, startAt, timeout, gracePeriod } = start;
  const admission = { queue, key, delay, startAt, timeout, gracePeriod };
  const options = { version, priority, tags, ...admission, onConflict: RECEIVER_CONFLICTS[onConflict] };
  return options as DetachedOptions;
}
