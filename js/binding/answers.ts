// Answers of the addon, decoded: descriptions and deliveries. `crates/node/src/job.rs` encodes them.

import type { Delivery } from '../driver/delivery.ts';
import { MAILBOX_EMPTY, MESSAGE } from '../driver/delivery.ts';
import type { TraceContext } from '../tracing/telemetry-hooks.ts';
import { MAILBOX_KINDS } from './commands.ts';
import type { Frame } from './frame.ts';

/** An execution as the engine describes it. */
export interface InstanceDescription {
  readonly instanceId: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
  readonly input: string | null;
  readonly parentId: string | null;
  /** Codec text of the custom status that it begins with. */
  readonly customStatus: string | null;
  /** Codec texts of the values of the state that it begins with, by name; `null` when there are none. */
  readonly state: ReadonlyMap<string, string | null> | null;
  /** The deterministic time at its start, ms since 1970. */
  readonly timeMs: number;
  /** Context in which the execution was started; `null` if it is not traced. */
  readonly trace: TraceContext | null;
}

export function decodeDescription(text: string, frame: Frame): InstanceDescription {
  return {
    executionId: frame.fact(0),
    timeMs: frame.fact(1),
    instanceId: frame.required(text, 0),
    name: frame.required(text, 1),
    version: frame.required(text, 2),
    parentId: frame.text(text, 3),
    customStatus: frame.text(text, 4),
    trace: frame.text(text, 5) as TraceContext | null,
    state: decodeState(frame.text(text, 6)),
    input: frame.text(text, 7),
  };
}

function decodeState(json: string | null): InstanceDescription['state'] {
  return json === null ? null : new Map(Object.entries(JSON.parse(json) as Record<string, string | null>));
}

export function decodeDelivery(text: string, frame: Frame): Delivery {
  const kind = frame.kind as Delivery['kind'];
  const detail = frame.fact(2);
  const hasMailbox = kind === MESSAGE || kind === MAILBOX_EMPTY;
  return {
    kind,
    timeMs: frame.fact(0),
    operation: frame.fact(1),
    detail,
    mailbox: hasMailbox ? { kind: MAILBOX_KINDS[detail] ?? 'event', name: frame.required(text, 0) } : null,
    value: frame.text(text, 1),
  };
}
