// 200 carts, which are entities, filled by 8 processes while workers and callers are killed.

import { join } from 'node:path';
import { defineEntity } from 'perdure';
import { afterEach, describe, expect, it } from 'vitest';

import { expectInvariants } from '../support/invariants.ts';
import { Process, root } from '../support/process.ts';
import { SHARED_STORES } from '../support/providers.ts';
import { useStore } from '../support/store.ts';
import { pause, seeded } from '../support/worker-parts.mjs';

const CARTS = 200;
const CALLERS = 8;
/** Items that each caller adds. */
const ITEMS = 100;
const WORKERS = 3;
/** Number of answers between two kills. */
const BETWEEN_KILLS = 30;
const KILLS_MAX = 18;

const program = join(root, '__test__/crash/carts.mjs');

type Said = { type: 'ready' | 'done' } | { type: 'added'; key: string; item: string; answer: number; count: number };
type Part = Process<Said, object>;

/** The cart as its callers see it. */
const cart = defineEntity('cart', {
  initial: (): string[] => [],
  handlers: {
    *add(_ctx, _item: string): Generator<any, number, any> {
      return 0;
    },
  },
  reads: { count: (state) => state.length, items: (state) => state },
});

afterEach(async () => {
  await Promise.all([...Process.running].map((part) => part.kill()));
});

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  afterEach(() => expectInvariants(store.address));

  function start(role: 'worker' | 'caller', n: number): Part {
    const options = { store: store.address, role, name: `${role} ${n}`, carts: CARTS, items: ITEMS, seed: n + 1 };
    return new Process(options.name, [process.execPath, program, JSON.stringify(options)]);
  }

  it('each add happens once, and each read is at least as new as the last answer', async () => {
    const random = seeded(5);
    const draw = (max: number): number => Math.floor(random() * max);
    const workers = Array.from({ length: WORKERS }, (_, n) => start('worker', n));
    const callers = Array.from({ length: CALLERS }, (_, n) => start('caller', n));
    const dead: Part[] = [];
    const isDone = (): boolean => callers.every((caller) => caller.all('done').length === 1);
    const told = () => [...dead, ...callers].flatMap((caller) => caller.all('added'));
    /** Reads of carts by this process, each begun after it was told the answer beside it. */
    const reads: Promise<{ count: number; answer: number }>[] = [];
    const read = new Map<Part, number>();
    const readNew = (caller: Part): void => {
      const answers = caller.all('added');
      for (const { key, answer } of answers.slice(read.get(caller))) {
        const count = store.client.entity(cart, key).count();
        reads.push(count.then((count) => ({ count, answer })));
      }
      read.set(caller, answers.length);
    };
    for (; !isDone(); await pause(20)) {
      callers.forEach(readNew);
      if (dead.length === KILLS_MAX || told().length < (dead.length + 1) * BETWEEN_KILLS) continue;
      const [parts, role] = dead.length % 3 === 2 ? ([callers, 'caller'] as const) : ([workers, 'worker'] as const);
      const at = draw(parts.length);
      const part = parts[at] as Part;
      if (part.all('ready').length === 0 || part.all('done').length === 1) continue;
      await part.kill();
      dead.push(part);
      parts[at] = start(role, at);
    }

    for (const { count, answer } of await Promise.all(reads)) expect(count).toBeGreaterThanOrEqual(answer);
    const answers = told();
    const content = new Map<string, readonly string[]>();
    for (let n = 0; n < CARTS; n += 1) content.set(`c/${n}`, await store.client.entity(cart, `c/${n}`).items());
    for (const { key, item, answer, count } of answers) {
      expect(content.get(key)?.[answer - 1]).toBe(item);
      expect(count).toBeGreaterThanOrEqual(answer);
    }
    expect(dead.length).toBeGreaterThan(9);
    const added = [...content.values()].flat();
    const answered = added.filter((item) => !item.endsWith('one-way'));
    expect(new Set(answers.map(({ item }) => item)).size).toBe((CALLERS * ITEMS * 9) / 10);
    expect(answered.toSorted()).toEqual([...new Set(answers.map(({ item }) => item))].toSorted());
    await Promise.all(workers.map((worker) => worker.kill()));
  }, 180_000);
});
