// Tokens in `perdure/testing`: the virtual clock, and ids that come from the seed.

import { defineOrchestration } from 'perdure';
import { TestRuntime } from 'perdure/testing';
import { expect, it } from 'vitest';

const asks = defineOrchestration('asks', function* (ctx) {
  const [one, two] = [ctx.token({ timeout: '2d' }), ctx.token({ timeout: '2d' })];
  ctx.state.set('ids', [one.id, two.id]);
  const outcomes = yield* ctx.allSettled([one, two]);
  return outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : outcome.reason.name));
});

/** Returns the ids of the tokens of a run, of which one is resolved in time. */
async function run(seed: number): Promise<string[]> {
  await using test = await TestRuntime.create({ seed });
  test.register(asks);
  const handle = await test.start(asks);
  await test.advance('1d');
  const ids = (await test.client.getState(handle.id, 'ids'))?.value as string[];
  await test.client.resolveToken(ids[0] as string, 'in time');
  await test.advance('2d');
  expect(await handle.result()).toEqual(['in time', 'TimeoutError']);
  return ids;
}

it('tokens expire by the virtual clock, and have the same ids for the same seed', async () => {
  const ids = await run(1);
  expect(await run(1)).toEqual(ids);
  expect(await run(2)).not.toEqual(ids);
});

it('no id begins with a dash, which a command line would take for an option', async () => {
  const many = defineOrchestration('many', function* (ctx) {
    return Array.from({ length: 300 }, () => ctx.token().id);
  });
  await using test = await TestRuntime.create({ seed: 1 });
  test.register(many);
  const ids = await (await test.start(many)).result();
  expect(new Set(ids).size).toBe(300);
  for (const id of ids) expect(id).toMatch(/^\w[\w-]{42}$/);
});
