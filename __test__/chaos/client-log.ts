// The client log: the requests of clients and the answers to them. An acknowledgement is written only when its promise
// has resolved.

import { existsSync, readFileSync } from 'node:fs';

/** An entry about one program: its start, one of its actions, or its end as the client sees it. */
export interface ClientEntry {
  /** Number of the program. */
  readonly program: number;
  /** Number of the action. `start` comes before the actions, `end` after them. */
  readonly action: number | 'start' | 'end';
  /** Number of the attempt. The same request is sent again after an unknown outcome. */
  readonly attempt: number;
  readonly phase: 'asked' | 'acknowledged' | 'unknown' | 'refused';
  /** For an end: the status. For a refused request: the code of the error. */
  readonly what?: string;
  readonly at: number;
}

export function readClientLog(path: string): ClientEntry[] {
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as ClientEntry);
}
