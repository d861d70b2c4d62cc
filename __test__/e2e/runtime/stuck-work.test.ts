// Warnings about work that does not go on: it says so in the log, and says what to do.

import { Client, type Runtime } from 'perdure';
import { describe, expect, it } from 'vitest';

import { edited, suspendByEdit } from '../../support/edited-code.ts';
import { collectLines } from '../../support/log-lines.ts';
import { SHARED_STORES } from '../../support/providers.ts';
import { SOON, useStore } from '../../support/store.ts';

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const order = (runtime: Runtime): void => {
    runtime.registerOrchestration('order', function* (ctx) {
      return yield ctx.waitForEvent('go');
    });
  };

  it('an orchestration that no worker has registered is a warning with the name that may be meant', async () => {
    const { line, lines, logger } = collectLines();
    await store.start(order, { logger, logLevel: 'info' });
    const id = store.id('misspelt');
    await store.client.startOrchestration(id, 'ordr');
    expect(await line('ordr')).toMatchObject({
      level: 'warn',
      message: `instance '${id}' waits: no running worker has registered orchestration 'ordr'; did you mean 'order'?`,
      fields: { instanceId: id, orchestrationName: 'ordr', instances: 1 },
    });
    // Another instance that waits for the same reason is not logged again.
    const other = store.id('versioned');
    await store.client.startOrchestration(other, 'order', undefined, { version: '2.0.0' });
    expect(await line(other)).toMatchObject({
      message:
        `instance '${other}' waits: no running worker has registered orchestration 'order' version '2.0.0'; ` +
        "registered: '1.0.0'",
    });
    expect(lines.filter(({ message }) => message.includes("'ordr'"))).toHaveLength(1);
    for (const stuck of [id, other]) await store.client.terminateInstance(stuck);
  });

  it('an instance that another process started is found, and an orchestration of another worker is not', async () => {
    const started = store.id('early');
    await new Client(await store.open()).startOrchestration(started, 'early');
    const served = store.id('served');
    await store.start(
      (runtime) =>
        void runtime.registerOrchestration('elsewhere', function* () {
          return yield* [];
        }),
      {},
      await store.open(),
    );
    await store.client.startOrchestration(served, 'elsewhere', undefined, { version: '1.0.0' });
    const { line, lines, logger } = collectLines();
    await store.start(order, { logger, logLevel: 'info' });
    await line(started);
    expect(lines.filter(({ message }) => message.includes('elsewhere'))).toEqual([]);
    await store.client.terminateInstance(started);
  });

  it('an activity in a queue that no worker serves is a warning', async () => {
    const { line, logger } = collectLines();
    const register = (runtime: Runtime): void => {
      order(runtime);
      runtime
        .registerActivity('render', () => 'done')
        .registerOrchestration('film', function* (ctx) {
          return yield ctx.scheduleActivity('render', undefined, { queue: 'gpus' });
        });
    };
    await store.start(register, { logger, logLevel: 'info', queues: ['default', 'gpu'] });
    const id = store.id('film');
    await store.client.startOrchestration(id, 'film');
    expect(await line('gpus')).toMatchObject({
      level: 'warn',
      message:
        `instance '${id}' waits: no running worker serves the queue 'gpus' of activity 'render'; ` +
        "did you mean 'gpu'?",
      fields: { instanceId: id, activityName: 'render', queue: 'gpus', attempts: 1 },
    });
    await store.client.terminateInstance(id);
  });

  it('suspended instances are named when a runtime starts, with their reasons', async () => {
    const { id, runtime } = await suspendByEdit(store);
    await runtime.shutdown();
    store.errors.length = 0;
    const { line, logger } = collectLines();
    await store.start(edited, { logger, logLevel: 'warn' });
    const { message, fields } = await line('suspended');
    expect(message).toBe(
      `1 instance is suspended:\n'${id}' (order 1.0.0): the code no longer fits (event 2: ` +
        "recorded activity 'a', attempted activity 'b')",
    );
    store.errors.length = 0;
    expect(fields).toMatchObject({ suspended: 1, instanceIds: [id] });
    await store.client.terminateInstance(id);
  });

  it('a client that waits while no runtime runs logs a warning, once for all waits of its provider', async () => {
    const { line, lines, logger } = collectLines();
    const client = new Client(await store.open(), { logger });
    const id = store.id('unserved');
    await client.startOrchestration(id, 'order');
    const silent = new Client(await store.open(), { logLevel: 'silent' });
    const ends = Promise.all([client, silent].map((each) => each.waitForOrchestration(id, SOON)));
    expect(await line('no runtime')).toMatchObject({
      level: 'warn',
      message:
        'a client waits for an instance, but no runtime runs on its store: ' +
        'start one with `await runtime.start()`, in this or another process',
    });
    await store.client.terminateInstance(id);
    await ends;
    expect(lines).toHaveLength(1);
  });
});
