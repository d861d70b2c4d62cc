// Builds the dashboard's page from its sources: one script and one style sheet, as few bytes as can be, beside the code
// that serves them.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { rolldown } from 'rolldown';

const FROM = 'js/dashboard/page';
const TO = 'dist/dashboard/page';

/** The licence of the code in the script that is not ours asks for this. */
const BANNER = '/*! Contains Preact: Copyright (c) 2015-present Jason Miller, MIT License */';

/** The files of the page: their paths, and their bytes. */
export async function pageFiles() {
  const build = await rolldown({ input: join(FROM, 'page.tsx'), tsconfig: join(FROM, 'tsconfig.json') });
  const {
    output: [script],
  } = await build.generate({ format: 'esm', minify: true, postBanner: BANNER });
  await build.close();
  // A style sheet means the same without its comments and line breaks.
  const css = readFileSync(join(FROM, 'page.css'), 'utf8')
    .replaceAll(/\/\*.*?\*\//gs, '')
    .replaceAll(/\s*\n\s*/g, '');
  const files = new Map([
    ['page.js', Buffer.from(script.code)],
    ['page.css', Buffer.from(css)],
  ]);
  for (const file of ['index.html', 'icon.svg']) files.set(file, readFileSync(join(FROM, file)));
  return [...files].map(([file, bytes]) => [join(TO, file), bytes]);
}
