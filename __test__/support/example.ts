// A program of examples/ as users run it: a process of its own, with a folder of its own, that can be killed.

import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach } from 'vitest';

import { withoutFailures } from './log-lines.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const running = new Set<Example>();

/** Returns the entries of a ledger that an example has written (examples/demo/ledger.mjs). */
export function readLedger(...path: readonly string[]): Record<string, any>[] {
  return readFileSync(join(...path), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}

afterEach(async () => {
  // No process outlives its test, however the test ended.
  await Promise.all([...running].map((example) => example.kill()));
});

export class Example {
  /** The text that it has printed so far. */
  output = '';
  #errors = '';
  readonly #child: ChildProcess;
  readonly #end: Promise<string>;
  readonly #waiting = new Set<{ pattern: RegExp; resolve: () => void; reject: (error: Error) => void }>();

  /** @param name - the name of its file, such as `saga` */
  constructor(name: string, ...args: readonly string[]) {
    this.#child = spawn(process.execPath, [join(root, 'examples', `${name}.mjs`), ...args], {
      cwd: root,
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    running.add(this);
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errors += text;
    });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.output += text;
      for (const waiting of this.#waiting) {
        if (!waiting.pattern.test(this.output)) continue;
        this.#waiting.delete(waiting);
        waiting.resolve();
      }
    });
    this.#end = new Promise((resolve, reject) => {
      this.#child.once('error', reject);
      this.#child.once('close', (code, signal) => {
        running.delete(this);
        for (const { pattern, reject: fail } of this.#waiting)
          fail(new Error(`it ended without printing ${pattern}:\n${this.output}\n${this.errors}`));
        resolve(String(code ?? signal));
      });
    });
  }

  /** The text that it has written to stderr so far, besides the failures that Perdure has logged. */
  get errors(): string {
    return withoutFailures(this.#errors);
  }

  /** Resolves when the printed text matches the pattern. Rejects if the process ends before. */
  printed(pattern: RegExp): Promise<void> {
    if (pattern.test(this.output)) return Promise.resolve();
    return new Promise((resolve, reject) => this.#waiting.add({ pattern, resolve, reject }));
  }

  /** Types lines at its terminal. */
  type(...lines: readonly string[]): this {
    this.#child.stdin?.write(lines.map((line) => `${line}\n`).join(''));
    return this;
  }

  /** Closes its stdin: nothing more will be typed. */
  hangUp(): this {
    this.#child.stdin?.end();
    return this;
  }

  /** Resolves when it has ended, to its exit code or the signal that ended it. */
  ended(): Promise<string> {
    return this.#end;
  }

  interrupt(): Promise<string> {
    this.#child.kill('SIGINT');
    return this.#end;
  }

  kill(): Promise<string> {
    this.#child.kill('SIGKILL');
    return this.#end;
  }
}
