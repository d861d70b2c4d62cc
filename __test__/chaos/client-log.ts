// The client log: what clients asked for, and what they were told. An acknowledgement is written only when its promise has resolved.

import { existsSync, readFileSync } from 'node:fs';

/** Of one program: its start, each of its actions, and its end as the client sees it. */
export interface ClientEntry {
  /** Number of the program. */
  readonly program: number;
  /** Number of the action; `start` and `end` are those before and after. */
  readonly action: number | 'start' | 'end';
  /** The same thing is asked for again after an unknown outcome. */
  readonly attempt: number;
  readonly phase: 'asked' | 'acknowledged' | 'unknown' | 'refused';
  /** Of an end: the status. Of what was refused: the code of the error. */
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
