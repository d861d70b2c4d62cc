// The ids of tokens in histories. The id of a token resolves it, so the dashboard shows the histories of tokens, and of
// the orchestrations that made them, without these ids.

import type { HistoryEvent } from '../client/history.ts';
import { ASKS } from '../driver/waits.ts';
import { TOKEN, TOKEN_KEY } from '../orchestration/tokens.ts';
import { isRecord, property } from '../util/show.ts';

/** The text in place of an id. */
const HIDDEN = '(hidden)';

/** Returns the payload of an event, without the id of a token where Perdure has put it there. */
export function payloadWithoutSecret({ kind, name, payload }: HistoryEvent): unknown {
  const isInput = kind === 'ExecutionStarted' || kind === 'ChildScheduled';
  if (isInput && name === TOKEN) return withoutId(payload);
  if (kind === 'QueueReceived' && name === ASKS && property(payload, 'name') === TOKEN)
    return { ...(payload as object), input: withoutId(property(payload, 'input')) };
  return payload;
}

/** Returns the name of an event, without the key from which an execution makes the ids of its tokens. */
export function nameWithoutSecret({ kind, name }: HistoryEvent): string | undefined {
  return kind === 'PatchApplied' && name?.startsWith(TOKEN_KEY) ? TOKEN_KEY + HIDDEN : name;
}

function withoutId(input: unknown): unknown {
  return isRecord(input) && 'id' in input ? { ...input, id: HIDDEN } : input;
}
