// The facts of an event besides its value, in the same fields for each kind.

import type { HistoryEvent } from '../client/history.ts';
import type { EventRow } from './answers.ts';
import { titleOf } from './event-titles.ts';
import { nameWithoutSecret } from './token-secrets.ts';

export function factsOf(event: HistoryEvent): Omit<EventRow, 'value'> {
  const { eventId, time, kind, refId, meta: of } = event;
  const name = nameWithoutSecret(event);
  const title = titleOf(event);
  const meta = (of ?? {}) as Record<string, unknown>;
  const untilMs = meta.fireAtMs ?? meta.retryAtMs;
  const instance = meta.instance ?? meta.id;
  const note = meta.failure ?? meta.refusal ?? (kind === 'ActivityScheduled' ? meta.queue : meta.version);
  return {
    id: eventId,
    atMs: time.getTime(),
    kind,
    ...(refId === undefined ? {} : { ref: refId }),
    ...(name === undefined ? {} : { name }),
    ...(title === undefined ? {} : { title }),
    ...(typeof meta.fiber === 'number' ? { fiber: meta.fiber } : {}),
    ...(typeof meta.attempt === 'number' ? { attempt: meta.attempt } : {}),
    ...(typeof untilMs === 'number' ? { untilMs } : {}),
    ...(typeof instance === 'string' ? { instance } : {}),
    ...(typeof note === 'string' ? { note } : {}),
  };
}
