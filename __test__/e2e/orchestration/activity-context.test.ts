// Facts about the instance that scheduled an activity, in the context of the activity.

import { type ActivityContext, defineActivity, defineOrchestration, type Runtime } from 'perdure';
import { TestRuntime } from 'perdure/testing';
import { describe, expect, it } from 'vitest';

import { SHARED_STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const facts = ({ queue, orchestrationVersion, tags }: ActivityContext) => ({ queue, orchestrationVersion, tags });

const TAGS = { team: 'billing', 'größe "x"': '€ \u0000' };

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);

  const register = (runtime: Runtime) =>
    runtime.registerActivity('own', facts).registerActivity('taken', facts).register(asks, asksNewer);

  const asks = defineOrchestration('asks', function* (ctx, rounds: number): Generator<any, unknown, any> {
    const own = yield ctx.scheduleActivity('own');
    const taken = yield ctx.scheduleActivity('taken', null, { queue: 'elsewhere' });
    const inline = yield* ctx.run('inline', facts);
    if (rounds > 0) yield* ctx.continueAsNew(rounds - 1, { version: '2.1.0' });
    return { own, taken, inline };
  });
  const asksNewer = defineOrchestration('asks', asks.fn, { version: '2.1.0' });

  it.each([
    ['kept', {}],
    ['replayed for every turn', { cachedInstancesMax: 0 }],
  ])('an activity knows its queue, and the version and the tags of its instance, which is %s', async (_, options) => {
    await store.start(register, options);
    const helper = await store.start(register, { queues: ['elsewhere'] }, await store.open());
    const told = async (rounds: number, tags?: Record<string, string>) => {
      const id = store.id();
      const version = '1.0.0';
      await store.client.startOrchestration(id, 'asks', rounds, tags === undefined ? { version } : { version, tags });
      return (await store.client.waitForOrchestration(id, SOON)).output;
    };
    const expected = (orchestrationVersion: string, tags: object) => ({
      own: { queue: 'default', orchestrationVersion, tags },
      taken: { queue: 'elsewhere', orchestrationVersion, tags },
      inline: { queue: 'default', orchestrationVersion, tags },
    });
    expect(await told(0)).toEqual(expected('1.0.0', {}));
    expect(await told(0, TAGS)).toEqual(expected('1.0.0', TAGS));
    expect(await told(1, TAGS)).toEqual(expected('2.1.0', TAGS));
    await helper.shutdown();
  });

  it('the tags of a child are its own', async () => {
    await store.start((runtime) =>
      register(runtime)
        .registerOrchestration('parent', function* (ctx) {
          const child = yield* ctx.scheduleSubOrchestration<any>('child', null, { tags: TAGS });
          return [child, yield ctx.scheduleActivity('own')];
        })
        .registerOrchestration('child', function* (ctx) {
          return yield ctx.scheduleActivity('own');
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'parent', null, { tags: { of: 'the parent' } });
    const { output } = await store.client.waitForOrchestration<any>(id, SOON);
    expect(output.map(({ tags }: any) => tags)).toEqual([TAGS, { of: 'the parent' }]);
  });

  it('a worker that acquires an instance later knows its tags', async () => {
    const id = store.id();
    await store.client.startOrchestration(id, 'asks later', null, { version: '3.0.0', tags: TAGS });
    await store.start((runtime) =>
      register(runtime).registerOrchestration(
        'asks later',
        function* (ctx) {
          return yield ctx.scheduleActivity('own');
        },
        { version: '3.0.0' },
      ),
    );
    const { output } = await store.client.waitForOrchestration(id, SOON);
    expect(output).toEqual({ queue: 'default', orchestrationVersion: '3.0.0', tags: TAGS });
  });

  it('the tags are one object that cannot be changed', async () => {
    await store.start((runtime) =>
      runtime
        .registerActivity('changes', (ctx) => {
          const { tags } = ctx;
          expect(() => Object.assign(tags, { more: 'x' })).toThrow(TypeError);
          return ctx.tags === tags;
        })
        .registerOrchestration('changes', function* (ctx) {
          return yield ctx.scheduleActivity('changes');
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'changes', null, { tags: TAGS });
    expect((await store.client.waitForOrchestration(id, SOON)).output).toBe(true);
  });
});

it('a test runtime tells the same', async () => {
  const asks = defineOrchestration(
    'asks',
    function* (ctx) {
      return [yield ctx.scheduleActivity('own', null, { queue: 'gpu' }), yield* ctx.run('inline', facts)];
    },
    { version: '1.2.0' },
  );
  await using test = await TestRuntime.create({ queues: 'any' });
  test.register(asks, defineActivity('own', facts));
  const handle = await test.client.start(asks, undefined, { tags: TAGS });
  const own = { orchestrationVersion: '1.2.0', tags: TAGS };
  expect(await handle.result()).toEqual([
    { queue: 'gpu', ...own },
    { queue: 'default', ...own },
  ]);
});
