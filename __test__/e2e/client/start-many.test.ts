// Many starts by one call.

import { defineOrchestration, InstanceExistsError, LimitError, PayloadError } from 'perdure';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

import { rejection } from '../../support/async.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const double = defineOrchestration(
  'double',
  function* (_ctx, n: number) {
    return 2 * n;
  },
  { input: z.number() },
);

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('starts each instance once, with outcomes in order', async () => {
    await store.start((runtime) => runtime.register(double));
    const prefix = store.id('many');
    const taken = `${prefix}-7`;
    await store.client.start(double, 1, { id: taken });
    const starts = Array.from({ length: 2_500 }, (_, n) => ({ definition: double, input: n, id: `${prefix}-${n}` }));
    const outcomes = await store.client.startMany(starts);
    expect(outcomes.map(({ id }) => id)).toEqual(starts.map(({ id }) => id));
    const failed = outcomes.filter(({ error }) => error !== undefined);
    expect(failed.map(({ id }) => id)).toEqual([taken]);
    expect(failed[0]?.error).toBeInstanceOf(InstanceExistsError);
    for (const n of [0, 6, 8, 2_499]) {
      expect(await store.client.handle(double, `${prefix}-${n}`).result({ timeout: SOON })).toBe(2 * n);
    }
    const again = await store.client.startMany(starts.map((start) => ({ ...start, onConflict: 'return' as const })));
    expect(again.every(({ error }) => error === undefined)).toBe(true);
    const named = await store.client.startMany([{ name: 'double', input: 4, tags: { by: 'name' } }]);
    expect(await store.client.handle(named[0]?.id as string).result({ timeout: SOON })).toBe(8);
    expect(await store.client.startMany([])).toEqual([]);
  });

  it('starts nothing if one of the starts is wrong', async () => {
    const id = store.id('nothing');
    const first = { definition: double, input: 1, id };
    const wrong: [unknown, new (...args: any[]) => Error, string][] = [
      [[first, { definition: double, input: 'one' }], PayloadError, 'input'],
      [[first, { name: 'double', input: () => 1 }], PayloadError, 'input'],
      [[first, { input: 1 }], TypeError, '[1] must have a definition or a name'],
      [
        [first, { definition: double, version: '2.0.0', input: 1 }],
        TypeError,
        '[1] takes a definition, or a name and maybe a version',
      ],
      [[first, { ...first, tag: 1 }], TypeError, 'tag'],
      [first, TypeError, 'client.startMany takes a list of starts'],
      [Array.from({ length: 10_001 }, () => first), LimitError, '10000'],
    ];
    for (const [starts, type, message] of wrong) {
      const error = await rejection(store.client.startMany(starts as never));
      expect(error).toBeInstanceOf(type);
      expect(error.message).toContain(message);
    }
    expect(await store.client.getStatus(id)).toBe(null);
  });
});
