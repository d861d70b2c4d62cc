// Keys of different load that take turns in a queue.

import { describe, expect, it } from 'vitest';

import { Counter } from '../../support/async.ts';
import { loadOfKeys, unfairShares } from '../../support/key-shares.ts';
import { STORES } from '../../support/providers.ts';
import { useStore } from '../../support/store.ts';

const load = loadOfKeys();

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('each of ten keys has its share of 1 000 starts', async () => {
    const [begun, ended] = [[] as string[], new Counter()];
    await store.client.queues.set('fair', { concurrency: 20, fairness: 'key' });
    const starts = load.map(({ id, key }) => ({ name: 'work', version: '1.0.0', id, key, queue: 'fair' }));
    expect((await store.client.startMany(starts)).filter(({ error }) => error !== undefined)).toEqual([]);
    const runtime = await store.start((worker) =>
      worker.registerOrchestration('work', function* (ctx) {
        yield* ctx.run('begin', () => void begun.push(ctx.instanceId));
      }),
    );
    runtime.on('instance', ({ status }) => {
      if (status === 'Completed') ended.add();
    });
    await ended.reaches(load.length);
    expect(begun.toSorted()).toEqual(load.map(({ id }) => id).toSorted());
    expect(unfairShares(begun, load)).toEqual([]);
  });
});

it('all keys have another share if the first come is served first', () => {
  const first = load.map(({ id }) => id);
  expect(unfairShares(first, load)).toHaveLength(10);
});
