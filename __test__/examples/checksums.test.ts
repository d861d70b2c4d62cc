import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';

import { Example } from '../support/example.ts';
import { temporaryFolder } from '../support/providers.ts';

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));
// More than it takes at a time.
const from = fileURLToPath(new URL('../../node_modules/vega-datasets/data', import.meta.url));
const ROUNDS = 20;

const sha512 = (data: Buffer | string): string => createHash('sha512').update(data).digest('hex');

function checksumOf(file: string): string {
  let digest = sha512(readFileSync(join(from, file)));
  for (let round = 0; round < ROUNDS; round += 1) digest = sha512(digest);
  return digest;
}

it('finds the right checksum of every file, without and with worker threads', async () => {
  const output = join(folder, 'checksums');
  const example = new Example('checksums/main', from, '--rounds', String(ROUNDS), '--threads', '2', '--output', output);
  expect(await example.ended(), example.errors).toBe('0');

  const files = readdirSync(from).sort();
  expect(files.length).toBeGreaterThan(64);
  expect(readFileSync(output, 'utf8')).toBe(files.map((file) => `${checksumOf(file)}  ${file}\n`).join(''));
  const runs = [...example.output.matchAll(/^(\d+) files, (\d) worker threads: [\d.]+ s$/gm)];
  expect(runs.map(([, count, threads]) => [count, threads])).toEqual([[String(files.length), '0'], [String(files.length), '2']]);
  expect(example.output).toMatch(/^the same checksums both times\n[\d.]+ times as fast$/m);
});
