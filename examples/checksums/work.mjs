// The orchestration and its activities. Every thread loads this module, and registers what it exports.

import { createHash, pbkdf2Sync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { defineActivity, defineOrchestration } from 'perdure';

/** Files whose checksums are computed at the same time, at most. */
const AT_ONCE = 64;

export const list = defineActivity('list', async (ctx, folder) => {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map(({ name }) => name)
    .sort();
});

/** SHA-512 of the file, and then so many rounds of it (PBKDF2), as is done with passwords. */
export const checksum = defineActivity('checksum', (ctx, { path, rounds }) => {
  // Read synchronously: with an `await` before the work this thread would begin other files meanwhile, and keep them from
  // threads that have nothing to do.
  const digest = createHash('sha512').update(readFileSync(path)).digest();
  return pbkdf2Sync(digest, '', rounds, 64, 'sha512').toString('hex');
});

/** The checksum of each file of a folder, by name. */
export const checksums = defineOrchestration('checksums', function* (ctx, { folder, rounds }) {
  const names = yield* ctx.call(list, folder);
  const found = {};
  for (let first = 0; first < names.length; first += AT_ONCE) {
    const some = names.slice(first, first + AT_ONCE);
    const digests = yield* ctx.all(some.map((name) => ctx.call(checksum, { path: join(folder, name), rounds })));
    for (const [i, name] of some.entries()) found[name] = digests[i];
  }
  return found;
});
