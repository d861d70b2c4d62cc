// Commands and ends of the driver, encoded for the addon. `crates/node/src/command.rs` decodes them.

import {
  CANCEL_OPERATION,
  CONTINUED_AS_NEW,
  type Command,
  CREATE_TIMER,
  CREATE_TIMER_AT,
  type Outcome,
  SCHEDULE_ACTIVITY,
  SEND_MESSAGE,
  START_CHILD,
  START_INSTANCE,
} from '../driver/command.ts';
import type { Mailbox } from '../driver/waits.ts';
import { CONFLICTS } from '../values/conflicts.ts';
import type { Frame } from './frame.ts';

/** Numbers of the kinds of mailboxes. */
export const MAILBOX_KINDS: readonly Mailbox['kind'][] = ['event', 'queue'];

/** Writes a command into the frame. Returns its texts as one string. */
export function encodeCommand(command: Command, frame: Frame): string {
  const { kind } = command;
  switch (kind) {
    case SCHEDULE_ACTIVITY:
      frame.put(kind);
      return frame.join(command.name, command.input, command.options);
    case CREATE_TIMER:
      frame.put(kind, command.delayMs);
      return '';
    case CREATE_TIMER_AT:
      frame.put(kind, command.atMs);
      return '';
    case START_CHILD:
    case START_INSTANCE: {
      const { name, id, version, tags, trace, admission, input } = command;
      frame.put(kind, command.priority, CONFLICTS.indexOf(command.onConflict));
      return frame.join(name, id, version, tags, trace, admission, input);
    }
    case SEND_MESSAGE:
      frame.put(kind, MAILBOX_KINDS.indexOf(command.mailbox.kind));
      return frame.join(command.receiver, command.mailbox.name, command.payload);
    case CANCEL_OPERATION:
      frame.put(kind, command.operation);
      return '';
    default:
      return kind satisfies never;
  }
}

/** Writes the end of the code into the frame. Returns its texts as one string. */
export function encodeOutcome(outcome: Outcome, frame: Frame): string {
  frame.put(outcome.kind);
  return outcome.kind === CONTINUED_AS_NEW
    ? frame.join(outcome.input, outcome.version)
    : frame.join(outcome.payload, null);
}
