// `perdure logs`

import type { Runtime } from 'perdure';
import { describe, expect, it } from 'vitest';

import { SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { type Ended, launch, perdure, storeFlags, valuesOf } from './perdure.ts';

function register(runtime: Runtime): void {
  runtime.registerOrchestration('talks', function* (ctx, n: number) {
    ctx.traceInfo(`execution ${n}\nbegins`, { n, evil: '\u001b[2J' });
    yield ctx.waitForEvent('go');
    ctx.traceError(`execution ${n} ends`);
    if (n < 2) yield ctx.continueAsNew(n + 1);
  });
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const on = (...args: string[]): Promise<Ended> => perdure(...storeFlags(store.address), ...args);

  it('prints the lines, and follows them until the instance ends', async () => {
    await store.start(register, { keepLogs: {} });
    const id = store.id('talks');
    await store.client.startOrchestration(id, 'talks', 1);
    const following = launch([...storeFlags(store.address), 'logs', id, '--follow', '--interval', '20ms']);
    await following.wrote('begins');
    await store.client.raiseEvent(id, 'go');
    await following.wrote('execution 2');
    await store.client.raiseEvent(id, 'go');
    const { code, out } = await following.ended;
    expect(code).toBe(0);
    expect(out.replaceAll(/^\S+ \S+ {2}/gm, '')).toBe(
      [
        "INFO  execution 1\n    begins  { n: 1, evil: '\\x1B[2J' }",
        'ERROR execution 1 ends',
        "INFO  execution 2\n    begins  { n: 2, evil: '\\x1B[2J' }",
        'ERROR execution 2 ends',
        '',
      ].join('\n'),
    );

    const second = await on('logs', id, '--execution', '2', '--json');
    expect(valuesOf(second)).toEqual([
      {
        executionId: 2,
        time: expect.any(String),
        level: 'info',
        message: 'execution 2\nbegins',
        fields: { n: 2, evil: '\u001b[2J' },
      },
      { executionId: 2, time: expect.any(String), level: 'error', message: 'execution 2 ends' },
    ]);
    expect(valuesOf(await on('logs', id, '--limit', '3', '--json'))).toHaveLength(3);
  });

  it('says why there are no lines', async () => {
    await store.start(register);
    const id = store.id('talks');
    await store.client.startOrchestration(id, 'talks', 2);
    await store.client.raiseEvent(id, 'go');
    await store.client.waitForOrchestration(id, SOON);
    expect(await on('logs', id)).toEqual({ code: 0, out: '', err: expect.stringContaining('option keepLogs') });
    expect(await on('logs', 'absent')).toMatchObject({ out: '', err: expect.stringContaining("no instance 'absent'") });
  });
});
