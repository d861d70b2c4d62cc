// Compresses every file of a folder, a few at a time.
//
//   node examples/fan-out.mjs [--from <folder>] [--at-once 4] [--folder .perdure/fan-out]
//
// The program writes the compressed files and sizes.json into the folder. Kill it in the middle and start it again:
// finished files are not read again.

import { createReadStream, createWriteStream, mkdirSync } from 'node:fs';
import { readdir, rename, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createGzip } from 'node:zlib';
import { Client, defineActivity, defineOrchestration, Runtime, SqliteProvider } from 'perdure';

const { values: options } = parseArgs({
  options: {
    from: { type: 'string', default: fileURLToPath(new URL('../data', import.meta.resolve('vega-datasets'))) },
    'at-once': { type: 'string', default: '4' },
    folder: { type: 'string', default: '.perdure/fan-out' },
  },
});
mkdirSync(options.folder, { recursive: true });

const list = defineActivity('list', async (ctx, from) => {
  const entries = await readdir(from, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map(({ name }) => name)
    .sort();
});

const compress = defineActivity('compress', async (ctx, { source, target }) => {
  // Writes to a temporary name first, because a crash must not leave half a file under the final name.
  const part = `${target}.part`;
  await pipeline(createReadStream(source), createGzip(), createWriteStream(part), { signal: ctx.signal });
  await rename(part, target);
  return { before: (await stat(source)).size, after: (await stat(target)).size };
});

const compressFolder = defineOrchestration('compress-folder', function* (ctx, { from, to, atOnce }) {
  const files = yield* ctx.call(list, from);
  const sizes = {};
  let done = 0;

  const jobs = ctx.channel();
  for (const file of files) jobs.send(file);
  jobs.close();

  // Each of these fibers takes a new file when its last one is done, so at most `atOnce` files are in progress.
  const workers = Array.from({ length: atOnce }, () =>
    jobs.forEach(function* (file) {
      sizes[file] = yield* ctx.call(compress, { source: join(from, file), target: join(to, `${file}.gz`) });
      done += 1;
      ctx.setCustomStatus({ done, of: files.length });
    }),
  );
  yield* ctx.all(workers);
  return sizes;
});

const provider = await SqliteProvider.open(join(options.folder, 'fan-out.db'));
const runtime = new Runtime(provider);
runtime.register(list, compress, compressFolder);
await runtime.start();

const client = new Client(provider);
const input = { from: resolve(options.from), to: resolve(options.folder), atOnce: Number(options['at-once']) };
const job = await client.start(compressFolder, input, { id: 'compress', onConflict: 'return' });
for (let seen = 0; ; ) {
  const change = await job.waitForStatusChange(seen);
  if (change === null) break;
  seen = change.customStatusVersion;
  console.log(`${change.customStatus.done} of ${change.customStatus.of}`);
}
const sizes = await job.result();
await writeFile(join(options.folder, 'sizes.json'), JSON.stringify(sizes, null, 2));
const sum = (key) => Object.values(sizes).reduce((total, size) => total + size[key], 0);
console.log(`${Object.keys(sizes).length} files, ${sum('before')} bytes, compressed ${sum('after')}`);

await runtime.shutdown();
await provider.close();
