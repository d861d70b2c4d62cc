// The question before a deletion.

import { createInterface } from 'node:readline/promises';

import { usageError } from './exit.ts';
import type { Terminal } from './terminal.ts';

export interface ConfirmFlags {
  readonly yes?: true;
}

/** Asks for confirmation, because a deletion cannot be undone. Without a user to ask, `--yes` is required. */
export async function confirm(terminal: Terminal, { yes }: ConfirmFlags, question: string): Promise<void> {
  if (yes === true) return;
  if (!terminal.isInteractive)
    throw usageError('this command asks for confirmation, and there is no terminal: pass --yes to confirm');
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await asking.question(`${question} [y/N] `);
    if (!/^y(es)?$/i.test(answer.trim())) throw usageError('nothing was deleted');
  } finally {
    asking.close();
  }
}
