// The command `npm run golden`: records the histories of this release that are missing. Existing files are not changed.

import { SqliteProvider } from 'perdure';

import { isKept, keep, RELEASE } from './fixtures.ts';
import { PROGRAMS } from './programs/index.ts';
import { perform } from './stage.ts';

let count = 0;
for (const program of PROGRAMS) {
  if (Object.keys(program.instances).every(isKept)) continue;
  await using provider = await SqliteProvider.inMemory();
  for (const [instanceId, exports] of await perform(program, provider)) {
    if (isKept(instanceId)) continue;
    keep(instanceId, exports);
    count += 1;
  }
}
console.log(`histories of ${RELEASE} that were recorded: ${count}`);
