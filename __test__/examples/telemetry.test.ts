import { expect, it } from 'vitest';

import { Example } from '../support/example.ts';

it('prints one tree of spans, from a request to a worker in another process', async () => {
  const example = new Example('telemetry/main');
  expect(await example.ended(), example.errors).toBe('0');
  const [result, ...tree] = example.output.trim().split('\n').filter(Boolean);
  expect(result).toMatch(/^order-1: paid \d+(\.\d+)?, settled$/);
  const indentOf = (line: string): number => line.length - line.trimStart().length;
  expect(
    tree.filter((line) => indentOf(line) === 0),
    'one trace',
  ).toEqual([expect.stringMatching(/^POST \/orders {2}\(shop, /)]);
  /** Returns the lines that contain a line, from the outside in. */
  const pathTo = (fits: RegExp): string[] => {
    const at = tree.findIndex((line) => fits.test(line));
    expect(at, `${fits} in\n${example.output}`).toBeGreaterThanOrEqual(0);
    const path: string[] = [];
    for (let line = at, indent = Number.POSITIVE_INFINITY; line >= 0; line -= 1) {
      const text = tree[line] as string;
      if (indentOf(text) >= indent) continue;
      indent = indentOf(text);
      path.unshift(text.trim().replace(/ {2}\(.*/, ''));
    }
    return path;
  };
  const order = ['POST /orders', 'perdure.start order', 'order'];
  expect(pathTo(/GET \/quote {2}/)).toEqual([...order, 'quote', 'GET', 'GET /quote']);
  expect(pathTo(/pay {2}\(bank, attempt 1, .*error: the bank is busy\)/)).toEqual([...order, 'pay']);
  expect(pathTo(/pay {2}\(bank, attempt 2, \d+ ms\)/)).toEqual([...order, 'pay']);
  expect(pathTo(/book {2}\(shop, attempt 1/)).toEqual([...order, 'settlement', 'book']);
  expect(pathTo(/order {2}\(shop, completed/)).toEqual(order);
});
