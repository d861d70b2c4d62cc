// Measures the time that a program waits for Perdure before its first line: `import 'perdure'`, and the opening of an
// existing SQLite store.
//
//   node bench/start-up.mjs [--runs 31] [--check]
//
// Each run is a process of its own. The table has the median, and the least, which is the time on an otherwise idle
// machine. `--check` ends with an error if the median of import and opening is above the limit.

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/** Import and opening together, ms. */
const MAX_MS = 60;

const root = fileURLToPath(new URL('..', import.meta.url));
const { values } = parseArgs({
  options: { runs: { type: 'string', default: '31' }, check: { type: 'boolean', default: false } },
});
const folder = temporaryFolder();
try {
  const samples = Array.from({ length: Number(values.runs) + 1 }, () =>
    JSON.parse(
      execFileSync(process.execPath, ['--input-type=module', '-e', program(join(folder, 'store.db'))], {
        encoding: 'utf8',
      }),
    ),
  );
  // The first run makes the store, and brings the files into memory.
  samples.shift();
  const figures = ['import', 'open', 'both'].map((name) => [
    name,
    samples.map((sample) => sample[name]).sort((a, b) => a - b),
  ]);
  for (const [name, sorted] of figures)
    console.log(`${name.padEnd(8)} median ${middle(sorted).toFixed(1)} ms, least ${sorted[0].toFixed(1)} ms`);
  const both = middle(figures.at(-1)[1]);
  if (values.check && both > MAX_MS) {
    console.error(`Import and opening take ${both.toFixed(1)} ms, more than ${MAX_MS} ms.`);
    process.exitCode = 1;
  }
} finally {
  rmSync(folder, { recursive: true });
}

function program(path) {
  return `
    const begin = performance.now();
    const { SqliteProvider } = await import(${JSON.stringify(new URL('../dist/index.js', import.meta.url).href)});
    const imported = performance.now();
    const provider = await SqliteProvider.open(${JSON.stringify(path)});
    const opened = performance.now();
    await provider.close();
    console.log(JSON.stringify({ import: imported - begin, open: opened - imported, both: opened - begin }));`;
}

/** Makes a folder beside the code, because a folder for temporary files may be in memory. */
function temporaryFolder() {
  mkdirSync(join(root, '.perdure'), { recursive: true });
  return mkdtempSync(join(root, '.perdure/start-up-'));
}

function middle(sorted) {
  return sorted[sorted.length >> 1];
}
