// Programs that are no tools of the tests. A test that needs one is skipped where the program is missing.

import { execFileSync } from 'node:child_process';

/** Returns true if a program runs with these arguments and succeeds. */
export function hasProgram(file: string, args: readonly string[]): boolean {
  try {
    execFileSync(file, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
