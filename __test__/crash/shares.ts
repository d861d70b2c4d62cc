// Programs that die before they are done with their share of the work.

import { join } from 'node:path';
import { expect } from 'vitest';
import { Process, root } from '../support/process.ts';

/** A message of such a program: the number that it goes on from if it dies, numbers that are started, or its end. */
type Said =
  | { readonly type: 'at'; readonly number: number }
  | { readonly type: 'started'; readonly numbers: readonly number[] }
  | { readonly type: 'done' };

/**
 * Runs a program of this folder, from one number to another, until it is done. If it has killed itself, it runs again
 * from where it was. Returns its processes, all but the last of which have died.
 */
export async function runShare(
  file: string,
  share: { readonly address: unknown; readonly from: number; readonly to: number },
): Promise<Process<Said, object>[]> {
  const processes: Process<Said, object>[] = [];
  for (let from = share.from; ; ) {
    const options = JSON.stringify({ ...share, from, seed: from });
    const command = [process.execPath, join(root, '__test__/crash', file), options];
    const child = new Process<Said, object>(`${file} ${share.from}`, command);
    processes.push(child);
    const { code, signal } = await child.exited();
    if (child.all('done').length > 0) return processes;
    expect({ code, signal, stderr: child.stderr }).toEqual({ code: null, signal: 'SIGKILL', stderr: '' });
    from = child.all('at').at(-1)?.number ?? from;
  }
}
