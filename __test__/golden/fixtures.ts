// The files of golden histories: one for each instance of a program, in a folder for each release that wrote some. The
// files in `0.0.0` were written before the first release, when histories did not record fibers yet. Those in `0.0.1`
// were written before a cancelled fiber waited for the cleanup of the fibers that it owns.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { HistoryExport } from 'perdure';

const FOLDER = fileURLToPath(new URL('../fixtures/histories/', import.meta.url));

/** The release of this code. */
export const RELEASE = (
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
).version;

/** One file: the executions of an instance. */
export interface Fixture {
  readonly release: string;
  readonly instanceId: string;
  /** The text of the file. */
  readonly text: string;
  readonly exports: readonly HistoryExport[];
}

/** Returns all files, the oldest release first. */
export function fixtures(): Fixture[] {
  const releases = readdirSync(FOLDER).sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  return releases.flatMap((release) =>
    readdirSync(join(FOLDER, release))
      .sort()
      .map((file) => {
        const text = readFileSync(join(FOLDER, release, file), 'utf8');
        const instanceId = decodeURIComponent(file.replace(/\.json$/, ''));
        return { release, instanceId, text, exports: JSON.parse(text) as HistoryExport[] };
      }),
  );
}

/** Returns true if this release has a file of an instance. */
export function isKept(instanceId: string): boolean {
  return existsSync(pathOf(instanceId));
}

/** Adds a file to those of this release. Throws if it exists. */
export function keep(instanceId: string, exports: readonly HistoryExport[]): void {
  mkdirSync(join(FOLDER, RELEASE), { recursive: true });
  writeFileSync(pathOf(instanceId), `${JSON.stringify(exports, null, 1)}\n`, { flag: 'wx' });
}

function pathOf(instanceId: string): string {
  return join(FOLDER, RELEASE, `${encodeURIComponent(instanceId)}.json`);
}
