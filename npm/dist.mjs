// What tsc leaves to do in dist/: takes away the output of sources that are gone, and brings the addon and its loader.

import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

process.chdir(fileURLToPath(new URL('..', import.meta.url)));

const OUTPUT = /\.(js|d\.ts)(\.map)?$/;
for (const entry of readdirSync('dist', { recursive: true, withFileTypes: true })) {
  const file = join(entry.parentPath, entry.name);
  const source = join('js', relative('dist', file)).replace(OUTPUT, '.ts');
  if (entry.isFile() && OUTPUT.test(entry.name) && !existsSync(source)) rmSync(file);
}

if (!existsSync('js/native/index.cjs')) {
  console.error('js/native has no addon yet: `npm run build` builds it and everything else.');
  process.exit(1);
}
mkdirSync('dist/native', { recursive: true });
for (const name of readdirSync('js/native').filter((name) => !name.startsWith('.'))) {
  const from = join('js/native', name);
  const to = join('dist/native', name);
  if (existsSync(to) && readFileSync(to).equals(readFileSync(from))) continue;
  // By rename: a process that has the old addon loaded keeps its own file, and none ever finds half of one.
  copyFileSync(from, `${to}.new`);
  renameSync(`${to}.new`, to);
}
