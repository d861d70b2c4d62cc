import { createHash, createHmac } from 'node:crypto';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';

import { Example } from '../support/example.ts';
import { temporaryFolder } from '../support/providers.ts';

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));
// More files than the example takes at a time.
const from = fileURLToPath(new URL('../../node_modules/vega-datasets/data', import.meta.url));
const ROUNDS = 20;

/** PBKDF2 by hand (RFC 8018, section 5.2), for one block. */
function checksumOf(file: string): string {
  const digest = createHash('sha512')
    .update(readFileSync(join(from, file)))
    .digest();
  const round = (data: Buffer): Buffer => createHmac('sha512', digest).update(data).digest();
  let last = round(Buffer.from([0, 0, 0, 1]));
  const sum = Buffer.from(last);
  for (let n = 1; n < ROUNDS; n += 1) {
    last = round(last);
    for (const [i, byte] of last.entries()) sum.writeUInt8(sum.readUInt8(i) ^ byte, i);
  }
  return sum.toString('hex');
}

it('finds the right checksum of every file, without and with worker threads', async () => {
  const output = join(folder, 'checksums');
  const example = new Example('checksums/main', from, '--rounds', String(ROUNDS), '--threads', '2', '--output', output);
  expect(await example.ended(), example.errors).toBe('0');

  const files = readdirSync(from).sort();
  expect(files.length).toBeGreaterThan(64);
  expect(readFileSync(output, 'utf8')).toBe(files.map((file) => `${checksumOf(file)}  ${file}\n`).join(''));
  const runs = [...example.output.matchAll(/^(\d+) files, (\d) worker threads: [\d.]+ s$/gm)];
  expect(runs.map(([, count, threads]) => [count, threads])).toEqual([
    [String(files.length), '0'],
    [String(files.length), '2'],
  ]);
  expect(example.output).toMatch(/^the same checksums both times\n[\d.]+ times as fast$/m);
});
