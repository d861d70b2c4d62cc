import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { Client, SqliteProvider } from 'perdure';
import { afterAll, expect, it } from 'vitest';

import { Example } from '../support/example.ts';
import { temporaryFolder } from '../support/providers.ts';

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));
const from = fileURLToPath(new URL('../../node_modules/vega-datasets/data', import.meta.url));

it('compresses every file once, never more at a time than it may, over a kill', async () => {
  const args = ['--folder', folder, '--at-once', '3'];
  const killed = new Example('fan-out', ...args);
  // The example prints the numbers that it has seen, which need not be all.
  await killed.printed(/^[2-6]\d of/m);
  expect(await killed.kill()).toBe('SIGKILL');
  const last = new Example('fan-out', ...args);
  expect(await last.ended(), last.output).toBe('0');

  const files = readdirSync(from);
  const sizes = JSON.parse(readFileSync(join(folder, 'sizes.json'), 'utf8')) as Record<
    string,
    { before: number; after: number }
  >;
  expect(Object.keys(sizes).sort()).toEqual(files.sort());
  for (const file of files) {
    const [before, after] = [readFileSync(join(from, file)), readFileSync(join(folder, `${file}.gz`))];
    expect(sizes[file]).toEqual({ before: before.length, after: after.length });
    expect(gunzipSync(after).equals(before), file).toBe(true);
  }

  await using provider = await SqliteProvider.open(join(folder, 'fan-out.db'));
  const underWay = new Set<number>();
  let most = 0;
  for (const { eventId, kind, name, refId } of await new Client(provider).getHistory('compress')) {
    if (kind === 'ActivityScheduled' && name === 'compress') underWay.add(eventId);
    if (kind === 'ActivityCompleted') underWay.delete(refId ?? 0);
    most = Math.max(most, underWay.size);
  }
  expect(most).toBe(3);
});
