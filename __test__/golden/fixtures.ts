// Where golden histories are kept: a file for each instance of a program, in a folder for each release that wrote some. What is in `0.0.0` was written before the first
// release, when histories did not tell of fibers yet; in `0.0.1`, before a cancelled fiber waited for the cleanup of those that it owns.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { HistoryExport } from 'perdure';

const FOLDER = fileURLToPath(new URL('../fixtures/histories/', import.meta.url));

/** The release that this code is. */
export const RELEASE = (
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
).version;

/** One file: the executions of an instance. */
export interface Fixture {
  readonly release: string;
  readonly instanceId: string;
  /** As it stands there. */
  readonly text: string;
  readonly exports: readonly HistoryExport[];
}

/** All that is kept, the oldest release first. */
export function fixtures(): Fixture[] {
  const releases = readdirSync(FOLDER).sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  return releases.flatMap((release) =>
    readdirSync(join(FOLDER, release))
      .sort()
      .map((file) => {
        const text = readFileSync(join(FOLDER, release, file), 'utf8');
        return { release, instanceId: file.replace(/\.json$/, ''), text, exports: JSON.parse(text) as HistoryExport[] };
      }),
  );
}

/** Whether this release has a file of an instance. */
export function isKept(instanceId: string): boolean {
  return existsSync(pathOf(instanceId));
}

/** Add a file to those of this release; it throws where there is one. */
export function keep(instanceId: string, exports: readonly HistoryExport[]): void {
  mkdirSync(join(FOLDER, RELEASE), { recursive: true });
  writeFileSync(pathOf(instanceId), `${JSON.stringify(exports, null, 1)}\n`, { flag: 'wx' });
}

function pathOf(instanceId: string): string {
  return join(FOLDER, RELEASE, `${instanceId}.json`);
}
