// A bank of 100 accounts, which are entities: 8 processes move money under `ctx.lock`, and are killed.

import { join } from 'node:path';
import { defineEntity } from 'perdure';
import { afterEach, describe, expect, it } from 'vitest';

import { eventually } from '../support/async.ts';
import { expectInvariants } from '../support/invariants.ts';
import { Process, root } from '../support/process.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { pause, seeded } from '../support/worker-parts.mjs';

const ACCOUNTS = 100;
const BEGIN = 100;
const PROCESSES = 8;
/** Transfers that each process starts. */
const TRANSFERS = 30;
/** Number of transfers that end between two kills. */
const BETWEEN_KILLS = 12;
const KILLS_MAX = 16;
/** Limit of the wait for locks that are given back after the last transfer. */
const WITHIN_MS = 60_000;

const program = join(root, '__test__/crash/locked-bank.mjs');

interface Done {
  readonly type: 'done';
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly amount: number;
  readonly moved: boolean;
}
type Part = Process<Done | { type: 'ready' | 'all' }, object>;

const account = defineEntity('account', {
  initial: () => ({ balance: BEGIN, transfers: [] as string[] }),
  handlers: {},
  reads: { state: (state) => state },
});

afterEach(async () => {
  await Promise.all([...Process.running].map((part) => part.kill()));
});

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  afterEach(() => expectInvariants(store.address));

  function start(n: number): Part {
    const options = { store: store.address, name: `bank ${n}`, accounts: ACCOUNTS, transfers: TRANSFERS, seed: n + 1 };
    return new Process(options.name, [process.execPath, program, JSON.stringify(options)]);
  }

  it('moves money between accounts, loses none, and comes to no deadlock', async () => {
    const random = seeded(11);
    const parts = Array.from({ length: PROCESSES }, (_, n) => start(n));
    const dead: Part[] = [];
    const told = (): Done[] => [...dead, ...parts].flatMap((part) => part.all('done') as Done[]);
    const isDone = (): boolean => parts.every((part) => part.all('all').length === 1);
    for (; !isDone(); await pause(20)) {
      if (dead.length === KILLS_MAX || told().length < (dead.length + 1) * BETWEEN_KILLS) continue;
      const at = Math.floor(random() * PROCESSES);
      const part = parts[at] as Part;
      if (part.all('ready').length === 0 || part.all('all').length === 1) continue;
      await part.kill();
      dead.push(part);
      parts[at] = start(at);
    }

    const done = new Map(told().map((one) => [one.id, one]));
    expect(done.size).toBe(PROCESSES * TRANSFERS);
    const moved = [...done.values()].filter((one) => one.moved);
    expect(moved.length).toBeGreaterThan((PROCESSES * TRANSFERS) / 2);
    const expected = new Map<string, { balance: number; transfers: string[] }>();
    for (let n = 0; n < ACCOUNTS; n += 1) expected.set(`${n}`, { balance: BEGIN, transfers: [] });
    const enter = (key: string, by: number, line: string): void => {
      const entry = expected.get(key) as { balance: number; transfers: string[] };
      entry.balance += by;
      entry.transfers.push(line);
    };
    for (const { id, from, to, amount } of moved) {
      enter(from, -amount, `${id} from`);
      enter(to, amount, `${id} to`);
    }
    let sum = 0;
    for (const [key, { balance, transfers }] of expected) {
      const state = await store.client.entity(account, key).state();
      sum += state.balance;
      expect(state.balance).toBe(balance);
      expect(state.balance).toBeGreaterThanOrEqual(0);
      expect(state.transfers.toSorted()).toEqual(transfers.toSorted());
    }
    expect(sum).toBe(ACCOUNTS * BEGIN);
    // Each lock was given back.
    await eventually(WITHIN_MS, 'no account is locked', async () => {
      for (const key of expected.keys())
        if ((await store.client.getState(`account/${key}`, 'lock')) !== null) return false;
      return true;
    });
    expect(dead.length).toBeGreaterThan(9);
  }, 240_000);
});
