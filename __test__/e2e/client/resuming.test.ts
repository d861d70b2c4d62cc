// Instances that are suspended because their code does not fit their history, and their continuation when other code is
// registered.

import {
  LimitError,
  NondeterminismError,
  type OrchestrationFunction,
  type Runtime,
  type StandardSchema,
} from 'perdure';
import { describe, expect, it } from 'vitest';

import { Counter, deferred } from '../../support/async.ts';
import { historyViolations } from '../../support/history.ts';
import { STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

const right: OrchestrationFunction = function* (ctx) {
  const step = yield ctx.scheduleActivity('step');
  ctx.setCustomStatus('waiting');
  return [step, yield ctx.waitForEvent('go')];
};
const wrong: OrchestrationFunction = function* (ctx) {
  yield ctx.scheduleTimer('1h');
};
const alsoWrong: OrchestrationFunction = function* (ctx) {
  yield ctx.scheduleTimer('2h');
};

const anything: StandardSchema = { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } };

/** The text of this function is the same with any helper. */
const helpedBy = (helper: OrchestrationFunction): OrchestrationFunction =>
  function* (ctx, input) {
    return yield* helper(ctx, input);
  };

describe.each(STORES)('on $name', (kind) => {
  const store = useStore(kind);

  const deploy = (name: string, code: OrchestrationFunction, options: object = {}) =>
    store.start((runtime) => {
      runtime.registerActivity('step', () => 'stepped');
      runtime.registerOrchestration(name, code, options);
    });

  /** Resolves when the runtime has suspended an instance and stored that. The reported error is expected. */
  async function suspends(runtime: Runtime, cause: () => Promise<unknown>): Promise<void> {
    const suspended = deferred();
    runtime.on('instance', ({ status }) => status === 'Suspended' && suspended.resolve());
    await cause();
    await suspended.promise;
    expect(store.errors.splice(0)).toHaveLength(1);
  }

  /**
   * Returns an instance that was started by code which fits, and suspended by code which does not. No runtime with its
   * orchestration is left.
   */
  async function suspended(name: string, options = {}, before = right, after = wrong): Promise<string> {
    const id = store.id();
    const first = await deploy(name, before, options);
    await store.client.startOrchestration(id, name);
    await store.client.waitForStatusChange(id, 0, undefined, SOON);
    await first.shutdown();
    const second = await deploy(name, after, options);
    await suspends(second, () => store.client.raiseEvent(id, 'go', 'event'));
    await second.shutdown();
    expect((await store.client.getStatus(id))?.error).toBeInstanceOf(NondeterminismError);
    return id;
  }

  /**
   * Resolves when a runtime has looked for all instances that wait for its code so far. The runtime looks in the order
   * of registration, and this orchestration is registered last.
   */
  async function looked(runtime: Runtime): Promise<void> {
    const last = store.id('last');
    const id = await suspended(last);
    runtime.registerOrchestration(last, right);
    await store.client.waitForOrchestration(id, SOON);
  }

  async function completes(id: string): Promise<void> {
    const { status, output } = await store.client.waitForOrchestration(id, SOON);
    expect({ status, output }).toEqual({ status: 'Completed', output: ['stepped', 'event'] });
    expect(historyViolations(await store.client.getHistory(id), 'Completed')).toEqual([]);
  }

  it('resumes and logs when a runtime with new code starts', async () => {
    const name = store.id('started');
    const id = await suspended(name);
    const logged: string[] = [];
    const log = (_: object, message: string) => void logged.push(message);
    const logger = { debug: log, info: log, warn: log, error: log };
    const runtime = store.runtime({ logger, logLevel: 'info' });
    runtime.registerActivity('step', () => 'stepped').registerOrchestration(name, right);
    await runtime.start();
    await completes(id);
    const line = `orchestration '${name}' version '1.0.0' has new code; suspended instances that continue: 1`;
    expect(logged).toContain(line);
  });

  it('resumes when new code is registered with a started runtime', async () => {
    const name = store.id('registered');
    const id = await suspended(name);
    const runtime = await deploy('another', right);
    await looked(runtime);
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Suspended' });
    runtime.registerOrchestration(name, right);
    await completes(id);
  });

  it('the same code leaves it suspended, and a client can resume it', async () => {
    const name = store.id('same');
    const id = await suspended(name);
    const before = await store.client.getStatus(id);
    const same = await deploy(name, wrong);
    await looked(same);
    expect(await store.client.getStatus(id)).toEqual(before);
    await suspends(same, () => store.client.resume(id));
    await same.shutdown();
    await deploy(name, right);
    await completes(id);
  });

  it('other code that does not fit either suspends it once, until the next code comes', async () => {
    const name = store.id('twice');
    const id = await suspended(name);
    const runtime = store.runtime();
    runtime.registerOrchestration(name, alsoWrong);
    await suspends(runtime, () => runtime.start());
    await store.settled();
    const before = await store.client.getStatus(id);
    await looked(runtime);
    expect(await store.client.getStatus(id)).toEqual(before);
    await runtime.shutdown();
    await deploy(name, right);
    await completes(id);
  });

  it('workers with different code that does not fit do not hand it to and fro', async () => {
    const name = store.id('rolling');
    const id = await suspended(name);
    const old = await deploy(name, wrong);
    await looked(old);
    const next = store.runtime();
    next.registerOrchestration(name, alsoWrong);
    const suspensions = new Counter();
    for (const runtime of [old, next])
      runtime.on('instance', ({ instanceId }) => instanceId === id && suspensions.add());
    await next.start();
    await suspensions.reaches(1);
    expect(store.errors.splice(0)).toHaveLength(1);
    await looked(old);
    await looked(next);
    expect(suspensions.count, 'one registration, one more try').toBe(1);
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Suspended' });
  });

  it('a helper that has changed is not noticed: a client resumes it', async () => {
    const name = store.id('helped');
    const id = await suspended(name, {}, helpedBy(right), helpedBy(wrong));
    const mended = await deploy(name, helpedBy(right));
    await looked(mended);
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Suspended' });
    await store.client.resume(id);
    await completes(id);
  });

  it('code behind a schema of its input is the code of the orchestration', async () => {
    const name = store.id('checked');
    const options = { input: anything };
    const id = await suspended(name, options);
    const same = await deploy(name, wrong, options);
    await looked(same);
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Suspended' });
    await same.shutdown();
    await deploy(name, right, options);
    await completes(id);
  });

  it('code of another version changes nothing', async () => {
    const name = store.id('versioned');
    const id = await suspended(name, { version: '1.1.0' });
    const runtime = await deploy(name, right, { version: '1.2.0' });
    await looked(runtime);
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Suspended' });
    runtime.registerOrchestration(name, right, { version: '1.1.0' });
    await completes(id);
  });

  it('a limit that was reached is no matter of code', async () => {
    const name = store.id('limited');
    const id = store.id();
    const small = store.runtime({ limits: { pendingActivities: 1 } });
    small
      .registerActivity('step', () => 'stepped')
      .registerOrchestration(name, function* (ctx) {
        yield ctx.all([ctx.scheduleActivity('step'), ctx.scheduleActivity('step')]);
      });
    await small.start();
    await suspends(small, () => store.client.startOrchestration(id, name));
    expect((await store.client.getStatus(id))?.error).toBeInstanceOf(LimitError);
    await small.shutdown();
    const other = await deploy(name, right);
    await looked(other);
    expect(await store.client.getStatus(id)).toMatchObject({ status: 'Suspended' });
    await store.client.resume(id);
    await store.client.raiseEvent(id, 'go', 'event');
    await completes(id);
  });
});
