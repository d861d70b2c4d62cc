import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

import { Example } from '../support/example.ts';
import { temporaryFolder } from '../support/providers.ts';

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));
const data = new URL('../../node_modules/vega-datasets/data/', import.meta.url);

it('keeps the whole file of the first mirror that has one, and nothing of the others, over a kill', async () => {
  const killed = new Example('mirrors', '--folder', folder);
  await killed.printed(/sha256/);
  expect(await killed.kill()).toBe('SIGKILL');
  const last = new Example('mirrors', '--folder', folder);
  expect(await last.ended(), last.output).toBe('0');

  const winners = Object.fromEntries(
    [...last.output.matchAll(/^(\S+) from the (near|far) mirror, sha256 (\w+)$/gm)].map(([, file, ...rest]) => [
      file,
      rest,
    ]),
  );
  const files = Object.keys(winners).sort();
  expect(files).toHaveLength(5);
  expect(winners['airports.csv']?.[0], 'the near copy is damaged').toBe('far');
  expect(readdirSync(folder).filter((name) => !name.startsWith('mirrors.db'))).toEqual(files);
  for (const file of files) {
    const original = readFileSync(new URL(file, data));
    expect(readFileSync(join(folder, file)).equals(original), file).toBe(true);
    expect(winners[file]?.[1]).toBe(createHash('sha256').update(original).digest('hex'));
  }
});

it('gives up when its time is over, and leaves nothing behind', async () => {
  const other = join(folder, 'other');
  const late = new Example('mirrors', '--folder', other, '--limit', '0ms');
  expect(await late.ended()).toBe('1');
  expect(late.errors.trim().split('\n').sort()[0]).toBe('airports.csv: airports.csv took longer than 0ms');
  expect(readdirSync(other).filter((name) => !name.startsWith('mirrors.db'))).toEqual([]);
});
