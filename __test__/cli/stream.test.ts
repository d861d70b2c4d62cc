// `perdure stream`

import { defineActivity, type Runtime } from 'perdure';
import { describe, expect, it } from 'vitest';

import { SHARED_STORES } from '../support/providers.ts';
import { SOON, useStore } from '../support/store.ts';
import { type Ended, launch, perdure, storeFlags, valuesOf } from './perdure.ts';

const flaky = defineActivity(
  'flaky',
  async (ctx) => {
    ctx.stream('s').write(`attempt ${ctx.attempt}`);
    if (ctx.attempt === 1) throw new Error('again');
  },
  { retry: { initialInterval: 1, jitter: 0 } },
);

function register(runtime: Runtime): void {
  runtime.register(flaky);
  runtime.registerOrchestration('writes', function* (ctx) {
    ctx.stream('s').write({ n: 1, text: '\u001b[2J' });
    yield* ctx.call(flaky);
    ctx.stream('another').close();
    ctx.setCustomStatus('waits');
    yield ctx.waitForEvent('go');
    ctx.stream('s').write('last');
  });
}

describe.each(SHARED_STORES)('on $name', (kind) => {
  const store = useStore(kind);
  const on = (...args: string[]): Promise<Ended> => perdure(...storeFlags(store.address), ...args);

  async function started(): Promise<string> {
    await store.start(register);
    const id = store.id('writes');
    await store.client.startOrchestration(id, 'writes');
    await store.client.waitForStatusChange(id, 0, undefined, SOON);
    return id;
  }

  it('lists the streams, and prints the entries that are there', async () => {
    const id = await started();
    const [list, all, rest, json, none] = await Promise.all([
      on('stream', id),
      on('stream', id, 's'),
      on('stream', id, 's', '--from', '2'),
      on('stream', id, 's', '--json'),
      on('stream', id, 'none'),
    ]);
    expect(list.out.split('\n')).toEqual([
      'NAME     FIRST  NEXT  STATE',
      'another      0     0  closed',
      's            0     3  open',
      '',
    ]);
    expect(all.out.split('\n')).toEqual([
      "0  { n: 1, text: '\\x1B[2J' }",
      "1  'attempt 1'",
      'attempt 2 of activity 1/2 drops its entries from 1 on',
      "2  'attempt 2'",
      '',
    ]);
    expect(rest.out.split('\n').slice(-2)).toEqual(["2  'attempt 2'", '']);
    expect(valuesOf(json)).toMatchObject([
      { index: 0, value: { n: 1 } },
      { index: 1, activity: '1/2', attempt: 1 },
      { index: 2, reset: true, from: 1 },
      { index: 2, value: 'attempt 2' },
    ]);
    expect(none).toMatchObject({ code: 0, out: '' });
  });

  it('follows a stream until the instance ends', async () => {
    const id = await started();
    const follows = launch([...storeFlags(store.address), 'stream', id, 's', '--follow', '--from', '2']);
    await follows.wrote("'attempt 2'");
    await store.client.raiseEvent(id, 'go');
    expect((await follows.ended).out.split('\n').slice(-2)).toEqual(["3  'last'", '']);
  });

  it('refuses what does not fit', async () => {
    expect(await on('stream', 'i', '--follow')).toMatchObject({
      code: 2,
      err: expect.stringContaining('pass its name'),
    });
    expect(await on('stream', 'i', 's', '--from', '-1')).toMatchObject({ code: 2 });
    expect(await on('stream', 'none')).toMatchObject({ code: 3 });
  });
});
