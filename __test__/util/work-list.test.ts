import { expect, test } from 'vitest';

import { WorkList } from '../../js/util/work-list.ts';

test('does lower ranks first, and those of one rank in the order in which they were added', () => {
  // Each item adds others while it is processed. The model finds the next one in the simplest way.
  for (let seed = 1; seed <= 50; seed += 1) {
    let state = seed;
    const below = (most: number): number => {
      state = (state * 48_271) % 2_147_483_647;
      return state % most;
    };
    const waiting: { item: number; rank: number }[] = [];
    let made = 0;
    const add = (): void => {
      const added = { item: made, rank: below(5) };
      made += 1;
      waiting.push(added);
      list.add(added.item, added.rank);
    };
    const done: number[] = [];
    const expected: number[] = [];
    const list = new WorkList<number>((item) => {
      const next = waiting.reduce((first, other) => (other.rank < first.rank ? other : first));
      waiting.splice(waiting.indexOf(next), 1);
      expected.push(next.item);
      done.push(item);
      list.run();
      for (let more = made < 300 ? below(4) : 0; more > 0; more -= 1) add();
    });
    for (let n = 0; n < 10; n += 1) add();
    list.run();
    expect(done).toEqual(expected);
    expect(done).toHaveLength(made);
  }
});

test('drops the rest of the work when one piece throws', () => {
  const done: string[] = [];
  const list = new WorkList<string>((item) => {
    if (item === 'bad') throw new Error('no');
    done.push(item);
  });
  for (const item of ['good', 'bad', 'lost']) list.add(item);
  expect(() => list.run()).toThrow('no');
  list.add('next');
  list.run();
  expect(done).toEqual(['good', 'next']);
});
