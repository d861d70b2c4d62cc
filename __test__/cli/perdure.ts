// The command line as users run it: a process of its own, and its output.

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

import type { StoreAddress } from '../support/providers.ts';

export const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

/** The end of a command. */
export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** A running command. */
export interface Running {
  readonly ended: Promise<Ended>;
  /** Resolves when the output so far contains the text. Never resolves if the command ends without it. */
  wrote(text: string): Promise<void>;
  /** Resolves to the first line of the output. */
  line(): Promise<string>;
  kill(): void;
}

/** Runs a command line. No environment variable of this process selects the store. */
export function launch(
  args: readonly string[],
  { input = '', env = {} }: { input?: string; env?: Record<string, string> } = {},
): Running {
  const { PERDURE_DB: _, PERDURE_SCHEMA: __, NO_COLOR: ___, FORCE_COLOR: ____, ...others } = process.env;
  const child = spawn(process.execPath, [MAIN, ...args], { env: { ...others, ...env } });
  let [out, err] = ['', ''];
  const waiting: { text: string; resolve: () => void }[] = [];
  const look = (): void => waiting.filter(({ text }) => out.includes(text)).forEach(({ resolve }) => resolve());
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    look();
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
  child.stdin.end(input);
  const ended = new Promise<Ended>((resolve) => child.on('close', (code) => resolve({ code, out, err })));
  const wrote = (text: string): Promise<void> =>
    new Promise((resolve) => {
      waiting.push({ text, resolve });
      look();
    });
  const line = async (): Promise<string> => {
    await wrote('\n');
    return out.split('\n', 1)[0] as string;
  };
  return { ended, wrote, line, kill: () => child.kill('SIGTERM') };
}

export function perdure(...args: string[]): Promise<Ended> {
  return launch(args).ended;
}

/** Returns the flags that select the store. */
export function storeFlags(address: StoreAddress): string[] {
  return address.kind === 'sqlite' ? ['--db', address.path] : ['--db', address.url, '--schema', address.schema];
}

/** Returns the values that `--json` wrote. */
export function valuesOf({ out }: Ended): any[] {
  return out
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as unknown);
}
