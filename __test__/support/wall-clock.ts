// A wall clock of a test's own, for processes that it starts: they see it set back and forward while they run.

import { execFileSync } from 'node:child_process';
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';

import { root } from './process.ts';
import { hasProgram } from './programs.ts';
import { temporaryFolder } from './providers.ts';

/** The reason why there is no such clock here; `undefined` if there is one. */
export const noWallClock =
  process.platform !== 'linux'
    ? 'only Linux has LD_PRELOAD'
    : hasProgram('cc', ['--version'])
      ? undefined
      : 'there is no C compiler';

export class WallClock {
  readonly #folder = temporaryFolder();
  readonly #path = join(this.#folder, 'later');
  readonly #library = join(this.#folder, 'wall-clock.so');
  readonly #file = openSync(this.#path, 'w');

  constructor() {
    this.set(0);
    const source = join(root, '__test__/support/wall-clock.c');
    execFileSync('cc', ['-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', this.#library, source]);
  }

  /** The begin of a command whose process has this clock. */
  get command(): readonly string[] {
    return ['env', `LD_PRELOAD=${this.#library}`, `PERDURE_TEST_CLOCK=${this.#path}`];
  }

  /** Sets the clock to the time of the machine and some milliseconds more. */
  set(laterMs: number): void {
    // One write, so no process sees a half of it.
    writeSync(this.#file, Buffer.from(BigInt64Array.of(BigInt(laterMs)).buffer), 0, 8, 0);
  }

  remove(): void {
    closeSync(this.#file);
    rmSync(this.#folder, { recursive: true });
  }
}
