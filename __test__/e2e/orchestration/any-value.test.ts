// Random values, on every way through the store: each comes back as it was, or is refused by a typed error where it was
// handed over. values.test.ts has the chosen values.

import { inspect, isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { PayloadError } from 'perdure';
import { beforeEach, describe, expect, it } from 'vitest';

import { name, SEED, storable, text, unstorable } from '../../support/arbitrary.ts';
import { rejection } from '../../support/async.ts';
import { watchPrototypes } from '../../support/prototypes.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const WHOLE = { depth: Infinity, maxArrayLength: null, maxStringLength: null } as const;

/** Fails unless the two values are indistinguishable. */
function same(back: unknown, value: unknown): void {
  // Not toStrictEqual, which asks values for their `constructor`: that is a key of the user's here.
  if (!isDeepStrictEqual(back, value)) expect.fail(`${inspect(value, WHOLE)} came back as ${inspect(back, WHOLE)}`);
  expect(inspect(back, WHOLE)).toBe(inspect(value, WHOLE));
}

/** The values that the orchestrations of this file have seen, by instance. */
const seen = new Map<string, readonly (readonly [string, unknown])[]>();

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const untouched = watchPrototypes();

  beforeEach(async () => {
    await store.start(
      (runtime) =>
        runtime
          .registerActivity('echo', (_, value) => value)
          .registerActivity(
            'throws',
            (_, value) => {
              throw Object.assign(new Error('no'), { value });
            },
            { retry: { maxAttempts: 1 } },
          )
          .registerOrchestration('child', function* (_, value) {
            return value;
          })
          .registerOrchestration('carrier', function* (ctx, values: unknown[]) {
            const all: [string, unknown][] = [];
            for (const value of values) {
              ctx.setCustomStatus(value);
              all.push(['status', ctx.getCustomStatus()]);
            }
            const outputs = yield* ctx.all(values.map((value) => ctx.scheduleActivity('echo', value)));
            all.push(...outputs.map((output) => ['activity', output] as [string, unknown]));
            for (const failure of yield* ctx.allSettled(values.map((value) => ctx.scheduleActivity('throws', value)))) {
              all.push([
                'error',
                ((failure as PromiseRejectedResult).reason as { cause: { value: unknown } }).cause.value,
              ]);
            }
            const ended = yield* ctx.all(values.map((value) => ctx.scheduleSubOrchestration('child', value)));
            all.push(...ended.map((output) => ['child', output] as [string, unknown]));
            for (const _ of values) all.push(['event', yield ctx.waitForEvent('value')]);
            for (const _ of values) all.push(['message', yield ctx.dequeueEvent('values')]);
            for (const _ of values) all.push(['inline', yield ctx.run('inline', () => values[0])]);
            seen.set(ctx.instanceId, all);
            return values;
          }),
      // Everything is read from the store again.
      { cachedInstancesMax: 0 },
    );
  });

  it('any value comes back as it was', async () => {
    const { client } = store;
    const carried = fc.asyncProperty(fc.array(storable, { minLength: 12, maxLength: 12 }), async (values) => {
      const id = store.id();
      await client.startOrchestration(id, 'carrier', values);
      for (const value of values) await client.raiseEvent(id, 'value', value);
      for (const value of values) await client.enqueueEvent(id, 'values', value);
      const { status, error, output, customStatus } = await client.waitForOrchestration(id, SOON);
      expect(error).toBeUndefined();
      expect(status).toBe('Completed');
      same(output, values);
      same(customStatus, values.at(-1));
      const found = seen.get(id) as readonly (readonly [string, unknown])[];
      expect(found).toHaveLength(7 * values.length);
      for (const [n, [way, value]] of found.entries())
        same([way, value], [way, way === 'inline' ? values[0] : values[n % values.length]]);
    });
    await fc.assert(carried, { seed: SEED, numRuns: 25, endOnFailure: true });
    untouched();
  });

  it('any value with a part that cannot be stored is refused, and nothing is stored', async () => {
    const { client } = store;
    const refusal = fc.asyncProperty(unstorable, async (value) => {
      const id = store.id();
      const error = await rejection(client.startOrchestration(id, 'carrier', value));
      expect(error).toBeInstanceOf(PayloadError);
      expect((error as PayloadError).path).toMatch(/^input/);
      expect(await client.getStatus(id)).toBeNull();
    });
    await fc.assert(refusal, { seed: SEED, numRuns: 100 });
    untouched();
  });

  it('any id, name, version, tag and reason is kept as it is', async () => {
    const { client } = store;
    const [names = []] = fc.sample(fc.uniqueArray(name, { minLength: 30, maxLength: 30, size: 'max' }), {
      seed: SEED,
      numRuns: 1,
    });
    const tags = fc.sample(fc.dictionary(text, text, { maxKeys: 4, noNullPrototype: true }), {
      seed: SEED,
      numRuns: names.length,
    });
    const reasons = fc.sample(text, { seed: SEED, numRuns: names.length });
    await store.start((runtime) => {
      for (const one of names) {
        runtime.registerActivity(one, (ctx) => [ctx.activityName, ctx.instanceId, ctx.orchestrationName]);
        runtime.registerOrchestration(
          one,
          function* (ctx) {
            const facts = [ctx.instanceId, ctx.name, ctx.version, ...(yield ctx.scheduleActivity(one))];
            facts.push(yield ctx.waitForEvent(one), yield ctx.dequeueEvent(one), ctx.patched(one));
            ctx.setCustomStatus(facts);
            yield ctx.waitForEvent('nothing raises this');
          },
          { version: one },
        );
      }
    });
    await Promise.all(
      names.map(async (one, n) => {
        const reason = reasons[n] as string;
        await client.startOrchestration(one, one, undefined, { version: one, tags: tags[n] as Record<string, string> });
        await client.raiseEvent(one, one, 1);
        await client.enqueueEvent(one, one, 2);
        const change = await client.waitForStatusChange(one, 0, '1s', SOON);
        expect(change?.customStatus).toEqual([one, one, one, one, one, one, 1, 2, true]);
        await client.cancelInstance(one, reason);
        const status = await client.waitForOrchestration(one, SOON);
        expect(status).toMatchObject({ id: one, name: one, version: one, status: 'Cancelled', error: { reason } });
        expect(Object.entries(status.tags)).toEqual(Object.entries(tags[n] as object));
        const listed = await client.listInstances({ idPrefix: one, name: one, version: one }).page();
        expect(listed.items.map(({ id }) => id)).toEqual([one]);
      }),
    );
    untouched();
  });
});
