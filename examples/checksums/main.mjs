// Computes checksums of the files of a folder, on the main thread alone and then on all cores.
//
//   node examples/checksums/main.mjs [folder] [--rounds 40000] [--threads n] [--output file]
//
// The program prints the duration of each run, and the speed-up of the second. Both must compute the same checksums.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual, parseArgs } from 'node:util';
import { Client, Runtime, SqliteProvider } from 'perdure';
import { checksums } from './work.mjs';

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '40000' },
    // The main thread works, too.
    threads: { type: 'string', default: String(Math.max(1, availableParallelism() - 1)) },
    output: { type: 'string' },
  },
});
const input = {
  folder: resolve(positionals[0] ?? fileURLToPath(new URL('.', import.meta.resolve('typescript')))),
  rounds: Number(options.rounds),
};

const place = mkdtempSync(join(tmpdir(), 'perdure-checksums-'));
const provider = await SqliteProvider.open(join(place, 'checksums.db'));
try {
  // A first run is not measured. It loads the files into memory for both measured runs.
  await run(0, { ...input, rounds: 1 });
  const alone = await measured(0);
  const together = await measured(Number(options.threads));
  const isSame = isDeepStrictEqual(alone.found, together.found);
  console.log(isSame ? 'the same checksums both times' : 'the checksums differ');
  console.log(`${(alone.seconds / together.seconds).toFixed(2)} times as fast`);
  if (options.output !== undefined) writeFileSync(options.output, linesOf(together.found));
  process.exitCode = isSame ? 0 : 1;
} finally {
  await provider.close();
  rmSync(place, { recursive: true });
}

async function measured(threads) {
  const result = await run(threads, input);
  console.log(`${Object.keys(result.found).length} files, ${threads} worker threads: ${result.seconds.toFixed(2)} s`);
  return result;
}

/** Computes all checksums with the given number of worker threads. The start of the threads is not measured. */
async function run(threads, input) {
  const runtime = new Runtime(provider, { threads, modules: [new URL('./work.mjs', import.meta.url)] });
  await runtime.start();
  try {
    const began = performance.now();
    const handle = await new Client(provider).start(checksums, input);
    const found = await handle.result();
    const seconds = (performance.now() - began) / 1000;
    return { found, seconds };
  } finally {
    await runtime.shutdown();
  }
}

/** Returns the lines in the format of sha512sum. */
function linesOf(found) {
  return Object.entries(found)
    .map(([name, digest]) => `${digest}  ${name}\n`)
    .join('');
}
