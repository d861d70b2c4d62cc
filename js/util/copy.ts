// The copy of this package that an object is of. A program may load two copies: two versions in node_modules, or one in
// a bundle and one beside it. Their classes are different, and so are the stores and fibers that they know.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { property } from './show.ts';

/** Key under which every copy leaves its {@link Copy} on the prototypes of its classes. */
const COPY = Symbol.for('perdure.copy');

interface Copy {
  readonly version: string;
  readonly folder: string;
}

const HERE: Copy = {
  get version() {
    return versionHere();
  },
  get folder() {
    return fileURLToPath(new URL('..', import.meta.url));
  },
};

function versionHere(): string {
  try {
    const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
    return String((JSON.parse(text) as { version?: unknown }).version);
  } catch {
    // A bundle has no package.json beside it.
    return 'unknown';
  }
}

/** Marks the instances of a class as those of this copy. */
export function markCopy(type: { readonly prototype: object }): void {
  Object.defineProperty(type.prototype, COPY, { value: HERE });
}

/** Returns a sentence for an error if a value is of another copy of this package; otherwise `undefined`. */
export function otherCopyNote(value: unknown): string | undefined {
  const other = property(value, COPY);
  if (other === undefined || other === HERE) return undefined;
  const named = (copy: unknown): string =>
    `version ${String(property(copy, 'version'))} in ${String(property(copy, 'folder'))}`;
  return (
    `two copies of perdure are loaded, and this object is of the other one (${named(other)}; here: ${named(HERE)}): ` +
    'install one version (`npm ls perdure` lists them), and leave perdure out of bundles'
  );
}
