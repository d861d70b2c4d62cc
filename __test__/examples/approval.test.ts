import { rmSync } from 'node:fs';
import { afterAll, expect, it } from 'vitest';

import { Example, readLedger } from '../support/example.ts';
import { temporaryFolder } from '../support/providers.ts';

const folder = temporaryFolder();
afterAll(() => rmSync(folder, { recursive: true }));

const order = (...args: string[]) => new Example('approval', '--folder', folder, ...args);
const booked = () => readLedger(folder, 'ledger.jsonl').map((entry) => `${entry.shares} ${entry.symbol}`);

it('waits for an answer over a kill, and books the order once', async () => {
  const first = order('--shares', '200');
  await first.printed(/Buy 200 IBM for \$25110\? \(yes or no\)/);
  expect(await first.kill()).toBe('SIGKILL');

  const second = order('--shares', '200');
  await second.printed(/Buy 200 IBM for \$25110\?/);
  expect(await second.type('perhaps', 'yes').ended()).toBe('0');
  expect(second.output).toContain("{ outcome: 'bought', total: 25110 }");

  const third = order('--shares', '200');
  expect(await third.ended()).toBe('0');
  expect(third.output).toBe("{ outcome: 'bought', total: 25110 }\n");
  expect(booked()).toEqual(['200 IBM']);
});

it('approves a small order without a question, and accepts a rejection', async () => {
  const small = order('--shares', '10', '--symbol', 'MSFT');
  expect(await small.ended()).toBe('0');
  expect(small.output).toBe("{ outcome: 'bought', total: 288 }\n");

  const refused = order('--shares', '1000').type('no');
  expect(await refused.ended()).toBe('0');
  expect(refused.output).toContain("{ outcome: 'refused'");
  expect(booked()).toEqual(['200 IBM', '10 MSFT']);
});

it('expires without an answer', async () => {
  const late = order('--shares', '2000', '--within', '50ms');
  expect(await late.ended()).toBe('0');
  expect(late.output).toContain("{ outcome: 'expired' }");
});

it('fails if the shares are not traded', async () => {
  const wrong = order('--symbol', 'XYZ');
  expect(await wrong.ended()).toBe('1');
  expect(wrong.errors).toBe('The order has failed: there is no price of XYZ\n');
});
