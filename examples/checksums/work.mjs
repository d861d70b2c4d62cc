// The orchestration and its activities. Every thread loads this module and registers its exports.

import { createHash, pbkdf2Sync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { defineActivity, defineOrchestration } from 'perdure';

/** The maximum number of files in progress at the same time. */
const AT_ONCE = 64;

export const list = defineActivity('list', async (ctx, folder) => {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map(({ name }) => name)
    .sort();
});

/** Returns the SHA-512 of the file, hashed again in the given number of rounds (PBKDF2), as is done with passwords. */
export const checksum = defineActivity('checksum', (ctx, { path, rounds }) => {
  // Reads synchronously. During an `await`, this thread would start other files, and idle threads could not take those.
  const digest = createHash('sha512').update(readFileSync(path)).digest();
  return pbkdf2Sync(digest, '', rounds, 64, 'sha512').toString('hex');
});

/** Returns the checksum of each file of a folder, by name. */
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
