import { type ActivityContext, defineActivity, type Runtime, type RuntimeOptions } from 'perdure';
import { describe, expect, it } from 'vitest';

import { deferred } from '../../support/async.ts';
import { SHARED_STORES, STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const SESSIONS = Array.from({ length: 20 }, (_, n) => `session ${n}`);
const STEPS = 10;

/** The session and the worker of one call. */
type Step = readonly [session: string | undefined, worker: string];

function registerSteps(runtime: Runtime): void {
  runtime
    .registerActivity('step', async (ctx): Promise<Step> => [ctx.session, ctx.workerId])
    // Five activities one after the other, then five at once.
    .registerOrchestration('steps', function* (ctx, session: string) {
      const steps: Step[] = [];
      for (let n = 0; n < STEPS / 2; n += 1) steps.push(yield* ctx.scheduleActivity<Step>('step', n, { session }));
      const rest = Array.from({ length: STEPS / 2 }, () => ctx.scheduleActivity<Step>('step', null, { session }));
      return [...steps, ...(yield* ctx.all(rest))];
    });
}

describe.each(SHARED_STORES)('several runtimes on $name', (kind) => {
  const store = useStore(kind);

  const start = async (options: RuntimeOptions = {}): Promise<Runtime> =>
    store.start(registerSteps, options, await store.open());

  /** Runs an instance for each session, and returns the worker of each session. Fails if a session had several. */
  async function workersOf(sessions: readonly string[]): Promise<Map<string, string>> {
    const started = await Promise.all(
      sessions.map(async (session) => {
        const id = store.id();
        await store.client.startOrchestration(id, 'steps', session);
        return id;
      }),
    );
    const workers = new Map<string, string>();
    for (const [n, id] of started.entries()) {
      const session = sessions[n] as string;
      const { output } = await store.client.waitForOrchestration<Step[]>(id, SOON);
      const of = new Set(output?.map(([, worker]) => worker));
      expect(output?.map(([name]) => name)).toEqual(Array(STEPS).fill(session));
      expect(of.size, `the workers of ${session}`).toBe(1);
      for (const worker of of) workers.set(session, worker);
    }
    return workers;
  }

  function countsOf(workers: Map<string, string>): Map<string, number> {
    const counts = new Map<string, number>();
    for (const worker of workers.values()) counts.set(worker, (counts.get(worker) ?? 0) + 1);
    return counts;
  }

  it('each session runs on one worker, which holds no more sessions than its limit', async () => {
    for (let n = 0; n < 3; n += 1) await start({ sessions: { max: 8 } });
    const workers = await workersOf(SESSIONS);
    const counts = countsOf(workers);
    expect(counts.size).toBe(3);
    expect(Math.max(...counts.values())).toBeLessThanOrEqual(8);
    // The sessions are still bound.
    expect(await workersOf(SESSIONS)).toEqual(workers);
  });

  it('the sessions of a runtime that shuts down move, and the others stay', async () => {
    const [first] = [await start({ sessions: { max: 8 } }), await start(), await start()];
    const before = await workersOf(SESSIONS);
    const registered = async () => (await store.client.workers()).map(({ id }) => id);
    const all = await registered();
    await first.shutdown();
    const rest = await registered();
    const gone = all.find((id) => !rest.includes(id));
    const after = await workersOf(SESSIONS);
    for (const [session, worker] of before) {
      if (worker === gone) expect(after.get(session)).not.toBe(gone);
      else expect(after.get(session)).toBe(worker);
    }
  });

  it('a session that was idle is bound anew', async () => {
    const sessions = { max: 1, idle: 1 };
    await start({ sessions });
    for (const session of SESSIONS.slice(0, 5)) await workersOf([session]);
    const id = store.id();
    await store.client.startOrchestration(id, 'steps', 'waits until another one is idle');
    expect((await store.client.waitForOrchestration(id, SOON)).status).toBe('Completed');
  });
});

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  it('one runtime runs activities with and without sessions', async () => {
    const render = defineActivity('render', async (ctx: ActivityContext) => ctx.session, { session: 'registered' });
    await store.start((runtime) =>
      runtime.register(render).registerOrchestration('renders', function* (ctx) {
        const called = ctx.call(render, undefined, { session: 'called' });
        const inline = ctx.run('inline', (activity) => activity.session);
        return yield* ctx.all([ctx.call(render, undefined), called, inline]);
      }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'renders');
    expect((await store.client.waitForOrchestration(id, SOON)).output).toEqual(['registered', 'called', undefined]);
    const events = await store.client.getHistory(id);
    const scheduled = events.filter(({ kind: what }) => what === 'ActivityScheduled');
    expect(scheduled.map(({ meta }) => meta?.session)).toEqual(['called', undefined, 'registered']);
  });

  it('describe shows the session of an open activity', async () => {
    const begun = deferred();
    const gate = deferred();
    await store.start((runtime) =>
      runtime
        .registerActivity('hold', async () => {
          begun.resolve();
          await gate.promise;
        })
        .registerOrchestration('holds', function* (ctx) {
          yield ctx.scheduleActivity('hold', null, { session: 'job-7' });
        }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'holds');
    await begun.promise;
    expect((await store.client.describe(id))?.activities).toMatchObject([{ name: 'hold', session: 'job-7' }]);
    gate.resolve();
    await store.client.waitForOrchestration(id, SOON);
  });

  it.each([
    ['', "activity 'step': session: the value must not be empty"],
    [7, 'session: the value must be a string, got 7'],
    ['x'.repeat(257), 'session: the value must have at most 256 characters, got 257'],
  ])('refuses the session %j by name', async (session, message) => {
    await store.start((runtime) =>
      registerSteps(
        runtime.registerOrchestration('wrong', function* (ctx) {
          try {
            yield ctx.scheduleActivity('step', null, { session: session as string });
          } catch (error) {
            return String(error);
          }
          return 'taken';
        }),
      ),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'wrong');
    expect((await store.client.waitForOrchestration(id, SOON)).output).toContain(message);
  });

  it('refuses wrong limits by name, and a session of an inline activity', async () => {
    const make = (sessions: unknown) => () => store.runtime({ sessions: sessions as {} });
    expect(make({ max: -1 })).toThrow(/sessions\.max must be a whole number/);
    expect(make({ idle: 'soon' })).toThrow(/sessions\.idle/);
    expect(make({ most: 1 })).toThrow(/sessions.*most/);
    await store.start((runtime) =>
      runtime.registerOrchestration('wrong', function* (ctx) {
        try {
          yield ctx.run('inline', () => 1, { session: 'x' } as {});
        } catch (error) {
          return String(error);
        }
        return 'taken';
      }),
    );
    const id = store.id();
    await store.client.startOrchestration(id, 'wrong');
    expect((await store.client.waitForOrchestration(id, SOON)).output).toMatch(/session/);
  });
});
